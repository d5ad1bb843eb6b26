"""Tasks and nodes while a cycle runs: what has which place, and what is free."""

from dataclasses import dataclass, field

from triplane.simulation.fair_share import RESOURCES, ZERO, Triple, plus
from triplane.simulation.scheduling import Action, Job, Node, Status, Task

GPU = RESOURCES.index("gpu")
CPU = RESOURCES.index("cpu")

ACTIVE: frozenset[Status] = frozenset(("allocated", "pipelined", "running"))
"""Holds a place and will go on doing so."""
USED: frozenset[Status] = ACTIVE | {"releasing"}
"""Holds a place, even if on its way out."""
ALIVE: frozenset[Status] = ACTIVE | {"pending", "gated"}


@dataclass(slots=True, eq=False)
class TaskState:
    """A task in the cycle. virtual: evicted or placed by a plan that is not kept yet."""

    task: Task
    job: Job
    status: Status
    node: str | None
    virtual: bool = False
    evicted_by: tuple[Action, str | None] | None = None
    before: tuple[Status, bool, tuple[Action, str | None] | None] | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return self.task.name

    @property
    def request(self) -> Triple:
        """What it asks for."""
        return self.task.request

    def can_be_placed(self, for_real: bool) -> bool:
        """Whether it looks for a place: pending, or in a plan also evicted by that plan."""
        return self.status == "pending" or (not for_real and self.status == "releasing" and self.virtual)

    @property
    def order(self) -> tuple[bool, int, str]:
        """Sort key within a job: tasks with a priority first, higher ones before lower."""
        priority = self.task.priority
        return (priority is None, -(priority or 0), self.name)


@dataclass(slots=True, eq=False)
class Place:
    """A node in the cycle: idle now, and what those on their way out will leave (less what is promised already)."""

    node: Node
    idle: Triple
    releasing: Triple = ZERO
    tasks: dict[str, tuple[TaskState, Status]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its name."""
        return self.node.name

    @property
    def available(self) -> Triple:
        """Idle or about to be."""
        return plus(self.idle, self.releasing)

    def has_idle(self, request: Triple) -> bool:
        """Whether a task can start here now."""
        return _within(request, self.idle)

    def has_room(self, request: Triple) -> bool:
        """Whether a task can start here now or once others have left."""
        return _within(request, self.available)


def _within(request: Triple, room: Triple) -> bool:
    return request[0] <= room[0] and request[1] <= room[1] and request[2] <= room[2]
