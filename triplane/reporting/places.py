"""The lines of a source around a finding, with a caret, and nothing secret in them."""

import re
from collections.abc import Callable

from triplane.documents import Position
from triplane.inventory.files import Sources

# Values that must never be shown, by the key they stand under; the rest of the line is masked.
_SECRET_LINE = re.compile(
    r"(?i)^(\s*-?\s*\"?[\w.-]*(password|passwd|secret|token|credential|api[-_]?key|private[-_]?key|kubeconfig)[\w.-]*\"?\s*:\s*)\S.*$"
)
_SECRET_DOCUMENT = re.compile(
    r"(?m)^\s*kind:\s*[\"']?(Secret|TriggerAuthentication|ClusterTriggerAuthentication)[\"']?\s*$"
)

SHOWN_CHARACTERS = 110


def excerpts(sources: Sources) -> Callable[[Position], str | None]:
    """A function from a position to its line with a caret below."""

    def excerpt(position: Position) -> str | None:
        if not position.line:
            return None
        lines = sources.text(position.file).splitlines()
        if position.line > len(lines):
            return None
        line = masked(lines[position.line - 1])
        start = max(0, position.column - 1 - SHOWN_CHARACTERS // 2) if len(line) > SHOWN_CHARACTERS else 0
        shown = line[start : start + SHOWN_CHARACTERS]
        gutter = f"{position.line} | "
        return f"{gutter}{shown}\n{' ' * (len(gutter) + position.column - 1 - start)}^"

    return excerpt


def masked(line: str) -> str:
    """The line with *** where its key says that the value is secret."""
    return _SECRET_LINE.sub(r"\1***", line)
