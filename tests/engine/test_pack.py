"""Our policy pack stops any project's deployment on the real engine, not only that of our own program."""

import copy
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.engine.client import Client
from tools.engine.control_plane import ControlPlane
from tools.engine.deployment import Deployment, Run

HERE = Path(__file__).parent
PACK = str(HERE.parents[1] / "policies")

GPU_POOL: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "theirs"},
    "spec": {
        "disruption": {
            "budgets": [{"nodes": "1"}],
            "consolidateAfter": "1h",
            "consolidationPolicy": "WhenEmpty",
        },
        "limits": {"nvidia.com/gpu": "8"},
        "template": {
            "spec": {
                "expireAfter": "Never",
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "theirs"},
                "requirements": [
                    {"key": "karpenter.k8s.aws/instance-gpu-name", "operator": "In", "values": ["h100"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                ],
                "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
            }
        },
    },
}
SCALED_OBJECT: dict[str, Any] = {
    "apiVersion": "keda.sh/v1alpha1",
    "kind": "ScaledObject",
    "metadata": {"name": "theirs", "namespace": "default"},
    "spec": {
        "scaleTargetRef": {"name": "vllm"},
        "minReplicaCount": 1,
        "maxReplicaCount": 4,
        "triggers": [
            {
                "type": "prometheus",
                "metricType": "AverageValue",
                "metadata": {
                    "serverAddress": "http://prometheus.monitoring:9090",
                    "query": "sum(vllm:num_requests_waiting)",
                    "threshold": "4",
                    "ignoreNullValues": "false",
                },
            }
        ],
    },
}
HPA: dict[str, Any] = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "theirs", "namespace": "default"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "vllm"},
        "minReplicas": 1,
        "maxReplicas": 4,
        "metrics": [
            {
                "type": "Pods",
                "pods": {
                    "metric": {"name": "DCGM_FI_DEV_GPU_UTIL"},
                    "target": {"type": "AverageValue", "averageValue": "80"},
                },
            }
        ],
    },
}


def pool(**disruption: Any) -> dict[str, Any]:
    changed = copy.deepcopy(GPU_POOL)
    changed["spec"]["disruption"] |= disruption
    return changed


def scaler(query: str) -> dict[str, Any]:
    changed = copy.deepcopy(SCALED_OBJECT)
    changed["spec"]["triggers"][0]["metadata"]["query"] = query
    return changed


@pytest.fixture
def deploy(
    tmp_path: Path, cluster: ControlPlane, deployment: Callable[[Path, str], Deployment]
) -> Callable[[dict[str, Any]], Run]:
    """Deploys one object by another project's program, with our pack."""

    def make(item: dict[str, Any]) -> Run:
        project = tmp_path / "objects"
        shutil.copytree(HERE / "projects" / "objects", project)
        (project / ".venv").symlink_to(sys.prefix)
        (project / "objects.json").write_text(json.dumps([item]))
        made = deployment(project, "theirs")
        made.environment = {"KUBECONFIG": str(cluster.kubeconfig)}
        return made.up("--policy-pack", PACK)

    return make


@pytest.mark.parametrize("item", [GPU_POOL, SCALED_OBJECT], ids=["NodePool", "ScaledObject"])
def test_safe_objects_are_deployed(deploy: Callable[[dict[str, Any]], Run], api: Client, item: dict[str, Any]) -> None:
    run = deploy(item).succeeded()
    assert run.violations == []
    assert api.get(item) is not None
    api.delete(item)


@pytest.mark.parametrize(
    ("item", "rule"),
    [
        (pool(consolidationPolicy="WhenEmptyOrUnderutilized"), "NP101"),
        (pool(consolidationPolicy="WhenEmptyOrUnderutilized", budgets=[{"nodes": "100%"}]), "NP101"),
        (scaler("avg(DCGM_FI_DEV_GPU_UTIL)"), "AS401"),
        (HPA, "AS401"),
    ],
    ids=["underutilized", "underutilized with a wide budget", "duty cycle by KEDA", "duty cycle by HPA"],
)
def test_traps_are_stopped(
    deploy: Callable[[dict[str, Any]], Run], api: Client, item: dict[str, Any], rule: str
) -> None:
    run = deploy(item)
    assert run.code == 1
    assert {violation["policyName"] for violation in run.violations} == {rule}
    assert rule in run.output
    assert api.get(item) is None
