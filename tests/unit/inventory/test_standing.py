"""GPUs in use at the fewest replicas."""

from typing import Any

from triplane.inventory import Inventory
from triplane.inventory.resource import Origin, Resource
from triplane.inventory.standing import Standing
from triplane.inventory.workloads import Workload


def resource(api: str, kind: str, name: str, spec: Any) -> Resource:
    return Resource({"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec}, Origin())


def workload(name: str, kind: str = "Deployment", **fields: Any) -> Resource:
    container = {"resources": {"limits": {"nvidia.com/gpu": 2}}}
    labels = {"kai.scheduler/queue": "chat-decode"}
    spec = {"schedulerName": "kai-scheduler", "containers": [container], **fields.pop("pod", {})}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return resource("batch/v1" if kind == "Job" else "apps/v1", kind, name, {"template": template, **fields})


def test_queues_and_those_above_hold_what_runs_in_them() -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "scaled"}
    inventory = Inventory(
        [
            resource("scheduling.run.ai/v2", "Queue", "chat", {}),
            resource("scheduling.run.ai/v2", "Queue", "chat-decode", {"parentQueue": "chat"}),
            workload("three", replicas=3),
            workload("low", replicas=1, pod={"priorityClassName": "train"}),
            workload("scaled", replicas=9),
            resource("keda.sh/v1alpha1", "ScaledObject", "s", {"scaleTargetRef": target, "minReplicaCount": 0}),
            workload("once", kind="Job"),
        ]
    )
    standing = inventory.relation(Standing)
    replicas = {w.resource.name: standing.replicas(w) for w in inventory.views(Workload)}
    assert replicas == {"three": 3, "low": 1, "scaled": 1, "once": 0}
    assert standing.in_queue("chat-decode") == standing.in_queue("chat") == 2 * (3 + 1 + 1)
    assert standing.in_queue("chat", guaranteed=True) == 2 * (3 + 1)
    assert standing.in_queue("nowhere") == 0
