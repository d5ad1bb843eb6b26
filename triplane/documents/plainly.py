"""The values of plainly written YAML, without a node tree: several times as fast as a parser of all of YAML.

Most manifests use little of the language: block mappings and lists, values on one line. Whatever else a text holds
(anchors, tags, escapes, folded text, a key written twice, any fault) makes the reader decline the whole text, and the
full reader takes it. So there is nothing to report here, and only one promise: a text that is read has the values that
the full reader finds. Tests compare the two on every kind of line.
"""

import re
from functools import lru_cache
from typing import Any

from triplane.documents.scalars import PLAIN, Dialect, Scalar, key_text, resolve_scalar

# Far from where the full reader refuses a text as nested too deep.
MAX_DEPTH = 64

# Further line ends of YAML 1.1, tabs, and a byte-order mark inside a text: all of them rare and full of exceptions.
_STRANGE = re.compile("[\t\r\x85\u2028\u2029\ufeff]")
_QUOTED = r"\"(?:[ !#-\[\]-~]*)\"|'[ -&(-~]*'"
# Within brackets, and without spaces there: so nothing in it is a mark of YAML.
_WORD = r"[A-Za-z0-9_./][A-Za-z0-9_./%@+-]*"
_LINE = re.compile(
    r"(?P<indent> *)"
    r"(?P<dash>- +)?"
    r"(?:(?P<key>[A-Za-z0-9_./][A-Za-z0-9_./@-]{0,200}|\"[ !#-\[\]-~]{0,200}\"|'[ -&(-~]{0,200}'):(?: +|$))?"
    r"(?:"
    # Plain text may hold `:` and `#`, but not `: ` and ` #`.
    r"(?P<plain>(?:[A-Za-z0-9_/.+(^$~<=\\;]|-(?=[!-~]))(?:[ -\"$-9;-~]|:(?=[!-~])|(?<=[!-~])#)*)"
    rf"|(?P<quoted>{_QUOTED})"
    r"|(?P<block>\|-?)"
    r"|(?P<flow>[\[{][ -~]*[\]}])"
    r")?"
    r" *(?:(?:(?<= )|^)#.*)?"
)
_BOUNDARY = re.compile(r"---(?: *| +#.*)")
_TOKEN = re.compile(rf" *(?:(?P<mark>[\[\]{{}},])|(?P<key>{_WORD}): +|(?P<item>{_QUOTED}|{_WORD}))")


class _Declined(Exception):
    """The text holds something that only the full reader reads."""


def plain_values(text: str) -> list[tuple[Any, int]] | None:
    """The value of each document of `text` and the line it begins on, in Kubernetes' reading; None: declined."""
    if _STRANGE.search(text):
        return None
    try:
        return _Reader(text.split("\n")).documents()
    except (_Declined, ValueError):
        return None


class _Reader:
    """Goes through the lines once. `open` holds the mappings and lists that a next line may continue, with columns."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.found: list[tuple[Any, int]] = []
        self.open: list[tuple[int, Any]] = []
        self.empty: tuple[int, dict[str, Any], str] | None = None
        """The key just read when no value stood behind it: the column of its mapping, the mapping, the key."""

    def documents(self) -> list[tuple[Any, int]]:
        lines, opened, match_line = self.lines, self.open, _LINE.fullmatch
        number, count, begun = 0, len(lines), 0
        while number < count:
            line = lines[number]
            number += 1
            if line[:3] == "---":
                if not _BOUNDARY.fullmatch(line):
                    raise _Declined
                opened.clear()
                self.empty, begun = None, len(self.found)
                continue
            match = match_line(line)
            if match is None:
                raise _Declined
            indent, dash, key, plain, quoted, block, flow = match.groups()
            if dash is None and key is None:
                if plain or quoted or block or flow:
                    raise _Declined
                continue
            column = len(indent)
            if opened and opened[-1][0] == column and type(opened[-1][1]) is (list if dash else dict):
                place: Any = opened[-1][1]  # most lines continue what the line before was part of
            elif not opened and len(self.found) > begun:
                raise _Declined  # something stands behind the end of a document
            else:
                place = self._list(column, number) if dash else self._mapping(column, number)
            value: Any
            if plain is not None:
                value = _plain(plain)
            elif quoted is not None:
                value = quoted[1:-1]
            elif flow is not None:
                value = _Flow(flow).whole()
            else:
                value = None
            if dash:
                if key is None:
                    if value is None and block is None and plain is None:
                        raise _Declined
                    if block:
                        value, number = self._block(number, column, block)
                    place.append(value)
                    self.empty = None
                    continue
                column += len(dash)
                entries: dict[str, Any] = {}
                place.append(entries)
                self._open(column, entries)
                place = entries
            name = key[1:-1] if key[0] in "\"'" else _key(key)
            if name in place:
                raise _Declined
            if block:
                value, number = self._block(number, column, block)
            place[name] = value
            self.empty = (column, place, name) if value is None and plain is None else None
        return self.found

    def _list(self, column: int, number: int) -> Any:
        """The list that a dash in this column continues or begins."""
        if self.empty is not None and column >= self.empty[0]:
            return self._begin(column, [], number)
        self._close(column)
        if self.open and self.open[-1][0] == column and type(self.open[-1][1]) is list:
            return self.open[-1][1]
        if not self.open and not self.empty:
            return self._begin(column, [], number)
        raise _Declined

    def _mapping(self, column: int, number: int) -> Any:
        """The mapping that a key in this column continues or begins."""
        if self.empty is not None and column > self.empty[0]:
            return self._begin(column, {}, number)
        self._close(column)
        if self.open and self.open[-1][0] == column and type(self.open[-1][1]) is list:
            self.open.pop()  # a list may stand in the column of the key it belongs to
            if not self.open:
                raise _Declined
        if self.open and self.open[-1][0] == column and type(self.open[-1][1]) is dict:
            return self.open[-1][1]
        if not self.open and not self.empty:
            return self._begin(column, {}, number)
        raise _Declined

    def _begin(self, column: int, container: Any, number: int) -> Any:
        if self.empty is not None:
            _, mapping, key = self.empty
            mapping[key] = container
        else:
            self.found.append((container, number))
        self._open(column, container)
        return container

    def _open(self, column: int, container: Any) -> None:
        if len(self.open) >= MAX_DEPTH:
            raise _Declined
        self.open.append((column, container))

    def _close(self, column: int) -> None:
        opened = len(self.open)
        while self.open and self.open[-1][0] > column:
            self.open.pop()
        if opened and not self.open:
            raise _Declined

    def _block(self, number: int, parent: int, header: str) -> tuple[str, int]:
        """The text of a block (`|`) that begins on the next line, and the number of lines read."""
        lines = self.lines
        first = lines[number] if number < len(lines) else ""
        width = len(first) - len(first.lstrip(" "))
        if width <= parent or width == len(first):
            raise _Declined
        taken = []
        while number < len(lines):
            line = lines[number]
            spaces = len(line) - len(line.lstrip(" "))
            if spaces < width:
                if spaces == len(line):
                    taken.append("")
                    number += 1
                    continue
                if spaces > parent:
                    raise _Declined
                break
            taken.append(line[width:])
            number += 1
        content = "\n".join(taken).rstrip("\n")
        # A last line that no newline ends, or that has nothing but spaces, follows rules of its own.
        if not content.isascii() or taken[-1].isspace() or (number == len(lines) and lines[-1]):
            raise _Declined
        return content + ("" if header == "|-" else "\n"), number


@lru_cache(maxsize=8192)
def _plain(text: str) -> Scalar:
    return resolve_scalar(text.rstrip(" "), PLAIN, Dialect.KUBERNETES)


@lru_cache(maxsize=8192)
def _key(text: str) -> str:
    value = resolve_scalar(text, PLAIN, Dialect.KUBERNETES)
    if value is None:
        raise _Declined
    return key_text(value)


class _Flow:
    """One value in brackets or braces, on one line."""

    def __init__(self, text: str) -> None:
        self.text, self.end, self.depth = text, 0, 0

    def whole(self) -> Any:
        value = self.value(*self.next())
        if self.end != len(self.text):
            raise _Declined
        return value

    def next(self) -> tuple[str | None, str | None, str | None]:
        """The next mark, key or item."""
        match = _TOKEN.match(self.text, self.end)
        if match is None:
            raise _Declined
        self.end = match.end()
        return match["mark"], match["key"], match["item"]

    def value(self, mark: str | None, key: str | None, item: str | None) -> Any:
        if item is not None:
            return item[1:-1] if item[0] in "\"'" else _plain(item)
        if mark not in ("[", "{") or self.depth >= MAX_DEPTH:
            raise _Declined
        self.depth += 1
        value = self.sequence() if mark == "[" else self.mapping()
        self.depth -= 1
        return value

    def sequence(self) -> Any:
        values: list[Any] = []
        token = self.next()
        while token[0] != "]" or values:
            values.append(self.value(*token))
            if not self.more("]"):
                break
            token = self.next()
        return values

    def mapping(self) -> Any:
        values: dict[str, Any] = {}
        mark, key, _ = self.next()
        while mark != "}" or values:
            if key is None or _key(key) in values:
                raise _Declined
            values[_key(key)] = self.value(*self.next())
            if not self.more("}"):
                break
            mark, key, _ = self.next()
        return values

    def more(self, closing: str) -> bool:
        """Whether a comma follows, and not the end."""
        mark = self.next()[0]
        if mark not in (",", closing):
            raise _Declined
        return mark == ","
