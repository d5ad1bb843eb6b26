"""Reads YAML (and JSON, which is YAML) into plain values, and keeps the node tree for the places."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import yaml

from triplane.documents.paths import Path, render_path
from triplane.documents.plainly import plain_values
from triplane.documents.scalars import PLAIN, QUOTED, Dialect, key_text, resolve_scalar

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# One alias may stand for a large tree; a file of nested aliases ("YAML bomb") multiplies it. This bounds the nodes that
# expansion may visit, far above any real manifest.
MAX_EXPANDED_NODES = 2_000_000

# A file of 64 MiB is an export of a cluster gone wrong; parsing it would take gigabytes.
MAX_FILE_BYTES = 64 * 2**20

_MERGE_KEY = "<<"
# YAML's printable characters (spec 5.1). Looked for before parsing: libyaml counts the place of a bad one in bytes.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# JSON may write a character beyond U+FFFF as two escapes, which YAML does not know: `"\\ud83d\\ude80"`.
_JSON_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")


class _Loader(_Base):  # type: ignore[misc]
    """PyYAML's parser and composer. It notes whether a scalar was quoted; what it means is the dialect's matter."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        if kind is yaml.ScalarNode:
            return PLAIN if implicit[0] else QUOTED
        return "tag:yaml.org,2002:seq" if kind is yaml.SequenceNode else "tag:yaml.org,2002:map"


@dataclass(frozen=True)
class Position:
    """A place in a file. Lines and columns count from 1; line 0 means the file as a whole, column 0 the line."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}:{self.column}" if self.column else f"{self.file}:{self.line}"


class DocumentError(ValueError):
    """Text that is no YAML, or YAML that no reader may accept. Carries the place; `str()` is a whole sentence."""

    def __init__(self, position: Position, message: str) -> None:
        super().__init__(f"{position}  {message}")
        self.position = position
        self.message = message


@dataclass(frozen=True)
class Document:
    """One YAML document: its value, and where each path of it stands."""

    file: str
    node: yaml.Node
    value: Any
    dialect: Dialect = Dialect.KUBERNETES

    @cached_property
    def start(self) -> Position:
        """Where the document's first node begins."""
        return self._at(self.node)

    def position(self, path: Path, *, key: bool = False) -> Position:
        """The place of the value at `path`, or of its key; the nearest parent that exists when the path does not."""
        node, place = self.node, self.node
        for part in path:
            found = self._child(node, part)
            if found is None:
                return self._at(place)
            key_node, node = found
            place = key_node if key and key_node is not None else node
        return self._at(place)

    def _at(self, node: yaml.Node) -> Position:
        return _place(self.file, node)

    def _child(self, node: yaml.Node, part: str | int) -> tuple[yaml.Node | None, yaml.Node] | None:
        if isinstance(part, int):
            if isinstance(node, yaml.SequenceNode) and 0 <= part < len(node.value):
                return None, node.value[part]
            return None
        if not isinstance(node, yaml.MappingNode):
            return None
        own = [(key, value) for key, value in node.value if not _is_merge(key, self.dialect)]
        for key, value in own:
            if isinstance(key, yaml.ScalarNode) and _key(key, self.dialect) == part:
                return key, value
        for key, value in node.value:
            if _is_merge(key, self.dialect):
                for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    found = self._child(source, part)
                    if found is not None:
                        return found
        return None


def decode(data: bytes, file: str) -> str:
    """UTF-8 text of `data`, without a byte-order mark. Raises DocumentError with the line of the first bad byte."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise DocumentError(Position(file, 1, 1), "this is UTF-16: save the file as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].rpartition(b"\n")
        place = Position(file, data.count(b"\n", 0, error.start) + 1, len(before[2].decode("utf-8", "replace")) + 1)
        raise DocumentError(place, f"byte 0x{data[error.start]:02x} is not UTF-8: save the file as UTF-8") from None


def read_values(text: str, file: str) -> Iterator[tuple[Any, int]]:
    """The value of each document of `text`, as Kubernetes reads it, and the line it begins on.

    What read_documents finds, several times as fast where the text is plain; for the places of what is inside, read
    the documents. Raises DocumentError with the place of a fault.
    """
    values = plain_values(text.removeprefix("\ufeff"))
    if values is not None:
        yield from values
        return
    for document in read_documents(text, file):
        yield document.value, document.start.line


def read_documents(text: str, file: str, dialect: Dialect = Dialect.KUBERNETES) -> Iterator[Document]:
    """Yields the documents of `text`; empty documents are left out. Raises DocumentError with the place of a fault."""
    text = text.removeprefix("\ufeff")
    if bad := _UNPRINTABLE.search(text):
        line, column = text.count("\n", 0, bad.start()) + 1, bad.start() - text.rfind("\n", 0, bad.start())
        raise DocumentError(Position(file, line, column), f"character U+{ord(bad[0]):04X} is not allowed in YAML")
    if text.lstrip()[:1] in ("{", "["):
        text = _JSON_PAIR.sub(_json_pair, text)
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is None or (
                isinstance(node, yaml.ScalarNode) and node.tag == PLAIN and node.value in ("", "~", "null")
            ):
                continue
            yield Document(file, node, _Builder(file, dialect).value(node), dialect)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Position(file, mark.line + 1, mark.column + 1) if mark else Position(file, 1, 1)
        raise DocumentError(place, _plain_problem(error, text)) from None
    except RecursionError:
        raise DocumentError(Position(file, 1, 1), "values are nested too deep to read") from None
    finally:
        loader.dispose()


def _plain_problem(error: yaml.MarkedYAMLError, text: str) -> str:
    problem = error.problem or "not valid YAML"
    if "cannot start any token" in problem and error.problem_mark:
        line, column = text.split("\n")[error.problem_mark.line], error.problem_mark.column
        if line[column : column + 1] == "\t":
            return "a tab stands where YAML allows spaces only: indent with spaces"
        return f"not valid YAML: {line[column : column + 1]!r} cannot start a value: quote it"
    if problem.startswith("mapping values are not allowed"):
        return "not valid YAML: a second ': ' in one value, or wrong indentation: quote the value or indent the key"
    return f"not valid YAML: {error.context + ', ' if error.context else ''}{problem}"


def _is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == PLAIN and node.value in ("", "~", "null")


def _json_pair(match: re.Match[str]) -> str:
    return match[1] + chr(0x10000 + ((int(match[2], 16) - 0xD800) << 10) + int(match[3], 16) - 0xDC00)


def _place(file: str, node: yaml.Node) -> Position:
    return Position(file, node.start_mark.line + 1, node.start_mark.column + 1)


def _is_merge(key: yaml.Node, dialect: Dialect) -> bool:
    # The engine writes a stack file out and reads it again before use, where quotes around << are lost.
    return key.value == _MERGE_KEY and (key.tag == PLAIN or dialect is Dialect.PULUMI)


def _key(node: yaml.ScalarNode, dialect: Dialect) -> str:
    value = resolve_scalar(node.value, node.tag, dialect)
    if value is None:
        raise ValueError("a key is empty: give it a name, or quote it")
    return key_text(value)


class _Builder:
    """Turns one node tree into plain values: dict, list, str, int, float, bool, None."""

    def __init__(self, file: str, dialect: Dialect) -> None:
        self.file = file
        self.dialect = dialect
        self.visited = 0
        self.open: set[int] = set()

    def fault(self, node: yaml.Node, message: str) -> DocumentError:
        return DocumentError(_place(self.file, node), message)

    def value(self, node: yaml.Node) -> Any:
        self.visited += 1
        if self.visited > MAX_EXPANDED_NODES:
            raise self.fault(node, f"the aliases of this document expand to more than {MAX_EXPANDED_NODES:,} values")
        if isinstance(node, yaml.ScalarNode):
            if node.tag == QUOTED:
                return node.value
            try:
                return resolve_scalar(node.value, node.tag, self.dialect)
            except ValueError as error:
                raise self.fault(node, str(error)) from None
        if id(node) in self.open:
            raise self.fault(node, "an alias points at a value that contains it: this can never end")
        self.open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self.value(item) for item in node.value]
            return self.mapping(node)
        finally:
            self.open.discard(id(node))

    def mapping(self, node: yaml.Node) -> dict[str, Any]:
        result: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        first: dict[str, int] = {}
        for key_node, value_node in node.value:
            if _is_merge(key_node, self.dialect):
                sources = self.merge(value_node)
                if self.dialect is Dialect.KUBERNETES:
                    result.update(
                        sources
                    )  # yaml.v2 applies a merge where it stands: it overrides keys written before it
                else:
                    merged = sources | merged  # yaml.v3: what the mapping says itself always wins
                continue
            key = self.key(key_node)
            if key in first:
                raise self.fault(key_node, f"key {render_path((key,))} stands twice; first on line {first[key]}")
            first[key] = key_node.start_mark.line + 1
            result[key] = self.value(value_node)
        return merged | result if merged else result

    def merge(self, node: yaml.Node) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for source in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if not isinstance(source, yaml.MappingNode):
                raise self.fault(source, "a merge key (<<) takes a mapping or a list of mappings")
            merged = self.value(source) | merged
        return merged

    def key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self.fault(node, "a key must be plain text")
        if node.tag == QUOTED:
            return str(node.value)
        try:
            return _key(node, self.dialect)
        except ValueError as error:
            raise self.fault(node, str(error)) from None
