"""The working state of one cycle: every change can be taken back, as the scheduler tries plans before it keeps one."""

from typing import Any

from triplane.simulation.fair_share import ZERO, Queue, Triple, fair_shares, minus, plus, total
from triplane.simulation.kai import topology
from triplane.simulation.kai.queue_rules import QueueState, ancestry
from triplane.simulation.kai.settings import Settings
from triplane.simulation.kai.tasks import USED, Place, TaskState
from triplane.simulation.scheduling import Action, Cluster, Job, Status


class State:
    """Tasks, nodes and queues of one cycle, with a log of changes."""

    def __init__(self, cluster: Cluster, settings: Settings, now: float) -> None:
        """Take in the view at time `now`, seconds on the clock of jobs' created and started."""
        self.settings = settings
        self.now = now
        self.cluster = cluster
        self._log: list[tuple[Any, str, Any]] = []
        self.places: dict[str, Place] = {}
        for node in sorted(cluster.nodes, key=lambda node: node.name):
            free = minus(node.capacity, cluster.foreign.get(node.name, ZERO))
            self.places[node.name] = Place(node, free)
        self.totals = total([place.idle for place in self.places.values()])
        # The original goes through maps, in random order; ours is fixed, and the order of the view does not matter.
        self.jobs: dict[str, Job] = {
            job.name: job for job in sorted(cluster.jobs, key=lambda job: (job.created, job.name))
        }
        self.tasks: dict[str, list[TaskState]] = {}
        for job in self.jobs.values():
            states = [TaskState(task, job, task.status, task.node) for task in job.tasks]
            self.tasks[job.name] = sorted(states, key=lambda state: state.order)
        self._fill()
        self.trees = {one.name: (one, topology.build(one, list(self.places.values()))) for one in cluster.topologies}
        self.tree = self._queues()
        self.children: dict[str | None, list[QueueState]] = {}
        for state in sorted(self.tree.values(), key=lambda state: (state.queue.created, state.queue.name)):
            self.children.setdefault(state.queue.parent, []).append(state)

    def _fill(self) -> None:
        for states in self.tasks.values():
            for state in states:
                if state.node is not None and state.status in USED and state.node in self.places:
                    self._enter(state, self.places[state.node])

    def _queues(self) -> dict[str, QueueState]:
        # A queue without a way up to a top queue is no part of the tree, nor are its jobs; queues in a circle neither
        # (they stop the original for good).
        below: dict[str | None, list[Queue]] = {}
        for queue in self.cluster.queues:
            below.setdefault(queue.parent, []).append(queue)
        tree: dict[str, QueueState] = {}
        found = list(below.get(None, ()))
        while found:
            queue = found.pop()
            tree[queue.name] = QueueState(queue)
            found += below.get(queue.name, ())
        requests = dict.fromkeys(tree, ZERO)
        for job in self.jobs.values():
            held = total([task.request for task in job.tasks if task.status in ("allocated", "running")])
            pending = total([task.request for task in job.tasks if task.status == "pending"])
            for state in ancestry(tree, job.queue):
                state.allocated = plus(state.allocated, held)
                if not job.preemptible:
                    state.non_preemptible = plus(state.non_preemptible, held)
                requests[state.queue.name] = plus(requests[state.queue.name], plus(held, pending))
        declared = [state.queue for state in tree.values()]
        shares = fair_shares(declared, requests, self.totals, self.settings.k_value, self.cluster.usage)
        for name, share in shares.items():
            tree[name].fair_share = share
        return tree

    # Changes, all through one log.

    def checkpoint(self) -> int:
        """A mark to come back to."""
        return len(self._log)

    def rollback(self, mark: int) -> None:
        """Take back every change since the mark."""
        while len(self._log) > mark:
            owner, name, old = self._log.pop()
            if not isinstance(owner, dict):
                setattr(owner, name, old)
            elif old is None:
                del owner[name]
            else:
                owner[name] = old

    def keep(self) -> None:
        """Make every change final: what was evicted or placed by plan is so now."""
        for owner, name, _ in self._log:
            if name == "status":
                owner.virtual = False
        self._log.clear()

    def _set(self, owner: Any, name: str, value: Any) -> None:
        self._log.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def evict(self, state: TaskState, action: Action, beneficiary: str | None) -> None:
        """Send a task off its node; the room it takes becomes room that is about to be free."""
        assert state.node is not None
        self._set(state, "before", (state.status, state.virtual, state.evicted_by))
        self._leave(state, self.places[state.node])
        self._set(state, "status", "releasing")
        self._enter(state, self.places[state.node])
        self._set(state, "virtual", True)
        self._set(state, "evicted_by", (action, beneficiary))
        self._charge(state, -1)

    def pipeline(self, state: TaskState, place: Place) -> None:
        """Promise a place; one that a plan evicted from that very node simply stays."""
        if state.status == "releasing" and state.node == place.name and state.before is not None:
            status, virtual, evicted_by = state.before
            self._leave(state, place)
            self._set(state, "status", status)
            self._enter(state, place)
            self._set(state, "virtual", virtual)
            self._set(state, "evicted_by", evicted_by)
        else:
            self._set(state, "status", "pipelined")
            self._set(state, "node", place.name)
            self._enter(state, place)
            self._set(state, "virtual", True)
        self._charge(state, 1)

    def allocate(self, state: TaskState, place: Place) -> None:
        """Start a task on idle room."""
        self._set(state, "status", "allocated")
        self._set(state, "node", place.name)
        self._enter(state, place)
        self._charge(state, 1)

    def postpone(self, state: TaskState) -> None:
        """Turn a start into a promise, as the rest of its gang has to wait."""
        assert state.node is not None
        place = self.places[state.node]
        self._leave(state, place)
        self._set(state, "status", "pipelined")
        self._enter(state, place)

    def _enter(self, state: TaskState, place: Place) -> None:
        self._account(place, state.status, state.request, 1)
        self._log.append((place.tasks, state.name, place.tasks.get(state.name)))
        place.tasks[state.name] = (state, state.status)

    def _leave(self, state: TaskState, place: Place) -> None:
        self._account(place, place.tasks[state.name][1], state.request, -1)

    def _account(self, place: Place, status: Status, request: Triple, sign: int) -> None:
        change = request if sign > 0 else minus(ZERO, request)
        if status == "releasing":
            self._set(place, "releasing", plus(place.releasing, change))
        elif status == "pipelined":
            self._set(place, "releasing", minus(place.releasing, change))
        if status != "pipelined":
            self._set(place, "idle", minus(place.idle, change))

    def _charge(self, state: TaskState, sign: int) -> None:
        change = state.request if sign > 0 else minus(ZERO, state.request)
        for queue in ancestry(self.tree, state.job.queue):
            self._set(queue, "allocated", plus(queue.allocated, change))
            if not state.job.preemptible:
                self._set(queue, "non_preemptible", plus(queue.non_preemptible, change))

    # Questions.

    def is_leaf(self, queue: str) -> bool:
        """Whether jobs can run in the queue: it is in the tree and has no children."""
        return queue in self.tree and not self.children.get(queue)
