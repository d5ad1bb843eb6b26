"""kube-scheduler places pods one by one: what a gang loses by it, and how pods displace others."""

from dataclasses import replace

from triplane.simulation.kube_scheduler import partial_gangs, schedule
from triplane.simulation.scheduling import Cluster, Job, Node, Task, gang


def node(name: str, gpus: int = 8) -> Node:
    return Node(name, (float(gpus), 64_000.0, 64e9))


def tasks(job: str, count: int, gpus: int = 1, on: str | None = None) -> tuple[Task, ...]:
    request = (float(gpus), 1000.0, 1e9)
    return tuple(Task(f"{job}-{i}", request, "pending" if on is None else "running", on) for i in range(count))


def test_seven_of_eight_hold_their_gpus_and_wait() -> None:
    big = Job("big", "q", tasks("big", 8), gang(8), priority=75)
    small = Job("small", "q", tasks("small", 1), gang(1))
    view = Cluster((node("n", 7),), (), (big, small))
    decisions = schedule(view)
    assert len(decisions.bound["big"]) == 7
    assert "small" not in decisions.bound, "the GPUs that idle are held"
    assert partial_gangs(view, decisions.bound) == {"big": 7}


def test_two_gangs_can_hold_each_other_up_for_ever() -> None:
    first = Job("first", "q", tasks("first", 4), gang(4), created=0)
    second = Job("second", "q", tasks("second", 4), gang(4), created=0)
    mixed = tuple(replace(job, tasks=job.tasks[:3]) for job in (first, second))
    view = Cluster((node("n", 6),), (), mixed)
    bound = schedule(view).bound
    grown = tuple(
        replace(
            job, tasks=tuple(replace(task, status="running", node=bound[job.name][task.name]) for task in job.tasks)
        )
        for job in mixed
    )
    late = tuple(
        replace(job, tasks=(*job.tasks, replace(job.tasks[0], name=f"{job.name}-3", status="pending", node=None)))
        for job in grown
    )
    view = Cluster((node("n", 6),), (), late)
    assert schedule(view).empty
    assert partial_gangs(view, {}) == {"first": 3, "second": 3}


def test_default_spreads_and_most_allocated_packs() -> None:
    runs = Job("runs", "q", tasks("runs", 1, on="a"), gang(1))
    new = Job("new", "q", tasks("new", 1), gang(1))
    view = Cluster((node("a"), node("b")), (), (runs, new))
    assert schedule(view).bound == {"new": {"new-0": "b"}}
    assert schedule(view, scoring="MostAllocated").bound == {"new": {"new-0": "a"}}


def test_higher_priority_displaces_the_least_important_pods() -> None:
    old = Job("old", "q", tasks("old", 1, gpus=4, on="n"), gang(1), started=0.0)
    young = Job("young", "q", tasks("young", 1, gpus=4, on="n"), gang(1), started=50.0)
    high = Job("high", "q", tasks("high", 1, gpus=4), gang(1), priority=100)
    decisions = schedule(Cluster((node("n"),), (), (old, young, high)))
    assert set(decisions.evicted) == {"young"}
    assert decisions.waiting == {"high": {"high-0": "n"}}
    assert schedule(Cluster((node("n"),), (), (old, young, replace(high, priority=50)))).empty


def test_the_node_with_the_lowest_priorities_loses() -> None:
    middle = Job("middle", "q", tasks("middle", 1, gpus=8, on="a"), gang(1), priority=75)
    low = Job("low", "q", tasks("low", 2, gpus=4, on="b"), gang(1), priority=50)
    high = Job("high", "q", tasks("high", 1, gpus=8), gang(1), priority=100)
    decisions = schedule(Cluster((node("a"), node("b")), (), (middle, low, high)))
    assert set(decisions.evicted) == {"low"}
    assert len(decisions.evicted["low"]) == 2


def test_nobody_is_displaced_while_room_is_being_left() -> None:
    leaving = Job("leaving", "q", (Task("leaving-0", (8.0, 1000.0, 1e9), "releasing", "n"),), gang(1))
    low = Job("low", "q", tasks("low", 1, gpus=8, on="m"), gang(1))
    high = Job("high", "q", tasks("high", 1, gpus=8), gang(1), priority=100)
    decisions = schedule(Cluster((node("m"), node("n")), (), (leaving, low, high)))
    assert decisions.evicted == {}
    assert decisions.waiting == {"high": {"high-0": "n"}}
