"""A gang in the cycle: which of its tasks are placed next, which give way first, and whether it is whole.

Source: kai-scheduler pkg/scheduler/api/podgroup_info and plugins/{elastic,subgrouporder,taskorder} (commit d5bc503).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from triplane.simulation.fair_share import Triple, total
from triplane.simulation.kai.tasks import ACTIVE, ALIVE, USED, TaskState
from triplane.simulation.scheduling import Group, Job, PodSet

Member = Group | PodSet


@dataclass(frozen=True)
class Gang:
    """A job, or a part of it while a plan is sought: some of its tasks, and the tree of minimums they can fulfil."""

    job: Job
    root: Group
    tasks: dict[str, list[TaskState]]

    @classmethod
    def of(cls, job: Job, states: Iterable[TaskState], root: Group | None = None) -> "Gang":
        """The job with these of its tasks."""
        tasks: dict[str, list[TaskState]] = {pod_set.name: [] for pod_set in (root or job.root).pod_sets()}
        for state in states:
            if state.task.pod_set in tasks:  # a task of an unknown set is never scheduled
                tasks[state.task.pod_set].append(state)
        return cls(job, root or job.root, tasks)

    def part(self, states: Iterable[TaskState]) -> "Gang":
        """These tasks with the full minimums."""
        return Gang.of(self.job, states, self.root)

    def partial(self, pending: Iterable[TaskState]) -> "Gang":
        """What holds a place and these, with minimums lowered to what is there."""
        smaller = self.part([*(state for state in self.all() if state.status in ACTIVE), *pending])
        lowered, _ = _lowered(self.root, {name: len(states) for name, states in smaller.tasks.items()})
        return Gang(self.job, lowered, smaller.tasks)

    def all(self) -> list[TaskState]:
        """Every task."""
        return [state for states in self.tasks.values() for state in states]

    def active(self, pod_set: str) -> int:
        """Tasks of a set that hold a place."""
        return sum(state.status in ACTIVE for state in self.tasks[pod_set])

    def count(self, member: Member) -> int:
        """What counts towards a member's minimum: tasks that hold a place, or complete members."""
        if isinstance(member, PodSet):
            return self.active(member.name)
        return sum(self.complete(child) for child in member.members)

    def complete(self, member: Member) -> bool:
        """Whether a member has its minimum."""
        return self.count(member) >= needed(member)

    @property
    def ready(self) -> bool:
        """Whether enough tasks exist that the gang can ever be complete."""
        return self._ready(self.root)

    def _ready(self, member: Member) -> bool:
        if isinstance(member, PodSet):
            # One that is gated is alive but cannot be placed.
            able = sum(state.status in ALIVE and state.status != "gated" for state in self.tasks[member.name])
            return able >= member.min_members
        return sum(self._ready(child) for child in member.members) >= member.needed

    @property
    def satisfied(self) -> bool:
        """Whether every set has its minimum, counting tasks on their way out."""
        return all(
            sum(state.status in USED for state in self.tasks[pod_set.name]) >= pod_set.min_members
            for pod_set in self.root.pod_sets()
        )

    @property
    def stale(self) -> bool:
        """Whether it runs with less than its minimum; a gang of which a task has succeeded is finishing, not stale."""
        states = self.all()
        if any(state.status == "succeeded" for state in states):
            return False
        return any(state.status in USED for state in states) and not self.satisfied

    @property
    def must_wait(self) -> bool:
        """Whether some set has a promised place and without it less than its minimum: then all its starts wait too."""
        for pod_set in self.root.pod_sets():
            states = self.tasks[pod_set.name]
            promised = sum(state.status == "pipelined" for state in states)
            if promised and self.active(pod_set.name) - promised < pod_set.min_members:
                return True
        return False

    @property
    def elasticity(self) -> int:
        """0 below its minimum, 1 exactly there, 2 above: the order among jobs of equal priority."""
        above = False
        for pod_set in self.root.pod_sets():
            active = self.active(pod_set.name)
            if active < pod_set.min_members:
                return 0
            above = above or active > pod_set.min_members
        return 2 if above else 1

    @property
    def elastic(self) -> bool:
        """Whether some set has more tasks than its minimum."""
        return any(pod_set.min_members < len(self.tasks[pod_set.name]) for pod_set in self.root.pod_sets())

    def allocated(self) -> Triple:
        """What its started tasks hold."""
        return total([state.request for state in self.all() if state.status in ("allocated", "running")])

    # Which tasks come next.

    def to_place(self, for_real: bool) -> list[TaskState]:
        """Tasks placed together next: all that its minimums lack; beyond them, one from the least complete member."""
        return self._place(self.root, for_real)

    def request(self) -> Triple:
        """What the tasks placed next ask for."""
        return total([state.request for state in self.to_place(for_real=False)])

    def _place(self, group: Group, for_real: bool) -> list[TaskState]:
        members = self.ordered(group)
        if self.complete(group):
            for member in members:
                if found := self._place_member(member, for_real):
                    return found
            return []
        found = []
        for member in members[: group.needed]:
            if not self.complete(member):
                found += self._place_member(member, for_real)
        return found

    def _place_member(self, member: Member, for_real: bool) -> list[TaskState]:
        if isinstance(member, Group):
            return self._place(member, for_real)
        waiting = sorted(
            (state for state in self.tasks[member.name] if state.can_be_placed(for_real)), key=lambda state: state.order
        )
        return waiting[: max(1, member.min_members - self.active(member.name))]

    def ordered(self, group: Group, *, backwards: bool = False) -> list[Member]:
        """Members, least complete first."""
        return sorted(group.members, key=self._member_order, reverse=backwards)

    def _member_order(self, member: Member) -> tuple[int, int, float, str]:
        count, minimum = self.count(member), needed(member)
        if count < minimum:
            return (0, 0, 0, member.name)
        return (1, 1, count, member.name) if minimum == 0 else (1, 0, count / minimum, member.name)

    # Which tasks give way first.

    def to_evict(self) -> tuple[list[TaskState], bool]:
        """Tasks that go together next, and whether others remain: one beyond the minimum if there is one, then a whole
        member beyond the minimum, at last everything."""
        found = self._surplus(self.root) or self._everything(self.root)
        return found, len(found) < sum(state.status in ACTIVE for state in self.all())

    def _surplus(self, group: Group) -> list[TaskState]:
        complete = self.count(group)
        if complete == 0:
            return []
        members = self.ordered(group, backwards=True)
        for member in members:
            if isinstance(member, Group):
                if found := self._surplus(member):
                    return found
            elif self.active(member.name) > member.min_members:
                return self._everything(member)[:1]
        if group.needed < complete:
            for member in members:
                if found := self._everything(member):
                    return found
        return []

    def _everything(self, member: Member) -> list[TaskState]:
        if isinstance(member, Group):
            return [state for pod_set in member.pod_sets() for state in self._everything(pod_set)]
        holding = [state for state in self.tasks[member.name] if state.status in ACTIVE]
        return sorted(holding, key=lambda state: state.order, reverse=True)


def needed(member: Member) -> int:
    """Minimum of a member: tasks of a set, members of a group."""
    return member.min_members if isinstance(member, PodSet) else member.needed


def _lowered(group: Group, sizes: dict[str, int]) -> tuple[Group, bool]:
    """The group with minimums lowered to the tasks there are, and whether it has any."""
    members: list[Member] = []
    filled = 0
    for member in group.members:
        if isinstance(member, Group):
            lowered, any_tasks = _lowered(member, sizes)
            members.append(lowered)
            filled += any_tasks
        else:
            size = sizes[member.name]
            members.append(replace(member, min_members=min(member.min_members, size)) if size else member)
            filled += size > 0
    least = None if group.min_subgroups is None else min(group.min_subgroups, filled)
    return replace(group, members=tuple(members), min_subgroups=least), filled > 0
