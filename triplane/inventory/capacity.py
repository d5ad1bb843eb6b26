"""How much a pool can hold, and which pods meet on which pools."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache

from triplane import catalog
from triplane.inventory.fields import number, text
from triplane.inventory.inventory import Inventory
from triplane.inventory.nodeclasses import CapacityReservation, NodeClass, NodeClasses
from triplane.inventory.nodepools import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, NodePool, Requirement, is_gpu_resource
from triplane.inventory.placement import Fit, Placement, satisfies
from triplane.inventory.queues import PARTITION_LABEL
from triplane.inventory.workloads import PodTemplate, Workload

InstanceTable = Mapping[str, Mapping[str, float]]

# Whole GPUs, as pools limit them. Slices (MIG, time-sliced) are counted in units of their own.
WHOLE_GPUS = ("nvidia.com/gpu", "amd.com/gpu")
_DOMAINS = ("karpenter.k8s.aws", "eks.amazonaws.com")


def _is_slice(resource: str) -> bool:
    return is_gpu_resource(resource) and resource not in WHOLE_GPUS


@dataclass(frozen=True, slots=True)
class Room:
    """What a pool can hold at most. Infinite where nothing limits it."""

    sizes: tuple[int, ...]
    """GPUs that one of its nodes may have, ascending; empty: not known."""
    nodes: float
    gpus: float

    def pods(self, gpus_each: float) -> float:
        """How many pods of so many GPUs fit at most; infinite where that cannot be told."""
        if not self.sizes or gpus_each <= 0:
            return math.inf
        return max(self._nodes(size) * (size // gpus_each) for size in self.sizes)

    def _nodes(self, size: int) -> float:
        return self.nodes if math.isinf(self.gpus) else min(self.nodes, self.gpus // size)


def room(pool: NodePool, table: InstanceTable) -> Room:
    """What a pool can hold. `table`: instance types beside the catalogue's, as in the parameter instance_table."""
    sizes = node_sizes(pool, table)
    nodes = float(pool.spec["replicas"]) if _whole(pool.spec.get("replicas")) else pool.limits.get("nodes", math.inf)
    limits = [amount for name, amount in pool.limits.items() if name in WHOLE_GPUS]
    by_nodes = nodes * sizes[-1] if sizes else math.inf
    return Room(sizes, nodes, min((*limits, by_nodes)))


def node_sizes(pool: NodePool, table: InstanceTable) -> tuple[int, ...]:
    """GPUs that one node of a pool may have, ascending; empty where an allowed instance type is not known."""
    counts = [r for r in pool.requirements if r.key.endswith(("/instance-gpu-count", "/sku-gpu-count"))]
    named = [value for r in pool.required(INSTANCE_TYPE) if r.operator == "In" for value in r.values]
    if any(name not in table and name not in _gpus_of_types() for name in named):
        return ()
    sizes = {int(value) for r in counts if r.operator == "In" for value in r.values if value.isdigit()}
    if not sizes:
        sizes = {kind.gpu_count for kind in instance_types_of(pool)}
        sizes |= {
            int(sum(amount for resource, amount in table[name].items() if is_gpu_resource(resource)))
            for name in named
            if name in table
        }
    return tuple(sorted(size for size in sizes if size > 0))


def _named_types(pool: NodePool) -> set[str]:
    return {value for r in pool.required(INSTANCE_TYPE) if r.operator == "In" for value in r.values}


@cache
def _gpus_of_types() -> dict[str, int]:
    return {kind.name: kind.gpu_count for kind in catalog.every_instance_type()}


def instance_types_of(pool: NodePool) -> tuple[catalog.InstanceType, ...]:
    """The instance types of the catalogue that a pool may launch."""
    return _types_allowed(pool.requirements)


@lru_cache(maxsize=4096)
def _types_allowed(requirements: tuple[Requirement, ...]) -> tuple[catalog.InstanceType, ...]:
    return tuple(
        kind
        for kind in catalog.every_instance_type()
        if all(
            satisfies(value, requirement.operator, requirement.values)
            for requirement in requirements
            if (value := _label(kind, requirement.key)) is not None
        )
    )


def _label(kind: catalog.InstanceType, key: str) -> str | None:
    """The value of a node label that every node of an instance type has; None: not known from the type."""
    if key == INSTANCE_TYPE:
        return kind.name
    if key == ARCH:
        return kind.arch
    domain, _, name = key.partition("/")
    if domain not in _DOMAINS:
        return None
    match name:
        case "instance-family":
            return kind.family
        case "instance-category":
            return kind.family[: next((i for i, letter in enumerate(kind.family) if letter.isdigit()), None)]
        case "instance-size":
            return kind.name.partition(".")[2]
        case "instance-gpu-name":
            return kind.gpu_name
        case "instance-gpu-count":
            return str(kind.gpu_count)
        case "instance-gpu-memory":
            return str(kind.gpu_memory_mib)
        case "instance-gpu-manufacturer":
            return "nvidia"
        case "instance-cpu":
            return str(kind.vcpu)
        case "instance-memory":
            return str(kind.memory_mib)
    return None


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9


def reserved_gpus(reservation: CapacityReservation, table: InstanceTable) -> float | None:
    """GPUs a capacity reservation holds; None where its type or count is not known."""
    kind, instances = text(reservation.spec.get("instanceType")) or "", number(reservation.spec.get("instanceCount"))
    if kind in table:
        each = sum(amount for resource, amount in table[kind].items() if is_gpu_resource(resource))
    else:
        each = _gpus_of_types().get(kind, 0)
    return instances * each if instances is not None and each else None


class Reservations:
    """Which capacity reservations of the input a pool launches into. Use `inventory.relation(Reservations)`."""

    def __init__(self, inventory: Inventory) -> None:
        self._classes = inventory.relation(NodeClasses)
        self._all = list(inventory.views(CapacityReservation))
        self._selected: dict[NodeClass, tuple[CapacityReservation, ...] | None] = {}

    def of(self, pool: NodePool) -> tuple[CapacityReservation, ...] | None:
        """Those its node class selects; None where that is not known: no class here, or an id still to come."""
        node_class = self._classes.of(pool)
        if node_class is None:
            return None
        if node_class not in self._selected:
            self._selected[node_class] = self._select(node_class)
        return self._selected[node_class]

    def _select(self, node_class: NodeClass) -> tuple[CapacityReservation, ...] | None:
        answers = [
            (reservation, [reservation.selected_by(term) for term in node_class.reservation_terms])
            for reservation in self._all
        ]
        if any(None in found and True not in found for _, found in answers):
            return None
        return tuple(reservation for reservation, found in answers if True in found)


@dataclass(eq=False)
class Destination:
    """Pools on which the same pods can land, and those pods. Each workload once a template."""

    pools: tuple[NodePool, ...]
    templates: list[tuple[Workload, PodTemplate]] = field(default_factory=list)

    def gpus(self, replicas: Callable[[Workload], float]) -> float:
        """GPUs of all its pods, at so many replicas of each workload."""
        return sum(replicas(workload) * template.gpus * template.pods for workload, template in self.templates)

    @cached_property
    def partitions(self) -> dict[str, NodePool]:
        """A pool for each of KAI's shards its nodes may belong to; "" is the shard without a label."""
        found: dict[str, NodePool] = {}
        for pool in self.pools:
            found.setdefault(pool.labels.get(PARTITION_LABEL, ""), pool)
        return found

    @cached_property
    def spot(self) -> tuple[NodePool, ...]:
        """The pools that say they may buy spot nodes."""
        return tuple(
            pool
            for pool in self.pools
            if any(r.operator == "In" and "spot" in r.values for r in pool.required(CAPACITY_TYPE))
        )

    @property
    def workloads(self) -> list[Workload]:
        return list(dict.fromkeys(workload for workload, _ in self.templates))


class Landing:
    """GPU pods by the pools they can land on. Use `inventory.relation(Landing)`.

    Templates that ask alike share one Destination, so thousands of both stay cheap.
    """

    def __init__(self, inventory: Inventory) -> None:
        self._placement = inventory.relation(Placement)
        self._by_fits: dict[int, Destination | None] = {}
        self._by_pools: dict[frozenset[int], Destination] = {}
        self._rooms: dict[NodePool, Room] = {}
        self._gpus: dict[Destination, float] = {}
        self._pods: dict[tuple[Destination, float], float] = {}
        self._sizes: dict[Destination, frozenset[int]] = {}
        self._types: dict[Destination, frozenset[catalog.InstanceType] | None] = {}
        self._largest: dict[Destination, int | None] = {}
        for workload in inventory.views(Workload):
            for template in () if workload.made_by else workload.templates:
                if template.gpus and (destination := self.of(template)) is not None:
                    destination.templates.append((workload, template))

    @property
    def destinations(self) -> Iterable[Destination]:
        return self._by_pools.values()

    def of(self, template: PodTemplate) -> Destination | None:
        """The pools on which pods of a template can land, together; None: there are none, or it asks for slices."""
        if template.requested(_is_slice):
            return None
        fits = self._placement.possible(template)
        # The fits of templates that ask alike are one object, which Placement keeps.
        if id(fits) not in self._by_fits:
            self._by_fits[id(fits)] = self._destination(fits)
        return self._by_fits[id(fits)]

    def _destination(self, fits: tuple[Fit, ...]) -> Destination | None:
        pools = tuple(pool for fit in fits for pool in fit.pools)
        if not pools:
            return None
        return self._by_pools.setdefault(frozenset(map(id, pools)), Destination(pools))

    def room(self, pool: NodePool, table: InstanceTable) -> Room:
        """`room`, worked out once a pool."""
        found = self._rooms.get(pool)
        if found is None:
            found = self._rooms[pool] = room(pool, table)
        return found

    def gpus(self, place: Destination, table: InstanceTable) -> float:
        """The most GPUs the pools of a destination may have together."""
        found = self._gpus.get(place)
        if found is None:
            found = self._gpus[place] = sum(self.room(pool, table).gpus for pool in place.pools)
        return found

    def pods(self, place: Destination, gpus_each: float, table: InstanceTable) -> float:
        """How many pods of so many GPUs fit the pools of a destination at most."""
        found = self._pods.get((place, gpus_each))
        if found is None:
            rooms = (self.room(pool, table) for pool in place.pools)
            found = self._pods[place, gpus_each] = sum(room.pods(gpus_each) for room in rooms)
        return found

    def sizes(self, place: Destination, table: InstanceTable) -> frozenset[int]:
        """GPUs that a node of a destination may have; empty where not known."""
        found = self._sizes.get(place)
        if found is None:
            found = frozenset(size for pool in place.pools for size in self.room(pool, table).sizes)
            self._sizes[place] = found
        return found

    def largest(self, place: Destination, table: InstanceTable) -> int | None:
        """GPUs of the largest node of a destination; None where those of some pool are not known."""
        if place not in self._largest:
            sizes = [self.room(pool, table).sizes for pool in place.pools]
            self._largest[place] = max(known[-1] for known in sizes) if all(sizes) else None
        return self._largest[place]

    def types(self, place: Destination) -> frozenset[catalog.InstanceType] | None:
        """The instance types that the pools of a destination may launch; None where one is not in the catalogue."""
        if place not in self._types:
            allowed = [instance_types_of(pool) for pool in place.pools]
            known = all(
                types and _named_types(pool) <= {kind.name for kind in types}
                for pool, types in zip(place.pools, allowed, strict=True)
            )
            self._types[place] = frozenset(kind for types in allowed for kind in types) if known else None
        return self._types[place]

    def together(self) -> Iterator[list[Destination]]:
        """Destinations that share pools, directly or through others: what one of them takes, another may lack."""
        root: dict[int, int] = {}

        def top(key: int) -> int:
            while (above := root.setdefault(key, key)) != key:
                root[key] = root[above] = root.setdefault(above, above)
                key = root[key]
            return key

        for destination in self.destinations:
            first = top(id(destination.pools[0]))
            for pool in destination.pools[1:]:
                root[top(id(pool))] = first
        parts: dict[int, list[Destination]] = {}
        for destination in self.destinations:
            parts.setdefault(top(id(destination.pools[0])), []).append(destination)
        yield from parts.values()
