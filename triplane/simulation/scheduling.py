"""What a scheduler looks at once, and what it decides: nodes, queues, gangs in; bound, waiting, evicted out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from triplane.simulation.fair_share import Queue, Triple

Status = Literal["pending", "gated", "allocated", "pipelined", "running", "releasing", "succeeded"]
"""pipelined: given a place that someone else still has to leave."""

Action = Literal["consolidation", "reclaim", "preempt", "stalegangeviction"]


@dataclass(frozen=True, slots=True)
class Node:
    """A ready node: what it can give out, and its labels."""

    name: str
    capacity: Triple
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Topology:
    """Levels of node labels, widest first."""

    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Constraint:
    """Where tasks must, or should, be together."""

    topology: str
    required: str | None = None
    preferred: str | None = None


@dataclass(frozen=True, slots=True)
class PodSet:
    """Equal tasks of a gang, of which min_members must run together."""

    name: str
    min_members: int
    constraint: Constraint | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Members of a gang, of which min_subgroups must be complete: None means all."""

    name: str
    members: "tuple[Group | PodSet, ...]"
    min_subgroups: int | None = None
    constraint: Constraint | None = None

    @property
    def needed(self) -> int:
        """Members that must be complete."""
        return len(self.members) if self.min_subgroups is None else self.min_subgroups

    def pod_sets(self) -> Iterator[PodSet]:
        """All sets below, depth first."""
        for member in self.members:
            if isinstance(member, PodSet):
                yield member
            else:
                yield from member.pod_sets()


def gang(min_members: int, constraint: Constraint | None = None) -> Group:
    """The usual gang: one set of tasks."""
    return Group("", (PodSet("", min_members),), constraint=constraint)


@dataclass(frozen=True, slots=True)
class Task:
    """One pod. priority orders tasks within their job, higher first; None comes last."""

    name: str
    request: Triple
    status: Status = "pending"
    node: str | None = None
    pod_set: str = ""
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A pod group. created orders jobs of equal priority; started is when it last got going, None if it never did.

    preemption_delay_s: how long after its creation it may not make others give way (a node may be under way).
    staleness_grace_s: how long it may run with less than its minimum; None is the scheduler's default, negative never
    evicts. stale_since is when that began.
    """

    name: str
    queue: str
    tasks: tuple[Task, ...]
    root: Group
    priority: int = 50
    preemptible: bool = True
    created: float = 0
    started: float | None = None
    preemption_delay_s: float = 0
    staleness_grace_s: float | None = None
    stale_since: float | None = None


@dataclass(frozen=True)
class Cluster:
    """The view of one cycle. usage: past use of queues over capacity; foreign: what pods of other schedulers hold per
    node, which counts neither as free nor as divisible."""

    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...]
    jobs: tuple[Job, ...]
    topologies: tuple[Topology, ...] = ()
    usage: Mapping[str, Triple] = field(default_factory=dict)
    foreign: Mapping[str, Triple] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Eviction:
    """A running task that is deleted: by which action, and for whom."""

    task: str
    action: Action
    beneficiary: str | None


@dataclass(frozen=True)
class Decisions:
    """Outcome of one cycle, by job and task name.

    bound: tasks that start on a node now. waiting: tasks that will start there once what is evicted has left; the next
    cycle decides anew. refused: why a pending job got nothing, where a rule and not room was the reason. stale: jobs
    that run with less than their minimum.
    """

    bound: Mapping[str, Mapping[str, str]]
    waiting: Mapping[str, Mapping[str, str]]
    evicted: Mapping[str, tuple[Eviction, ...]]
    refused: Mapping[str, str]
    stale: frozenset[str]
    fair_share: Mapping[str, Triple]

    @property
    def empty(self) -> bool:
        """Whether nothing starts, waits or is evicted: the same view gives the same again."""
        return not (self.bound or self.waiting or self.evicted)
