"""Groups of pods that live and end together: replicas of a role and jobs, and how the schedulers see them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from triplane.settings.models import WorkloadSettings
from triplane.settings.queues import QueueSettings
from triplane.settings.values import quantity_value
from triplane.simulation import kube_scheduler, scheduling
from triplane.simulation.fair_share import UNLIMITED, Queue, Triple
from triplane.simulation.kai import cycle
from triplane.simulation.nodes import Node
from triplane.simulation.nodes_plan import PoolPlan
from triplane.simulation.strategies import Scheduler

Phase = Literal["pending", "loading", "serving", "draining", "gone"]


@dataclass(slots=True, eq=False)
class Group:
    """A replica, or a job. `nodes` has a place for every pod, None while it has no node."""

    name: str
    kind: str
    """The role's name, or the job's."""
    is_job: bool
    queue: str
    pool: str
    request: Triple
    """Of one pod: GPUs, CPU millicores, memory bytes."""
    nodes: list[Node | None]
    preemptible: bool
    priority: int
    created: float
    duration: float = math.inf
    phase: Phase = "pending"
    first_placed: float = math.nan
    placed: float = math.nan
    ready: float = math.nan
    drained: float = math.nan
    deadline: float = math.inf
    ended: float = math.nan
    slot: int = -1
    busy_at_drain: float = 0.0
    refused: str | None = None
    unschedulable: bool = False
    """Marked so by the scheduler, which is what node provisioners look at."""

    @property
    def gpus(self) -> int:
        """GPUs of one pod."""
        return int(self.request[0])

    @property
    def alive(self) -> bool:
        """Whether it counts as one of its role's replicas."""
        return self.phase in ("pending", "loading", "serving")

    @property
    def holds(self) -> int:
        """GPUs that it holds."""
        return self.gpus * sum(node is not None for node in self.nodes)

    @property
    def size(self) -> int:
        """GPUs that all its pods need."""
        return self.gpus * len(self.nodes)


def pod_request(gpus: int, workload: WorkloadSettings | None, plan: PoolPlan) -> Triple:
    """What one pod asks for; where the stack does not declare the workload, its GPUs' part of the node."""
    if workload is not None:
        return (float(gpus), *declared_request(workload))
    part = gpus / plan.gpus
    return (float(gpus), plan.capacity[1] * part, plan.capacity[2] * part)


def declared_request(workload: WorkloadSettings) -> tuple[float, float]:
    """CPU in millicores and memory in bytes of one pod of a declared workload."""
    return float(quantity_value(workload.cpu) * 1000), float(quantity_value(workload.memory))


def queues(tree: Mapping[str, QueueSettings], parent: str | None = None, age: int = 0) -> list[Queue]:
    """KAI's queues as the stack declares them, in the file's order."""
    found: list[Queue] = []
    for name, settings in tree.items():
        shares = (settings.cpu, settings.memory)
        found.append(
            Queue(
                name=name,
                parent=parent,
                quota=(_gpus(settings.gpus.quota), _amount(shares[0].quota, 1000), _amount(shares[1].quota, 1)),
                limit=(_gpus(settings.gpu_limit), _amount(shares[0].limit, 1000), _amount(shares[1].limit, 1)),
                weight=(float(settings.gpus.weight), float(shares[0].weight), float(shares[1].weight)),
                priority=settings.priority,
                created=float(age + len(found)),
                preempt_min_runtime_s=_seconds(settings, "preempt"),
                reclaim_min_runtime_s=_seconds(settings, "reclaim"),
            )
        )
        found += queues(settings.children, name, age + len(found))
    return found


def _gpus(amount: int | str) -> float:
    return UNLIMITED if amount == "unlimited" else float(amount)


def _amount(amount: str, unit: int) -> float:
    return UNLIMITED if amount == "unlimited" else float(quantity_value(amount) * unit)


def _seconds(settings: QueueSettings, kind: str) -> float | None:
    value = getattr(settings.min_runtime, kind)
    return None if value is None else float(value.total_seconds())


@dataclass(frozen=True)
class Outcome:
    """What a scheduler decided: pods with their nodes, groups that must give way, and refusals by rule."""

    bound: list[tuple[Group, int, Node]] = field(default_factory=list)
    evicted: list[tuple[Group, str]] = field(default_factory=list)
    waiting: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)


def decide(
    scheduler: Scheduler, pool: str, groups: Sequence[Group], nodes: Iterable[Node], tree: Sequence[Queue], now: float
) -> Outcome:
    """Place the pending pods of one pool. Groups of other pools count in their queues and stay where they are."""
    by_name = {node.name: node for node in nodes}
    living = {group.name: group for group in groups if group.phase != "gone"}
    cluster = scheduling.Cluster(
        tuple(scheduling.Node(name, node.plan.capacity) for name, node in by_name.items()),
        tuple(tree),
        tuple(_job(group, pool) for group in living.values()),
    )
    decisions = cycle.schedule(cluster, now) if scheduler == "kai" else kube_scheduler.schedule(cluster, now)
    bound = [
        (living[job], _index(task), by_name[node])
        for job, tasks in decisions.bound.items()
        for task, node in sorted(tasks.items(), key=lambda item: _index(item[0]))
    ]
    evicted = [
        (living[job], f"{evictions[0].action} for {evictions[0].beneficiary or 'its own minimum'}")
        for job, evictions in decisions.evicted.items()
        if evictions
    ]
    return Outcome(bound, evicted, frozenset(decisions.waiting), decisions.refused)


def _index(task: str) -> int:
    return int(task.rsplit("/", 1)[1])


def _job(group: Group, pool: str) -> scheduling.Job:
    tasks = tuple(
        scheduling.Task(f"{group.name}/{index}", group.request, _status(group, node, pool), node.name if node else None)
        for index, node in enumerate(group.nodes)
    )
    return scheduling.Job(
        group.name,
        group.queue,
        tasks,
        scheduling.gang(len(tasks)),
        priority=group.priority,
        preemptible=group.preemptible,
        created=group.created,
        started=None if math.isnan(group.placed) else group.placed,
    )


def _status(group: Group, node: Node | None, pool: str) -> scheduling.Status:
    if node is None:
        return "pending" if group.pool == pool and group.phase == "pending" else "gated"
    return "releasing" if group.phase == "draining" else "running"
