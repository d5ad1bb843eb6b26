"""Reads YAML (and JSON, which is YAML) into values and node trees.

Two dialects, because two programs read the same text differently. Kubernetes (sigs.k8s.io/yaml, YAML 1.1) reads an
unquoted `yes`, `no`, `on` and `off` as booleans; the Pulumi engine (gopkg.in/yaml.v3) reads them as strings. Neither
knows base-60 integers or gives timestamps a type in JSON, so `12:30` and `2026-12-01` are strings in both.
"""

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import yaml

from triplane.documents.paths import Path, render_path

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# One alias may stand for a large tree; a file of nested aliases ("YAML bomb") multiplies it. This bounds the nodes that
# expansion may visit, far above any real manifest.
MAX_EXPANDED_NODES = 2_000_000


class Dialect(enum.Enum):
    """Which program's reading of YAML scalars to follow."""

    KUBERNETES = "kubernetes"
    PULUMI = "pulumi"


@dataclass(frozen=True)
class Position:
    """A place in a file. Lines and columns count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


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

    @cached_property
    def start(self) -> Position:
        """Where the document's first node begins."""
        return self._at(self.node)

    def position(self, path: Path, *, key: bool = False) -> Position:
        """The place of the value at `path`, or of its key; the nearest parent that exists when the path does not."""
        node, place = self.node, self.node
        for part in path:
            found = _child(node, part)
            if found is None:
                return self._at(place)
            key_node, node = found
            place = key_node if key and key_node is not None else node
        return self._at(place)

    def _at(self, node: yaml.Node) -> Position:
        return Position(self.file, node.start_mark.line + 1, node.start_mark.column + 1)


def read_documents(text: str, file: str, dialect: Dialect = Dialect.KUBERNETES) -> Iterator[Document]:
    """Yields the documents of `text`; empty documents are left out. Raises DocumentError with the place of a fault."""
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is None or _is_null(node):
                continue
            yield Document(file, node, _Builder(file, dialect).value(node))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Position(file, mark.line + 1, mark.column + 1) if mark else Position(file, 1, 1)
        raise DocumentError(place, _plain_problem(error)) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise DocumentError(Position(file, line, 1), f"character #x{ord(str(error.character)[0]):04x} is not allowed in YAML") from None
    finally:
        loader.dispose()


def _plain_problem(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or "not valid YAML"
    if "cannot start any token" in problem and "\\t" in problem:
        return "a tab indents this line: YAML allows spaces only"
    return f"not valid YAML: {problem}"


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.value in ("", "~", "null") and not node.style


def _child(node: yaml.Node, part: str | int) -> tuple[yaml.Node | None, yaml.Node] | None:
    if isinstance(part, int):
        if isinstance(node, yaml.SequenceNode) and 0 <= part < len(node.value):
            return None, node.value[part]
        return None
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == part and isinstance(key, yaml.ScalarNode):
                return key, value
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    found = _child(source, part)
                    if found is not None:
                        return found
    return None


_TRUE = {"true", "True", "TRUE"}
_FALSE = {"false", "False", "FALSE"}
_TRUE_11 = _TRUE | {"yes", "Yes", "YES", "on", "On", "ON"}
_FALSE_11 = _FALSE | {"no", "No", "NO", "off", "Off", "OFF"}
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
_RADIX = re.compile(r"[-+]?0(?:x[0-9a-fA-F_]+|b[01_]+|o?[0-7_]+)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


class _Builder:
    """Turns one node tree into plain values: dict, list, str, int, float, bool, None."""

    def __init__(self, file: str, dialect: Dialect) -> None:
        self.file = file
        self.true, self.false = (_TRUE_11, _FALSE_11) if dialect is Dialect.KUBERNETES else (_TRUE, _FALSE)
        self.visited = 0
        self.open: set[int] = set()

    def fault(self, node: yaml.Node, message: str) -> DocumentError:
        return DocumentError(Position(self.file, node.start_mark.line + 1, node.start_mark.column + 1), message)

    def value(self, node: yaml.Node) -> Any:
        self.visited += 1
        if self.visited > MAX_EXPANDED_NODES:
            raise self.fault(node, f"the aliases of this document expand to more than {MAX_EXPANDED_NODES:,} values")
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node)
        if id(node) in self.open:
            raise self.fault(node, "an alias points at a value that contains it")
        self.open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self.value(item) for item in node.value]
            return self.mapping(node)
        finally:
            self.open.discard(id(node))

    def mapping(self, node: yaml.Node) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                for source in value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]:
                    if not isinstance(source, yaml.MappingNode):
                        raise self.fault(source, "a merge key (<<) takes a mapping or a list of mappings")
                    for key, value in self.value(source).items():
                        merged.setdefault(key, value)
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                raise self.fault(key_node, "a key must be plain text")
            key = key_node.value
            if key in own:
                first = next(k for k, _ in node.value if k.value == key)
                raise self.fault(key_node, f"key {render_path((key,))} stands twice; first on line {first.start_mark.line + 1}")
            own[key] = self.value(value_node)
        return merged | own if merged else own

    def scalar(self, node: yaml.ScalarNode) -> Any:
        text = node.value  # plain text has the style "" from the C parser and None from the Python one
        if node.style or node.tag == "tag:yaml.org,2002:str" or node.tag == "!":
            return text
        if text in ("", "~", "null", "Null", "NULL"):
            return None
        if text in self.true:
            return True
        if text in self.false:
            return False
        if _INTEGER.fullmatch(text):
            return int(text.replace("_", ""))
        if _RADIX.fullmatch(text):
            sign = -1 if text[0] == "-" else 1
            digits = text.lstrip("+-").replace("_", "").lower()
            if digits.startswith("0x"):
                return sign * int(digits, 16)
            if digits.startswith("0b"):
                return sign * int(digits, 2)
            return sign * int(digits.removeprefix("0o"), 8)
        if _FLOAT.fullmatch(text):
            return float(text)
        if text.lower() in (".inf", "+.inf"):
            return float("inf")
        if text.lower() == "-.inf":
            return float("-inf")
        if text.lower() == ".nan":
            return float("nan")
        return text
