"""What every cycle of either scheduler keeps to, whatever the cluster."""

import random
from collections import Counter
from collections.abc import Container
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.properties.simulation.clusters import clusters
from triplane.simulation import kube_scheduler
from triplane.simulation.fair_share import RESOURCES, UNLIMITED
from triplane.simulation.kai.cycle import decides_anew_at, schedule
from triplane.simulation.kai.settings import Settings
from triplane.simulation.kai.state import State
from triplane.simulation.scheduling import Cluster, Decisions, Job, Task

LIMITS = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def after(view: Cluster, decisions: Decisions) -> Cluster:
    """The next view: bound tasks run, evicted ones wait again."""

    def step(job: Job, task: Task) -> Task:
        if task.name in decisions.bound.get(job.name, {}):
            return replace(task, status="running", node=decisions.bound[job.name][task.name])
        if any(eviction.task == task.name for eviction in decisions.evicted.get(job.name, ())):
            return replace(task, status="pending", node=None)
        return task

    jobs = (replace(job, tasks=tuple(step(job, task) for task in job.tasks)) for job in view.jobs)
    return replace(view, jobs=tuple(jobs))


def holds(job: Job) -> Counter[str]:
    return Counter(task.pod_set for task in job.tasks if task.status == "running")


def is_partial(job: Job, promised: Container[str] = ()) -> bool:
    held = holds(job)
    if not held:
        return False
    held += Counter(task.pod_set for task in job.tasks if task.name in promised)
    return any(held[pod_set.name] < pod_set.min_members for pod_set in job.root.pod_sets())


def within_capacity(view: Cluster) -> bool:
    for node in view.nodes:
        for index in range(len(RESOURCES)):
            used = sum(t.request[index] for job in view.jobs for t in job.tasks if t.node == node.name)
            if used > node.capacity[index]:
                return False
    return True


@LIMITS
@given(clusters())
def test_kai_neither_starts_nor_takes_part_of_a_gang(view: Cluster) -> None:
    """A task may move, even one that starts in that cycle: its gang is promised a place for it, and short meanwhile."""
    for _ in range(3):
        decisions = schedule(view, 10.0)
        then = after(view, decisions)
        assert within_capacity(then)
        for was, job in zip(view.jobs, then.jobs, strict=True):
            if decisions.bound.get(job.name) or not is_partial(was):
                assert not is_partial(job, decisions.waiting.get(job.name, {}))
        view = then


@LIMITS
@given(clusters())
def test_kai_keeps_to_limits_and_quotas(view: Cluster) -> None:
    def used(view: Cluster, queue: str, *, fixed: bool) -> float:
        jobs = (job for job in view.jobs if job.queue == queue and not (fixed and job.preemptible))
        return sum(task.request[0] for job in jobs for task in job.tasks if task.status == "running")

    then = after(view, schedule(view, 10.0))
    for queue in view.queues:
        quota, limit = queue.quota[0], queue.limit[0]
        if limit != UNLIMITED:
            assert used(then, queue.name, fixed=False) <= max(limit, used(view, queue.name, fixed=False))
        if quota != UNLIMITED:
            assert used(then, queue.name, fixed=True) <= max(quota, used(view, queue.name, fixed=True))


@LIMITS
@given(clusters())
def test_kai_evicts_only_what_may_be_evicted(view: Cluster) -> None:
    decisions = schedule(view, 10.0)
    jobs = {job.name: job for job in view.jobs}
    for name, evictions in decisions.evicted.items():
        for eviction in evictions:
            assert next(task.status for task in jobs[name].tasks if task.name == eviction.task) == "running"
            if eviction.action == "stalegangeviction":
                continue
            assert jobs[name].preemptible
            assert eviction.beneficiary is not None
            taker = jobs[eviction.beneficiary]
            # Whoever displaces the taker in turn, in the same cycle, waits in its stead.
            waiting = [jobs[name] for name in decisions.waiting]
            heirs = [one for one in waiting if one.queue == taker.queue and one.priority > taker.priority]
            assert taker in waiting or heirs, "nobody gives way for nothing"
            if eviction.action == "preempt":
                assert taker.queue == jobs[name].queue
                assert taker.priority > jobs[name].priority
            elif eviction.action == "reclaim":
                assert taker.queue != jobs[name].queue
            else:
                assert eviction.task in decisions.waiting[name], "consolidation only moves"


@LIMITS
@given(clusters(), st.randoms(use_true_random=False))
def test_kai_does_not_depend_on_the_order_of_the_view(view: Cluster, shuffle: random.Random) -> None:
    jobs, nodes, queues = list(view.jobs), list(view.nodes), list(view.queues)
    for things in (jobs, nodes, queues):
        shuffle.shuffle(things)
    other = replace(view, jobs=tuple(jobs), nodes=tuple(nodes), queues=tuple(queues))
    one, two = schedule(view, 10.0), schedule(other, 10.0)
    assert one.bound == two.bound
    assert one.waiting == two.waiting
    assert {n: set(e) for n, e in one.evicted.items()} == {n: set(e) for n, e in two.evicted.items()}


@LIMITS
@given(clusters(), st.floats(0, 40), st.floats(0, 1))
def test_kai_decides_the_same_until_it_says(view: Cluster, now: float, part: float) -> None:
    timed = (replace(job, started=job.created + 5, preemption_delay_s=7.0, stale_since=3.0) for job in view.jobs)
    queues = (replace(queue, reclaim_min_runtime_s=11.0, preempt_min_runtime_s=23.0) for queue in view.queues)
    view = replace(view, jobs=tuple(timed), queues=tuple(queues))
    later = min(decides_anew_at(view, now), now + 100)
    assert later > now
    between = now + part * (later - now)
    if between < later:
        assert schedule(view, between) == schedule(view, now)


@LIMITS
@given(clusters(), st.data())
def test_every_change_can_be_taken_back(view: Cluster, data: st.DataObject) -> None:
    state = State(view, Settings(), 10.0)

    def picture() -> tuple[object, ...]:
        places = [
            (p.name, p.idle, p.releasing, sorted((n, s) for n, (_, s) in p.tasks.items()))
            for p in state.places.values()
        ]
        tasks = [(t.name, t.status, t.node, t.virtual, t.evicted_by) for ts in state.tasks.values() for t in ts]
        return places, tasks, [(q.allocated, q.non_preemptible) for q in state.tree.values()]

    before, mark = picture(), state.checkpoint()
    everyone = [task for tasks in state.tasks.values() for task in tasks]
    for _ in range(data.draw(st.integers(1, 8))):
        task = data.draw(st.sampled_from(everyone))
        place = data.draw(st.sampled_from(sorted(state.places.values(), key=lambda place: place.name)))
        if task.status == "running":
            state.evict(task, "preempt", None)
        elif task.status in ("pending", "releasing"):
            state.pipeline(task, place)
        elif task.status == "pipelined":
            state.evict(task, "reclaim", None)
    state.rollback(mark)
    assert picture() == before


@LIMITS
@given(clusters(), st.sampled_from(["LeastAllocated", "MostAllocated"]))
def test_kube_scheduler_fills_nodes_no_further_than_they_go(view: Cluster, scoring: kube_scheduler.Scoring) -> None:
    for _ in range(3):
        decisions = kube_scheduler.schedule(view, scoring=scoring)
        priorities = {job.name: job.priority for job in view.jobs}
        for name, evictions in decisions.evicted.items():
            for eviction in evictions:
                assert eviction.beneficiary is not None
                assert priorities[eviction.beneficiary] > priorities[name]
        view = after(view, decisions)
        assert within_capacity(view)
