"""A comparison of two sets of Kubernetes objects as text for people."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from triplane.documents import render_path
from triplane.manifests.changes import ABSENT, FieldChange, ObjectChange

LINE_CHARACTERS = 100
VALUE_CHARACTERS = 300
_SIGNS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}


def differences(changes: Sequence[ObjectChange], replaced: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Lines, each with its colour (empty: none). `replaced` holds the pools whose nodes would all be replaced."""
    for change in changes:
        sign, colour = _SIGNS[change.kind]
        yield f"{sign} {change.identity}", colour
        for field in change.fields:
            yield from (("    " + line, "") for line in _field_lines(change, field))
    if not changes:
        yield "no object differs", ""
    for pool, reasons in replaced.items():
        yield f"! NodePool {pool}: Karpenter would replace every node, as fast as its budgets allow", "red"
        yield from ((f"    {reason}", "") for reason in reasons)
    if changes and not replaced:
        yield "no pool would have all its nodes replaced", ""


def _field_lines(change: ObjectChange, field: FieldChange) -> Iterator[str]:
    hidden = change.identity.kind == "Secret" and field.path[:1] in (("data",), ("stringData",))
    old, new = ("(secret)" if hidden and value is not ABSENT else _shown(value) for value in (field.old, field.new))
    line = f"{render_path(field.path)}: {old} -> {new}"
    if len(line) <= LINE_CHARACTERS:
        yield line
    else:
        yield f"{render_path(field.path)}:"
        yield f"  from {old}"
        yield f"    to {new}"


def _shown(value: Any) -> str:
    if value is ABSENT:
        return "nothing"
    text = value if isinstance(value, str) and value else json.dumps(value, sort_keys=True)
    text = " ".join(text.split()) or text
    if len(text) <= VALUE_CHARACTERS:
        return text
    size = f" ({len(value)} entries)" if isinstance(value, list | dict) else ""
    return f"{text[: VALUE_CHARACTERS - 3]}...{size}"
