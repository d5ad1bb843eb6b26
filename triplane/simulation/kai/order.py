"""In which order jobs are tried, or have to give way: down the tree of queues, then within a queue.

Source: kai-scheduler pkg/scheduler/actions/utils/job_order_by_queue.go, plugins/{priority,elastic} (commit d5bc503).
"""

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass

from triplane.simulation.fair_share import ZERO, Triple
from triplane.simulation.kai.gang import Gang
from triplane.simulation.kai.queue_rules import Contender, QueueState, compare
from triplane.simulation.kai.state import State


@dataclass(frozen=True, slots=True)
class _Head:
    """What a queue, or the best queue below it, would bring forward next."""

    leaf: str
    request: Triple
    victims: tuple[Triple, ...]


class Line:
    """Jobs that wait to be tried (or, as victims, to give way), taken one by one; the order follows the state."""

    def __init__(self, state: State, gangs: Iterable[Gang] = (), *, victims: bool = False) -> None:
        """A line of these jobs. Jobs of queues that are not in the tree, or are not leaves, never come up."""
        self._state = state
        self._victims = victims
        self._leaves: dict[str, list[tuple[tuple[int, int, float, str], int, Gang]]] = {}
        self._taken: dict[str, list[Triple]] = {}
        self._pushed = 0
        for gang in gangs:
            self.push(gang)

    def push(self, gang: Gang) -> None:
        """Add a job, or one again whose tasks have changed."""
        job = gang.job
        if self._state.is_leaf(job.queue):
            self._pushed += 1
            key = (-job.priority, gang.elasticity, job.created, job.name)
            insort(self._leaves.setdefault(job.queue, []), (key, self._pushed, gang))

    def pop(self) -> Gang | None:
        """The next job, or None when there is no more."""
        head = self._head(None)
        if head is None:
            return None
        line = self._leaves[head.leaf]
        # Who would be served last gives way first.
        gang = line.pop(-1 if self._victims else 0)[2]
        if not line:
            del self._leaves[head.leaf]
        if self._victims:
            self._taken.setdefault(head.leaf, []).append(gang.allocated())
        return gang

    def _head(self, parent: str | None) -> _Head | None:
        best: tuple[QueueState, _Head] | None = None
        for child in self._state.children.get(parent, []):
            name = child.queue.name
            head = self._leaf_head(name) if name in self._leaves else self._head(name)
            if head is not None and (best is None or self._before((child, head), best)):
                best = (child, head)
        return None if best is None else best[1]

    def _before(self, left: tuple[QueueState, _Head], right: tuple[QueueState, _Head]) -> bool:
        one, other = (Contender(queue, head.request, head.victims) for queue, head in (left, right))
        first = compare(one, other, self._state.totals)
        return first > 0 if self._victims else first < 0

    def _leaf_head(self, leaf: str) -> _Head:
        gang = self._leaves[leaf][-1 if self._victims else 0][2]
        if self._victims:
            return _Head(leaf, ZERO, (*self._taken.get(leaf, ()), gang.allocated()))
        return _Head(leaf, gang.request(), ())
