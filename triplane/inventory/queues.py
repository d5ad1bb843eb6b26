"""KAI's queues and their tree, read as the scheduler reads them (scheduling.run.ai/v2, KAI 0.12-0.17)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from triplane.inventory import kinds
from triplane.inventory.fields import at, duration, mapping, number, text
from triplane.inventory.inventory import Inventory
from triplane.inventory.resource import Resource

RESOURCES = ("gpu", "cpu", "memory")
QUEUE_LABEL = "kai.scheduler/queue"
SCHEDULER = "kai-scheduler"
# Shards: nodes, queues and pods with the same value of this label are scheduled by themselves.
PARTITION_LABEL = "kai.scheduler/node-pool"
# Made by KAI's chart when it is installed.
BUILT_IN_QUEUES = ("default-queue", "default-parent-queue")


@dataclass(frozen=True, slots=True)
class Share:
    """What a queue has of one resource. GPUs in devices, CPU in millicores, memory in MB (10^6 bytes).

    `quota` and `limit` are infinite where -1 is written, 0 where nothing is, as for KAI; `written` says which are
    there.
    """

    quota: float
    limit: float
    weight: float
    written: frozenset[str]


class Queue:
    """A KAI Queue."""

    KINDS: ClassVar[tuple[str, ...]] = (kinds.QUEUE,)

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.name = resource.name
        self.spec = mapping(resource.data.get("spec"))
        self._shares: dict[str, Share] = {}

    @property
    def parent(self) -> str:
        """Name of the parent queue; empty at the top."""
        return text(self.spec.get("parentQueue")) or ""

    @property
    def priority(self) -> float:
        found = number(self.spec.get("priority"))
        return 100.0 if found is None else found  # constants.DefaultQueuePriority

    @property
    def partition(self) -> str:
        """The shard it belongs to; empty: the one of objects without the label."""
        return text(at(self.resource.data, "metadata", "labels", PARTITION_LABEL)) or ""

    def share(self, resource: str) -> Share:
        """Its share of gpu, cpu or memory."""
        found = self._shares.get(resource)
        if found is None:
            found = self._shares[resource] = self._share(resource)
        return found

    def _share(self, resource: str) -> Share:
        fields = mapping(at(self.spec, "resources", resource))
        amounts = {key: _amount(fields.get(key)) for key in ("quota", "limit", "overQuotaWeight")}
        written = frozenset(key for key, amount in amounts.items() if amount is not None)
        quota, limit, weight = (0.0 if amount is None else amount for amount in amounts.values())
        return Share(_unlimited(quota), _unlimited(limit), weight, written)

    def runtime(self, key: str) -> float | None:
        """preemptMinRuntime or reclaimMinRuntime in seconds; None: not set here."""
        return duration(self.spec.get(key))


class SchedulingShard:
    """A KAI SchedulingShard (kai.scheduler/v1): one scheduler for the objects of one partition."""

    KINDS: ClassVar[tuple[str, ...]] = (kinds.SCHEDULING_SHARD,)

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.spec = mapping(resource.data.get("spec"))

    @property
    def partition(self) -> str:
        return text(self.spec.get("partitionLabelValue")) or ""

    def runtime(self, key: str) -> float:
        """preemptMinRuntime or reclaimMinRuntime in seconds, where no queue says one; KAI's default is none."""
        return duration(at(self.spec, "minRuntime", key)) or 0.0

    def placement(self, resource: str) -> str:
        """binpack or spread, for gpu or cpu; KAI's default is binpack."""
        return text(at(self.spec, "placementStrategy", resource)) or "binpack"


def _amount(value: object) -> float | None:
    return number(value)


def _unlimited(amount: float) -> float:
    # Only -1 means unlimited; any other negative number is taken as it stands (KAI proportion.go).
    return math.inf if amount == -1 else amount


class QueueTree:
    """All queues of an inventory by name, with the way from each to the top."""

    def __init__(self, inventory: Inventory) -> None:
        self.queues: dict[str, Queue] = {queue.name: queue for queue in inventory.views(Queue)}
        self.children: dict[str, list[Queue]] = {}
        for queue in self.queues.values():
            if queue.parent:
                self.children.setdefault(queue.parent, []).append(queue)

    def get(self, name: str) -> Queue | None:
        return self.queues.get(name)

    @property
    def top(self) -> list[Queue]:
        """The queues without a parent."""
        return [queue for queue in self.queues.values() if not queue.parent]

    def is_leaf(self, name: str) -> bool:
        return name not in self.children

    def way_up(self, name: str) -> Iterator[Queue]:
        """The queue, its parent and so on, as far as they are here; ends before a queue comes twice."""
        seen: set[str] = set()
        while (queue := self.queues.get(name)) is not None and name not in seen:
            seen.add(name)
            yield queue
            name = queue.parent

    def below(self, name: str) -> Iterator[Queue]:
        """The queue itself and every queue below it, each once."""
        seen: set[str] = set()
        waiting = [self.queues[name]] if name in self.queues else []
        while waiting:
            queue = waiting.pop()
            if queue.name not in seen:
                seen.add(queue.name)
                yield queue
                waiting.extend(self.children.get(queue.name, ()))

    def in_cycle(self, name: str) -> bool:
        """Whether the way up from a queue comes back to it."""
        return any(queue.parent == name for queue in self.way_up(name))
