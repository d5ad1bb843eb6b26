"""Which change replaces every node, and which none."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from built_pools import build

from triplane.manifests.drift import rolls_every_node, upgrade_rolls

Change = Callable[[dict[str, Any]], None]


def changed(original: dict[str, Any], change: Change) -> dict[str, Any]:
    edited = copy.deepcopy(original)
    change(edited["spec"])
    return edited


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda s: s["template"]["metadata"]["labels"].update(team="a"), "spec.template.metadata.labels.team"),
        (
            lambda s: s["template"]["metadata"].update(annotations={"a": "b"}),
            "spec.template.metadata.annotations.a",
        ),
        (lambda s: s["template"]["spec"]["taints"].append({"key": "a", "effect": "NoExecute"}), "spec.taints"),
        (lambda s: s["template"]["spec"].update(startupTaints=[{"key": "a", "effect": "NoExecute"}]), "startupTaints"),
        (lambda s: s["template"]["spec"].update(expireAfter="336h"), "spec.expireAfter"),
        (lambda s: s["template"]["spec"].update(terminationGracePeriod="1h"), "spec.terminationGracePeriod"),
        (lambda s: s["template"]["spec"]["nodeClassRef"].update(name="other"), "spec.nodeClassRef"),
        (lambda s: s["template"]["spec"]["requirements"][0].update(values=["h200"]), "instance-gpu-name allows none"),
        (lambda s: s.update(replicas=2), "spec.replicas"),
    ],
)
def test_a_node_pool_change_that_rolls(change: Change, path: str) -> None:
    pool = build()[-1]
    (reason,) = rolls_every_node(pool, changed(pool, change))
    assert path in reason
    assert rolls_every_node(changed(pool, change), pool)


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.update(weight=10),
        lambda s: s["limits"].update(nodes="9"),
        lambda s: s["disruption"].update(consolidateAfter="2h", budgets=[{"nodes": "0"}]),
        # Some nodes may drift, not all: the ones in the zone that stays do not.
        lambda s: s["template"]["spec"]["requirements"][0].update(values=["h200", "h100"]),
        lambda s: s["template"]["spec"]["requirements"].reverse(),
        lambda s: s["template"]["spec"]["taints"].reverse(),
        lambda s: s["template"]["spec"].update(startupTaints=[]),
        lambda s: None,
    ],
)
def test_a_node_pool_change_that_rolls_nothing(change: Change) -> None:
    pool = build(taints=[{"key": "a"}, {"key": "b"}])[-1]
    assert rolls_every_node(pool, changed(pool, change)) == ()


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda s: s["tags"].update(team="a"), "spec.tags"),
        (lambda s: s.update(userData="x"), "spec.userData"),
        (lambda s: s.update(role="other"), "spec.role"),
        (lambda s: s.pop("instanceStorePolicy"), "spec.instanceStorePolicy"),
        (lambda s: s["blockDeviceMappings"][0]["ebs"].update(volumeSize="300Gi"), "spec.blockDeviceMappings"),
        (lambda s: s["metadataOptions"].update(httpPutResponseHopLimit=2), "spec.metadataOptions"),
        (lambda s: s.update(placementGroupSelector={"name": "a"}), "spec.placementGroupSelector"),
        (
            lambda s: s.update(amiSelectorTerms=[{"alias": "al2023@v20261201"}]),
            "from al2023@v20261115 to al2023@v20261201",
        ),
    ],
)
def test_a_node_class_change_that_rolls(change: Change, path: str) -> None:
    node_class = build()[0]
    (reason,) = rolls_every_node(node_class, changed(node_class, change))
    assert path in reason


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s["subnetSelectorTerms"].append({"id": "subnet-1"}),
        lambda s: s.update(securityGroupSelectorTerms=[{"id": "sg-1"}]),
        lambda s: s.update(capacityReservationSelectorTerms=[{"id": "cr-9"}]),
        lambda s: s.update(ipPrefixCount=1),
        # What the server fills in by itself changes nothing.
        lambda s: s.pop("metadataOptions"),
        # Tags may find the same image.
        lambda s: s.update(amiSelectorTerms=[{"tags": {"team": "a"}}]),
    ],
)
def test_a_node_class_change_that_rolls_nothing_for_certain(change: Change) -> None:
    node_class = build()[0]
    assert rolls_every_node(node_class, changed(node_class, change)) == ()


def test_another_release_of_karpenter_rolls_what_it_writes_differently() -> None:
    before, after = (build(version, efa=True, zones=["us-east-1b"]) for version in ("1.10.0", "1.11.0"))
    assert any("networkInterfaces" in reason for reason in rolls_every_node(before[0], after[0]))
    assert rolls_every_node(before[1], after[1]) == ()


@pytest.mark.parametrize(
    ("before", "after", "rolls"),
    [
        ("1.11.2", "1.12.0", True),
        ("1.9.0", "1.14.1", True),
        ("1.12.0", "1.15.1", False),
        ("1.14.1", "1.11.0", True),
        ("1.12.0", "1.12.0", False),
    ],
)
def test_an_upgrade_alone_may_roll(before: str, after: str, rolls: bool) -> None:
    assert bool(upgrade_rolls(before, after)) is rolls


def test_other_kinds_and_other_objects() -> None:
    queue = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "q"}, "spec": {"a": 1}}
    assert rolls_every_node(queue, {**queue, "spec": {"a": 2}}) == ()
    node_class, pool = build()
    with pytest.raises(ValueError, match="two states of one object"):
        rolls_every_node(node_class, pool)
