"""The line of a source that a finding is about, with a caret, and nothing secret in it."""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

import yaml

from triplane.documents import Document, Path, Position
from triplane.inventory.files import Sources
from triplane.inventory.secrets import MASK, is_secret, masked
from triplane.rules import Finding

SHOWN_CHARACTERS = 110
# A file larger than this is shown without excerpts: finding what in it is secret would read it a second time.
MAX_CHARACTERS = 4 * 2**20

Span = tuple[int, int, int, int]
"""First line and column, last line and column, counted from 0."""


def excerpts(sources: Sources) -> Callable[[Finding, Position], str | None]:
    """A function from a finding and its position to the line there, with a caret below."""

    @lru_cache(maxsize=32)
    def lines_of(file: str) -> list[str]:
        try:
            text = sources.text(file)
            if len(text) > MAX_CHARACTERS:
                return []
            return discreet_lines(text, () if file.endswith(".py") else sources.documents(file))
        except (OSError, ValueError):  # the file has changed since, or is no text: there is nothing to show
            return []

    def excerpt(finding: Finding, position: Position) -> str | None:
        if not position.line:
            return None
        lines = lines_of(position.file)
        if position.line > len(lines):
            return None
        line = lines[position.line - 1]
        column = position.column or len(line) - len(line.lstrip()) + 1
        start = max(0, column - 1 - SHOWN_CHARACTERS // 2) if len(line) > SHOWN_CHARACTERS else 0
        shown = line[start : start + SHOWN_CHARACTERS]
        gutter = f"{position.line} | "
        return f"{gutter}{shown}\n{' ' * (len(gutter) + column - 1 - start)}^"

    return excerpt


def discreet_lines(text: str, documents: Iterable[Document]) -> list[str]:
    """The lines of a text with *** where a value must not be shown; `documents` are those of the text."""
    lines = text.splitlines()
    for first, start, last, end in (span for document in documents for span in _secret_spans(document)):
        for number in range(first, min(last + 1, len(lines))):
            _mask(lines, number, start if number == first else 0, end if number == last else None)
    return [masked(line) for line in lines]


def _mask(lines: list[str], number: int, start: int, end: int | None) -> None:
    line = lines[number]
    inner = line[start:end]
    indent = inner[: len(inner) - len(inner.lstrip())]
    if inner.strip():
        # As wide as what it hides, so that a caret behind it still points at its place.
        hidden = MASK.ljust(len(inner) - len(indent)) if end is not None and len(inner) >= len(MASK) else MASK
        lines[number] = line[:start] + indent + hidden + (line[end:] if end is not None else "")


def _secret_spans(document: Document) -> Iterator[Span]:
    pending: list[tuple[yaml.Node, str, Path]] = [(document.node, "", ())]
    seen: set[int] = set()
    while pending:
        node, kind, path = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            if is_secret(kind, path, node.value):
                start, end = node.start_mark, node.end_mark
                yield start.line, start.column, end.line, end.column
        elif isinstance(node, yaml.SequenceNode):
            pending += [(item, kind, (*path, index)) for index, item in enumerate(node.value)]
        else:
            own = {key.value: value.value for key, value in node.value if isinstance(value, yaml.ScalarNode)}
            if own.get("kind") and "apiVersion" in own:
                kind, path = own["kind"], ()
            pending += [(value, kind, (*path, str(key.value))) for key, value in node.value]
