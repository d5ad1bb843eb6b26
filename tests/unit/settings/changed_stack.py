"""A whole valid stack for tests to change in one place, and what is then wrong with it."""

import copy
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from triplane.documents import Dialect, read_documents, render_path
from triplane.settings import StackSettings
from triplane.settings.declared import Declared, declared
from triplane.settings.source import Source
from triplane.settings.wording import Finding

BASE_TEXT = Path(__file__).with_name("base.yaml").read_text(encoding="utf-8")
REMOVED = object()

Changes = Mapping[str, Any]
Check = Callable[[Declared], Iterator[Finding]]


def values(changes: Changes) -> dict[str, Any]:
    """The base stack's values, with values at dotted paths replaced, added, or REMOVED."""
    (document,) = read_documents(BASE_TEXT, "base.yaml", Dialect.PULUMI)
    result: dict[str, Any] = copy.deepcopy(document.value["config"])
    for dotted, value in changes.items():
        *parents, last = dotted.split(".")
        inner = result
        for parent in parents:
            inner = inner.setdefault(parent, {})
        if value is REMOVED:
            del inner[last]
        else:
            inner[last] = value
    return result


def found_by(check: Check, changes: Changes) -> list[str]:
    """What one check says of a changed stack, as `path: message`."""
    changed = values(changes)
    stack = StackSettings.model_validate(changed, by_alias=True, by_name=False)
    parts = declared(stack, Source(changed, "stack"))
    return [f"{render_path(finding.path)}: {finding.message}" for finding in check(parts)]
