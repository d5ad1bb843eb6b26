"""The Kubernetes objects of a recorded program in a folder: one file an object, always whole."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from triplane.documents import Position, decode, read_documents
from triplane.documents.folders import MARKER, FolderError, write_folder
from triplane.documents.writing import yaml_text
from triplane.program.recorded import Recording, Secret, Unknown
from triplane.settings.problems import Problem, SettingsError

# Longest file name that every file system takes, less the ending.
_NAME_BYTES = 240
_HEADER = "# Written by triplane preview --write. The next one replaces every file listed here.\n"


@dataclass(frozen=True)
class Written:
    """What a folder holds that was written before."""

    stack: str
    karpenter: str
    """Release of Karpenter that the stack declared."""
    objects: tuple[dict[str, Any], ...]


def write_manifests(folder: Path, recording: Recording, stack: str, karpenter: str) -> list[str]:
    """Writes every Kubernetes object of `recording` exactly as recorded. Returns what could not be written, and why.

    An object with a secret, or with a value that only the update will know, stays out: a file without it would pass
    for the object. Raises FolderError, OSError.
    """
    left_out: list[str] = []
    objects: list[dict[str, Any]] = []
    for resource, manifest in recording.manifests():
        reason = next(_not_plain(manifest), None)
        if reason:
            left_out.append(f"{manifest['kind']} {resource.name}: {reason}")
        else:
            objects.append(manifest)
    files = dict(zip(_file_names(objects), map(yaml_text, objects), strict=True))
    if (folder / MARKER).is_file() and (before := read_written(folder).stack) != stack:
        raise FolderError(
            f"{folder} holds stack {before}, and this is {stack}: name another folder, or remove that one"
        )
    marker = yaml_text({"stack": stack, "karpenter": karpenter, "files": sorted(files)}, sort_keys=False)
    write_folder(folder, files, _HEADER + marker)
    return left_out


def read_written(folder: Path) -> Written:
    """The objects of a folder that `write_manifests` wrote. Raises SettingsError, DocumentError, OSError."""
    if not (folder / MARKER).is_file():
        message = "is no folder that triplane preview --write wrote"
        raise SettingsError([Problem((), Position(str(folder)), message)])
    match _documents(folder / MARKER):
        case [{"stack": str(stack), "karpenter": str(karpenter), "files": list(names)}]:
            objects = tuple(
                _object(value, folder / str(name)) for name in names for value in _documents(folder / str(name))
            )
            return Written(stack, karpenter, objects)
        case _:
            raise _damaged(folder / MARKER, "does not list what was written")


def _object(value: Any, path: Path) -> dict[str, Any]:
    match value:
        case {"apiVersion": str(), "kind": str(), "metadata": {"name": str()}}:
            return dict(value)
        case _:
            raise _damaged(path, "is no Kubernetes object any more")


def _damaged(path: Path, how: str) -> SettingsError:
    return SettingsError([Problem((), Position(str(path)), f"{how}: write the folder anew with preview --write")])


def _documents(path: Path) -> list[Any]:
    return [document.value for document in read_documents(decode(path.read_bytes(), str(path)), str(path))]


def _not_plain(value: Any, place: str = "") -> Iterator[str]:
    if isinstance(value, Unknown):
        yield f"{place} is known only after an update"
    elif isinstance(value, Secret):
        yield f"{place} is a secret"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _not_plain(item, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _not_plain(item, f"{place}[{index}]")


def _file_names(objects: list[dict[str, Any]]) -> Iterator[str]:
    """`nodepool.serving.yaml`, `scaledobject.chat.chat-decode.yaml`; with the API group where that is not unique."""
    short = [_file_name(manifest) for manifest in objects]
    taken: set[str] = set()
    for manifest, name in zip(objects, short, strict=True):
        if short.count(name) > 1:
            name = _file_name(manifest, manifest["apiVersion"].partition("/")[0])
        if name in taken:
            name = _file_name(manifest, hashlib.sha256(yaml_text(manifest).encode()).hexdigest()[:8])
        taken.add(name)
        yield f"{name}.yaml"


def _file_name(manifest: Mapping[str, Any], group: str = "") -> str:
    metadata = manifest["metadata"]
    parts = (manifest["kind"], group, metadata.get("namespace"), metadata.get("name") or metadata.get("generateName"))
    # Lower case, since some file systems do not tell cases apart; quoted, since names of RBAC objects may hold a colon.
    name = quote(".".join(part for part in parts if part).lower(), safe="")
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return name if len(name) <= _NAME_BYTES else f"{name[: _NAME_BYTES - 9]}-{digest}"
