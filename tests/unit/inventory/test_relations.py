"""What relates objects: scaler and target, workload and queue, pods and pools, names and metrics."""

from typing import Any

import pytest
import yaml

from triplane.inventory import Inventory, NodePool, Scaler, resources_of
from triplane.inventory.metrics import MetricAliases
from triplane.inventory.nodeclasses import NodeClasses
from triplane.inventory.placement import Placement, admits, tolerates
from triplane.inventory.queueing import Queueing, queue_of
from triplane.inventory.queues import QueueTree
from triplane.inventory.scaling import Scaling
from triplane.inventory.workloads import Workload


def inventory(text: str) -> Inventory:
    return Inventory(r for i, value in enumerate(yaml.safe_load_all(text)) for r in resources_of(value, "x.yaml", i))


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat, namespace: serving, labels: {kai.scheduler/queue: chat}}
spec:
  replicas: 3
  template: {spec: {schedulerName: kai-scheduler, containers: [{name: c, resources: {limits: {nvidia.com/gpu: 2}}}]}}
"""


@pytest.mark.parametrize(
    ("scaler", "found", "bounds"),
    [
        ("{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, spec: {scaleTargetRef: {name: chat}}}", True, (0, 100)),
        (
            "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, "
            "spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: chat}, maxReplicas: 7}}",
            True,
            (1, 7),
        ),
        (
            "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, "
            "spec: {scaleTargetRef: {kind: Deployment, name: chat}, maxReplicas: 7}}",
            True,
            (1, 7),
        ),
        (
            "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, "
            "spec: {scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: chat}, maxReplicas: 7}}",
            False,
            (3, 3),
        ),
    ],
)
def test_a_scaler_and_its_target(scaler: str, found: bool, bounds: tuple[int, int]) -> None:
    data = yaml.safe_load(scaler)
    data["metadata"] = {"name": "chat", "namespace": "serving"}
    seen = inventory(DEPLOYMENT + "---\n" + yaml.safe_dump(data))
    scaling = seen.relation(Scaling)
    (one,) = seen.views(Scaler)
    (workload,) = seen.views(Workload)
    assert (scaling.target(one) is workload.resource) is found
    assert (scaling.minimum(workload)[0], scaling.maximum(workload)[0]) == bounds


def test_the_default_namespace_may_be_left_out() -> None:
    text = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: chat, namespace: default}}"
    scaler = (
        "{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: x}, spec: {scaleTargetRef: {name: chat}}}"
    )
    seen = inventory(f"{text}\n---\n{scaler}")
    (one,) = seen.views(Scaler)
    assert seen.relation(Scaling).target(one) is not None
    assert seen.relation(Scaling).scalers_of(seen.resources[0]) == [one]


def test_relations_are_built_once() -> None:
    seen = inventory(DEPLOYMENT)
    assert seen.relation(Scaling) is seen.relation(Scaling)


QUEUES = """
{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: org}, spec: {resources: {gpu: {quota: -1, limit: -1}}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: chat}
spec: {parentQueue: org, resources: {gpu: {quota: 8.0}}}
---
{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: a}, spec: {parentQueue: b}}
---
{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: b}, spec: {parentQueue: a}}
"""


def test_the_queue_tree() -> None:
    tree = inventory(QUEUES).relation(QueueTree)
    assert [queue.name for queue in tree.way_up("chat")] == ["chat", "org"]
    assert {queue.name for queue in tree.below("org")} == {"org", "chat"}
    assert tree.is_leaf("chat") and not tree.is_leaf("org")
    assert tree.in_cycle("a") and not tree.in_cycle("chat")
    assert [queue.name for queue in tree.way_up("a")] == ["a", "b"]
    chat, org = tree.queues["chat"].share("gpu"), tree.queues["org"].share("gpu")
    assert (chat.quota, chat.limit, chat.written) == (8, 0, {"quota"})
    assert org.quota == org.limit == float("inf")


@pytest.mark.parametrize(
    ("labels", "pod", "preemptible"),
    [
        ({}, {}, False),
        ({}, {"priorityClassName": "train"}, True),
        ({"priorityClassName": "train"}, {}, True),
        ({"priorityClassName": "unheard-of"}, {}, False),
        ({"kai.scheduler/preemptibility": "preemptible"}, {}, True),
        ({}, {"priorityClassName": "house-batch"}, True),
    ],
)
def test_whether_kai_may_preempt_a_deployment(labels: dict[str, str], pod: dict[str, str], preemptible: bool) -> None:
    data: dict[str, Any] = yaml.safe_load(DEPLOYMENT)
    data["metadata"]["labels"] |= labels
    data["spec"]["template"]["spec"] |= pod
    house = "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: house-batch}, value: 40}"
    seen = inventory(yaml.safe_dump(data) + "---\n" + house)
    (workload,) = seen.views(Workload)
    assert seen.relation(Queueing).preemptible(workload) is preemptible
    assert queue_of(workload) == "chat"


def test_a_queue_label_without_the_scheduler_is_no_membership() -> None:
    seen = inventory(DEPLOYMENT.replace("schedulerName: kai-scheduler, ", ""))
    assert queue_of(next(iter(seen.views(Workload)))) == ""


@pytest.mark.parametrize(
    ("toleration", "yes"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists"}, True),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, True),
        ({"key": "k", "operator": "Equal", "value": "other"}, False),
        ({"key": "k", "value": "v", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({}, False),
    ],
)
def test_tolerations(toleration: dict[str, str], yes: bool) -> None:
    assert tolerates((toleration,), {"key": "k", "value": "v", "effect": "NoSchedule"}) is yes


POOL = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: h100}
spec:
  limits: {nvidia.com/gpu: 8}
  template:
    metadata: {labels: {team: chat}}
    spec:
      taints: [{key: nvidia.com/gpu, effect: NoSchedule}, {key: soft, effect: PreferNoSchedule}]
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: h100}
      requirements:
        - {key: topology.kubernetes.io/zone, operator: In, values: [a, b]}
        - {key: size, operator: Exists}
        - {key: karpenter.k8s.aws/instance-gpu-count, operator: Gt, values: ["3"]}
"""


@pytest.mark.parametrize(
    ("key", "operator", "values", "yes"),
    [
        ("team", "In", ("chat",), True),
        ("team", "In", ("train",), False),
        ("team", "NotIn", ("chat",), False),
        ("topology.kubernetes.io/zone", "In", ("b", "c"), True),
        ("topology.kubernetes.io/zone", "In", ("c",), False),
        ("topology.kubernetes.io/zone", "NotIn", ("a", "b"), False),
        ("kubernetes.io/arch", "In", ("arm64",), True),
        ("unheard-of", "In", ("x",), False),
        ("unheard-of", "DoesNotExist", (), True),
        ("size", "In", ("any",), True),
        ("karpenter.k8s.aws/instance-gpu-count", "In", ("8",), True),
        ("karpenter.k8s.aws/instance-gpu-count", "In", ("2",), False),
        ("karpenter.sh/nodepool", "In", ("h100",), True),
        ("karpenter.sh/nodepool", "In", ("l4",), False),
        ("nvidia.com/gpu.product", "In", ("NVIDIA-H100",), True),
    ],
)
def test_labels_a_pool_admits(key: str, operator: str, values: tuple[str, ...], yes: bool) -> None:
    (pool,) = inventory(POOL).views(NodePool)
    assert admits(pool, key, operator, values) is yes


def test_pods_and_pools() -> None:
    other = POOL.replace("name: h100}", "name: twin}").replace("{team: chat}", "{team: train}")
    pod = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  tolerations: [{key: nvidia.com/gpu, operator: Exists}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
          - matchExpressions: [{key: team, operator: In, values: [nobody]}]
          - matchExpressions: [{key: team, operator: In, values: [train]}]
  containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]
"""
    seen = inventory("---".join((POOL, other, pod)))
    (workload,) = seen.views(Workload)
    placement = seen.relation(Placement)
    assert [pool.resource.name for pool in placement.pools(workload.templates[0])] == ["twin"]
    (no,) = [fit for fit in placement.fits(workload.templates[0]) if not fit.possible]
    assert no.misfits == (("label", "team"),)


def test_like_pools_are_told_apart_by_name() -> None:
    pod = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  tolerations: [{operator: Exists}]
  nodeSelector: {karpenter.sh/nodepool: twin}
  containers: [{name: c}]
"""
    seen = inventory("---".join((POOL, POOL.replace("name: h100}", "name: twin}"), pod)))
    (workload,) = seen.views(Workload)
    assert [pool.resource.name for pool in seen.relation(Placement).pools(workload.templates[0])] == ["twin"]


def test_a_pool_and_its_class() -> None:
    text = "{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: h100}}"
    seen = inventory(POOL + "---\n" + text)
    (pool,) = seen.views(NodePool)
    found = seen.relation(NodeClasses).of(pool)
    assert found is not None and found.resource.name == "h100"
    assert seen.relation(NodeClasses).pools(found) == [pool]


@pytest.mark.parametrize(
    ("rules", "name", "chain"),
    [
        ([("a", "avg(DCGM_FI_DEV_GPU_UTIL)")], "a", "a <- DCGM_FI_DEV_GPU_UTIL"),
        ([("a", "b + 1"), ("b", "DCGM_FI_DEV_GPU_UTIL")], "a", "a <- b <- DCGM_FI_DEV_GPU_UTIL"),
        ([("a", "b"), ("b", "a")], "a", "None"),
        ([("a", "label_replace(DCGM_FI_DEV_GPU_UTIL, 'x', '$1', 'y', '(.*)')")], "A", "A <- DCGM_FI_DEV_GPU_UTIL"),
        ([("a:b", "DCGM_FI_DEV_GPU_UTIL")], "a_b", "a_b <- DCGM_FI_DEV_GPU_UTIL"),
        ([("a", "vllm:num_requests_waiting")], "a", "None"),
        ([("a", "not ( promql")], "a", "None"),
    ],
)
def test_recorded_names(rules: list[tuple[str, str]], name: str, chain: str) -> None:
    recorded = [{"record": record, "expr": expr} for record, expr in rules]
    rule = {"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule", "metadata": {"name": "r"}}
    rule["spec"] = {"groups": [{"name": "g", "rules": recorded}]}  # type: ignore[assignment]
    aliases = inventory(yaml.safe_dump(rule)).relation(MetricAliases)
    assert str(aliases.chain(name, "duty-cycle")) == chain
