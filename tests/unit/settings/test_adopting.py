"""A stack file from what exists: the same objects again where they were safe, and a list of all that differs."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from triplane.documents import Dialect, read_documents
from triplane.manifests.fleet import fleet_manifests
from triplane.settings import StackSettings
from triplane.settings.adopting import Adopted, adopt

ROOT = Path(__file__).parents[3]

UNSAFE = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [p5.48xlarge]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand, spot]}
        - {key: karpenter.k8s.aws/instance-hypervisor, operator: In, values: [nitro]}
status: {nodes: 3}
"""

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: chat-decode
  namespace: serve
  labels: {llm-d.ai/model: chat, llm-d.ai/role: decode}
spec:
  template:
    metadata: {labels: {kai.scheduler/queue: chat-decode}}
    spec:
      nodeSelector: {triplane.dev/pool: serving}
      containers:
        - image: vllm/vllm-openai:v0.12.0
          args: [serve, nvidia/Llama-3.3-70B-Instruct-FP8, --tensor-parallel-size=4]
          resources: {limits: {nvidia.com/gpu: 4}}
          startupProbe: {failureThreshold: 42, periodSeconds: 10}
"""

SCALER = """
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: decode-scaler, namespace: serve}
spec:
  scaleTargetRef: {name: chat-decode}
  minReplicaCount: 2
  maxReplicaCount: 6
  triggers:
    - type: prometheus
      metadata: {query: 'sum(vllm:kv_cache_usage_perc{pod=~"chat-decode.*"})', threshold: "0.7"}
"""


def objects_of(name: str) -> list[dict[str, Any]]:
    return fleet_manifests(StackSettings.load(name, ROOT)).objects


def adopted(objects: list[dict[str, Any]]) -> Adopted:
    return adopt(objects, cluster="here", context="here", kubernetes="1.35")


def loads(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text))


def stack_of(result: Adopted) -> dict[str, Any]:
    (document,) = read_documents(result.text, "stack.yaml", Dialect.PULUMI)
    config: dict[str, Any] = document.value["config"]
    return config


def told(result: Adopted) -> list[str]:
    return [str(note) for note in result.inexpressible]


@pytest.mark.parametrize("name", ["dev", "staging", "prod"])
def test_what_triplane_wrote_comes_back_as_it_was(name: str) -> None:
    before = objects_of(name)
    result = adopted(before)
    assert result.problems == ()
    again = fleet_manifests(StackSettings.from_config(stack_of(result), "written")).objects
    kept = [item for item in before if item["kind"] in ("NodePool", "EC2NodeClass", "Queue")]
    by_identity = {(item["kind"], item["metadata"]["name"]): item for item in again}
    for item in kept:
        found = copy.deepcopy(by_identity[item["kind"], item["metadata"]["name"]])
        expected = copy.deepcopy(item)
        for one in (found, expected):  # roles and discovery carry the cluster's name, windows are listed as lost
            one["spec"].pop("role", None)
            one["spec"].pop("subnetSelectorTerms", None)
            one["spec"].pop("securityGroupSelectorTerms", None)
            one["spec"].get("disruption", {}).pop("budgets", None)
        assert found == expected


def test_text_reads_back_as_the_same_values() -> None:
    pool = loads(UNSAFE)[0]
    labels = {"a": "1e3", "b": "0o17", "c": "yes", "d": "12:30", "e": "2026-12-01", "f": "null", "g": "true"}
    pool["spec"]["template"]["metadata"] = {"labels": labels}
    assert stack_of(adopted([pool]))["pools"]["gpu"]["labels"] == labels


def test_an_unsafe_pool_becomes_safe_and_every_change_is_told() -> None:
    result = adopted(loads(UNSAFE))
    assert stack_of(result)["pools"]["gpu"] == {
        "purpose": "batch",
        "accelerator": "H100-SXM5",
        "gpusPerNode": 8,
        "nodes": {"max": 3},
        "nodeClass": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "capacity": {"fallback": "spot"},
    }
    assert told(result) == [
        "NodePool gpu: purpose: batch is a guess, since spot is allowed: serving, training or batch",
        "NodePool gpu spec.limits: no limit in nodes or GPUs: nodes: {max: 3} is what runs now, or 1",
        "NodePool gpu spec.template.spec.nodeClassRef: default is referred to, not declared",
        "NodePool gpu spec.template.spec.requirements: spot and on-demand: spot alone now",
        "NodePool gpu spec.disruption.consolidationPolicy: left out, which is WhenEmptyOrUnderutilized: WhenEmpty now",
        "NodePool gpu spec.disruption.consolidateAfter: 0s: 15m now",
        "NodePool gpu spec.template.spec.expireAfter: 720h: Never now",
        "NodePool gpu spec.template.spec.taints: nvidia.com/gpu:NoSchedule is missing: there now",
        "NodePool gpu spec.template.spec.requirements: karpenter.k8s.aws/instance-hypervisor In is left out",
    ]
    for note in told(result):
        assert f"# - {note}\n" in result.text
    assert result.problems == ()


@pytest.mark.parametrize(
    ("requirements", "message"),
    [
        ([{"key": "karpenter.k8s.aws/instance-gpu-name", "operator": "In", "values": ["h100"]}], "1 x H100-SXM5, 8 x"),
        (
            [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["p5.48xlarge", "p5e.48xlarge"]}],
            "one",
        ),
        ([], "asks for no GPU: left out"),
    ],
)
def test_a_pool_of_no_one_shape_is_left_out(requirements: list[dict[str, Any]], message: str) -> None:
    pool = loads(UNSAFE)[0]
    pool["spec"]["template"]["spec"]["requirements"] = requirements
    result = adopted([pool])
    assert stack_of(result)["pools"] == {}
    assert any(message in note for note in told(result))
    assert any(problem.startswith("pools: is empty") for problem in result.problems)
    assert "# To correct before it loads:" in result.text


def test_static_pools_need_their_gate() -> None:
    pool = loads(UNSAFE)[0]
    pool["spec"] |= {"replicas": 2, "limits": {"nodes": "3"}}
    result = adopted([pool])
    assert stack_of(result)["pools"]["gpu"]["nodes"] == {"max": 3, "static": 2}
    assert stack_of(result)["platform"]["karpenter"]["gates"] == ["StaticCapacity"]
    assert result.problems == ()


def queue(name: str, parent: str = "", **resources: Any) -> dict[str, Any]:
    spec = {"parentQueue": parent, "resources": resources}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def test_queues_keep_their_units_and_lose_what_no_queue_can_mean() -> None:
    objects = [
        *loads(UNSAFE),
        queue(
            "a",
            gpu={"quota": 1.5, "limit": -1, "overQuotaWeight": 2},
            cpu={"quota": 64000, "limit": -1, "overQuotaWeight": 1},
            memory={"quota": 68719.48, "limit": 0},
        ),
        queue("b", gpu={"quota": 4}),
        queue("c", "gone", gpu={"quota": 0, "limit": 8, "overQuotaWeight": 1}),
        queue("x", "y"),
        queue("y", "x"),
    ]
    result = adopted(objects)
    assert stack_of(result)["queues"] == {
        "a": {
            "gpus": {"quota": 1, "limit": "unlimited", "weight": 2},
            "cpu": {"quota": "64000m", "limit": "unlimited", "weight": 1},
            "memory": {"quota": "68719M", "limit": 0, "weight": 0},
        },
        "b": {
            "gpus": {"quota": 4, "weight": 0},
            "cpu": {"quota": 0, "limit": 0, "weight": 0},
            "memory": {"quota": 0, "limit": 0, "weight": 0},
        },
        "c": {
            "gpus": {"quota": 0, "limit": 8},
            "cpu": {"quota": 0, "limit": 0, "weight": 0},
            "memory": {"quota": 0, "limit": 0, "weight": 0},
        },
    }
    assert [note for note in told(result) if note.startswith("Queue")] == [
        "Queue a spec.resources.gpu.quota: 1.5 is no whole number of GPUs: 1 now",
        "Queue b spec.resources.gpu.limit: 0 blocks every GPU pod: the quota now",
        "Queue x spec.parentQueue: is its own ancestor: left out",
        "Queue y spec.parentQueue: is its own ancestor: left out",
        "Queue c spec.parentQueue: gone is missing: top-level now",
    ]


def test_a_scaler_whose_target_tells_what_it_serves_becomes_a_role() -> None:
    result = adopted([*objects_of("prod"), *loads(DEPLOYMENT), *loads(SCALER)])
    assert stack_of(result)["models"] == {
        "chat": {
            "model": "nvidia/Llama-3.3-70B-Instruct-FP8",
            "engine": {"name": "vllm", "version": "0.12.0"},
            "namespace": "serve",
            "coldStart": "7m",
            "roles": {
                "decode": {
                    "pool": "serving",
                    "queue": "chat-decode",
                    "gpus": 4,
                    "replicas": {"min": 2, "max": 6},
                    "signal": {"kvUsage": "70%"},
                    "target": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat-decode"},
                }
            },
        }
    }
    assert any("its successor is chat-decode: delete it first" in note for note in told(result))
    assert [problem for problem in result.problems if "prefill and decode together" in problem]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("kv_cache_usage_perc", "DCGM_FI_DEV_GPU_UTIL", "its query is none that a signal stands for"),
        (
            "sum(vllm:kv_cache_usage_perc",
            "avg(DCGM_FI_DEV_GPU_UTIL",
            "it scales on DCGM_FI_DEV_GPU_UTIL, which says nothing",
        ),
        ("  maxReplicaCount: 6\n", "", "it has no maximum"),
        ("name: chat-decode}", "name: gone}", "its target, Deployment gone, is not among the objects"),
        ("vllm/vllm-openai:v0.12.0", "own:latest", "no container tells engine, version and model"),
        ("triplane.dev/pool: serving", "a: b", "its pods select none of the adopted pools"),
        ("kai.scheduler/queue: chat-decode", "a: b", "its pods carry no label kai.scheduler/queue"),
        ("nvidia.com/gpu: 4", "cpu: 4", "its pods ask for no whole GPU"),
        ("startupProbe", "livenessProbe", "no startup probe tells how long"),
    ],
)
def test_a_scaler_that_says_too_little_is_left_and_told(old: str, new: str, reason: str) -> None:
    text = DEPLOYMENT + "---" + SCALER
    assert old in text
    result = adopted([*objects_of("prod")[:4], *loads(text.replace(old, new))])
    assert "models" not in stack_of(result)
    assert any(note.startswith("ScaledObject serve/decode-scaler: ") and reason in note for note in told(result))
