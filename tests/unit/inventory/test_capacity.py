"""Gangs, the room of pools, which pods meet on which pools, and what is asked of queues."""

import math
from typing import Any

import pytest
import yaml

from triplane.inventory import Inventory, NodePool, resources_of
from triplane.inventory.capacity import Landing, Reservations, node_sizes, reserved_gpus, room
from triplane.inventory.gangs import gang_of
from triplane.inventory.nodeclasses import CapacityReservation
from triplane.inventory.placement import Placement
from triplane.inventory.queueing import QueueDemand, Queueing
from triplane.inventory.queues import QueueTree
from triplane.inventory.resource import Origin, Resource
from triplane.inventory.workloads import Workload
from triplane.rules.example import examples


def inventory(text: str) -> Inventory:
    return Inventory(r for i, value in enumerate(yaml.safe_load_all(text)) for r in resources_of(value, "x.yaml", i))


def pool(name: str = "p", limits: str = "{}", requirements: str = "[]", more: str = "") -> str:
    return f"""
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: {name}}}
spec:
  limits: {limits}
  template: {{metadata: {{labels: {{pool: {name}}}}}, spec: {{requirements: {requirements}}}}}
  {more}
"""


P5 = "[{key: node.kubernetes.io/instance-type, operator: In, values: [p5.48xlarge]}]"
COUNT = "[{key: karpenter.k8s.aws/instance-gpu-count, operator: In, values: ['4', '8']}]"
H100 = "[{key: karpenter.k8s.aws/instance-gpu-name, operator: In, values: [h100]}]"
NOT_BIG = f"[{H100[1:-1]}, {{key: karpenter.k8s.aws/instance-gpu-count, operator: Lt, values: ['8']}}]"
UNHEARD_OF = "[{key: node.kubernetes.io/instance-type, operator: In, values: [z9.large]}]"


@pytest.mark.parametrize(
    ("requirements", "table", "sizes"),
    [
        (P5, {}, (8,)),
        (COUNT, {}, (4, 8)),
        (NOT_BIG, {}, (1,)),
        (UNHEARD_OF, {}, ()),
        (UNHEARD_OF, {"z9.large": {"nvidia.com/gpu": 3}}, (3,)),
    ],
)
def test_gpus_of_a_node(requirements: str, table: dict[str, Any], sizes: tuple[int, ...]) -> None:
    (view,) = inventory(pool(requirements=requirements)).views(NodePool)
    assert node_sizes(view, table) == sizes


@pytest.mark.parametrize(
    ("limits", "more", "gpus", "each", "pods"),
    [
        ("{nvidia.com/gpu: 24}", "", 24, 8, 3),
        ("{nvidia.com/gpu: 20}", "", 20, 8, 2),
        ("{nvidia.com/gpu: 32}", "", 32, 3, 8),
        ("{nodes: 2}", "", 16, 4, 4),
        ("{nvidia.com/gpu: 64, nodes: 2}", "", 16, 4, 4),
        ("{}", "replicas: 3", 24, 8, 3),
        ("{}", "", math.inf, 8, math.inf),
    ],
)
def test_room_of_a_pool(limits: str, more: str, gpus: float, each: float, pods: float) -> None:
    (view,) = inventory(pool(limits=limits, requirements=P5, more=more)).views(NodePool)
    found = room(view, {})
    assert (found.gpus, found.pods(each)) == (gpus, pods)


def workload(kind: str, version: str, spec: str, annotations: str = "{}") -> Workload:
    data = {"apiVersion": version, "kind": kind, "metadata": {"name": "w", "annotations": yaml.safe_load(annotations)}}
    return Resource(data | {"spec": yaml.safe_load(spec)}, Origin()).view(Workload)


TEMPLATE = "template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 2}}}]}}"
RAY = f"{{groupName: g, replicas: 4, minReplicas: 1, numOfHosts: 2, {TEMPLATE}}}"
CLIQUE = "podSpec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 2}}}]}"


@pytest.mark.parametrize(
    ("found", "together", "pods", "gpus"),
    [
        (workload("Deployment", "apps/v1", f"{{replicas: 4, {TEMPLATE}}}"), False, 1, 2),
        (workload("Job", "batch/v1", f"{{parallelism: 4, {TEMPLATE}}}"), False, 1, 2),
        (workload("Job", "batch/v1", f"{{parallelism: 4, {TEMPLATE}}}"), True, 4, 8),
        (workload("Job", "batch/v1", f"{{{TEMPLATE}}}", '{kai.scheduler/batch-min-member: "3"}'), False, 3, 6),
        (workload("RayCluster", "ray.io/v1", f"{{workerGroupSpecs: [{RAY}]}}"), False, 2, 4),
        (
            workload(
                "PodCliqueSet",
                "grove.io/v1alpha1",
                f"{{template: {{cliques: [{{name: a, spec: {{replicas: 4, minAvailable: 3, {CLIQUE}}}}}]}}}}",
            ),
            False,
            3,
            6,
        ),
        (
            workload(
                "PyTorchJob",
                "kubeflow.org/v1",
                "{elasticPolicy: {minReplicas: 2}, "
                f"pytorchReplicaSpecs: {{Master: {{{TEMPLATE}}}, Worker: {{replicas: 8, {TEMPLATE}}}}}}}",
            ),
            False,
            3,
            6,
        ),
        (workload("Deployment", "apps/v1", "{}"), False, 0, 0),
    ],
)
def test_pods_that_must_be_placed_at_once(found: Workload, together: bool, pods: int, gpus: float) -> None:
    gang = gang_of(found, together)
    assert (gang.pods, gang.gpus) == (pods, gpus)


def pod(name: str, selector: str, more: str = "") -> str:
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}{more}}}
spec: {{nodeSelector: {selector}, containers: [{{name: c, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]}}
"""


def test_pods_meet_where_they_can_land_on_the_same_pools() -> None:
    seen = inventory(
        "---".join(
            (
                pool("a", requirements=P5),
                pool("b", requirements=P5),
                pod("one", "{pool: a}"),
                pod("two", "{pool: a}"),
                pod("both", "{node.kubernetes.io/instance-type: p5.48xlarge}"),
                pod("nowhere", "{pool: c}"),
                pod("made", "{pool: a}", ", ownerReferences: [{kind: ReplicaSet, controller: true}]"),
            )
        )
    )
    landing = seen.relation(Landing)
    found = {
        tuple(p.resource.name for p in place.pools): [w.resource.name for w in place.workloads]
        for place in landing.destinations
    }
    assert found == {("a",): ["one", "two"], ("a", "b"): ["both"]}
    assert [len(group) for group in landing.together()] == [2]


def test_the_index_of_labels_leaves_out_no_pool() -> None:
    """Over every example: what the index says can be, and what matching every pool says."""
    compared = 0
    for example in examples():
        seen = example.inventory()
        placement = seen.relation(Placement)
        for found in seen.views(Workload):
            for template in found.templates:
                matched = [fit.pools for fit in placement.fits(template) if fit.possible]
                assert [fit.pools for fit in placement.possible(template)] == matched
                compared += bool(matched)
    assert compared > 50


QUEUE = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: %s}
spec: {parentQueue: %s, resources: {gpu: {limit: %d}}}
"""
SCALED = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: %s, labels: {kai.scheduler/queue: %s}}
spec:
  template:
    spec: {schedulerName: kai-scheduler, containers: [{name: c, resources: {limits: {nvidia.com/gpu: 2}}}]}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: %s}
spec: {scaleTargetRef: {name: %s}, maxReplicaCount: 5}
"""


def test_what_scalers_ask_goes_up_the_tree_to_each_limit() -> None:
    queues = (QUEUE % ("top", '""', 64), QUEUE % ("a", "top", 4), QUEUE % ("b", "top", 64))
    seen = inventory("---\n".join((*queues, SCALED % ("x", "a", "x", "x"), SCALED % ("y", "b", "y", "y"))))
    demand, tree = seen.relation(QueueDemand), seen.relation(QueueTree)
    assert {name: demand.total(queue) for name, queue in tree.queues.items()} == {"a": 10, "b": 10, "top": 14}


def test_a_pod_that_a_controller_made_is_not_counted_again() -> None:
    seen = inventory(
        "apiVersion: v1\nkind: Pod\n"
        "metadata:\n  name: p\n  labels: {kai.scheduler/queue: a}\n"
        "  ownerReferences: [{kind: ReplicaSet, controller: true}]\n"
        "spec: {schedulerName: kai-scheduler, containers: []}\n"
    )
    assert seen.relation(Queueing).workloads == {}


def test_reservations_of_a_pool() -> None:
    seen = inventory(
        "---".join(
            (
                pool("a", more="").replace(
                    "spec: {requirements",
                    "spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: n}, requirements",
                ),
                "\napiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: n}\n"
                "spec: {capacityReservationSelectorTerms: [{tags: {team: x}}]}\n",
                "\napiVersion: ec2.aws/pulumi\nkind: CapacityReservation\nmetadata: {name: r}\n"
                "spec: {instanceType: p5.48xlarge, instanceCount: 2, tags: {team: x}}\n",
                "\napiVersion: ec2.aws/pulumi\nkind: CapacityReservation\nmetadata: {name: other}\n"
                "spec: {instanceType: p5.48xlarge, instanceCount: 2, tags: {team: y}}\n",
            )
        )
    )
    (view,) = seen.views(NodePool)
    found = seen.relation(Reservations).of(view)
    assert [reservation.resource.name for reservation in found or ()] == ["r"]
    assert [reserved_gpus(reservation, {}) for reservation in seen.views(CapacityReservation)] == [16, 16]
