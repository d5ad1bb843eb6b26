"""What a run of a program declared, as plain values."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


class ProgramError(Exception):
    """The program ended with an error. `str()` is its message, with file and line unless the program wrote it."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that only the real engine and its providers would know."""

    def __str__(self) -> str:
        return "(known after the update)"


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret value. It never shows."""

    value: Any = field(repr=False)

    def __str__(self) -> str:
        return "(secret)"


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource as the program asked the engine for it."""

    urn: str
    type: str
    """`kubernetes:karpenter.sh/v1:NodePool`, `aws:sqs/queue:Queue`, `triplane:nodes:GpuNodePool` ..."""
    name: str
    inputs: Mapping[str, Any]
    """Plain values; whole numbers are int. Unknown and Secret where the value is one."""
    custom: bool
    """False for a component."""
    parent: str
    """URN; empty for the stack itself."""
    provider: str
    """URN of the provider; empty: the default one, or none."""
    depends_on: tuple[str, ...]
    """URNs."""
    protect: bool
    retain_on_delete: bool
    options: Mapping[str, Any]
    """Other options that were set: ignoreChanges, replaceOnChanges, deletedWith, aliases ..."""
    file: str
    """Of the line in the program's own folder that made the resource; empty when there is none."""
    line: int

    @property
    def manifest(self) -> dict[str, Any] | None:
        """The Kubernetes object that the resource is; None for anything else: a Helm release, a chart, a patch of an
        object that somebody else owns (the provider takes every kind that ends in Patch for one)."""
        package, _, rest = self.type.partition(":")
        group_version, _, kind = rest.rpartition(":")
        whole = package == "kubernetes" and not group_version.startswith("helm.sh/") and not kind.endswith("Patch")
        if not whole or "metadata" not in self.inputs:
            return None
        identity = {"apiVersion": group_version.removeprefix("core/"), "kind": kind}
        return {**identity, **self.inputs}


@dataclass(frozen=True)
class Recording:
    """Everything one run registered, in the order of the program."""

    project: str
    stack: str
    resources: tuple[Resource, ...]
    """Without the stack itself."""
    outputs: Mapping[str, Any]
    """What the program exports."""
    component_outputs: Mapping[str, Mapping[str, Any]]
    """By URN."""
    invokes: tuple[tuple[str, Mapping[str, Any]], ...]
    """Provider functions that were called: token and arguments."""

    @cached_property
    def by_urn(self) -> dict[str, Resource]:
        return {resource.urn: resource for resource in self.resources}

    @cached_property
    def by_parent(self) -> dict[str, list[Resource]]:
        """Children by their parent's URN; those of the stack under ""."""
        children: dict[str, list[Resource]] = {}
        for resource in self.resources:
            children.setdefault(resource.parent if resource.parent in self.by_urn else "", []).append(resource)
        return children

    def manifests(self) -> Iterator[tuple[Resource, dict[str, Any]]]:
        """The Kubernetes objects, each with its resource."""
        for resource in self.resources:
            if (manifest := resource.manifest) is not None:
                yield resource, manifest
