"""Random small clusters: nodes, a tree of queues, gangs that run whole or wait."""

from hypothesis import strategies as st

from triplane.simulation.fair_share import UNLIMITED, Queue, Triple
from triplane.simulation.scheduling import Cluster, Constraint, Group, Job, Node, PodSet, Task, Topology, gang

RACKS = Topology("racks", ("rack", "host"))


def size(gpus: int) -> Triple:
    return (float(gpus), 1000.0, 1e9)


@st.composite
def queues(draw: st.DrawFn) -> tuple[Queue, ...]:
    names = ["team-0", "team-1", "team-2"][: draw(st.integers(1, 3))]
    free = UNLIMITED
    tree = [Queue("top", None, (free, free, free))]
    for rank, name in enumerate(names):
        quota = float(draw(st.integers(0, 8)))
        limit = draw(st.sampled_from([free, free, quota, quota + 4]))
        weight = float(draw(st.integers(0, 3)))
        tree.append(
            Queue(
                name,
                "top",
                (quota, free, free),
                (limit, free, free),
                (weight, 1, 1),
                draw(st.sampled_from([100, 200])),
                rank,
            )
        )
    return tuple(tree)


@st.composite
def gangs(draw: st.DrawFn, tasks: int) -> Group:
    constraint = draw(
        st.sampled_from([None, None, Constraint("racks", required="rack"), Constraint("racks", preferred="rack")])
    )
    if tasks >= 2 and draw(st.booleans()):
        first = draw(st.integers(1, tasks - 1))
        sets = (
            PodSet("a", draw(st.integers(1, first))),
            PodSet("b", draw(st.integers(1, tasks - first))),
        )
        return Group("", sets, constraint=constraint)
    return gang(draw(st.integers(1, tasks)), constraint)


def members(root: Group, tasks: int) -> list[str]:
    """Which set each task belongs to."""
    sets = list(root.pod_sets())
    if len(sets) == 1:
        return [""] * tasks
    return ["a"] * (tasks - sets[1].min_members) + ["b"] * sets[1].min_members


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    nodes = tuple(
        Node(
            f"node-{i}",
            (float(draw(st.sampled_from([2, 4, 8]))), 64_000.0, 64e9),
            {"rack": f"rack-{i % 2}", "host": f"node-{i}"},
        )
        for i in range(draw(st.integers(1, 4)))
    )
    tree = draw(queues())
    leaves = [queue.name for queue in tree if queue.parent]
    free = {node.name: node.capacity[0] for node in nodes}
    jobs = []
    for index in range(draw(st.integers(1, 7))):
        tasks, gpus = draw(st.integers(1, 4)), draw(st.sampled_from([1, 1, 2, 4]))
        root = draw(gangs(tasks))
        sets = members(root, tasks)
        priority = draw(st.sampled_from([50, 75, 100, 125]))
        running = draw(st.booleans())
        spots: list[str | None] = [None] * tasks
        if running:
            left = dict(free)
            for i in range(tasks):
                roomy = [name for name in sorted(left) if left[name] >= gpus]
                if not roomy:
                    break
                node = draw(st.sampled_from(roomy))
                left[node] -= gpus
                spots[i] = node
            if all(spots):
                free = left
            else:
                spots = [None] * tasks
        made = tuple(
            Task(f"job-{index}-{i}", size(gpus), "running" if spots[i] else "pending", spots[i], sets[i])
            for i in range(tasks)
        )
        created = float(draw(st.integers(0, 3)))
        jobs.append(Job(f"job-{index}", draw(st.sampled_from(leaves)), made, root, priority, priority < 100, created))
    return Cluster(nodes, tree, tuple(jobs), (RACKS,))
