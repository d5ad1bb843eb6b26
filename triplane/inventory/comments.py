"""Comments of a YAML text that speak to the judge, with the document each stands in."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from triplane.documents import Position

MARK = "triplane:"
"""A comment without it is none of ours."""

_COMMENT = re.compile(r"(?:^|\s)#\s*(triplane:.*)")
# What ends a document wherever it stands, also inside a block of text (YAML 1.2, 9.1.2).
_BOUNDARY = re.compile(r"(---|\.\.\.)(\s|$)")


@dataclass(frozen=True, slots=True)
class Comment:
    """One comment: its text from `triplane:` on, its place, and its document (file and number)."""

    text: str
    place: Position
    document: tuple[str, int]


def comments_of(text: str, file: str, starts: Sequence[int]) -> Iterator[Comment]:
    """The comments of a text whose documents begin on the lines `starts`, counted from 1.

    A comment belongs to the document between the same two marks (---); one above the first line of any document, such
    as a licence header with its own ---, to the next.
    """
    if MARK not in text:
        return
    lines = text.splitlines()
    boundaries = [number for number, line in enumerate(lines, 1) if _BOUNDARY.match(line)]
    for number, line in enumerate(lines, 1):
        if MARK in line and (match := _COMMENT.search(line)):
            start = max((boundary for boundary in boundaries if boundary <= number), default=0)
            index = next((index for index, first in enumerate(starts) if first >= start), None)
            if index is not None:
                yield Comment(match[1], Position(file, number, match.start(1) + 1), (file, index))
