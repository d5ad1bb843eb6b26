"""Which pools are GPU pools, in every cloud's words; what Karpenter reads from a pool."""

from typing import Any

import pytest

from triplane.inventory import NodePool, Origin, Resource


def pool(
    spec: dict[str, Any] | None = None, requirements: list[dict[str, Any]] | None = None, **template: Any
) -> NodePool:
    body = {"template": {"spec": {"requirements": requirements or [], **template}}, **(spec or {})}
    return NodePool(Resource({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "spec": body}, Origin()))


def needs(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    "requirement",
    [
        needs("karpenter.k8s.aws/instance-gpu-name", "In", "h100"),
        needs("karpenter.k8s.aws/instance-gpu-count", "Gt", "0"),
        needs("karpenter.k8s.aws/instance-gpu-manufacturer", "Exists"),
        needs("eks.amazonaws.com/instance-gpu-name", "In", "l4"),
        needs("eks.amazonaws.com/instance-family", "In", "m5", "g5"),
        needs("karpenter.azure.com/sku-gpu-manufacturer", "In", "nvidia"),
        needs("karpenter.azure.com/sku-gpu-count", "Gt", "0"),
        needs("karpenter.azure.com/sku-family", "In", "N"),
        needs("karpenter.k8s.gcp/instance-gpu-name", "Exists"),
        needs("karpenter.k8s.gcp/instance-family", "In", "a3"),
        needs("karpenter.k8s.aws/instance-category", "In", "p"),
        needs("karpenter.k8s.aws/instance-family", "In", "gr6"),
        needs("node.kubernetes.io/instance-type", "In", "p6-b200.48xlarge"),
        needs("node.kubernetes.io/instance-type", "In", "Standard_NC24ads_A100_v4"),
        needs("node.kubernetes.io/instance-type", "In", "g2-standard-4"),
        needs("beta.kubernetes.io/instance-type", "In", "g6.xlarge"),
    ],
    ids=lambda r: f"{r['key'].split('/')[0]}:{r['operator']} {' '.join(r['values'])}",
)
def test_a_requirement_on_gpu_hardware_makes_a_gpu_pool(requirement: dict[str, Any]) -> None:
    assert pool(requirements=[requirement]).gpu


@pytest.mark.parametrize(
    "requirement",
    [
        needs("karpenter.k8s.aws/instance-family", "In", "m6i", "c5"),
        needs("karpenter.k8s.aws/instance-category", "NotIn", "g", "p"),
        needs("karpenter.k8s.aws/instance-gpu-count", "DoesNotExist"),
        needs("karpenter.k8s.aws/instance-gpu-count", "Lt", "1"),
        needs("karpenter.k8s.aws/instance-gpu-count", "In", "0"),
        needs("karpenter.azure.com/sku-family", "In", "D"),
        needs("node.kubernetes.io/instance-type", "In", "m7i.xlarge"),
        needs("example.com/instance-gpu-name", "In", "h100"),
    ],
    ids=lambda r: f"{r['key'].split('/')[1]}:{r['operator']} {' '.join(r['values'])}",
)
def test_other_requirements_do_not(requirement: dict[str, Any]) -> None:
    assert not pool(requirements=[requirement]).gpu


@pytest.mark.parametrize(
    ("spec", "template", "gpu"),
    [
        ({"limits": {"nvidia.com/gpu": "8"}}, {}, True),
        ({"limits": {"nvidia.com/mig-1g.20gb": 7}}, {}, True),
        ({"limits": {"amd.com/gpu": 8}}, {}, True),
        ({"limits": {"nvidia.com/gpu": 0}}, {}, False),
        ({"limits": {"cpu": 64}}, {}, False),
        ({}, {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}, True),
        ({}, {"taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]}, False),
        ({}, {}, False),
    ],
)
def test_limits_and_taints_say_it_too(spec: dict[str, Any], template: dict[str, Any], gpu: bool) -> None:
    assert pool(spec, **template).gpu is gpu


def test_an_explicit_exclusion_outweighs_every_sign() -> None:
    excluded = needs("karpenter.k8s.aws/instance-gpu-count", "DoesNotExist")
    assert not pool({"limits": {"nvidia.com/gpu": 8}}, [excluded]).gpu


@pytest.mark.parametrize(
    ("requirements", "possible"),
    [
        ([], True),
        ([needs("karpenter.k8s.aws/instance-category", "In", "c", "m")], False),
        ([needs("karpenter.k8s.aws/instance-category", "NotIn", "g", "gr", "p")], False),
        ([needs("karpenter.k8s.aws/instance-category", "NotIn", "g", "p")], True),
        ([needs("karpenter.k8s.aws/instance-gpu-count", "DoesNotExist")], False),
        ([needs("karpenter.k8s.aws/instance-family", "In", "m5")], False),
    ],
)
def test_whether_gpu_types_are_kept_out(requirements: list[dict[str, Any]], possible: bool) -> None:
    assert pool(requirements=requirements).may_have_gpus is possible


@pytest.mark.parametrize(
    ("budget", "zero"),
    [
        ({"nodes": "0"}, True),
        ({"nodes": "0%", "reasons": ["Underutilized"]}, True),
        ({"nodes": 0, "reasons": ["Underutilized"]}, True),
        ({"nodes": "0", "reasons": ["Drifted"]}, False),
        ({"nodes": "0", "reasons": []}, False),
        ({"nodes": "0", "schedule": "0 1 * * *", "duration": "8h"}, False),
        ({"nodes": "1"}, False),
        ({}, False),
    ],
)
def test_an_always_active_budget_of_zero(budget: dict[str, Any], zero: bool) -> None:
    assert pool({"disruption": {"budgets": [budget]}}).always_zero("Underutilized") is zero


@pytest.mark.parametrize(
    ("requirements", "types"),
    [
        ([], None),
        ([needs("karpenter.sh/capacity-type", "Exists")], None),
        ([needs("karpenter.sh/capacity-type", "In", "reserved", "on-demand")], {"reserved", "on-demand"}),
        ([needs("karpenter.sh/capacity-type", "NotIn", "spot")], {"reserved", "on-demand"}),
        ([needs("karpenter.sh/capacity-type", "In", "capacity-block")], set()),
    ],
)
def test_capacity_types_a_pool_states(requirements: list[dict[str, Any]], types: set[str] | None) -> None:
    assert pool(requirements=requirements).capacity_types == types


@pytest.mark.parametrize(
    ("written", "seconds"),
    [(None, 720 * 3600), ("Never", float("inf")), ("168h", 168 * 3600), ("1d", 720 * 3600), (7, 720 * 3600)],
)
def test_when_nodes_expire(written: Any, seconds: float) -> None:
    assert pool(expireAfter=written).expires == seconds


@pytest.mark.parametrize(
    ("budgets", "bounded"),
    [
        (None, True),
        ([], False),
        ([{"nodes": "1"}], True),
        ([{"nodes": "1", "reasons": ["Empty"]}], False),
        ([{"nodes": "0", "reasons": ["Drifted"], "schedule": "@daily", "duration": "1h"}], False),
        ([{"nodes": "5", "reasons": ["Drifted"]}], True),
    ],
)
def test_whether_drift_is_always_bounded(budgets: list[dict[str, Any]] | None, bounded: bool) -> None:
    spec = {} if budgets is None else {"disruption": {"budgets": budgets}}
    assert pool(spec).always_bounded("Drifted") is bounded


@pytest.mark.parametrize(
    ("requirement", "group", "on_aws"),
    [
        (needs("karpenter.k8s.aws/instance-family", "In", "p5"), "", True),
        (needs("eks.amazonaws.com/instance-family", "In", "p5"), "", True),
        (needs("node.kubernetes.io/instance-type", "In", "p5.48xlarge"), "karpenter.k8s.aws", True),
        (needs("karpenter.azure.com/sku-family", "In", "N"), "karpenter.azure.com", False),
        (needs("karpenter.k8s.gcp/instance-family", "In", "a3"), "karpenter.k8s.gcp", False),
    ],
)
def test_whose_nodes_are_ec2s(requirement: dict[str, Any], group: str, on_aws: bool) -> None:
    assert pool(requirements=[requirement], nodeClassRef={"group": group}).on_aws is on_aws
