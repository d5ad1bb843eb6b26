"""A manifest as a Pulumi resource of the Kubernetes provider, whatever its kind."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi import Resource, ResourceOptions

# A queue label on a live workload is not followed by KAI: its PodGroup keeps the queue it was made with (KAI 0.17,
# pkg/podgrouper/podgroup/handler.go). The levels of a Topology are immutable. Both take effect only in a new object.
_REPLACED_BY = {
    "Topology": ["spec.levels"],
    "Deployment": ['metadata.labels["kai.scheduler/queue"]'],
    "LeaderWorkerSet": ['metadata.labels["kai.scheduler/queue"]'],
}


def manifests_of(component: str, objects: Any) -> list[Mapping[str, Any]]:
    """What a component was given, if it is manifests. Raises TypeError that says what to write instead."""
    if isinstance(objects, Mapping) or not all(
        isinstance(o, Mapping) and {"apiVersion", "kind", "metadata"} <= o.keys() for o in objects
    ):
        raise TypeError(
            f"{component} takes a list of Kubernetes manifests (triplane.manifests makes them); GpuNodePool.of and "
            "QueueTree.of take settings as a stack file has them"
        )
    return list(objects)


class KubernetesObject(pulumi.CustomResource):
    """One Kubernetes object with exactly the fields of its manifest.

    pulumi_kubernetes' CustomResource takes `metadata` and `spec` only, and its typed classes cost a second to import.
    The provider knows a resource by its type token, which both of them build as this does.
    """

    def __init__(
        self,
        manifest: Mapping[str, Any],
        *,
        name: str | None = None,
        depends_on: Sequence[Resource] = (),
        opts: ResourceOptions | None = None,
    ) -> None:
        """The resource is named like the object, or `name`. Raises KeyError where the manifest has no identity."""
        api_version, kind = manifest["apiVersion"], manifest["kind"]
        group_version = api_version if "/" in api_version else f"core/{api_version}"
        options = ResourceOptions(depends_on=list(depends_on), replace_on_changes=_REPLACED_BY.get(kind))
        super().__init__(
            f"kubernetes:{group_version}:{kind}",
            name or manifest["metadata"]["name"],
            dict(manifest),
            ResourceOptions.merge(options, opts),
        )
