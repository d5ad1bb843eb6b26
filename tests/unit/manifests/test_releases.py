"""Which Helm releases a stack installs, and the values that make them safe."""

from typing import Any

import pytest

from triplane.manifests.identity import ManifestError
from triplane.manifests.releases import HelmRelease, karpenter_values, platform_releases
from triplane.settings.cluster import ClusterSettings
from triplane.settings.platform import KaiSettings, KarpenterSettings, KedaSettings, PlatformSettings


def cluster(**settings: Any) -> ClusterSettings:
    values = {"name": "prod", "context": "prod", "cloud": "eks", "region": "us-east-1", "kubernetes": "1.35"}
    return ClusterSettings(**(values | settings))


EVERYTHING = PlatformSettings(
    karpenter=KarpenterSettings(version="1.14.1", install=True),
    kai=KaiSettings(version="0.16.8", install=True),
    keda=KedaSettings(version="2.20.2", install=True),
)


def by_name(platform: PlatformSettings = EVERYTHING, **settings: Any) -> dict[str, HelmRelease]:
    return {release.name: release for release in platform_releases(platform, cluster(**settings))}


def test_nothing_is_installed_by_omission() -> None:
    assert platform_releases(PlatformSettings(), cluster()) == ()


@pytest.mark.parametrize(
    ("platform", "names"),
    [
        (PlatformSettings(karpenter=KarpenterSettings(install=True)), ["karpenter-crd", "karpenter"]),
        (PlatformSettings(kai=KaiSettings(install=True)), ["kai-scheduler"]),
        (PlatformSettings(keda=KedaSettings(install=True)), ["keda"]),
        (EVERYTHING, ["karpenter-crd", "karpenter", "kai-scheduler", "keda"]),
    ],
)
def test_each_controller_is_installed_alone_or_with_others(platform: PlatformSettings, names: list[str]) -> None:
    assert list(by_name(platform)) == names


@pytest.mark.parametrize(
    ("name", "chart", "version", "namespace", "layer"),
    [
        ("karpenter-crd", "oci://public.ecr.aws/karpenter/karpenter-crd", "1.14.1", "kube-system", "nodes"),
        ("karpenter", "oci://public.ecr.aws/karpenter/karpenter", "1.14.1", "kube-system", "nodes"),
        (
            "kai-scheduler",
            "oci://ghcr.io/kai-scheduler/kai-scheduler/kai-scheduler",
            "v0.16.8",
            "kai-scheduler",
            "queues",
        ),
        ("keda", "keda", "2.20.2", "keda", "replicas"),
    ],
)
def test_charts_are_pinned(name: str, chart: str, version: str, namespace: str, layer: str) -> None:
    release = by_name()[name]
    assert (release.chart, release.version, release.namespace, release.layer) == (chart, version, namespace, layer)
    assert (release.repository is None) == chart.startswith("oci://")


@pytest.mark.parametrize(
    "platform",
    [
        PlatformSettings(karpenter=KarpenterSettings(version="1.14", install=True)),
        PlatformSettings(kai=KaiSettings(version="0.16", install=True)),
        PlatformSettings(keda=KedaSettings(version="2.20", install=True)),
    ],
)
def test_a_line_of_releases_is_no_pin(platform: PlatformSettings) -> None:
    with pytest.raises(ManifestError, match=r"platform\.(karpenter|kai|keda)\.version: \S+ names no single release"):
        platform_releases(platform, cluster())


def test_a_version_without_patch_is_fine_where_nothing_is_installed() -> None:
    assert platform_releases(PlatformSettings(karpenter=KarpenterSettings(version="1.14")), cluster()) == ()


def test_definitions_outlive_their_release() -> None:
    """Removing a definition removes every object of its kind: NodePools with their nodes, ScaledObjects."""
    releases = by_name()
    keep = {"helm.sh/resource-policy": "keep"}
    assert [name for name, release in releases.items() if release.holds_definitions] == ["karpenter-crd"]
    assert releases["karpenter-crd"].values == {"additionalAnnotations": keep}
    assert releases["keda"].values["crds"] == {"install": True, "additionalAnnotations": keep}
    assert releases["karpenter"].skip_crds, "else the controller's chart installs definitions that nothing upgrades"


def test_rollbacks_happen_only_where_the_chart_survives_them() -> None:
    assert {name: release.rolls_back for name, release in by_name().items()} == {
        "karpenter-crd": False,
        "karpenter": True,
        "kai-scheduler": False,
        "keda": True,
    }


# --- karpenter ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cloud", "queue"), [("eks", "prod"), ("existing", "")], ids=["declared with the stack", "no queue to listen to"]
)
def test_karpenter_listens_to_the_queue_that_the_stack_declares(cloud: str, queue: str) -> None:
    settings = karpenter_values(KarpenterSettings(), cluster(cloud=cloud))["settings"]
    assert settings["clusterName"] == "prod"
    assert settings["interruptionQueue"] == queue


def test_karpenter_never_runs_on_a_node_it_made() -> None:
    values = karpenter_values(KarpenterSettings(), cluster())
    (term,) = values["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchExpressions": [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]}
    assert values["tolerations"] == [{"key": "CriticalAddonsOnly", "operator": "Exists"}], (
        "no toleration of a GPU taint"
    )
    assert values["replicas"] == 2
    assert values["serviceAccount"] == {"name": "karpenter"}


KNOWN = {"nodeOverlay", "nodeRepair", "reservedCapacity", "spotToSpotConsolidation", "staticCapacity"}


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("1.9.0", KNOWN),
        ("1.13.0", KNOWN),
        ("1.14.1", KNOWN | {"capacityBuffer"}),
        ("1.15.1", KNOWN | {"capacityBuffer", "terminateFirstDrift"}),
    ],
)
def test_every_gate_of_the_version_is_written_out(version: str, known: set[str]) -> None:
    gates = karpenter_values(KarpenterSettings(version=version), cluster())["settings"]["featureGates"]
    assert set(gates) == known
    assert [gate for gate, on in gates.items() if on] == ["reservedCapacity"]


def test_a_gate_that_is_set_is_on() -> None:
    karpenter = KarpenterSettings(version="1.14.1", gates=frozenset({"StaticCapacity", "NodeRepair"}))
    gates = karpenter_values(karpenter, cluster())["settings"]["featureGates"]
    assert {gate for gate, on in gates.items() if on} == {"reservedCapacity", "staticCapacity", "nodeRepair"}


@pytest.mark.parametrize(
    ("version", "gate", "since"), [("1.13.0", "CapacityBuffer", "1.14"), ("1.14.1", "TerminateFirstDrift", "1.15")]
)
def test_a_gate_that_the_chart_would_ignore_is_refused(version: str, gate: Any, since: str) -> None:
    with pytest.raises(ManifestError, match=f"Karpenter {version} has no gate {gate}: it came with {since}"):
        karpenter_values(KarpenterSettings(version=version, gates=frozenset({gate})), cluster())


def test_auto_mode_has_its_own_karpenter() -> None:
    with pytest.raises(ManifestError, match="Auto Mode"):
        platform_releases(EVERYTHING, cluster(dialect="eks-auto"))


# --- kai, keda ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["0.16.8", "0.17.0"])
@pytest.mark.parametrize("sharing", [False, True])
def test_kai_brings_no_queue_of_its_own_and_shares_only_when_asked(version: str, sharing: bool) -> None:
    kai = by_name(PlatformSettings(kai=KaiSettings(version=version, install=True, gpu_sharing=sharing)))[
        "kai-scheduler"
    ]
    assert kai.version == f"v{version}"
    assert kai.values == {
        "global": {"gpuSharing": sharing, "clusterAutoscaling": sharing},
        "defaultQueue": {"createDefaultQueue": False},
    }


def test_queues_wait_until_kai_serves_not_only_until_helm_is_done() -> None:
    ready = by_name()["kai-scheduler"].ready
    assert ready is not None
    assert (ready.api_version, ready.kind, ready.name) == ("kai.scheduler/v1", "Config", "kai-config")
    assert ready.condition == "Available"


def test_keda_survives_the_loss_of_a_node() -> None:
    values = by_name()["keda"].values
    assert values["operator"]["replicaCount"] == values["metricsServer"]["replicaCount"] == 2
    assert values["podDisruptionBudget"] == {"operator": {"maxUnavailable": 1}, "metricServer": {"maxUnavailable": 1}}
