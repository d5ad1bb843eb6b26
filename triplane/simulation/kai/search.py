"""The search for those who give way: plans are tried on the state, the first that places the job whole is kept.

Source: kai-scheduler pkg/scheduler/actions/common/solvers and plugins/{nodelocalgreedy,multinodegang} (commit d5bc503).
The original bounds the search by time; this one always runs to its end.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from triplane.simulation.kai.gang import Gang
from triplane.simulation.kai.order import Line
from triplane.simulation.kai.placement import place_gang
from triplane.simulation.kai.state import State
from triplane.simulation.kai.tasks import GPU, Place, TaskState
from triplane.simulation.scheduling import Action

Batch = tuple[TaskState, ...]
"""Tasks of one job that were taken together and can only give way together."""

Verdict = Callable[[Gang, dict[str, list[TaskState]]], bool]
"""Whether a plan is acceptable: for the job, the victims of each other job in the order they were taken, as they stand
after the plan (one that found a place again is active)."""


@dataclass(frozen=True)
class Search:
    """One action's search for one job: who may give way, and what makes a plan acceptable."""

    state: State
    action: Action
    victims: Callable[[], list[Gang]]
    accept: Verdict

    def run(self, job: Gang) -> bool:
        """Find a plan and leave it in the state, virtual; False leaves the state as it was."""
        tasks = job.to_place(for_real=False)
        candidates = self.victims()
        if not tasks or not candidates:
            return False
        for generate in (node_by_node, across_nodes):
            hints: list[Batch] = []
            # The hints of the largest part that can be placed start the search for the whole.
            if self._largest_part(job, tasks, candidates, generate, hints) == 0:
                continue
            mark = self.state.checkpoint()
            if self._plan(job.partial(tasks), tasks, candidates, generate, hints) is not None:
                if job.satisfied:
                    return True
                self.state.rollback(mark)
        return False

    def _largest_part(
        self, job: Gang, tasks: list[TaskState], candidates: list[Gang], generate: "Generator", hints: list[Batch]
    ) -> int:
        """How many tasks can be placed, by doubling and halving; the victims of the last success go into the hints."""

        def probe(count: int) -> bool:
            part = tasks[:count]
            mark = self.state.checkpoint()
            found = self._plan(job.partial(part), part, candidates, generate, hints)
            self.state.rollback(mark)
            if found is not None:
                hints[:] = found
            return found is not None

        low, high, count = 0, len(tasks) + 1, 1
        while True:
            if not probe(count):
                high = count
                break
            low = count
            if count == len(tasks):
                return count
            count = min(2 * count, len(tasks))
        while high - low > 1:
            middle = (low + high) // 2
            if probe(middle):
                low = middle
            else:
                high = middle
        return low

    def _plan(
        self, part: Gang, pending: list[TaskState], candidates: list[Gang], generate: "Generator", hints: list[Batch]
    ) -> list[Batch] | None:
        """The batches of a plan that works, which is left in the state, or None with the state as it was."""
        base = _feasible(self.state, part)
        for batch in hints:
            for task in batch:
                assert task.node is not None
                base.setdefault(task.node, self.state.places[task.node])
        accumulated = _Accumulated(self.state, pending, list(hints), Line(self.state, candidates, victims=True))
        tried: set[tuple[str, ...]] = set()
        for batches in generate(accumulated, base):
            everyone = [*hints, *batches]
            names = tuple(sorted(task.name for batch in everyone for task in batch))
            if not names or names in tried:
                continue
            tried.add(names)
            mark = self.state.checkpoint()
            if self._try(part, everyone, base):
                gone = {task.name for batch in everyone for task in batch if task.status in ("releasing", "pipelined")}
                return [batch for batch in everyone if any(task.name in gone for task in batch)]
            self.state.rollback(mark)
        return None

    def _try(self, part: Gang, batches: Sequence[Batch], base: dict[str, Place]) -> bool:
        """Evict everyone, then give places in the usual order to the job and to those who gave way."""
        state = self.state
        victims = {task.name: task for batch in batches for task in batch}
        nodes = dict(base)
        for task in victims.values():
            assert task.node is not None
            nodes.setdefault(task.node, state.places[task.node])
            state.evict(task, self.action, part.job.name)
        places = [nodes[name] for name in sorted(nodes)]
        giving = {task.job.name for task in victims.values()}
        line = Line(state)
        for job in state.jobs.values():
            tasks = state.tasks[job.name]
            if job.name == part.job.name:
                line.push(part)
            elif job.name in giving or any(task.status == "pending" for task in tasks):
                line.push(Gang.of(job, tasks))
        placed = False
        while (gang := line.pop()) is not None:
            if gang.job.name == part.job.name:
                if place_gang(state, gang, places, only_promise=True) is not None:
                    return False
                placed = True
            elif gang.job.name in giving:
                place_gang(state, gang, places, only_promise=True)
        by_job: dict[str, list[TaskState]] = {}
        for batch in batches:
            for task in batch:
                by_job.setdefault(task.job.name, []).append(task)
        return placed and self.accept(part, by_job)


def _feasible(state: State, part: Gang) -> dict[str, Place]:
    """Nodes that matter without any victim: for a job whose tasks all use GPUs, those with some free."""
    if any(task.request[GPU] <= 0 for task in part.all()):
        return dict(state.places)
    return {name: place for name, place in state.places.items() if place.idle[GPU] > 0 or place.releasing[GPU] > 0}


class _Accumulated:
    """Victims taken so far, batch by batch, and the rest of the line."""

    def __init__(self, state: State, pending: list[TaskState], hints: list[Batch], line: Line) -> None:
        self.state = state
        self.pending = pending
        self.hints = hints
        self.batches: list[Batch] = []
        self._known = {task.name for batch in hints for task in batch}
        self._line = line

    def advance(self) -> bool:
        """Take the next batch; False when nobody is left. Those of the hints are passed over."""
        while (gang := self._line.pop()) is not None:
            batch, more = gang.to_evict()
            if not batch:  # what is left of the job only waits
                continue
            if any(task.name in self._known for task in batch):
                rest = [task for task in gang.all() if task.name not in self._known]
                if rest:
                    self._line.push(gang.part(rest))
                continue
            if more:
                self._line.push(gang.part(task for task in gang.all() if task not in batch))
            self.batches.append(tuple(batch))
            return True
        return False

    @property
    def promising(self) -> bool:
        """Whether the tasks could fit, one by one and largest first, on what the nodes have and the victims hold."""
        room = {name: place.idle[GPU] + place.releasing[GPU] for name, place in self.state.places.items()}
        for batch in (*self.hints, *self.batches):
            for task in batch:
                assert task.node is not None
                room[task.node] += task.request[GPU]
        given = dict.fromkeys(room, 0.0)
        roomiest = sorted(room, key=lambda name: -room[name])
        for need in sorted((task.request[GPU] for task in self.pending), reverse=True):
            if need == 0:
                break
            node = next((name for name in roomiest if room[name] - given[name] >= need), None)
            if node is None:
                return False
            given[node] += need
        return True


Generator = Callable[[_Accumulated, dict[str, Place]], Iterator[list[Batch]]]


def node_by_node(victims: _Accumulated, base: dict[str, Place]) -> Iterator[list[Batch]]:
    """First way to plan: as each job joins, everyone so far who has a task on one of that job's nodes."""
    if victims.promising and victims.hints:
        yield []
    while victims.advance():
        if not victims.promising:
            continue
        latest = victims.batches[-1][-1].job.name
        nodes = sorted({task.node for task in victims.state.tasks[latest] if task.node is not None})
        seen: set[frozenset[str]] = set()
        for node in nodes:
            jobs = {task.job.name for batch in victims.batches for task in batch if task.node == node}
            # Batches of the hints come again with those of their jobs and count twice when the plan is judged. So it is
            # in the original, where VictimsTasksFromNodes takes all task groups of a job, and it does reject plans.
            chosen = [batch for batch in (*victims.hints, *victims.batches) if batch[0].job.name in jobs]
            names = frozenset(task.name for batch in chosen for task in batch)
            if chosen and names not in seen:
                seen.add(names)
                yield chosen


def across_nodes(victims: _Accumulated, base: dict[str, Place]) -> Iterator[list[Batch]]:
    """Second way: nodes from the least to the most that would become free, as many as the demand needs, then more."""
    if victims.promising and victims.hints:
        yield []
    while victims.advance():
        if victims.promising:
            yield from _growing(victims, base)


def _growing(victims: _Accumulated, base: dict[str, Place]) -> Iterator[list[Batch]]:
    freed: dict[str, float] = {}
    for batch in victims.hints:
        for task in batch:
            assert task.node is not None
            freed[task.node] = freed.get(task.node, 0.0) + task.request[GPU]
    by_node: dict[str, list[int]] = {}
    for index, batch in enumerate(victims.batches):
        for task in batch:
            assert task.node is not None
            on_node = by_node.setdefault(task.node, [])
            if index not in on_node:
                on_node.append(index)
    room: dict[str, float] = {}
    for node, indices in by_node.items():
        place = victims.state.places[node]
        room[node] = place.idle[GPU] + place.releasing[GPU] + freed.get(node, 0.0)
        room[node] += sum(t.request[GPU] for index in indices for t in victims.batches[index] if t.node == node)
    needs = [task.request[GPU] for task in victims.pending]
    smallest = min(needs)
    # A stable sort: nodes of equal room stay in the order in which their first victim was taken.
    nodes = sorted((node for node in by_node if smallest <= 0 or room[node] >= smallest), key=lambda node: room[node])
    covered = sum(
        place.idle[GPU] + place.releasing[GPU] + freed.get(name, 0.0)
        for name, place in base.items()
        if name not in by_node
    )
    count = 0
    while covered < sum(needs) and count < len(nodes):
        covered += room[nodes[count]]
        count += 1
    if covered < sum(needs):
        return
    step = 1
    while True:
        chosen = {index for node in nodes[:count] for index in by_node[node]}
        yield [batch for index, batch in enumerate(victims.batches) if index in chosen]
        if count >= len(nodes):
            return
        count = min(count + step, len(nodes))
        step *= 2
