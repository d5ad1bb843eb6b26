"""Nodes: a GPU NodePool and its NodeClass."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi import Resource, ResourceOptions
from pydantic import TypeAdapter
from triplane.components.kubernetes import KubernetesObject, manifests_of

from triplane.manifests import nodes
from triplane.settings.cluster import ClusterSettings
from triplane.settings.platform import PlatformSettings
from triplane.settings.pools import PoolSettings
from triplane.settings.values import Name


class GpuNodePool(pulumi.ComponentResource):
    """One pool's NodeClass, where the stack declares it, and its NodePool.

    Deleting either drains and terminates the pool's nodes, outside every disruption budget (Karpenter 1.14), so both
    are protected unless the caller says otherwise: `pulumi state unprotect` is the second thought.
    """

    def __init__(
        self,
        name: str,
        objects: Sequence[Mapping[str, Any]],
        *,
        protect: bool = True,
        depends_on: Sequence[Resource] = (),
        opts: ResourceOptions | None = None,
    ) -> None:
        """`objects` are manifests in the order to create them; see `of` for making them from settings."""
        super().__init__("triplane:nodes:GpuNodePool", name, None, opts)
        waited = depends_on
        for manifest in manifests_of("GpuNodePool", objects):
            options = ResourceOptions(parent=self, protect=protect or None)
            waited = [KubernetesObject(manifest, depends_on=waited, opts=options)]
        self.register_outputs({"nodePool": name})

    @classmethod
    def of(
        cls,
        name: str,
        pool: PoolSettings | Mapping[str, Any],
        *,
        cluster: ClusterSettings | Mapping[str, Any],
        platform: PlatformSettings | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> "GpuNodePool":
        """A pool from its settings, in the words of a stack file:

            GpuNodePool.of("h100", {"purpose": "serving", "accelerator": "H100-SXM5", ...}, cluster={...})

        Raises pydantic.ValidationError for settings that are no pool, ManifestError for what Karpenter cannot do.
        """
        objects = nodes.pool_manifests(
            TypeAdapter(Name).validate_python(name),
            PoolSettings.model_validate(pool),
            ClusterSettings.model_validate(cluster),
            PlatformSettings.model_validate(platform or {}),
        )
        return cls(name, objects, **options)
