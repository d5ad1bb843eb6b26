"""Single rules of KAI's cycle that no golden scenario covers: delays, minimum run times, grace, reasons, bounds."""

from dataclasses import replace

import pytest

from triplane.simulation.fair_share import UNLIMITED, Queue
from triplane.simulation.kai.cycle import schedule
from triplane.simulation.kai.settings import Settings
from triplane.simulation.scheduling import Cluster, Constraint, Group, Job, Node, PodSet, Task, Topology, gang

FREE = UNLIMITED


def node(name: str, gpus: int = 8, **labels: str) -> Node:
    return Node(name, (float(gpus), 64_000.0, 64e9), labels)


def queue(name: str, parent: str | None = None, quota: float = FREE, limit: float = FREE, **more: float) -> Queue:
    return Queue(name, parent, (quota, FREE, FREE), (limit, FREE, FREE), (1, 1, 1), **more)  # type: ignore[arg-type]


def tasks(
    job: str, count: int, gpus: int = 1, on: str | None = None, pod_set: str = "", start: int = 0
) -> tuple[Task, ...]:
    status = "pending" if on is None else "running"
    request = (float(gpus), 1000.0, 1e9)
    return tuple(Task(f"{job}-{i}", request, status, on, pod_set) for i in range(start, start + count))


def job(name: str, where: str, members: tuple[Task, ...], least: int | None = None, **more: object) -> Job:
    root = gang(len(members) if least is None else least)
    return Job(name, where, members, **({"root": root} | more))  # type: ignore[arg-type]


def cluster(*jobs: Job, queues: tuple[Queue, ...] = (queue("q"),), nodes: tuple[Node, ...] = (node("n"),)) -> Cluster:
    return Cluster(nodes, queues, jobs)


def test_seven_of_eight_is_nothing() -> None:
    """A gang of 8 on 7 free GPUs holds none of them, and a smaller job may have them."""
    big = job("big", "q", tasks("big", 8), priority=75)
    decisions = schedule(cluster(big, nodes=(node("n", 7),)), 0.0)
    assert decisions.empty
    small = job("small", "q", tasks("small", 7))
    decisions = schedule(cluster(big, small, nodes=(node("n", 7),)), 0.0)
    assert decisions.bound == {"small": {f"small-{i}": "n" for i in range(7)}}


def test_a_gang_waits_whole_for_room_that_is_being_left() -> None:
    leaving = Job("old", "q", (Task("old-0", (4.0, 1000.0, 1e9), "releasing", "n"),), gang(1))
    decisions = schedule(cluster(leaving, job("new", "q", tasks("new", 8))), 0.0)
    assert decisions.bound == {}
    assert decisions.waiting == {"new": {f"new-{i}": "n" for i in range(8)}}


def test_elastic_tasks_join_one_by_one_as_far_as_there_is_room() -> None:
    decisions = schedule(cluster(job("j", "q", tasks("j", 12), least=2)), 0.0)
    assert len(decisions.bound["j"]) == 8


def test_incomplete_gangs_are_not_tried() -> None:
    assert schedule(cluster(job("j", "q", tasks("j", 3), least=4)), 0.0).empty


def test_gated_tasks_do_not_count() -> None:
    gated = replace(tasks("j", 1)[0], name="j-9", status="gated")
    assert schedule(cluster(job("j", "q", (*tasks("j", 3), gated), least=4)), 0.0).empty


@pytest.mark.parametrize(
    ("queues", "preemptible", "reason"),
    [
        ((queue("top", limit=3), queue("q", "top")), True, "over_limit at top"),
        ((queue("top", quota=3), queue("q", "top")), False, "non_preemptible_over_quota at top"),
        ((queue("top", quota=8), queue("q", "top", quota=2)), False, "non_preemptible_over_quota at q"),
    ],
)
def test_refusals_name_the_queue(queues: tuple[Queue, ...], preemptible: bool, reason: str) -> None:
    decisions = schedule(cluster(job("j", "q", tasks("j", 4), preemptible=preemptible), queues=queues), 0.0)
    assert decisions.empty
    assert decisions.refused == {"j": reason}


def test_queues_without_a_way_to_the_top_schedule_nothing() -> None:
    lost = cluster(job("j", "q", tasks("j", 1)), queues=(queue("q", "missing"),))
    assert schedule(lost, 0.0).empty
    parent = cluster(job("j", "q", tasks("j", 1)), queues=(queue("q"), queue("child", "q")))
    assert schedule(parent, 0.0).empty
    circle = cluster(job("j", "a", tasks("j", 1)), queues=(queue("a", "b"), queue("b", "a")))
    assert schedule(circle, 0.0).empty


def reclaim_case(delay: float = 0, **victim: object) -> Cluster:
    """Queue `guest` holds all 8 GPUs, though it is promised none; queue `host` is promised 8 and asks for 4."""
    guest = job("guest", "guest", tasks("guest", 8, on="n"), least=8, **victim)
    asks = job("host", "host", tasks("host", 4), preemption_delay_s=delay)
    queues = (queue("top"), queue("host", "top", quota=8), queue("guest", "top", quota=0, reclaim_min_runtime_s=60))
    return cluster(guest, asks, queues=queues)


def test_reclaim_takes_the_gang_whole() -> None:
    decisions = schedule(reclaim_case(), 0.0)
    assert len(decisions.evicted["guest"]) == 8
    assert {e.action for e in decisions.evicted["guest"]} == {"reclaim"}
    assert len(decisions.waiting["host"]) == 4


def test_preemption_delay_holds_back_until_it_is_over() -> None:
    assert schedule(reclaim_case(delay=30), 29.9).empty
    assert "guest" in schedule(reclaim_case(delay=30), 30.0).evicted


def test_minimum_run_time_of_the_queue_protects() -> None:
    assert schedule(reclaim_case(started=0.0), 59.9).empty
    assert "guest" in schedule(reclaim_case(started=0.0), 60.0).evicted


def test_minimum_run_time_keeps_an_elastic_job_at_its_minimum() -> None:
    view = reclaim_case(started=0.0)
    elastic = replace(view.jobs[0], root=gang(4))
    decisions = schedule(replace(view, jobs=(elastic, view.jobs[1])), 1.0)
    assert len(decisions.evicted["guest"]) == 4
    bigger = job("host", "host", tasks("host", 5))
    assert schedule(replace(view, jobs=(elastic, bigger)), 1.0).empty


def test_minimum_run_time_is_looked_for_below_the_lowest_common_queue() -> None:
    def view(**guest: float) -> Cluster:
        queues = (
            queue("top", reclaim_min_runtime_s=1000),
            queue("host", "top", quota=8),
            queue("division", "top", quota=0, **guest),
            queue("guest", "division", quota=0, reclaim_min_runtime_s=5),
        )
        return replace(reclaim_case(started=0.0), queues=queues)

    assert schedule(view(), 500.0).empty  # the division says nothing, so the top's 1000 s hold
    assert "guest" in schedule(view(reclaim_min_runtime_s=60), 60.0).evicted
    by_queue = Settings(reclaim_resolve="queue")
    assert "guest" in schedule(view(), 6.0, by_queue).evicted


def test_preemption_within_a_queue_goes_by_priority() -> None:
    low = job("low", "q", tasks("low", 8, on="n"), least=8, priority=50, started=0.0)
    high = job("high", "q", tasks("high", 1), priority=75)
    decisions = schedule(cluster(low, high), 100.0)
    assert {e.action for e in decisions.evicted["low"]} == {"preempt"}
    assert len(decisions.evicted["low"]) == 8
    assert schedule(cluster(low, replace(high, priority=50)), 100.0).empty
    assert schedule(cluster(replace(low, preemptible=False), high), 100.0).empty
    guarded = cluster(low, high, queues=(queue("q", preempt_min_runtime_s=200),))
    assert schedule(guarded, 100.0).empty


def test_consolidation_moves_and_is_off_when_spreading() -> None:
    one = job("one", "q", tasks("one", 1, on="a"))
    two = job("two", "q", tasks("two", 1, on="b"))
    whole = job("whole", "q", tasks("whole", 1, gpus=4))
    view = cluster(one, two, whole, nodes=(node("a", 4), node("b", 4)))
    decisions = schedule(view, 0.0)
    assert {e.action for es in decisions.evicted.values() for e in es} == {"consolidation"}
    assert set(decisions.waiting) == {"whole", *decisions.evicted}
    assert schedule(view, 0.0, Settings(placement="spread")).empty
    assert schedule(view, 0.0, Settings(max_consolidation_victims=0)).empty


@pytest.mark.parametrize(
    ("grace", "since", "gone"), [(None, 0.0, False), (None, -60.0, True), (10.0, -10.0, True), (-1.0, -1e9, False)]
)
def test_stale_gangs_end_after_their_grace(grace: float | None, since: float, gone: bool) -> None:
    short = job("short", "q", tasks("short", 3, on="n"), least=4, staleness_grace_s=grace, stale_since=since)
    decisions = schedule(cluster(short, nodes=(node("n", 3),)), 0.0)
    assert decisions.stale == {"short"}
    assert len(decisions.evicted.get("short", ())) == (3 if gone else 0)


def test_a_gang_of_which_a_task_has_succeeded_is_not_stale() -> None:
    done = replace(tasks("j", 1)[0], name="j-9", status="succeeded")
    finishing = job("j", "q", (*tasks("j", 3, on="n"), done), least=4)
    assert schedule(cluster(finishing), 0.0).stale == frozenset()


RACKS = Topology("dc", ("rack", "host"))


def racks() -> tuple[Node, ...]:
    return tuple(node(f"n{i}", 4, rack=f"r{i // 2}", host=f"n{i}") for i in range(4))


def test_required_level_keeps_a_gang_in_one_domain() -> None:
    def view(count: int, required: str) -> Cluster:
        root = gang(count, Constraint("dc", required=required))
        return Cluster(racks(), (queue("q"),), (job("j", "q", tasks("j", count), root=root),), (RACKS,))

    for count, level, fits in ((8, "rack", True), (9, "rack", False), (4, "host", True), (5, "host", False)):
        decisions = schedule(view(count, level), 0.0)
        racks_used = {name[:2] in ("n0", "n1") for name in decisions.bound.get("j", {}).values()}
        assert len(racks_used) == (1 if fits else 0), (count, level)


def test_sub_groups_may_each_have_their_own_domain() -> None:
    prefill = PodSet("prefill", 4, Constraint("dc", required="rack"))
    decode = PodSet("decode", 8, Constraint("dc", required="rack"))
    members = (*tasks("j", 4, pod_set="prefill"), *tasks("j", 8, pod_set="decode", start=4))
    view = Cluster(racks(), (queue("q"),), (job("j", "q", members, root=Group("", (prefill, decode))),), (RACKS,))
    bound = schedule(view, 0.0).bound["j"]
    assert len(bound) == 12
    for first, last in ((0, 4), (4, 12)):
        assert len({int(bound[f"j-{i}"][1]) // 2 for i in range(first, last)}) == 1


@pytest.mark.parametrize(
    ("constraint", "reason"),
    [
        (Constraint("elsewhere", required="rack"), "topology elsewhere does not exist"),
        (Constraint("dc", required="zone"), "topology dc has no level zone"),
        (Constraint("dc"), "no level of topology dc is required or preferred"),
        (
            Constraint("dc", required="host", preferred="rack"),
            "level rack is preferred, but wider than the required one",
        ),
    ],
)
def test_constraints_that_cannot_be_read(constraint: Constraint, reason: str) -> None:
    root = gang(2, constraint)
    view = Cluster(racks(), (queue("q"),), (job("j", "q", tasks("j", 2), root=root),), (RACKS,))
    decisions = schedule(view, 0.0)
    assert decisions.empty
    assert decisions.refused == {"j": reason}


def test_pods_of_other_schedulers_are_neither_free_nor_divided() -> None:
    view = replace(cluster(job("j", "q", tasks("j", 6))), foreign={"n": (4.0, 0.0, 0.0)})
    decisions = schedule(view, 0.0)
    assert decisions.empty
    assert decisions.fair_share["q"][0] == 4


def test_victims_on_several_nodes_make_room_for_one_gang() -> None:
    """No single node frees enough: jobs on two nodes have to give way together."""
    low = [job(f"low-{name}", "q", tasks(f"low-{name}", 1, gpus=4, on=name), started=0.0) for name in "ab"]
    high = job("high", "q", tasks("high", 2, gpus=4), priority=75)
    decisions = schedule(cluster(*low, high, nodes=(node("a", 4), node("b", 4))), 100.0)
    assert set(decisions.evicted) == {"low-a", "low-b"}
    assert set(decisions.waiting["high"].values()) == {"a", "b"}


def test_a_gang_starts_on_idle_room_only_if_all_of_it_can() -> None:
    leaving = Job("old", "q", (Task("old-0", (4.0, 1000.0, 1e9), "releasing", "n"),), gang(1))
    view = cluster(leaving, job("new", "q", tasks("new", 6)), nodes=(node("n", 8),))
    decisions = schedule(view, 0.0)  # 4 GPUs are idle, 4 are being left
    assert decisions.bound == {}
    assert len(decisions.waiting["new"]) == 6
    elastic = cluster(leaving, job("new", "q", tasks("new", 6), least=4), nodes=(node("n", 8),))
    decisions = schedule(elastic, 0.0)
    assert len(decisions.bound["new"]) == 4
    assert len(decisions.waiting["new"]) == 2


def test_idle_nodes_come_before_fuller_ones_that_are_being_left() -> None:
    leaving = Job("old", "q", (Task("old-0", (8.0, 1000.0, 1e9), "releasing", "full"),), gang(1))
    others = job("others", "q", tasks("others", 7, on="full"))
    view = cluster(leaving, others, job("new", "q", tasks("new", 8)), nodes=(node("full", 15), node("idle", 16)))
    assert set(schedule(view, 0.0).bound["new"].values()) == {"idle"}


def test_the_most_complete_set_of_a_gang_gives_way_first() -> None:
    sets = (PodSet("a", 1), PodSet("b", 1))
    members = (*tasks("low", 2, on="n", pod_set="a"), *tasks("low", 4, on="n", pod_set="b", start=2))
    low = job("low", "q", members, root=Group("", sets), started=0.0)
    high = job("high", "q", tasks("high", 2), priority=75)
    decisions = schedule(cluster(low, high, nodes=(node("n", 6),)), 100.0)
    assert [eviction.task for eviction in decisions.evicted["low"]] == ["low-4", "low-5"]
