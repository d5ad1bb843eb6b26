"""Which sets of nodes a gang or a part of it may be placed on, best first, where its tasks must or should be together.

Source: kai-scheduler pkg/scheduler/plugins/topology/job_filtering.go and node_scoring.go (commit d5bc503).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from triplane.simulation.fair_share import ZERO, Triple, plus, total
from triplane.simulation.kai.tasks import ACTIVE, GPU, Place, TaskState
from triplane.simulation.scheduling import Constraint, Topology

_SCORE = 100_000
"""Weight of a preferred level in a node's score, above everything else that is compared."""
_NOT_THERE = 1000.0
"""Ratio of request to free where nothing is free."""


@dataclass(eq=False)
class Domain:
    """A part of the cluster whose nodes share the values of the first labels of a topology; the root shares none."""

    path: tuple[str, ...]
    places: list[Place] = field(default_factory=list)
    children: dict[str, "Domain"] = field(default_factory=dict)

    def below(self) -> Iterator["Domain"]:
        """This domain and all within it."""
        yield self
        for child in self.children.values():
            yield from child.below()


def build(topology: Topology, places: Sequence[Place]) -> Domain:
    """The tree of domains. A node that lacks one of the labels is outside every domain, even the root."""
    root = Domain(())
    for place in places:
        values = [place.node.labels.get(level) for level in topology.levels]
        if any(value is None for value in values):
            continue
        domain = root
        domain.places.append(place)
        for value in values:
            assert value is not None
            domain = domain.children.setdefault(value, Domain((*domain.path, value)))
            domain.places.append(place)
    return root


class TopologyError(ValueError):
    """A constraint names a topology or a level that is not there: the gang cannot be placed."""


@dataclass(frozen=True)
class Candidates:
    """Node sets to try in order, and scores of nodes by preference."""

    sets: list[list[Place]]
    scores: Mapping[str, float]


def candidates(
    constraint: Constraint,
    trees: Mapping[str, tuple[Topology, Domain]],
    tasks: Sequence[TaskState],
    members: Sequence[TaskState],
    places: Sequence[Place],
) -> Candidates:
    """Where `tasks` may go among `places`. members are all tasks of the same sets: those that hold a place already pin
    the required domain. Raises TopologyError."""
    if constraint.topology not in trees:
        raise TopologyError(f"topology {constraint.topology} does not exist")
    topology, root = trees[constraint.topology]
    depths = _relevant_depths(constraint, topology)
    allowed = {place.name for place in places}
    start = _lowest_common(root, allowed, topology, constraint)
    free = _Free(start, tasks)
    if not free.fits(start):
        return Candidates([], {})

    deepest = constraint.preferred or constraint.required
    order = _bottom_up(start, free, topology.levels.index(deepest) + 1 if deepest else 0)
    scores: dict[str, float] = {}
    if constraint.preferred is not None:
        preferred = [d for d in order if len(d.path) == topology.levels.index(constraint.preferred) + 1]
        for rank, domain in enumerate(preferred, 1):
            for place in domain.places:
                scores[place.name] = math.floor(rank / len(preferred) * 10) * _SCORE

    pinned = None
    if constraint.required is not None:
        held = {state.node for state in members if state.status in ACTIVE}
        if held:
            depth = topology.levels.index(constraint.required) + 1
            pinned = {d.path for d in root.below() if len(d.path) == depth and any(p.name in held for p in d.places)}
    sets = []
    for domain in order:
        if len(domain.path) not in depths or not free.fits(domain):
            continue
        if pinned is not None and not any(domain.path[: len(path)] == path for path in pinned):
            continue
        sets.append([place for place in domain.places if place.name in allowed])
    return Candidates(sets, scores)


def _relevant_depths(constraint: Constraint, topology: Topology) -> set[int]:
    """Depths of domains to consider: from the preferred level, or the required one, up to the required level, or to
    the root where nothing is required."""
    for level in (constraint.required, constraint.preferred):
        if level is not None and level not in topology.levels:
            raise TopologyError(f"topology {topology.name} has no level {level}")
    if constraint.required is None and constraint.preferred is None:
        raise TopologyError(f"no level of topology {topology.name} is required or preferred")
    highest = topology.levels.index(constraint.required) + 1 if constraint.required else 0
    lowest = topology.levels.index(constraint.preferred) + 1 if constraint.preferred else highest
    if lowest < highest:
        raise TopologyError(f"level {constraint.preferred} is preferred, but wider than the required one")
    return set(range(highest, lowest + 1))


def _lowest_common(root: Domain, allowed: set[str], topology: Topology, constraint: Constraint) -> Domain:
    """Narrowest domain with all allowed nodes, though not below the preferred level."""
    domain = root
    while len(domain.path) < len(topology.levels):
        if len(domain.path) and topology.levels[len(domain.path) - 1] == constraint.preferred:
            break
        inhabited = [
            child for child in domain.children.values() if any(place.name in allowed for place in child.places)
        ]
        if len(inhabited) != 1:
            break
        domain = inhabited[0]
    return domain


class _Free:
    """What is free in each domain below a start, against what tasks need."""

    def __init__(self, start: Domain, tasks: Sequence[TaskState]) -> None:
        self._count = len(tasks)
        self._total = total([state.request for state in tasks])
        with_gpu = sum(state.request[GPU] > 0 for state in tasks)
        # Tasks of one kind are counted by the largest of them; of a mix only the sum is compared.
        self._alike = with_gpu in (0, len(tasks))
        gpu, cpu, memory = (max(state.request[index] for state in tasks) for index in range(3))
        self._largest: Triple = (gpu, cpu, memory)
        self._free: dict[tuple[str, ...], Triple] = {}
        self._slots: dict[tuple[str, ...], int] = {}
        for domain in start.below():
            free = ZERO
            for place in domain.places:
                free = plus(free, place.available)
            self._free[domain.path] = free
            self._slots[domain.path] = sum(self._room(place.available) for place in domain.places)

    def _room(self, free: Triple) -> int:
        if any(need > has for need, has in zip(self._largest, free, strict=True)):
            return 0
        return min(
            (int(has // need) for need, has in zip(self._largest, free, strict=True) if need > 0), default=self._count
        )

    def fits(self, domain: Domain) -> bool:
        """Whether the tasks can be expected to fit into the domain."""
        if self._alike:
            return self._slots[domain.path] >= self._count
        return self.ratio(domain) <= 1

    def ratio(self, domain: Domain) -> float:
        """Greatest part of a resource of the domain that the tasks need."""
        free = self._free[domain.path]
        return max(
            (need / has if has > 0 else _NOT_THERE for need, has in zip(self._total, free, strict=True) if need > 0),
            default=0.0,
        )


def _bottom_up(start: Domain, free: _Free, depth: int) -> list[Domain]:
    """Domains from the narrowest level to the start; siblings down to `depth` with the fullest first, then by name."""
    levels = [[start]]
    while children := [
        child
        for domain in levels[-1]
        for child in sorted(
            domain.children.values(),
            key=lambda child: (-free.ratio(child) if len(child.path) <= depth + 1 else 0.0, child.path),
        )
    ]:
        levels.append(children)
    return [domain for level in reversed(levels) for domain in level]
