"""One object of an inventory, and where it was found."""

from dataclasses import dataclass
from typing import Any, TypeVar

from triplane.documents import Path, Position
from triplane.inventory.fields import NOTHING


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an object was found. `file` and `document` (counted from 0) for text; `urn` for a Pulumi resource.

    `within` is the path of the object inside its document, for the items of a List. `line` and `column` are set when
    the source itself knows them: the user's program, for a recorded resource. `ignored` are the property paths that an
    update leaves alone (Pulumi's ignoreChanges).
    """

    file: str = ""
    document: int = 0
    within: Path = ()
    urn: str = ""
    line: int = 0
    column: int = 0
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NotRead:
    """Something of the input that could not be judged, and why."""

    position: Position
    reason: str

    def __str__(self) -> str:
        return f"{self.position}  {self.reason}"


View = TypeVar("View")


class Resource:
    """A Kubernetes object, or another Pulumi resource in the same shape (its properties under `spec`).

    `kind` is written as kubectl does: `NodePool.karpenter.sh`, `Pod` for the core group.
    """

    __slots__ = ("_views", "api_version", "data", "kind", "kind_name", "name", "namespace", "origin")

    def __init__(self, data: dict[str, Any], origin: Origin) -> None:
        self.data = data
        self.origin = origin
        self.api_version = _text_or_nothing(data.get("apiVersion"))
        self.kind_name = _text_or_nothing(data.get("kind"))
        group = self.api_version.rpartition("/")[0]
        self.kind = f"{self.kind_name}.{group}" if group else self.kind_name
        metadata = data.get("metadata")
        if metadata.__class__ is not dict:
            metadata = NOTHING
        # A name the engine has yet to choose is no name: relations to it stay unresolved.
        self.name = _text_or_nothing(metadata.get("name")) or _text_or_nothing(metadata.get("generateName"))
        self.namespace = _text_or_nothing(metadata.get("namespace"))
        self._views: dict[type, Any] = {}

    @property
    def version(self) -> str:
        """`v1` of `karpenter.sh/v1`."""
        return self.api_version.rpartition("/")[2]

    def view(self, kind: type[View]) -> View:
        """This object read as `kind` (NodePool, Scaler, Workload ...); built once."""
        found = self._views.get(kind)
        if found is None:
            found = self._views[kind] = kind(self)  # type: ignore[call-arg]
        return found

    def __str__(self) -> str:
        return f"{self.kind_name}/{self.name or '(unnamed)'}"

    def __repr__(self) -> str:
        return f"<{self.api_version} {self.kind_name} {self.namespace or '-'}/{self.name}>"


def _text_or_nothing(value: Any) -> str:
    return value if value.__class__ is str else ""
