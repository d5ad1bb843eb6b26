"""Where settings come from: a stack file and the defaults of Pulumi.yaml, read as the engine reads them.

The engine (pulumi sdk 3.274, `workspace.LoadProjectStackBytes` and `pkg/workspace/config.go`) gives a key without a
namespace the project's name, takes defaults from the project's config schema for keys that the stack does not set, and
hands each value to the program as JSON.
"""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from triplane.documents import Dialect, Document, DocumentError, Path, Position, decode, read_documents
from triplane.settings.problems import Problem, SettingsError

PROJECT_FILE = "Pulumi.yaml"

# What a stack file may hold beside `config` (pulumi sdk 3.274, workspace.ProjectStack).
ENGINE_KEYS = ("secretsprovider", "encryptedkey", "encryptionsalt", "environment", "config")


@dataclass(frozen=True)
class Source:
    """Values by key, and where each of them stands."""

    values: Mapping[str, Any]
    """Top-level settings, such as `pools`, without the project's prefix."""
    file: str
    """The file to name where a value stands nowhere."""
    documents: Mapping[str, tuple[Document, Path]] = field(default_factory=dict)
    """By key: the document that sets it, and the path of its value there."""
    root: tuple[Document, Path] | None = None
    """The mapping that the keys stand in."""

    def position(self, path: Path, *, key: bool = False) -> Position:
        """Where the value at `path` stands, or its key; the nearest parent that is written; else the file."""
        found = self.documents.get(str(path[0])) if path else None
        if found:
            document, start = found
            return document.position((*start, *path[1:]), key=key)
        if self.root:
            document, start = self.root
            return document.position(start, key=True)
        return Position(self.file)


def stack_file(stack: str, project_dir: FilePath | str | None = None) -> FilePath:
    """Path of a stack's file, whether it exists or not. Raises SettingsError where there is no project."""
    project = _find_project(project_dir)
    return _stacks_folder(project, _read_one(project, project.name).value) / f"Pulumi.{stack}.yaml"


def stack_names(project_dir: FilePath | str | None = None) -> tuple[str, ...]:
    """The stacks that have a file, by name. Raises SettingsError where there is no project."""
    return _names_in(stack_file("any", project_dir).parent)


def read_stack(stack: str, project_dir: FilePath | str | None = None) -> Source:
    """The values of one stack with the project's defaults. Raises SettingsError."""
    project_path = _find_project(project_dir)
    project = _read_one(project_path, project_path.name)
    folder = _stacks_folder(project_path, project.value)
    path = folder / f"Pulumi.{stack}.yaml"
    shown = _shown(path, project_path.parent)
    if not path.is_file():
        raise SettingsError([Problem((), Position(shown), _no_such_stack(stack, _names_in(folder)))])
    document = _read_one(path, shown)
    return _merge(project, document)


def locate(values: Mapping[str, Any], source: FilePath | str) -> Source:
    """Values that came through the engine, placed by the stack file `source` where that is a readable path.

    A text names a source that has no lines, such as "stack prod".
    """
    if isinstance(source, str):
        return Source(values, source)
    try:
        project_path = _find_project(source.parent)
        shown = _shown(source.resolve(), project_path.parent)
        merged = _merge(_read_one(project_path, project_path.name), _read_one(source, shown))
    except SettingsError:
        return Source(values, str(source))  # the engine could read it, so lines are all that is lost
    return Source(values, merged.file, merged.documents, merged.root)


def _find_project(start: FilePath | str | None) -> FilePath:
    folder = FilePath(start or ".").resolve()
    for candidate in (folder, *folder.parents):
        if (candidate / PROJECT_FILE).is_file():
            return candidate / PROJECT_FILE
    raise SettingsError([Problem((), Position(str(folder)), f"no {PROJECT_FILE} in this folder or above it")])


def _stacks_folder(project: FilePath, value: Any) -> FilePath:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise SettingsError([Problem((), Position(project.name, 1, 1), "a project needs a name")])
    folder = value.get("stackConfigDir", ".")
    return project.parent / (folder if isinstance(folder, str) else ".")


def _names_in(folder: FilePath) -> tuple[str, ...]:
    return tuple(sorted(path.name[len("Pulumi.") : -len(".yaml")] for path in folder.glob("Pulumi.?*.yaml")))


def _no_such_stack(stack: str, names: tuple[str, ...]) -> str:
    if not names:
        return f"there is no stack {stack!r}, and no other: write this file to make one"
    close = difflib.get_close_matches(stack, names, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    return f"there is no stack {stack!r}.{hint} Stacks: {', '.join(names)}"


def _shown(path: FilePath, project_dir: FilePath) -> str:
    try:
        return path.relative_to(project_dir).as_posix()
    except ValueError:
        return str(path)


def _read_one(path: FilePath, shown: str) -> Document:
    try:
        documents = list(read_documents(decode(path.read_bytes(), shown), shown, Dialect.PULUMI))
    except DocumentError as error:
        raise SettingsError([Problem((), error.position, error.message)]) from None
    except OSError as error:
        raise SettingsError([Problem((), Position(shown), f"cannot be read: {error.strerror}")]) from None
    if not documents:
        message = "the file is empty: it needs config: with a cluster and pools"
        raise SettingsError([Problem((), Position(shown, 1, 1), message)])
    if len(documents) > 1:
        message = "a second document starts here: the engine reads the first only, so remove the --- line"
        raise SettingsError([Problem((), documents[1].start, message)])
    if not isinstance(documents[0].value, dict):
        raise SettingsError([Problem((), documents[0].start, "must be a mapping with the key config:")])
    return documents[0]


def _merge(project: Document, document: Document) -> Source:
    """What the engine gives the program: keys without a prefix get the project's, defaults fill what is not set."""
    name = project.value["name"]
    problems = list(_misplaced_keys(document))
    values: dict[str, Any] = {}
    documents: dict[str, tuple[Document, Path]] = {}
    config = document.value.get("config")
    if config is None:
        place = (
            document.position(("config",), key=True) if "config" in document.value else Position(document.file, 1, 1)
        )
        problems.append(Problem((), place, "config: is empty: it needs at least cluster and pools"))
    elif not isinstance(config, dict):
        problems.append(Problem((), document.position(("config",)), "config: must be a mapping"))
    else:
        for written, value in config.items():
            namespace, _, key = written.rpartition(":")
            namespace = namespace.removesuffix(":config")  # an old form of the prefix, which the engine still reads
            if ":" in namespace:
                place = document.position(("config", written), key=True)
                problems.append(Problem((written,), place, "is no key for the engine: write <namespace>:<name>"))
            if namespace not in ("", name):
                continue
            if key in values:
                first = documents[key][0].position(documents[key][1], key=True)
                message = f"{written} and {documents[key][1][-1]} (line {first.line}) are the same key: keep one"
                problems.append(Problem((key,), document.position(("config", written), key=True), message))
                continue
            values[key] = value
            documents[key] = (document, ("config", written))
    if problems:
        raise SettingsError(problems)
    for key, path, default in _defaults(project, name):
        if key not in values:
            values[key] = default
            documents[key] = (project, path)
    return Source(values, document.file, documents, (document, ("config",)))


def _misplaced_keys(document: Document) -> Iterator[Problem]:
    for key in document.value:
        if key not in ENGINE_KEYS:
            close = difflib.get_close_matches(key, ENGINE_KEYS, n=1)
            hint = f"Did you mean {close[0]}?" if close else "Settings stand under config:."
            place = document.position((key,), key=True)
            yield Problem((), place, f'unknown key "{key}". {hint} Allowed here: {", ".join(ENGINE_KEYS)}')


def _defaults(project: Document, name: str) -> Iterator[tuple[str, Path, Any]]:
    """Key, path and value of each default in the project's config schema that belongs to this project."""
    schema = project.value.get("config")
    if not isinstance(schema, dict):
        return
    for written, entry in schema.items():
        namespace, _, key = written.rpartition(":")
        if namespace not in ("", name):
            continue
        if not isinstance(entry, dict):
            yield key, ("config", written), entry  # the short form: `key: 5`
            continue
        for word in ("value", "default"):
            if entry.get(word) is not None:
                yield key, ("config", written, word), entry[word]
                break
