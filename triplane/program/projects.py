"""A project on disk, and the configuration of one of its stacks as the engine would hand it to the program."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from triplane.documents import Dialect, Position, decode, read_documents
from triplane.settings.problems import Problem, SettingsError
from triplane.settings.source import PROJECT_FILE, Source

ENCRYPTED = "(encrypted)"
"""Stands for a value that only the stack's secrets provider can read. The program gets it as a secret."""


@dataclass(frozen=True)
class Project:
    """What of Pulumi.yaml a run needs."""

    name: str
    root: Path
    """The folder of Pulumi.yaml."""
    program: Path
    """The folder of __main__.py."""
    shared: Mapping[str, Any]
    """Values of the project's config for other namespaces, such as aws:region: the same for all stacks."""


class StackConfig(NamedTuple):
    """Full keys and their text; which of them are secret."""

    values: dict[str, str]
    secrets: frozenset[str]


def find_project(start: Path | str | None = None) -> Project:
    """The project in `start` (left out: the current folder) or above it. Raises SettingsError, DocumentError."""
    folder = Path(start or ".").resolve()
    root = next((here for here in (folder, *folder.parents) if (here / PROJECT_FILE).is_file()), None)
    if root is None:
        raise SettingsError([Problem((), Position(str(folder)), f"no {PROJECT_FILE} in this folder or above it")])
    text = decode((root / PROJECT_FILE).read_bytes(), PROJECT_FILE)
    document = next(read_documents(text, PROJECT_FILE, Dialect.PULUMI), None)
    values = document.value if document and isinstance(document.value, dict) else {}
    if not isinstance(values.get("name"), str):
        raise SettingsError([Problem((), Position(PROJECT_FILE, 1, 1), "a project needs a name")])
    main = root / str(values.get("main") or ".")
    program = main.parent if main.is_file() else main
    if not (program / "__main__.py").is_file():
        raise SettingsError([Problem(("main",), Position(PROJECT_FILE), f"there is no __main__.py in {program}")])
    return Project(values["name"], root, program, dict(_shared(values.get("config"), values["name"])))


def _shared(config: Any, project: str) -> Iterator[tuple[str, Any]]:
    for key, entry in config.items() if isinstance(config, dict) else ():
        value = entry.get("value") if isinstance(entry, dict) else entry
        if ":" in key and not key.startswith(f"{project}:") and value is not None:
            yield key, value


def stack_config(project: Project, source: Source) -> StackConfig:
    """Every value of the stack: the project's own as `source` has them, those of other namespaces as written."""
    own = {f"{project.name}:{key}": value for key, value in source.values.items()}
    written = source.root[0].value.get("config") if source.root else None
    foreign = {
        key.replace(":config:", ":"): value
        for key, value in (written if isinstance(written, dict) else {}).items()
        if ":" in key and not key.startswith(f"{project.name}:")
    }
    return as_the_engine_hands_over({**project.shared, **foreign, **own})


def as_the_engine_hands_over(values: Mapping[str, Any]) -> StackConfig:
    """Text as it is, anything else as JSON. Encrypted values (`{secure: ...}`) stay opaque."""
    opaque = {key: _opaque(value) for key, value in values.items()}
    return StackConfig(
        {key: value if isinstance(value, str) else json.dumps(value) for key, value in opaque.items()},
        frozenset(key for key, value in values.items() if opaque[key] != value),
    )


def _opaque(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == {"secure"}:
            return ENCRYPTED
        return {key: _opaque(item) for key, item in value.items()}
    return [_opaque(item) for item in value] if isinstance(value, list) else value
