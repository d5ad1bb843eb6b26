"""Karpenter's Helm release, as Pulumi, Flux and Argo CD write it."""

import pytest

from triplane.inventory import Inventory, Origin, Resource, Unknown
from triplane.inventory.installations import Gates, Karpenter, karpenters

VALUES = {"settings": {"interruptionQueue": "prod", "featureGates": {"nodeRepair": True, "staticCapacity": "true"}}}
RELEASES = [
    {"apiVersion": "helm.sh/v3", "kind": "Release", "spec": {"chart": "oci://x/karpenter/karpenter", "values": VALUES}},
    {
        "apiVersion": "helm.toolkit.fluxcd.io/v2",
        "kind": "HelmRelease",
        "spec": {"chart": {"spec": {"chart": "karpenter"}}, "values": VALUES},
    },
    {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "spec": {"source": {"chart": "karpenter", "helm": {"valuesObject": VALUES}}},
    },
]


def release(data: dict[str, object]) -> Karpenter:
    return Resource({**data, "metadata": {"name": "karpenter"}}, Origin()).view(Karpenter)


@pytest.mark.parametrize("data", RELEASES, ids=lambda data: data["kind"])
def test_every_kind_says_the_same(data: dict[str, object]) -> None:
    karpenter = release(data)
    assert karpenter.installs_karpenter
    assert karpenter.queue_name == "prod"
    assert karpenter.gates == {"NodeRepair", "StaticCapacity"}


@pytest.mark.parametrize("chart", ["karpenter-crd", "oci://x/karpenter/karpenter-crd", "keda", ""])
def test_other_charts_are_not_karpenter(chart: str) -> None:
    data = {"apiVersion": "helm.sh/v3", "kind": "Release", "metadata": {"name": "a"}, "spec": {"chart": chart}}
    inventory = Inventory([Resource(data, Origin())])
    assert list(karpenters(inventory)) == []
    assert inventory.relation(Gates).on == frozenset()


def test_a_queue_whose_name_is_not_known_yet_is_a_queue() -> None:
    values = {"settings": {"interruptionQueue": Unknown(("spec",))}}
    karpenter = release({**RELEASES[0], "spec": {"chart": "karpenter", "values": values}})
    assert karpenter.has_interruption_queue
    assert karpenter.queue_name is None


def test_without_an_affinity_the_charts_own_holds() -> None:
    assert release(RELEASES[0]).pod_spec is None
    own = release({**RELEASES[0], "spec": {"chart": "karpenter", "values": {"affinity": {}}}})
    assert own.pod_spec is not None
    assert own.pod_spec["tolerations"] == [{"key": "CriticalAddonsOnly", "operator": "Exists"}]
