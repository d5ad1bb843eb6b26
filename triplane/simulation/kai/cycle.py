"""One scheduling cycle: allocate, consolidate, reclaim, preempt, and end gangs that run with less than their minimum.

Source: kai-scheduler pkg/scheduler/actions/{allocate,consolidation,reclaim,preempt,stalegangeviction} and
plugins/minruntime (commit d5bc503, after v0.17.0). The product runs one cycle a second.
"""

import math
from collections.abc import Callable

from triplane.simulation.fair_share import Triple, total
from triplane.simulation.kai.gang import Gang
from triplane.simulation.kai.order import Line
from triplane.simulation.kai.placement import NO_ROOM, place_gang
from triplane.simulation.kai.queue_rules import (
    QueueState,
    Refusal,
    ancestry,
    can_reclaim,
    is_candidate,
    over_quota,
    reclaim_allowed,
)
from triplane.simulation.kai.search import Search
from triplane.simulation.kai.settings import Settings
from triplane.simulation.kai.state import State
from triplane.simulation.kai.tasks import ACTIVE, GPU, TaskState
from triplane.simulation.scheduling import Action, Cluster, Decisions, Eviction, Job

_DEFAULTS = Settings()


def schedule(cluster: Cluster, now: float, settings: Settings = _DEFAULTS) -> Decisions:
    """Decide for the view at time `now`, seconds on the clock of the jobs' created and started."""
    cycle = _Cycle(cluster, now, settings)
    cycle.allocate()
    if settings.placement == "binpack" and settings.max_consolidation_victims != 0:
        cycle.make_room("consolidation")
    cycle.make_room("reclaim")
    cycle.make_room("preempt")
    stale = cycle.end_stale()
    return cycle.decisions(stale)


def decides_anew_at(cluster: Cluster, now: float, settings: Settings = _DEFAULTS) -> float:
    """Earliest later time at which the same view could lead to other decisions; infinity if never. A simulation need
    not run the cycles in between."""
    guaranteed = {settings.preempt_min_runtime_s, settings.reclaim_min_runtime_s}
    for queue in cluster.queues:
        guaranteed |= {queue.preempt_min_runtime_s or 0.0, queue.reclaim_min_runtime_s or 0.0}
    times = [job.created + job.preemption_delay_s for job in cluster.jobs]
    times += [job.started + span for job in cluster.jobs if job.started is not None for span in guaranteed]
    for job in cluster.jobs:
        if job.stale_since is not None:
            grace = settings.staleness_grace_s if job.staleness_grace_s is None else job.staleness_grace_s
            times.append(job.stale_since + grace)
    return min((time for time in times if time > now), default=math.inf)


class _Cycle:
    def __init__(self, cluster: Cluster, now: float, settings: Settings) -> None:
        self.state = State(cluster, settings, now)
        self.settings = settings
        self.now = now
        self.refused: dict[str, str] = {}

    def _gangs(self) -> list[Gang]:
        return [Gang.of(job, self.state.tasks[job.name]) for job in self.state.jobs.values()]

    def _waiting(self) -> list[Gang]:
        return [gang for gang in self._gangs() if any(t.status == "pending" for t in gang.all()) and gang.ready]

    def allocate(self) -> None:
        """Give what is free, in the order of queues and jobs; a job beyond its minimum gets one task a turn."""
        state = self.state
        line = Line(state, self._waiting())
        places = list(state.places.values())
        while (gang := line.pop()) is not None:
            mark = state.checkpoint()
            refusal = place_gang(state, gang, places, only_promise=False)
            if refusal is not None:
                state.rollback(mark)
                if isinstance(refusal, Refusal):
                    self.refused[gang.job.name] = f"{refusal.reason} at {refusal.queue}"
                elif refusal != NO_ROOM:
                    self.refused[gang.job.name] = refusal
                continue
            if gang.must_wait:
                for task in gang.all():
                    if task.status == "allocated":
                        state.postpone(task)
            state.keep()
            if any(task.status == "pending" for task in gang.all()):
                line.push(gang)

    def make_room(self, action: Action) -> None:
        """Look for victims for every job that found no place, in order."""
        state = self.state
        line = Line(state, [gang for gang in self._waiting() if self._may_displace(gang.job, action)])
        failed: dict[tuple[object, ...], list[list[Triple]]] = {}
        while (gang := line.pop()) is not None:
            request = gang.request()
            if not self._worth_trying(gang, action, request):
                continue
            shape = _shape(gang, action)
            if self.settings.skip_no_easier and any(not _easier(gang, known) for known in failed.get(shape, [])):
                continue
            if self._search(gang, action).run(gang):
                state.keep()
            else:
                failed.setdefault(shape, []).append(_sizes(gang))

    def _may_displace(self, job: Job, action: Action) -> bool:
        if self.now < job.created + job.preemption_delay_s:
            return False
        return job.preemptible or action != "consolidation"

    def _worth_trying(self, gang: Gang, action: Action, request: Triple) -> bool:
        tree, job = self.state.tree, gang.job
        match action:
            case "reclaim":
                return can_reclaim(tree, job.queue, request, job.preemptible)
            case "preempt":
                return job.preemptible or over_quota(tree, job.queue, request) is None
            case _:
                free = sum(place.idle[GPU] + place.releasing[GPU] for place in self.state.places.values())
                return free >= request[GPU]

    def _search(self, gang: Gang, action: Action) -> Search:
        match action:
            case "reclaim":
                return self._reclaim(gang)
            case "preempt":
                return Search(self.state, action, lambda: self._preempt_victims(gang), self._accept_preempt)
            case _:
                return Search(self.state, action, lambda: self._consolidation_victims(gang), _all_placed)

    def _holders(self, keep: Callable[[Gang], bool]) -> list[Gang]:
        """Preemptible jobs that hold a place."""
        return [
            gang
            for gang in self._gangs()
            if gang.job.preemptible and any(task.status in ACTIVE for task in gang.all()) and keep(gang)
        ]

    # Reclaim: other queues give way.

    def _reclaim(self, gang: Gang) -> Search:
        job = gang.job
        request = gang.request()

        def may_give(other: Gang) -> bool:
            queue = other.job.queue
            if queue == job.queue or not self.state.is_leaf(queue):
                return False
            if not is_candidate(self.state.tree, job.queue, request, queue):
                return False
            return other.elastic or not self._protected(job, other.job, "reclaim")

        # The rules compare with what queues held before anything of this search.
        before = {
            name: QueueState(one.queue, one.fair_share, one.allocated, one.non_preemptible)
            for name, one in self.state.tree.items()
        }

        def accept(part: Gang, victims: dict[str, list[TaskState]]) -> bool:
            if not self._minimums_protected(job, victims, "reclaim"):
                return False
            chunks: dict[str, list[Triple]] = {}
            for name, tasks in victims.items():
                found = _chunks(self.state.jobs[name], tasks, self.settings.consolidating_reclaim)
                if found:
                    chunks.setdefault(self.state.jobs[name].queue, []).extend(found)
            asked = total([task.request for task in part.all() if task.status == "pipelined" and task.virtual])
            multiplier = self.settings.saturation_multiplier
            return reclaim_allowed(before, job.queue, asked, job.preemptible, chunks, multiplier)

        return Search(self.state, "reclaim", lambda: self._holders(may_give), accept)

    # Preempt: lower priorities of the same queue give way.

    def _preempt_victims(self, gang: Gang) -> list[Gang]:
        job = gang.job

        def may_give(other: Gang) -> bool:
            if other.job.queue != job.queue or other.job.priority >= job.priority:
                return False
            return other.elastic or not self._protected(job, other.job, "preempt")

        return self._holders(may_give)

    def _accept_preempt(self, part: Gang, victims: dict[str, list[TaskState]]) -> bool:
        return self._minimums_protected(part.job, victims, "preempt")

    # Consolidation: others move, nobody loses.

    def _consolidation_victims(self, gang: Gang) -> list[Gang]:
        found = self._holders(lambda other: other.job.name != gang.job.name)
        most = self.settings.max_consolidation_victims
        return found if most is None else found[: most + 1]  # the original's count lets one more through

    # Minimum run time.

    def _protected(self, job: Job, victim: Job, action: Action) -> bool:
        """Whether the victim has not yet run for as long as its queues grant."""
        if victim.started is None:
            return False
        return self.now < victim.started + self._min_runtime(job, victim, action)

    def _min_runtime(self, job: Job, victim: Job, action: Action) -> float:
        path = list(ancestry(self.state.tree, victim.queue))  # leaf upwards
        if action == "preempt":
            granted = (state.queue.preempt_min_runtime_s for state in path)
            return next((time for time in granted if time is not None), self.settings.preempt_min_runtime_s)
        if self.settings.reclaim_resolve == "lca":
            above = {state.queue.name for state in ancestry(self.state.tree, job.queue)}
            shared = sum(state.queue.name in above for state in path)
            # From just below the lowest common ancestor upwards; of different top queues only the top counts.
            path = path[max(0, len(path) - shared - 1) :]
        granted = (state.queue.reclaim_min_runtime_s for state in path)
        return next((time for time in granted if time is not None), self.settings.reclaim_min_runtime_s)

    def _minimums_protected(self, job: Job, victims: dict[str, list[TaskState]], action: Action) -> bool:
        """Whether elastic jobs within their minimum run time keep their minimum."""
        for name, tasks in victims.items():
            victim = Gang.of(self.state.jobs[name], self.state.tasks[name])
            if not victim.elastic or not self._protected(job, victim.job, action):
                continue
            for pod_set in victim.root.pod_sets():
                taken = sum(task.task.pod_set == pod_set.name for task in tasks)
                used = sum(task.status in ACTIVE or task.status == "releasing" for task in victim.tasks[pod_set.name])
                if taken and used - taken < pod_set.min_members:
                    return False
        return True

    # Stale gangs.

    def end_stale(self) -> frozenset[str]:
        """Evict what is left of gangs below their minimum once their grace is over; those that are below it."""
        stale = set()
        for gang in self._gangs():
            if not gang.stale:
                continue
            job = gang.job
            stale.add(job.name)
            grace = self.settings.staleness_grace_s if job.staleness_grace_s is None else job.staleness_grace_s
            since = self.now if job.stale_since is None else job.stale_since
            if 0 <= grace <= self.now - since:
                for task in gang.all():
                    if task.status in ACTIVE:
                        self.state.evict(task, "stalegangeviction", None)
        self.state.keep()
        return frozenset(stale)

    def decisions(self, stale: frozenset[str]) -> Decisions:
        """What the state says now, against what it was."""
        bound: dict[str, dict[str, str]] = {}
        waiting: dict[str, dict[str, str]] = {}
        evicted: dict[str, tuple[Eviction, ...]] = {}
        for name, tasks in self.state.tasks.items():
            for task in tasks:
                if task.status == "allocated" and task.task.status == "pending":
                    bound.setdefault(name, {})[task.name] = task.node or ""
                elif task.status == "pipelined":
                    waiting.setdefault(name, {})[task.name] = task.node or ""
                if task.evicted_by is not None and task.task.status in ("running", "allocated"):
                    action, beneficiary = task.evicted_by
                    evicted[name] = (*evicted.get(name, ()), Eviction(task.name, action, beneficiary))
        placed = bound.keys() | waiting.keys()
        return Decisions(
            bound=bound,
            waiting=waiting,
            evicted=evicted,
            refused={name: why for name, why in self.refused.items() if name not in placed},
            stale=stale,
            fair_share={name: state.fair_share for name, state in self.state.tree.items()},
        )


def _all_placed(part: Gang, victims: dict[str, list[TaskState]]) -> bool:
    return not any(task.status == "releasing" for tasks in victims.values() for task in tasks)


def _chunks(job: Job, tasks: list[TaskState], ignore_placed: bool) -> list[Triple]:
    """What a victim job gives, in the order of the rules: tasks beyond the minimum one by one, then the rest as one
    chunk. With ignore_placed, tasks that found a place again give nothing."""
    core: list[TaskState] = []
    surplus: list[TaskState] = []
    for pod_set in job.root.pod_sets():
        own = [task for task in tasks if task.task.pod_set == pod_set.name]
        core += own[: pod_set.min_members]
        surplus += own[pod_set.min_members :]

    def given(chunk: list[TaskState]) -> list[Triple]:
        gone = [task.request for task in chunk if not (ignore_placed and task.status in ACTIVE)]
        return [total(gone)] if gone else []

    return [amount for chunk in (*([task] for task in surplus), core) for amount in given(chunk)]


def _shape(gang: Gang, action: Action) -> tuple[object, ...]:
    """What makes two failed searches comparable; consolidation looks across queues."""
    pending = tuple(sorted(sum(t.status not in ACTIVE for t in tasks) for tasks in gang.tasks.values()))
    queue = None if action == "consolidation" else gang.job.queue
    return (queue, gang.job.priority, gang.job.preemptible, _constraints(gang), pending)


def _constraints(gang: Gang) -> tuple[object, ...]:
    return (gang.root.constraint, *(pod_set.constraint for pod_set in gang.root.pod_sets()))


def _sizes(gang: Gang) -> list[Triple]:
    return sorted(task.request for task in gang.all() if task.status == "pending")


def _easier(gang: Gang, known: list[Triple]) -> bool:
    """Whether the gang is easier to place than one that failed: fewer tasks, or a smaller one among them."""
    own = _sizes(gang)
    if len(own) < len(known):
        return True
    for mine, theirs in zip(own, known, strict=False):
        if mine != theirs and all(a <= b for a, b in zip(mine, theirs, strict=True)):
            return True
    return False
