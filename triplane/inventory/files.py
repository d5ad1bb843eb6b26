"""Files, folders and standard input as resources; what could not be read is listed, never dropped."""

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path as FilePath

from triplane.documents import Document, DocumentError, Path, Position, decode, read_documents, read_values
from triplane.documents.reading import MAX_FILE_BYTES
from triplane.inventory.comments import Comment, comments_of
from triplane.inventory.pulumi_documents import is_pulumi_document, pulumi_document
from triplane.inventory.resource import NotRead, Resource
from triplane.inventory.sources import resources_of

SUFFIXES = frozenset((".yaml", ".yml", ".json"))
# Folders that hold other people's files or a tool's own.
SKIPPED_FOLDERS = frozenset((".git", ".venv", "venv", "node_modules", ".terraform", ".pulumi", "__pycache__", ".tox"))

_TOO_LARGE = f"larger than {MAX_FILE_BYTES // 2**20} MiB: split it"
# Below it starting processes costs more than they save.
PROCESSES_FROM_FILES = 5000

STDIN = "<stdin>"
_HELM_SOURCE = "# Source: "


@dataclass(slots=True)
class Sources:
    """What reading found. `others` counts documents that are no Kubernetes objects at all (values files, workflows)."""

    resources: list[Resource] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    not_read: list[NotRead] = field(default_factory=list)
    files: int = 0
    others: int = 0
    pulumi_documents: int = 0
    """Exports and previews of the Pulumi CLI."""
    texts: dict[str, str] = field(default_factory=dict)
    """Text that cannot be read again: standard input."""

    def read_paths(self, paths: Iterable[str], jobs: int = 1, told: Callable[[int], None] | None = None) -> None:
        """Reads files, and the YAML and JSON files below folders, with `jobs` processes; 0: as many as pay.

        `told` hears how many files were read.
        """
        files = [file for path in paths for file in self._files(path)]
        if jobs == 0:
            jobs = (os.cpu_count() or 1) if len(files) >= PROCESSES_FROM_FILES else 1
        if jobs > 1 and len(files) > 1:
            self._read_in_processes(files, jobs, told)
            return
        for number, file in enumerate(files, 1):
            self._read_file(file)
            if told:
                told(number)

    def _read_in_processes(self, files: list[str], jobs: int, told: Callable[[int], None] | None) -> None:
        from concurrent.futures import ProcessPoolExecutor

        size = max(1, len(files) // (jobs * 8))
        chunks = [files[start : start + size] for start in range(0, len(files), size)]
        with ProcessPoolExecutor(min(jobs, len(chunks))) as pool:
            for read in pool.map(_read_chunk, chunks):
                self.resources += read.resources
                self.comments += read.comments
                self.not_read += read.not_read
                self.files += read.files
                self.others += read.others
                self.pulumi_documents += read.pulumi_documents
                if told:
                    told(self.files)

    def read_stream(self, data: bytes, file: str = STDIN) -> None:
        """Reads what came through a pipe."""
        if len(data) > MAX_FILE_BYTES:
            self._miss(file, _TOO_LARGE)
            return
        try:
            self.read_text(decode(data, file), file)
        except DocumentError as error:
            self.not_read.append(NotRead(error.position, error.message))

    def read_text(self, text: str, file: str = STDIN) -> None:
        """Reads YAML or JSON text, such as the output of helm template or kustomize build."""
        self.texts[file] = text
        self.files += 1
        self._take(text, file)

    def documents(self, file: str) -> list[Document]:
        """The documents of a file with the place of every path, up to the first that cannot be read."""
        if (text := self.texts.get(file)) is not None:
            return _documents(file, text)
        status = FilePath(file).stat()
        return _documents(file, (status.st_mtime_ns, status.st_size))

    def document(self, resource: Resource) -> Document | None:
        """The document a resource came from, with the place of every path; None if its source has no text."""
        origin = resource.origin
        if not origin.file or origin.line:
            return None
        documents = self.documents(origin.file)
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

    def template(self, resource: Resource) -> str | None:
        """The file of a Helm chart that an object was rendered from: helm template names it above each."""
        document = self.document(resource)
        if document is None:
            return None
        lines = self.text(resource.origin.file).splitlines()
        for line in reversed(lines[: document.start.line - 1]):
            if line.startswith(_HELM_SOURCE):
                return line.removeprefix(_HELM_SOURCE).strip()
            if line.strip() and not line.startswith(("#", "---")):
                return None
        return None

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
                    yield f"{folder}/{name}".removeprefix("./")

    def _read_file(self, file: str) -> None:
        self.files += 1
        try:
            with open(file, "rb", buffering=0) as opened:  # noqa: PTH123 - a Path and a buffer double the time
                status = os.fstat(opened.fileno())
                if not stat.S_ISREG(status.st_mode):
                    self._miss(file, "this is no regular file")
                    return
                data = opened.read() if status.st_size <= MAX_FILE_BYTES else b""
        except OSError as error:
            self._miss(file, error.strerror or str(error))
            return
        if status.st_size > MAX_FILE_BYTES:
            self._miss(file, _TOO_LARGE)
            return
        try:
            self._take(decode(data, file), file)
        except DocumentError as error:
            self.not_read.append(NotRead(error.position, error.message))

    def _take(self, text: str, file: str) -> None:
        starts: list[int] = []
        try:
            for index, (value, line) in enumerate(read_values(text, file)):
                starts.append(line)
                if is_pulumi_document(value):
                    found = pulumi_document(value, file, index)
                    self.pulumi_documents += 1
                    self.resources += found.resources
                    self.not_read += found.not_read
                    continue
                for resource in resources_of(value, file, index):
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


def _read_chunk(files: list[str]) -> "Sources":
    sources = Sources()
    sources.read_paths(files)
    return sources


@lru_cache(maxsize=32)
def _documents(file: str, state: str | tuple[int, int]) -> list[Document]:
    """The documents of a text that cannot be read again, or of a file in the state of that time and size."""
    found: list[Document] = []
    try:
        text = state if isinstance(state, str) else decode(FilePath(file).read_bytes(), file)
        found.extend(read_documents(text, file))
    except DocumentError:
        return found  # the fault was reported when the file was read; the documents before it keep their places
    return found
