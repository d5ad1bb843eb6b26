"""NodePools: every safe value written out, and what cannot be expressed refused."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from built_pools import build

from triplane import catalog
from triplane.manifests.identity import ManifestError

CrdErrors = Callable[[dict[str, Any]], list[str]]


def node_pool(*args: Any, **pool: Any) -> dict[str, Any]:
    spec: dict[str, Any] = build(*args, **pool)[-1]["spec"]
    return spec


def requirements(spec: dict[str, Any]) -> dict[str, list[str]]:
    assert all(r["operator"] == "In" for r in spec["template"]["spec"]["requirements"])
    return {r["key"]: r["values"] for r in spec["template"]["spec"]["requirements"]}


def test_a_bare_pool_is_written_out_in_full(crd_errors: CrdErrors) -> None:
    node_class, pool = build()
    assert crd_errors(node_class) == crd_errors(pool) == []
    assert pool == {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "serving"},
        "spec": {
            "limits": {"nvidia.com/gpu": "32", "nodes": "4"},
            "disruption": {
                "consolidationPolicy": "WhenEmpty",
                "consolidateAfter": "1h",
                "budgets": [
                    {"nodes": "0", "reasons": ["Underutilized"]},
                    {"nodes": "1", "reasons": ["Empty"]},
                    {"nodes": "0", "reasons": ["Drifted"]},
                ],
            },
            "template": {
                "metadata": {
                    "labels": {
                        "triplane.dev/pool": "serving",
                        "triplane.dev/purpose": "serving",
                        "nvidia.com/gpu.present": "true",
                    }
                },
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "serving"},
                    "requirements": [
                        {"key": "karpenter.k8s.aws/instance-gpu-name", "operator": "In", "values": ["h100"]},
                        {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "In", "values": ["8"]},
                        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                    ],
                    "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
                    "expireAfter": "Never",
                },
            },
        },
    }


@pytest.mark.parametrize(
    ("accelerator", "memory"), [("A100-40GB", ["40960"]), ("A100-80GB", ["81920"]), ("H100-SXM5", None)]
)
def test_memory_tells_gpus_of_one_name_apart(accelerator: str, memory: list[str] | None) -> None:
    assert requirements(node_pool(accelerator=accelerator)).get("karpenter.k8s.aws/instance-gpu-memory") == memory


@pytest.mark.parametrize(
    ("purpose", "capacity", "types"),
    [
        ("serving", {"reserved": ["cr-1"], "fallback": "on-demand"}, ["reserved", "on-demand"]),
        ("serving", {"reserved": ["cr-1"]}, ["reserved"]),
        ("training", {"blocks": ["cr-2"]}, ["reserved"]),
        ("batch", {"fallback": "spot"}, ["spot"]),
        ("serving", {"fallback": "on-demand"}, ["on-demand"]),
    ],
)
def test_capacity_types_and_selectors_go_together(purpose: str, capacity: dict[str, Any], types: list[str]) -> None:
    node_class, pool = build(purpose=purpose, capacity=capacity)
    assert requirements(pool["spec"])["karpenter.sh/capacity-type"] == types
    selected = {term["id"] for term in node_class["spec"].get("capacityReservationSelectorTerms", [])}
    assert selected == {*capacity.get("reserved", []), *capacity.get("blocks", [])}
    assert ("reserved" in types) == bool(selected)


def test_zones_labels_taints_weight_and_shard(crd_errors: CrdErrors) -> None:
    pool = build(
        zones=["us-east-1b", "us-east-1d", "us-east-1b"],
        labels={"team": "chat"},
        taints=[{"key": "team", "value": "chat"}, {"key": "nvidia.com/gpu", "value": "present"}],
        startupTaints=[{"key": "agent.example.com/starting", "effect": "NoExecute"}],
        weight=10,
        shard="h100",
    )[-1]
    assert crd_errors(pool) == []
    spec = pool["spec"]
    assert requirements(spec)["topology.kubernetes.io/zone"] == ["us-east-1b", "us-east-1d"]
    assert spec["weight"] == 10
    assert spec["template"]["metadata"]["labels"] == {
        "triplane.dev/pool": "serving",
        "triplane.dev/purpose": "serving",
        "nvidia.com/gpu.present": "true",
        "kai.scheduler/node-pool": "h100",
        "team": "chat",
    }
    assert spec["template"]["spec"]["taints"] == [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
        {"key": "team", "value": "chat", "effect": "NoSchedule"},
    ]
    assert spec["template"]["spec"]["startupTaints"] == [{"key": "agent.example.com/starting", "effect": "NoExecute"}]


def test_a_static_pool_limits_nodes_only(crd_errors: CrdErrors) -> None:
    pool = build(gates=("StaticCapacity",), nodes={"max": 5, "static": 4})[-1]
    assert crd_errors(pool) == []
    assert pool["spec"]["replicas"] == 4
    assert pool["spec"]["limits"] == {"nodes": "5"}
    assert "weight" not in pool["spec"]


def test_a_static_pool_may_fill_its_limit_where_drift_ends_the_old_node_first() -> None:
    gates = ("StaticCapacity", "TerminateFirstDrift")
    assert node_pool("1.15.0", gates, nodes={"max": 4, "static": 4})["replicas"] == 4


def test_a_freeze_changes_budgets_and_nothing_that_is_hashed_into_nodes() -> None:
    warm, frozen = build(), build(frozen=True)
    assert frozen[-1]["spec"]["disruption"]["budgets"] == [{"nodes": "0"}]
    frozen[-1]["spec"]["disruption"]["budgets"] = warm[-1]["spec"]["disruption"]["budgets"]
    assert frozen == warm


@pytest.mark.parametrize(("version", "covered"), [("1.9.0", False), ("1.14.1", False), ("1.15.0", True)])
def test_unhealthy_has_a_budget_where_the_schema_knows_it(version: str, covered: bool) -> None:
    reasons = {reason for budget in node_pool(version)["disruption"]["budgets"] for reason in budget["reasons"]}
    assert ("Unhealthy" in reasons) is covered


def test_an_existing_node_class_is_referred_to_and_not_declared() -> None:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "shared"}
    (pool,) = build(ami=None, nodeClass=reference)
    assert pool["spec"]["template"]["spec"]["nodeClassRef"] == reference


class TestAutoMode:
    """EKS Auto Mode: its own NodeClass, its own label domain, and 21 days for every node."""

    def test_one_domain_throughout(self, crd_errors: CrdErrors) -> None:
        node_class, pool = build(dialect="eks-auto", capacity={"reserved": ["cr-1"]}, tags={"team": "chat"})
        assert crd_errors(pool) == []
        assert node_class == {
            "apiVersion": "eks.amazonaws.com/v1",
            "kind": "NodeClass",
            "metadata": {"name": "serving"},
            "spec": {
                "role": "AutoNodes",
                "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "prod"}}],
                "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "prod"}}],
                "ephemeralStorage": {"size": "200Gi"},
                "capacityReservationSelectorTerms": [{"id": "cr-1"}],
                "tags": {"triplane.dev/pool": "serving", "team": "chat"},
            },
        }
        assert pool["spec"]["template"]["spec"]["nodeClassRef"] == {
            "group": "eks.amazonaws.com",
            "kind": "NodeClass",
            "name": "serving",
        }
        assert "karpenter.k8s.aws" not in str(pool)
        assert requirements(pool["spec"])["eks.amazonaws.com/instance-gpu-name"] == ["h100"]
        # Auto Mode runs its own device plugin; the label would call in another.
        assert "nvidia.com/gpu.present" not in pool["spec"]["template"]["metadata"]["labels"]

    @pytest.mark.parametrize(
        ("disruption", "expire", "grace"),
        [
            ({}, "504h", "24h"),
            ({"terminationGracePeriod": "2h"}, "504h", "2h"),
            ({"expireAfter": "7d", "terminationGracePeriod": "1h"}, "168h", "1h"),
        ],
    )
    def test_it_says_how_long_a_node_really_lives(self, disruption: dict[str, str], expire: str, grace: str) -> None:
        template = node_pool(dialect="eks-auto", disruption=disruption)["template"]["spec"]
        assert (template["expireAfter"], template["terminationGracePeriod"]) == (expire, grace)

    @pytest.mark.parametrize(
        ("overrides", "sentence"),
        [
            ({"purpose": "training"}, "replaces every node after at most 21 days"),
            ({"disruption": {"expireAfter": "Never"}}, "at most 504h"),
            ({"disruption": {"expireAfter": "30d", "terminationGracePeriod": "1h"}}, "at most 504h"),
            ({"disruption": {"expireAfter": "7d"}}, "set terminationGracePeriod as well"),
            ({"ami": "al2023@v20261115"}, "pools.serving.ami: not expressed here"),
            ({"efa": True, "zones": ["us-east-1b"]}, "pools.serving.efa: not expressed here"),
            ({"placementGroup": "pg", "zones": ["us-east-1b"]}, "pools.serving.placementGroup: not expressed here"),
            ({"storage": {"localNvme": False}}, "pools.serving.storage.localNvme: not expressed here"),
            (
                {"nodeClass": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "shared"}},
                "it needs NodeClass of eks.amazonaws.com",
            ),
        ],
    )
    def test_refused(self, overrides: dict[str, Any], sentence: str) -> None:
        with pytest.raises(ManifestError, match=re.escape(sentence)):
            build(dialect="eks-auto", **overrides)


STATIC = {"nodes": {"max": 5, "static": 4}, "gates": ("StaticCapacity",)}


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"gpusPerNode": 2}, "no instance type has 2 H100-SXM5; possible: 1 or 8"),
        ({"karpenter": "1.8.2"}, "1.8.2 is older than 1.9"),
        ({"ami": None}, "pools.serving.ami: name a release"),
        ({"capacity": {}}, "pools.serving.capacity: name a reservation, a block or a fallback"),
        ({"capacity": {"fallback": "spot"}}, "only purpose batch may use it"),
        ({"nodes": {"max": 5, "static": 4}}, "needs the feature gate StaticCapacity"),
        ({**STATIC, "weight": 5}, "pools.serving.weight"),
        ({**STATIC, "nodes": {"max": 4, "static": 4}}, "leaves no room above static: 4"),
        ({**STATIC, "nodes": {"max": 3, "static": 4}}, "leaves no room above static: 4"),
        # The gate exists from 1.15 on; before, the room is needed whatever the gate says.
        (
            {"nodes": {"max": 4, "static": 4}, "gates": ("StaticCapacity", "TerminateFirstDrift")},
            "leaves no room above static: 4",
        ),
        ({**STATIC, "karpenter": "1.10.0", "efa": True, "zones": ["us-east-1b"]}, "a static pool never looks at pods"),
        ({"efa": True}, "pools.serving.efa: needs exactly one zone in zones, found 0"),
        ({"efa": True, "zones": ["us-east-1b", "us-east-1d"]}, "exactly one zone in zones, found 2"),
        ({"accelerator": "L4", "gpusPerNode": 1, "efa": True, "zones": ["us-east-1b"]}, "g6.xlarge"),
        ({"placementGroup": "pg"}, "pools.serving.placementGroup: needs exactly one zone"),
        (
            {"karpenter": "1.10.0", "placementGroup": "pg", "zones": ["us-east-1b"]},
            "needs Karpenter 1.11, the stack declares 1.10.0",
        ),
        ({"taints": [{"key": "nvidia.com/gpu", "effect": "NoExecute"}]}, "has the effect NoSchedule"),
        ({"taints": [{"key": "a"}, {"key": "a", "value": "b"}]}, "a:NoSchedule stands twice"),
        ({"taints": [{"key": "a"}], "startupTaints": [{"key": "a"}]}, "a:NoSchedule stands twice"),
        ({"labels": {"triplane.dev/pool": "other"}}, "triplane.dev/pool is set by Karpenter or by this pool itself"),
        ({"labels": {"karpenter.sh/capacity-type": "spot"}}, "karpenter.sh/capacity-type is set"),
        ({"labels": {"kubernetes.io/hostname": "a"}}, "kubernetes.io/hostname is set"),
        ({"tags": {"karpenter.sh/nodepool": "x"}}, "'karpenter.sh/nodepool' cannot be set"),
        ({"tags": {"kubernetes.io/cluster/prod": "owned"}}, "cannot be set"),
        (
            {"nodeClass": {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "shared"}},
            "it needs EC2NodeClass of karpenter.k8s.aws",
        ),
        (
            {
                "nodeClass": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "shared"},
                "tags": {"team": "chat"},
            },
            "pools.serving: ami, tags belong to the NodeClass",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_place(overrides: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ManifestError, match=re.escape(sentence)):
        build(**overrides)


def test_unknown_and_refused_accelerators() -> None:
    with pytest.raises(catalog.UnknownName, match="did you mean H100-SXM5"):
        build(accelerator="H100-SXM4")
    with pytest.raises(catalog.UnknownName, match="ComputeDomains"):
        build(accelerator="GB200")
