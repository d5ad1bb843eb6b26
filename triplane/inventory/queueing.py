"""Which queue a workload's pods wait in, and whether KAI may preempt them."""

from triplane.inventory import kinds
from triplane.inventory.fields import number
from triplane.inventory.inventory import Inventory
from triplane.inventory.queues import QUEUE_LABEL, SCHEDULER
from triplane.inventory.resource import Resource
from triplane.inventory.workloads import Workload

# From this priority on a pod is non-preemptible and may use quota only (KAI docs/priority).
NON_PREEMPTIBLE = 100
# PriorityClasses of KAI's chart.
BUILT_IN = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
# Class a kind gets when nothing says one (KAI pkg/podgrouper/podgrouper/plugins); every other kind is `train`.
KIND_DEFAULTS = {
    "Deployment.apps": "inference",
    "Service.serving.knative.dev": "inference",
    "Notebook.kubeflow.org": "build",
}


class Queueing:
    """Workloads by queue, and priorities. Use `inventory.relation(Queueing)`."""

    def __init__(self, inventory: Inventory) -> None:
        self.priorities: dict[str, float] = {**BUILT_IN, **SYSTEM}
        self.defined: dict[str, Resource] = {}
        for resource in inventory.of_kind(kinds.PRIORITY_CLASS):
            self.defined[resource.name] = resource
            value = number(resource.data.get("value"))
            if value is not None:
                self.priorities[resource.name] = value
        self.workloads: dict[str, list[Workload]] = {}
        for workload in inventory.views(Workload):
            if queue := queue_of(workload):
                self.workloads.setdefault(queue, []).append(workload)

    def priority_class(self, workload: Workload) -> tuple[str, bool]:
        """The class KAI uses for a workload, and whether something names it (else its kind's default)."""
        named = workload.label("priorityClassName")
        for template in workload.templates:
            named = named or str(template.spec.get("priorityClassName") or "")
        if named and named in self.priorities:
            return named, True
        return KIND_DEFAULTS.get(workload.kind, "train"), False

    def preemptible(self, workload: Workload) -> bool:
        """Whether KAI may preempt its pods; only these may use more than the quota."""
        said = workload.label("kai.scheduler/preemptibility")
        if said in ("preemptible", "non-preemptible"):
            return said == "preemptible"
        return self.priorities[self.priority_class(workload)[0]] < NON_PREEMPTIBLE


def queue_of(workload: Workload) -> str:
    """The queue a workload names for KAI; empty where KAI does not schedule it or no queue is named."""
    if not any(template.scheduler == SCHEDULER for template in workload.templates):
        return ""
    return workload.label(QUEUE_LABEL)
