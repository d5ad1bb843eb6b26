"""Changes one value in YAML or JSON text and leaves everything else as it is: comments, order, quotes, line ends.

Each change is one replacement of a stretch of text, found by the places of the node tree. What cannot be changed
without touching something else (an anchored value, a merge key) is refused.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from triplane.documents.paths import Path, render_path
from triplane.documents.reading import Document, read_documents
from triplane.documents.scalars import PLAIN
from triplane.documents.writing import yaml_text

Node = Any
"""A node of PyYAML, whose classes differ in what they hold."""


class EditError(ValueError):
    """A change that the text does not allow. `str()` is a whole sentence."""


@dataclass(frozen=True, slots=True)
class TextEdit:
    """`text` in the place of the characters from `start` up to `end`."""

    start: int
    end: int
    text: str

    def applied(self, text: str) -> str:
        return text[: self.start] + self.text + text[self.end :]


def set_value(text: str, document: Document, path: Path, value: Any) -> TextEdit:
    """The edit that makes `value` stand at `path`; mappings and lists on the way are added. Raises EditError."""
    return _Editor(text, document).set(path, value)


def remove_value(text: str, document: Document, path: Path) -> TextEdit:
    """The edit that takes the entry at `path` away, with its key. Raises EditError."""
    return _Editor(text, document).remove(path)


def documents_of(text: str, file: str) -> list[Document]:
    """The documents of a text, for further edits. Raises DocumentError."""
    return list(read_documents(text, file))


class _Editor:
    """Works on one document of one text."""

    def __init__(self, text: str, document: Document) -> None:
        self.text, self.document = text, document
        self.json = text.lstrip()[:1] in ("{", "[")
        self.newline = "\r\n" if "\r\n" in text else "\n"

    def set(self, path: Path, value: Any) -> TextEdit:
        keys, node, rest = self._descend(path)
        if not rest:
            return self._replace(node, value, keys)
        new = _nested(rest[1:], value)
        if isinstance(node, yaml.MappingNode) and isinstance(rest[0], str):
            return self._add_key(node, rest[0], new)
        if isinstance(node, yaml.SequenceNode) and isinstance(rest[0], int):
            return self._add_item(node, new)
        if isinstance(node, yaml.ScalarNode) and node.tag == PLAIN and node.value in ("", "~", "null"):
            return self._replace(node, _nested(rest, value), keys)
        raise EditError(f"{render_path(path)}: what stands above it is neither a mapping nor a list")

    def remove(self, path: Path) -> TextEdit:
        _, parent, rest = self._descend(path[:-1])
        if rest:
            raise EditError(f"{render_path(path)} is not there")
        entries = list(_entries(parent))
        index = next((i for i, (key, first, _) in enumerate(entries) if key == path[-1]), None)
        if index is None:
            raise EditError(f"{render_path(path)} is not written here")
        first, last = entries[index][1], entries[index][2]
        if len(entries) == 1:
            return self._emptied(parent, first, last)
        following = entries[index + 1][1].start_mark.index if index + 1 < len(entries) else None
        if parent.flow_style:
            if following is not None:
                return TextEdit(first.start_mark.index, following, "")
            return TextEdit(self._end(entries[index - 1][2]), self._end(last), "")
        line = self._line_start(first.start_mark.index)
        before = self.text[line : first.start_mark.index].strip()
        if before == ("-" if isinstance(parent, yaml.SequenceNode) else ""):
            return TextEdit(line, self._line_end(self._end(last)), "")
        if following is None:
            raise EditError(f"{render_path(path)}: take this line away by hand")
        return TextEdit(first.start_mark.index, following, "")  # it shares its line with a dash

    def _emptied(self, parent: Node, first: Node, last: Node) -> TextEdit:
        """The only entry taken away: what remains is written as empty, since nothing at all would be null."""
        if parent.flow_style:
            empty = "{}" if isinstance(parent, yaml.MappingNode) else "[]"
            return TextEdit(parent.start_mark.index, parent.end_mark.index, empty)
        if isinstance(parent, yaml.MappingNode):
            return TextEdit(first.start_mark.index, self._end(last), "{}")
        # A list may stand as far left as its key, brackets may not.
        return TextEdit(parent.start_mark.index, self._end(last), "  []")

    def _descend(self, path: Path) -> tuple[list[Node], Node, Path]:
        """As far as the path exists: the key nodes on the way, the node reached, and what is left of the path."""
        node: Node = self.document.node
        keys: list[Node] = []
        shared = _shared_nodes(node)
        for depth, part in enumerate(path):
            if id(node) in shared:
                raise EditError(f"{render_path(path)}: its value is shared through an anchor")
            found = next(
                ((first, value) for key, first, value in _entries(node) if key == part and type(key) is type(part)),
                None,
            )
            if found is None:
                if isinstance(node, yaml.MappingNode) and any(key.value == "<<" for key, _ in node.value):
                    raise EditError(f"{render_path(path)}: it may come from a merge key (<<)")
                return keys, node, path[depth:]
            keys.append(found[0])
            node = found[1]
        if id(node) in shared:
            raise EditError(f"{render_path(path)}: its value is shared through an anchor")
        return keys, node, ()

    def _replace(self, node: Node, value: Any, keys: list[Node]) -> TextEdit:
        start, end = node.start_mark.index, self._end(node)
        empty = isinstance(node, yaml.ScalarNode) and start == end
        block = not isinstance(node, yaml.ScalarNode) and not node.flow_style
        if (empty or block) and keys and keys[-1] is not node:
            # Nothing stands behind the colon, or a block begins on a line of its own.
            start = self.text.index(":", keys[-1].end_mark.index) + 1
            return TextEdit(start, start if empty else end, " " + self._inline(value))
        return TextEdit(start, end, (" " if empty else "") + self._inline(value))

    def _add_key(self, node: yaml.MappingNode, key: str, value: Any) -> TextEdit:
        written = f"{self._inline(key)}: {self._inline(value)}"
        if node.flow_style:
            return self._add_to_flow(node, written)
        indent = " " * node.value[0][0].start_mark.column
        return self._after(node, f"{indent}{self._block({key: value}, indent)}")

    def _add_item(self, node: yaml.SequenceNode, value: Any) -> TextEdit:
        if node.flow_style:
            return self._add_to_flow(node, self._inline(value))
        indent = " " * node.start_mark.column
        return self._after(node, f"{indent}- {self._inline(value)}")

    def _add_to_flow(self, node: Node, written: str) -> TextEdit:
        if not node.value:
            return TextEdit(node.start_mark.index + 1, node.end_mark.index - 1, written)
        last = node.value[-1][1] if isinstance(node, yaml.MappingNode) else node.value[-1]
        end = self._end(last)
        return TextEdit(end, end, f", {written}")

    def _after(self, node: Node, lines: str) -> TextEdit:
        """Lines below the last line of a block; a comment at the end of that line stays there."""
        end = self._line_end(self._end(node))
        before = "" if end == 0 or self.text[end - 1] == "\n" else self.newline
        return TextEdit(end, end, f"{before}{lines}{self.newline if not before else ''}")

    def _end(self, node: Node) -> int:
        """Where the last character of a value is; the mark of a block lies further down, behind comments."""
        if isinstance(node, yaml.ScalarNode):
            if node.style in ("|", ">"):
                return len(self.text[: node.end_mark.index].rstrip())
            return int(node.end_mark.index)
        if node.flow_style or not node.value:
            return int(node.end_mark.index)
        last = node.value[-1][1] if isinstance(node, yaml.MappingNode) else node.value[-1]
        if isinstance(last, yaml.ScalarNode) and last.start_mark.index == last.end_mark.index:
            last = node.value[-1][0] if isinstance(node, yaml.MappingNode) else last
        return self._end(last)

    def _line_start(self, index: int) -> int:
        return self.text.rfind("\n", 0, index) + 1

    def _line_end(self, index: int) -> int:
        """Behind the newline that ends the line."""
        found = self.text.find("\n", index)
        return len(self.text) if found < 0 else found + 1

    def _inline(self, value: Any) -> str:
        """A value on one line."""
        if self.json or isinstance(value, dict | list):
            return json.dumps(value, ensure_ascii=False)
        return yaml_text(value).removesuffix("...\n").strip()

    def _block(self, value: dict[str, Any], indent: str) -> str:
        lines = yaml_text(value, sort_keys=False).rstrip("\n").split("\n")
        return f"{self.newline}{indent}".join(lines)


def _entries(node: Node) -> Iterator[tuple[str | int, Node, Node]]:
    """(key or index, first node, value) of each entry."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                yield key.value, key, value
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield index, item, item


def _shared_nodes(root: Node) -> set[int]:
    """Nodes that aliases point at."""
    seen: set[int] = set()
    shared: set[int] = set()
    pending = [root]
    while pending:
        node = pending.pop()
        if id(node) in seen:
            shared.add(id(node))
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            pending += [value for _, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            pending += node.value
    return shared


def _nested(path: Path, value: Any) -> Any:
    for part in reversed(path):
        value = [value] if isinstance(part, int) else {part: value}
    return value
