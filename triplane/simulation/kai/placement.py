"""Where a gang lands: all tasks it needs next, or none.

Source: kai-scheduler pkg/scheduler/actions/common/allocate.go and plugins/{nodeplacement,nodeavailability,resourcetype}
(commit d5bc503).
"""

from collections.abc import Mapping, Sequence

from triplane.simulation.fair_share import total
from triplane.simulation.kai.gang import Gang
from triplane.simulation.kai.queue_rules import Refusal, admission
from triplane.simulation.kai.state import State
from triplane.simulation.kai.tasks import CPU, GPU, Place, TaskState
from triplane.simulation.kai.topology import TopologyError, candidates
from triplane.simulation.scheduling import Group, PodSet

_AVAILABLE = 1000
"""Score of a node that has the room now, above the density."""
_CPU_NODE = 10
"""Score of a node without GPUs for a task without."""
_DENSITY = 9
"""Greatest score of a node by how full it is."""

NO_ROOM = "no room"


def place_gang(state: State, gang: Gang, places: Sequence[Place], *, only_promise: bool) -> Refusal | str | None:
    """Give places to the tasks the gang needs next. None if all have one; else the reason, and nothing is changed.

    only_promise: no task starts, each gets a place that someone may still have to leave; a task that the plan evicted
    may be placed too.
    """
    tasks = gang.to_place(for_real=not only_promise)
    if not tasks:
        return NO_ROOM
    job = gang.job
    refusal = admission(state.tree, job.queue, total([task.request for task in tasks]), job.preemptible)
    if refusal is not None:
        return refusal
    try:
        placed = _place_member(state, gang, gang.root, tasks, places, {}, only_promise)
    except TopologyError as error:
        return str(error)
    return None if placed else NO_ROOM


def _place_member(
    state: State,
    gang: Gang,
    member: Group | PodSet,
    tasks: list[TaskState],
    places: Sequence[Place],
    scores: Mapping[str, float],
    only_promise: bool,
) -> bool:
    """Place those of `tasks` that belong to the member, on the first node set where all of them fit."""
    names = {member.name} if isinstance(member, PodSet) else {pod_set.name for pod_set in member.pod_sets()}
    own = [task for task in tasks if task.task.pod_set in names]
    if not own:
        return True
    sets: list[Sequence[Place]] = [places]
    if member.constraint is not None:
        touched = {task.task.pod_set for task in own}
        siblings = [sibling for name in touched for sibling in gang.tasks[name]]
        found = candidates(member.constraint, state.trees, own, siblings, places)
        sets = list(found.sets)
        scores = found.scores or scores
    for nodes in sets:
        mark = state.checkpoint()
        if isinstance(member, PodSet):
            done = all(_place_task(state, task, nodes, scores, only_promise) for task in own)
        else:
            done = all(
                _place_member(state, gang, child, own, nodes, scores, only_promise) for child in gang.ordered(member)
            )
        if done:
            return True
        state.rollback(mark)
    return False


def _place_task(
    state: State, task: TaskState, nodes: Sequence[Place], scores: Mapping[str, float], only_promise: bool
) -> bool:
    place = best_place(task, nodes, scores, spread=state.settings.placement == "spread")
    if place is None:
        return False
    if not only_promise and place.has_idle(task.request):
        state.allocate(task, place)
    else:
        state.pipeline(task, place)
    return True


def best_place(task: TaskState, nodes: Sequence[Place], scores: Mapping[str, float], *, spread: bool) -> Place | None:
    """The node with the highest score that has room, now or once others have left; among equals the first.

    With binpack the density is greatest on the node with the least left among all that are considered.
    """
    index = GPU if task.request[GPU] > 0 else CPU
    lefts = [place.idle[index] + place.releasing[index] for place in nodes if place.node.capacity[index] > 0]
    least, most = min(lefts, default=0.0), max(lefts, default=0.0)
    best, best_score = None, -1.0
    for place in nodes:
        if not place.has_room(task.request):
            continue
        score = scores.get(place.name, 0.0)
        if place.has_idle(task.request):
            score += _AVAILABLE
        if index != GPU and place.node.capacity[GPU] == 0:
            score += _CPU_NODE
        whole = place.node.capacity[index]
        if whole > 0:
            left = place.idle[index] + place.releasing[index]
            if spread:
                score += left / whole
            elif most > 0:
                score += _DENSITY if most == least else _DENSITY * (1 - (left - least) / (most - least))
        if score > best_score:
            best, best_score = place, score
    return best
