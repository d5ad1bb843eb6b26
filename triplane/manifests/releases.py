"""Which Helm releases a stack installs, at which pinned version, with which values: Karpenter, KAI Scheduler and KEDA.

Values are read from the charts themselves: karpenter 1.9.0 to 1.14.1, kai-scheduler 0.16.0 to 0.17.0, keda 2.20.2.
"""

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from triplane.manifests import iam
from triplane.manifests.identity import ManifestError
from triplane.settings.cluster import ClusterSettings
from triplane.settings.platform import KaiSettings, KarpenterSettings, KedaSettings, PlatformSettings
from triplane.settings.values import version_key

Layer = Literal["nodes", "queues", "replicas"]
"""The layer whose custom resources need the release."""

# First chart with a value for the gate; Helm ignores a value that its chart does not know, without a word.
# 1.15 is known from its documentation, the others from the charts.
_GATE_SINCE: Final = {
    "CapacityBuffer": "1.14",
    "NodeOverlay": "1.9",
    "NodeRepair": "1.9",
    "ReservedCapacity": "1.9",
    "SpotToSpotConsolidation": "1.9",
    "StaticCapacity": "1.9",
    "TerminateFirstDrift": "1.15",
}
_KEEP: Final = {"helm.sh/resource-policy": "keep"}


@dataclass(frozen=True, kw_only=True)
class Readiness:
    """An object that the release brings along, and its status condition that says the controller serves."""

    api_version: str
    kind: str
    name: str
    condition: str


@dataclass(frozen=True, kw_only=True)
class HelmRelease:
    """One chart at one version. `repository` is None for a chart addressed by its registry (oci://)."""

    name: str
    layer: Layer
    chart: str
    version: str
    namespace: str
    repository: str | None = None
    values: dict[str, Any] = field(default_factory=dict)
    holds_definitions: bool = False
    """It is nothing but CustomResourceDefinitions: deleting it deletes every object of their kinds, so every node."""
    skip_crds: bool = False
    rolls_back: bool = True
    """Whether a failed upgrade may be rolled back to the release before."""
    ready: Readiness | None = None
    """What to wait for beyond Helm's own wait; None: the release's pods are the whole controller."""


def platform_releases(platform: PlatformSettings, cluster: ClusterSettings) -> tuple[HelmRelease, ...]:
    """The releases of the controllers whose `install` is set, each after what it needs.

    Raises ManifestError where the version names a line of releases only: "1.14" would install the newest of that day.
    """
    for name, controller in (("karpenter", platform.karpenter), ("kai", platform.kai), ("keda", platform.keda)):
        if controller.install and controller.version.count(".") != 2:
            raise ManifestError(
                f"platform.{name}.version: {controller.version} names no single release; to install it, "
                f'write one such as "{controller.version}.0"'
            )
    return (
        *(_karpenter(platform.karpenter, cluster) if platform.karpenter.install else ()),
        *((_kai(platform.kai),) if platform.kai.install else ()),
        *((_keda(platform.keda),) if platform.keda.install else ()),
    )


def _karpenter(karpenter: KarpenterSettings, cluster: ClusterSettings) -> tuple[HelmRelease, HelmRelease]:
    if cluster.dialect == "eks-auto":
        raise ManifestError("EKS Auto Mode runs its own Karpenter: leave platform.karpenter.install out")
    definitions = HelmRelease(
        name="karpenter-crd",
        layer="nodes",
        # Apart from the controller, since Helm never upgrades what a chart holds in its crds folder.
        chart="oci://public.ecr.aws/karpenter/karpenter-crd",
        version=karpenter.version,
        namespace=cluster.namespace,
        values={"additionalAnnotations": _KEEP},
        holds_definitions=True,
        rolls_back=False,
    )
    controller = HelmRelease(
        name="karpenter",
        layer="nodes",
        chart="oci://public.ecr.aws/karpenter/karpenter",
        version=karpenter.version,
        namespace=cluster.namespace,
        values=karpenter_values(karpenter, cluster),
        skip_crds=True,
    )
    return definitions, controller


def karpenter_values(karpenter: KarpenterSettings, cluster: ClusterSettings) -> dict[str, Any]:
    """Values of the karpenter chart. Raises ManifestError for a gate that the version's chart does not know."""
    known = {gate for gate, since in _GATE_SINCE.items() if version_key(karpenter.version) >= version_key(since)}
    if unknown := sorted(karpenter.gates - known):
        raise ManifestError(
            f"Karpenter {karpenter.version} has no gate {unknown[0]}: it came with {_GATE_SINCE[unknown[0]]}"
        )
    gates = {
        gate[0].lower() + gate[1:]: gate in karpenter.gates or gate == "ReservedCapacity" for gate in sorted(known)
    }
    own_nodes = {"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}
    return {
        "serviceAccount": {"name": iam.SERVICE_ACCOUNT},
        "replicas": 2,
        "settings": {
            "clusterName": cluster.name,
            # Empty switches interruption handling off. A name without a queue behind it stops the controller at start,
            # so it is set only where this stack declares the queue.
            "interruptionQueue": iam.queue_name(cluster.name) if iam.runs_on_aws(cluster) else "",
            "featureGates": gates,
        },
        # The chart sets none; the controller derives its memory limit for Go from here.
        "controller": {
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
        },
        # Never on a node that Karpenter itself made and may remove, least of all one with GPUs.
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [own_nodes]}]
                }
            }
        },
        "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
    }


def _kai(kai: KaiSettings) -> HelmRelease:
    return HelmRelease(
        name="kai-scheduler",
        layer="queues",
        chart="oci://ghcr.io/kai-scheduler/kai-scheduler/kai-scheduler",
        version=f"v{kai.version}",  # this chart's versions are git tags
        namespace="kai-scheduler",
        values={
            "global": {
                "gpuSharing": kai.gpu_sharing,
                # Fractions of a GPU mean nothing to Karpenter; with this KAI asks for a whole one in their place.
                "clusterAutoscaling": kai.gpu_sharing,
            },
            # The chart's own queue has no limit: a pod without a queue label would take every idle GPU.
            "defaultQueue": {"createDefaultQueue": False},
        },
        rolls_back=False,  # KAI does not support a Helm rollback
        # Helm waits for the operator alone. What the operator then deploys includes the webhook that every Queue has to
        # pass, which refuses while it is not up (failurePolicy Fail).
        ready=Readiness(api_version="kai.scheduler/v1", kind="Config", name="kai-config", condition="Available"),
    )


def _keda(keda: KedaSettings) -> HelmRelease:
    return HelmRelease(
        name="keda",
        layer="replicas",
        chart="keda",
        repository="https://kedacore.github.io/charts",
        version=keda.version,
        namespace="keda",
        values={
            # The definitions are among the chart's templates: an uninstall would delete every ScaledObject.
            "crds": {"install": True, "additionalAnnotations": _KEEP},
            # A second replica takes over while a node is replaced; without them every autoscaler holds still.
            "operator": {"replicaCount": 2},
            "metricsServer": {"replicaCount": 2},
            "podDisruptionBudget": {"operator": {"maxUnavailable": 1}, "metricServer": {"maxUnavailable": 1}},
        },
    )
