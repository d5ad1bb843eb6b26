"""Applies a verdict's edits to plain values. Editing YAML text in place is another room's work."""

import copy
from collections.abc import Iterable
from typing import Any

from triplane.documents import Path
from triplane.rules.verdicts import Edit


def edited(data: dict[str, Any], edits: Iterable[Edit]) -> dict[str, Any]:
    """A copy of an object with the edits made. Mappings on the way are added where they are missing."""
    result = copy.deepcopy(data)
    for edit in edits:
        parent: Any = result
        for part, following in zip(edit.path[:-1], edit.path[1:], strict=True):
            parent = _step(parent, part, following, edit.path)
        last = edit.path[-1]
        if edit.remove:
            if isinstance(parent, dict):
                parent.pop(last, None)
            elif isinstance(last, int) and last < len(parent):
                del parent[last]
        elif isinstance(parent, list) and last == len(parent):
            parent.append(edit.value)
        else:
            parent[last] = edit.value
    return result


def _step(parent: Any, part: str | int, following: str | int, path: Path) -> Any:
    if isinstance(parent, dict):
        if not isinstance(parent.get(part), dict | list):
            parent[part] = [] if isinstance(following, int) else {}
        return parent[part]
    if isinstance(parent, list) and isinstance(part, int):
        if part == len(parent):
            parent.append([] if isinstance(following, int) else {})
        return parent[part]
    raise ValueError(f"an edit's path does not fit the object: {path}")
