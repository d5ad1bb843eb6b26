"""kube-scheduler for comparison: one pod at a time, without gangs and queues, so that part of a gang may hold GPUs.

Source: kubernetes v1.37.2, pkg/scheduler: queue order by priority then age (queuesort), NodeResourcesFit with scores as
whole percents (noderesources/{least,most}_allocated.go), DefaultPreemption (framework/preemption, defaultpreemption).
Not modelled: PodDisruptionBudgets, back-off of pods that failed, sampling of nodes in clusters of 100 and more; where
the original picks one of several best nodes at random, the first by name is taken.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from triplane.simulation.fair_share import RESOURCES, ZERO, Triple, minus, plus
from triplane.simulation.scheduling import Cluster, Decisions, Eviction, Job, Node, Task

_GPU, _CPU, _MEMORY = range(len(RESOURCES))

Scoring = Literal["LeastAllocated", "MostAllocated"]
"""The default spreads by CPU and memory; MostAllocated, here by GPUs alone, packs and has to be configured."""


@dataclass(slots=True, eq=False)
class _Pod:
    job: Job
    task: Task

    @property
    def importance(self) -> tuple[int, float]:
        """Priority, then who runs longer: pods with less of it are victims first."""
        return (self.job.priority, -(self.job.started if self.job.started is not None else self.job.created))


@dataclass(slots=True, eq=False)
class _Room:
    """A node: what is free now, what pods on their way out will free, what is promised, and who runs there."""

    node: Node
    free: Triple
    leaving: Triple = ZERO
    promised: Triple = ZERO
    running: list[_Pod] = field(default_factory=list)

    def soon(self) -> Triple:
        """Free once those on their way out have left and those with a promise have come."""
        return minus(plus(self.free, self.leaving), self.promised)


def schedule(cluster: Cluster, now: float = 0.0, scoring: Scoring = "LeastAllocated") -> Decisions:
    """Decide for the view; `now` is not looked at. Pods that wait for room are tried anew in the next view."""
    rooms = _rooms(cluster)
    pods = [_Pod(job, task) for job in cluster.jobs for task in job.tasks if task.status == "pending"]
    pods.sort(key=lambda pod: (-pod.job.priority, pod.job.created, pod.job.name, pod.task.name))
    bound: dict[str, dict[str, str]] = {}
    waiting: dict[str, dict[str, str]] = {}
    evicted: dict[str, tuple[Eviction, ...]] = {}
    for pod in pods:
        name, request = pod.task.name, pod.task.request
        # Room promised to a pod with at least this priority is taken: pods come in that order.
        open_rooms = [room for room in rooms if _fits(request, minus(room.free, room.promised))]
        if open_rooms:
            room = max(open_rooms, key=lambda room: _score(room, request, scoring))
            room.free = minus(room.free, request)
            room.running.append(pod)
            bound.setdefault(pod.job.name, {})[name] = room.node.name
            continue
        # Whoever waits for a place that others are leaving displaces nobody else.
        soon = next((room for room in rooms if _fits(request, room.soon())), None)
        if soon is None:
            soon, victims = _preempt(rooms, pod)
            for victim in victims:
                assert soon is not None
                soon.running.remove(victim)
                soon.leaving = plus(soon.leaving, victim.task.request)
                if victim.task.status == "running":
                    gone = Eviction(victim.task.name, "preempt", pod.job.name)
                    evicted[victim.job.name] = (*evicted.get(victim.job.name, ()), gone)
        if soon is not None:
            soon.promised = plus(soon.promised, request)
            waiting.setdefault(pod.job.name, {})[name] = soon.node.name
    return Decisions(bound, waiting, evicted, refused={}, stale=frozenset(), fair_share={})


def _rooms(cluster: Cluster) -> list[_Room]:
    rooms = {
        node.name: _Room(node, minus(node.capacity, cluster.foreign.get(node.name, ZERO)))
        for node in sorted(cluster.nodes, key=lambda node: node.name)
    }
    for job in cluster.jobs:
        for task in job.tasks:
            room = rooms.get(task.node or "")
            if room is None or task.status in ("pending", "gated", "succeeded"):
                continue
            room.free = minus(room.free, task.request)
            if task.status == "releasing":
                room.leaving = plus(room.leaving, task.request)
            else:
                room.running.append(_Pod(job, task))
    return list(rooms.values())


def _preempt(rooms: Sequence[_Room], pod: _Pod) -> tuple[_Room | None, list[_Pod]]:
    """The node where the least is lost, and its victims: lowest highest priority, lowest sum, fewest, youngest."""
    best: tuple[tuple[float, ...], _Room, list[_Pod]] | None = None
    for room in rooms:
        lower = [other for other in room.running if other.job.priority < pod.job.priority]
        left = room.soon()
        for other in lower:
            left = plus(left, other.task.request)
        if not lower or not _fits(pod.task.request, left):
            continue
        # All that are less important go, then as many as possible are spared, the most important first.
        victims = []
        for other in sorted(lower, key=lambda other: other.importance, reverse=True):
            spared = minus(left, other.task.request)
            if _fits(pod.task.request, spared):
                left = spared
            else:
                victims.append(other)
        if not victims:
            continue
        highest = max(other.job.priority for other in victims)
        youngest = min(-other.importance[1] for other in victims if other.job.priority == highest)
        loss = (highest, sum(other.job.priority for other in victims), len(victims), -youngest)
        if best is None or loss < best[0]:
            best = (loss, room, victims)
    return (None, []) if best is None else best[1:]


def _score(room: _Room, request: Triple, scoring: Scoring) -> int:
    left = minus(room.free, request)
    if scoring == "MostAllocated":
        return _percent(room.node.capacity[_GPU] - left[_GPU], room.node.capacity[_GPU])
    return sum(_percent(left[index], room.node.capacity[index]) for index in (_CPU, _MEMORY)) // 2


def _percent(part: float, whole: float) -> int:
    return int(part * 100 / whole) if whole > 0 else 0


def _fits(request: Triple, room: Triple) -> bool:
    return all(need == 0 or need <= has for need, has in zip(request, room, strict=True))


def partial_gangs(cluster: Cluster, bound: Mapping[str, Mapping[str, str]]) -> dict[str, int]:
    """Tasks that hold a place in gangs that lack their minimum, per job: what idles until the rest comes."""
    held = {}
    for job in cluster.jobs:
        new = bound.get(job.name, {})
        holding = [task for task in job.tasks if task.status in ("running", "allocated") or task.name in new]
        short = any(
            sum(task.pod_set == pod_set.name for task in holding) < pod_set.min_members
            for pod_set in job.root.pod_sets()
        )
        if holding and short:
            held[job.name] = len(holding)
    return held
