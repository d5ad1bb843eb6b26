"""Settings from the command line, over those of the file: `--set platform.karpenter.version=1.15.0`."""

import copy
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from triplane.documents import Dialect, DocumentError, Path, Position, read_documents, render_path
from triplane.settings.problems import Problem, SettingsError
from triplane.settings.source import Source
from triplane.settings.wording import describe

SHOWN_CHARACTERS = 60

_PART = re.compile(r'\.?([^.=\[\]"]+)|\[(\d+)\]|\["([^"]*)"\]')


@dataclass(frozen=True)
class Override:
    """One value to set. `text` is what was typed: errors name it as their place."""

    text: str
    path: Path
    value: Any

    @property
    def position(self) -> Position:
        return _place(self.text)

    @classmethod
    def parse(cls, text: str) -> "Override":
        """`pools.h100.nodes.max=4`, `pools.h100.labels["example.com/rack"]=a`, `patches[0].merge={spec: {weight: 10}}`.

        The value is YAML, as in the file. Raises SettingsError.
        """
        path, rest = _path(text)
        place = _place(text)
        if not path or not rest.startswith("="):
            message = "write key.path=value, such as pools.h100.nodes.max=4"
            raise SettingsError([Problem((), place, message)])
        try:
            documents = list(read_documents(rest[1:], place.file, Dialect.PULUMI))
        except DocumentError as error:
            raise SettingsError([Problem((), place, error.message)]) from None
        return cls(text, path, documents[0].value if documents else None)

    @classmethod
    def of(cls, path: str, value: Any) -> "Override":
        """A path as in `parse` with a value that is no text to read. Raises SettingsError."""
        parts, rest = _path(path)
        if not parts or rest:
            raise SettingsError([Problem((), _place(path), "write a path such as pools.h100.nodes.max")])
        return cls(f"{path}={value}", parts, value)


def _place(text: str) -> Position:
    return Position(f"--set {text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + '...'}")


def _path(text: str) -> tuple[Path, str]:
    """The path that `text` begins with, and what follows it. A path begins with a key: the file is a mapping."""
    path: list[str | int] = []
    at = 0
    while (match := _PART.match(text, at)) and (path or not match[2]):
        path.append(int(match[2]) if match[2] else match[1] if match[1] is not None else match[3])
        at = match.end()
    return tuple(path), text[at:]


def override(source: Source, overrides: Iterable[Override]) -> Source:
    """The same source with each value set, later ones last. Raises SettingsError where a path ends early."""
    chosen = tuple(overrides)
    values = copy.deepcopy(dict(source.values))
    for each in chosen:
        _assign(values, each)
    return _Overridden(values, source.file, source.documents, source.root, chosen)


@dataclass(frozen=True)
class _Overridden(Source):
    overrides: tuple[Override, ...] = ()

    def position(self, path: Path, *, key: bool = False) -> Position:
        for each in reversed(self.overrides):
            # Also what is missing from a block that only this override started.
            started = bool(path) and path[0] == each.path[0] and path[0] not in self.documents
            if path[: len(each.path)] == each.path or started:
                return each.position
        return super().position(path, key=key)


def _assign(values: Any, each: Override) -> None:
    for depth, (part, following) in enumerate(zip(each.path, (*each.path[1:], None), strict=True)):
        fits = (isinstance(values, dict) and isinstance(part, str)) or (
            isinstance(values, list) and isinstance(part, int) and part <= len(values)
        )
        if not fits:
            message = f"cannot be set: {render_path(each.path[:depth])} is {describe(values)}"
            raise SettingsError([Problem(each.path, each.position, message)])
        if following is None:
            child: Any = copy.deepcopy(each.value)
        else:
            child = values[part] if _holds(values, part) and values[part] is not None else _empty(following)
        if isinstance(values, list) and part == len(values):
            values.append(child)
        else:
            values[part] = child
        values = child


def _holds(values: Any, part: str | int) -> bool:
    return part in values if isinstance(values, dict) else isinstance(part, int) and part < len(values)


def _empty(following: str | int) -> Any:
    return [] if isinstance(following, int) else {}
