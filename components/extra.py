"""Further manifests that a stack file names: declared as they are, judged like everything else."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi import Resource, ResourceOptions
from triplane.components.kubernetes import KubernetesObject, manifests_of


class ExtraManifests(pulumi.ComponentResource):
    """The objects of `manifests:`."""

    def __init__(
        self,
        name: str,
        objects: Sequence[Mapping[str, Any]],
        *,
        depends_on: Sequence[Resource] = (),
        opts: ResourceOptions | None = None,
    ) -> None:
        super().__init__("triplane:extra:ExtraManifests", name, None, opts)
        for manifest in manifests_of("ExtraManifests", objects):
            metadata = manifest["metadata"]
            # Objects of one kind and name may stand in several namespaces; resources need names of their own.
            unique = f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else metadata["name"]
            KubernetesObject(manifest, name=unique, depends_on=depends_on, opts=ResourceOptions(parent=self))
        self.register_outputs({"count": len(objects)})
