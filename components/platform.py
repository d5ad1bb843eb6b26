"""The controllers a stack installs: Karpenter, KAI Scheduler and KEDA as pinned Helm releases, each optional.

pulumi_kubernetes' Helm support is imported when a release is made: a stack that installs nothing never loads it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pulumi
from pulumi import Resource, ResourceOptions

from triplane.manifests.releases import HelmRelease, Layer, Readiness, platform_releases
from triplane.settings.cluster import ClusterSettings
from triplane.settings.platform import PlatformSettings

if TYPE_CHECKING:
    from pulumi_kubernetes.helm.v3 import Release

TIMEOUT_SECONDS = 600
"""How long Helm waits for a release's pods: twice its default, since a first pull of images takes minutes."""


class Platform:
    """What the three layers stand on, and what their objects therefore wait for.

    `dependencies(layer)` are the resources that objects of the layer depend on. `destroy` goes the other way: a
    NodePool is deleted while Karpenter still runs, so that its finalizer finishes.
    """

    def __init__(
        self,
        name: str,
        *,
        platform: PlatformSettings,
        cluster: ClusterSettings,
        nodes_after: Sequence[Resource] = (),
        opts: ResourceOptions | None = None,
    ) -> None:
        """`nodes_after` is what Karpenter and its NodePools wait for: `KarpenterOnAws`, where the stack has one.

        Pass the cluster's explicit Kubernetes provider in `opts`. Declares nothing where nothing is to be installed.
        Raises ManifestError for what a chart cannot do (`triplane.manifests.releases`).
        """
        releases = platform_releases(platform, cluster)
        self._nodes_after = tuple(nodes_after)
        self.component: PlatformReleases | None = None
        if releases:
            self.component = PlatformReleases(
                name, releases, nodes_after=nodes_after, protect=cluster.protect, opts=opts
            )

    def dependencies(self, layer: Layer) -> list[Resource]:
        """What objects of the layer ("nodes", "queues" or "replicas") wait for; empty where it is all there already."""
        waited = list(self._nodes_after) if layer == "nodes" else []
        return waited + (self.component.ready[layer] if self.component else [])


class PlatformReleases(pulumi.ComponentResource):
    """The Helm releases, in order. `ready` is what the objects of each layer wait for."""

    ready: dict[Layer, list[Resource]]

    def __init__(
        self,
        name: str,
        releases: Sequence[HelmRelease],
        *,
        nodes_after: Sequence[Resource] = (),
        protect: bool = True,
        opts: ResourceOptions | None = None,
    ) -> None:
        """`protect` refuses to delete the releases of definitions; they are left in the cluster even so."""
        super().__init__("triplane:platform:Platform", name, None, opts)
        self._protect_definitions = protect
        self.ready = {"nodes": [], "queues": [], "replicas": []}
        for release in releases:
            earlier = self.ready[release.layer]
            first = nodes_after if release.layer == "nodes" and not release.holds_definitions else ()
            installed = self._release(release, [*first, *earlier])
            earlier.append(installed)
            if release.ready is not None:
                earlier.append(wait_for(release.ready, opts=ResourceOptions(parent=self, depends_on=[installed])))
        self.register_outputs({"releases": {release.name: release.version for release in releases}})

    def _release(self, release: HelmRelease, after: Sequence[Resource]) -> "Release":
        from pulumi_kubernetes.helm.v3 import Release

        return Release(
            release.name,
            # Fixed: left to the engine it would be karpenter-1a2b3c, which renames the chart's objects, among them the
            # service account that has the pod identity.
            name=release.name,
            chart=release.chart,
            version=release.version,
            namespace=release.namespace,
            create_namespace=release.namespace != "kube-system",
            repository_opts={"repo": release.repository} if release.repository else None,
            values=release.values,
            skip_crds=release.skip_crds,
            atomic=release.rolls_back,
            timeout=TIMEOUT_SECONDS,
            opts=ResourceOptions(
                parent=self,
                depends_on=list(after),
                protect=(self._protect_definitions and release.holds_definitions) or None,
                retain_on_delete=release.holds_definitions or None,
            ),
        )


def wait_for(ready: Readiness, *, opts: ResourceOptions) -> Resource:
    """A resource that is made when the condition is true: a patch of an object that is not ours, of the wait alone."""
    from pulumi_kubernetes.apiextensions import CustomResourcePatch

    return CustomResourcePatch(
        f"{ready.name}-{ready.condition.lower()}",
        api_version=ready.api_version,
        kind=ready.kind,
        metadata={
            "name": ready.name,
            "annotations": {
                "pulumi.com/waitFor": f"condition={ready.condition}",
                "pulumi.com/timeoutSeconds": str(TIMEOUT_SECONDS),
            },
        },
        opts=opts,
    )
