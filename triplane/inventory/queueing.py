"""Which queue a workload's pods wait in, and whether KAI may preempt them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from triplane.documents import Path
from triplane.inventory import kinds
from triplane.inventory.fields import at, mapping, number, text
from triplane.inventory.inventory import Inventory
from triplane.inventory.queues import QUEUE_LABEL, SCHEDULER, Queue, QueueTree
from triplane.inventory.resource import Resource
from triplane.inventory.scalers import Scaler
from triplane.inventory.scaling import Scaling
from triplane.inventory.workloads import PodTemplate, Workload

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
            if (queue := queue_of(workload)) and not workload.made_by:
                self.workloads.setdefault(queue, []).append(workload)

    def priority_class(self, workload: Workload) -> tuple[str, bool]:
        """The class KAI uses for a workload, and whether something names it (else its kind's default)."""
        named = workload.label("priorityClassName")
        for template in workload.templates:
            named = named or str(template.spec.get("priorityClassName") or "")
        if named and named in self.priorities:
            return named, True
        return KIND_DEFAULTS.get(workload.kind, "train"), False

    def priority(self, workload: Workload) -> float:
        """The number KAI orders it by."""
        return self.priorities[self.priority_class(workload)[0]]

    def preemptible(self, workload: Workload) -> bool:
        """Whether KAI may preempt its pods; only these may use more than the quota."""
        said = workload.label("kai.scheduler/preemptibility")
        if said in ("preemptible", "non-preemptible"):
            return said == "preemptible"
        return self.priority(workload) < NON_PREEMPTIBLE


def queue_of(workload: Workload) -> str:
    """The queue a workload names for KAI; empty where KAI does not schedule it or no queue is named."""
    if not any(template.scheduler == SCHEDULER for template in workload.templates):
        return ""
    return workload.label(QUEUE_LABEL)


class QueueReference:
    """An object that names a queue: a workload of KAI's, a PodGroup, or a queue that names its parent."""

    KINDS: ClassVar[tuple[str, ...]] = (*Workload.KINDS, kinds.POD_GROUP, kinds.QUEUE)

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.parent = resource.kind == kinds.QUEUE
        """Whether it is a queue, so that what it names holds queues and no workloads."""
        if resource.kind in Workload.KINDS:
            workload = resource.view(Workload)
            self.name, self.path = queue_of(workload), label_path(workload, QUEUE_LABEL)
        else:
            field = "parentQueue" if self.parent else "queue"
            self.name, self.path = text(at(resource.data, "spec", field)) or "", ("spec", field)


def label_path(workload: Workload, key: str) -> Path:
    """Where a label of a workload stands: on itself, on the pod template that has it, or where it should be."""
    for template in workload.templates:
        if key not in workload.labels and key in template.labels:
            return (*template.metadata_path, "labels", key)
    return ("metadata", "labels", key)


@dataclass(frozen=True, slots=True)
class Demand:
    """The GPUs a scaled workload may ask for at its maximum."""

    workload: Workload
    scaler: Scaler
    gpus: float


class QueueDemand:
    """What scalers may ask of each queue. Use `inventory.relation(QueueDemand)`."""

    def __init__(self, inventory: Inventory) -> None:
        queueing, scaling = inventory.relation(Queueing), inventory.relation(Scaling)
        tree = inventory.relation(QueueTree)
        self.own: dict[str, list[Demand]] = {}
        """The demands on the queue itself."""
        for name, workloads in queueing.workloads.items():
            for workload in workloads:
                most, scaler = scaling.maximum(workload)
                if scaler is not None and workload.gpus_per_replica:
                    self.own.setdefault(name, []).append(Demand(workload, scaler, most * workload.gpus_per_replica))
        self._total: dict[str, float] = {}
        for top in tree.top:
            # Parents come before their children in `below`, so that the reverse adds up from the leaves.
            for queue in reversed(list(tree.below(top.name))):
                inner = sum(min(self._total[c.name], c.share("gpu").limit) for c in tree.children.get(queue.name, ()))
                self._total[queue.name] = inner + sum(demand.gpus for demand in self.own.get(queue.name, ()))

    def total(self, queue: Queue) -> float:
        """What is asked of a queue: by its own workloads, and by each queue below it up to that one's limit."""
        return self._total.get(queue.name, 0.0)


# A Helm release of the chart, wherever its values stand: Pulumi's Release, Flux's HelmRelease.
_RELEASES: dict[str, tuple[tuple[str, ...], ...]] = {
    kinds.HELM_RELEASE: (("spec", "chart"), ("spec", "values")),
    kinds.FLUX_HELM_RELEASE: (("spec", "chart", "spec", "chart"), ("spec", "values")),
}


class KaiSettings:
    """How KAI is installed, as far as the input says it. Use `inventory.relation(KaiSettings)`."""

    def __init__(self, inventory: Inventory) -> None:
        self.installs = tuple(_installs(inventory))
        """The object that installs KAI and the path and mapping of what the chart calls `global`."""


def _installs(inventory: Inventory) -> Iterator[tuple[Resource, Path, dict[str, Any]]]:
    for resource in inventory.of_kind(*_RELEASES):
        chart, values = _RELEASES[resource.kind]
        if SCHEDULER in (text(at(resource.data, *chart)) or ""):
            path: Path = (*values, "global")
            yield resource, path, dict(mapping(at(resource.data, *path)))


def gpu_fraction(template: PodTemplate) -> float | None:
    """The part of each GPU that pods of a template ask of KAI, by the annotation gpu-fraction; None: none it takes."""
    written = text(template.annotations.get("gpu-fraction"))
    try:
        fraction = float(written) if written else 0.0
    except ValueError:
        return None
    return fraction if 0 < fraction < 1 else None


def gpu_share(template: PodTemplate) -> float | None:
    """What one pod of a template counts for in its queue: its part of a GPU, times the GPUs it wants a part of."""
    fraction = gpu_fraction(template)
    devices = text(template.annotations.get("gpu-fraction-num-devices")) or "1"
    if fraction is None or not (devices.isascii() and devices.isdigit()):
        return None
    return fraction * int(devices[:6])
