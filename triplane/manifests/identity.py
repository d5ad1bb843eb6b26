"""Which object is which: the identity of a Kubernetes object, and the error for objects that cannot be."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class ManifestError(ValueError):
    """A set of objects that Kubernetes or a controller would refuse. `str()` is one whole sentence a line."""


class Identity(NamedTuple):
    """What names an object on a cluster. `namespace` is None where the manifest states none."""

    api_version: str
    kind: str
    namespace: str | None
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @property
    def group(self) -> str:
        """The API group; empty for the core one."""
        return self.api_version.rpartition("/")[0]

    @property
    def same_object(self) -> tuple[str, str, str, str]:
        """Equal for two manifests of one object: a group's versions are views of it, and no namespace means `default`.

        (A cluster-scoped kind states no namespace in either manifest, so the stand-in changes nothing there.)
        """
        return (self.group, self.kind, self.namespace or "default", self.name)


def identify(manifest: Mapping[str, Any]) -> Identity:
    """The identity of a complete manifest. Raises ManifestError when it lacks apiVersion, kind or metadata.name."""
    metadata = manifest.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    fields = {
        "apiVersion": manifest.get("apiVersion"),
        "kind": manifest.get("kind"),
        "metadata.name": metadata.get("name"),
    }
    for field, value in fields.items():
        if not isinstance(value, str) or not value:
            raise ManifestError(f"a Kubernetes object needs {field} as text, found {value!r}")
    namespace = metadata.get("namespace")
    if namespace is not None and (not isinstance(namespace, str) or not namespace):
        raise ManifestError(f"metadata.namespace must be text, found {namespace!r}")
    return Identity(str(fields["apiVersion"]), str(fields["kind"]), namespace, str(fields["metadata.name"]))
