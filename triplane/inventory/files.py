"""Files, folders and standard input as resources; what could not be read is listed, never dropped."""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path as FilePath

from triplane.documents import Document, DocumentError, Path, Position, decode, read_documents
from triplane.inventory.comments import Comment, comments_of
from triplane.inventory.resource import Resource
from triplane.inventory.sources import resources_of

SUFFIXES = frozenset((".yaml", ".yml", ".json"))
# Folders that hold other people's files or a tool's own.
SKIPPED_FOLDERS = frozenset((".git", ".venv", "venv", "node_modules", ".terraform", ".pulumi", "__pycache__", ".tox"))
# A manifest of 64 MiB is an export of a cluster gone wrong; parsing it would take gigabytes.
MAX_FILE_BYTES = 64 * 2**20

STDIN = "<stdin>"


@dataclass(frozen=True, slots=True)
class NotRead:
    """Something of the input that could not be judged, and why."""

    position: Position
    reason: str

    def __str__(self) -> str:
        return f"{self.position}  {self.reason}"


@dataclass(slots=True)
class Sources:
    """What reading found. `others` counts documents that are no Kubernetes objects at all (values files, workflows)."""

    resources: list[Resource] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    not_read: list[NotRead] = field(default_factory=list)
    files: int = 0
    others: int = 0
    texts: dict[str, str] = field(default_factory=dict)
    """Text that cannot be read again: standard input."""

    def read_paths(self, paths: Iterable[str]) -> None:
        """Reads files, and the YAML and JSON files below folders."""
        for path in paths:
            for file in self._files(path):
                self._read_file(file)

    def read_text(self, text: str, file: str = STDIN) -> None:
        """Reads YAML or JSON text, such as the output of helm template or kustomize build."""
        self.texts[file] = text
        self.files += 1
        self._take(text, file)

    def document(self, resource: Resource) -> Document | None:
        """The document a resource came from, with the place of every path; None if its source has no text."""
        origin = resource.origin
        if not origin.file or origin.line:
            return None
        documents = _documents(self.texts.get(origin.file) or FilePath(origin.file).read_bytes(), origin.file)
        return documents[origin.document] if origin.document < len(documents) else None

    def position(self, resource: Resource, path: Path) -> Position | None:
        """Where a path of a resource stands: the value, or the nearest parent that exists. None: there is no text."""
        origin = resource.origin
        if origin.line:
            return Position(origin.file, origin.line, origin.column)
        document = self.document(resource)
        return document.position((*origin.within, *path)) if document else None

    def text(self, file: str) -> str:
        """The text of a file that was read."""
        return self.texts.get(file) or decode(FilePath(file).read_bytes(), file)

    def _files(self, path: str) -> Iterator[str]:
        try:
            mode = FilePath(path).stat().st_mode
        except OSError as error:
            self._miss(path, error.strerror or str(error))
            return
        if not stat.S_ISDIR(mode):
            yield path
            return
        # Links to folders are not followed: that is how a walk never ends.
        for folder, folders, files in os.walk(
            path, onerror=lambda e: self._miss(str(e.filename), e.strerror or str(e))
        ):
            folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
            for name in sorted(files):
                if name[name.rfind(".") :] in SUFFIXES:
                    yield f"{folder}/{name}" if folder != "." else name

    def _read_file(self, file: str) -> None:
        self.files += 1
        try:
            with FilePath(file).open("rb") as opened:
                if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                    self._miss(file, "this is no regular file")
                    return
                data = opened.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            self._miss(file, error.strerror or str(error))
            return
        if len(data) > MAX_FILE_BYTES:
            self._miss(file, f"larger than {MAX_FILE_BYTES // 2**20} MiB: split it")
            return
        try:
            self._take(decode(data, file), file)
        except DocumentError as error:
            self.not_read.append(NotRead(error.position, error.message))

    def _take(self, text: str, file: str) -> None:
        starts: list[int] = []
        try:
            for index, document in enumerate(read_documents(text, file)):
                starts.append(document.start.line)
                for resource in resources_of(document.value, file, index):
                    self._keep(resource)
        except DocumentError as error:
            self.not_read.append(NotRead(error.position, error.message))
        self.comments.extend(comments_of(text, file, starts))

    def _keep(self, resource: Resource) -> None:
        if resource.kind_name and resource.api_version:
            self.resources.append(resource)
            return
        if not resource.kind_name and not resource.api_version:
            self.others += 1
            return
        missing = "apiVersion" if resource.kind_name else "kind"
        place = self.position(resource, ()) or Position(resource.origin.file)
        self.not_read.append(NotRead(place, f"this object has no {missing}"))

    def _miss(self, file: str, reason: str) -> None:
        self.not_read.append(NotRead(Position(file), reason))


@lru_cache(maxsize=32)
def _documents(text: str | bytes, file: str) -> list[Document]:
    """The documents of a text with their places, up to the first that cannot be read."""
    found: list[Document] = []
    try:
        found.extend(read_documents(decode(text, file) if isinstance(text, bytes) else text, file))
    except DocumentError:
        return found  # the fault was reported when the file was read; the documents before it keep their places
    return found
