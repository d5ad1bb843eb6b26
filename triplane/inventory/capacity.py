"""How much a pool can hold, and which pods meet on which pools."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache

from triplane import catalog
from triplane.inventory.inventory import Inventory
from triplane.inventory.nodepools import ARCH, INSTANCE_TYPE, NodePool, Requirement, is_gpu_resource
from triplane.inventory.placement import Fit, Placement, satisfies
from triplane.inventory.workloads import PodTemplate, Workload

InstanceTable = Mapping[str, Mapping[str, float]]

_DOMAINS = ("karpenter.k8s.aws", "eks.amazonaws.com")


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
    limits = [amount for name, amount in pool.limits.items() if is_gpu_resource(name)]
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
        sizes = set(_sizes_allowed(pool.requirements))
        sizes |= {
            int(sum(amount for resource, amount in table[name].items() if is_gpu_resource(resource)))
            for name in named
            if name in table
        }
    return tuple(sorted(size for size in sizes if size > 0))


@cache
def _gpus_of_types() -> dict[str, int]:
    return {kind.name: kind.gpu_count for kind in catalog.every_instance_type()}


@lru_cache(maxsize=4096)
def _sizes_allowed(requirements: tuple[Requirement, ...]) -> frozenset[int]:
    """GPU counts of the catalogue's instance types that requirements admit."""
    return frozenset(
        kind.gpu_count
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


@dataclass(eq=False)
class Destination:
    """Pools on which the same pods can land, and those pods. Each workload once a template."""

    pools: tuple[NodePool, ...]
    templates: list[tuple[Workload, PodTemplate]] = field(default_factory=list)

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
        self._by_pool: dict[NodePool, list[Destination]] = {}
        for workload in inventory.views(Workload):
            for template in workload.templates:
                if template.gpus and (destination := self.of(template)) is not None:
                    destination.templates.append((workload, template))
        for destination in self.destinations:
            for pool in destination.pools:
                self._by_pool.setdefault(pool, []).append(destination)

    @property
    def destinations(self) -> Iterable[Destination]:
        return self._by_pools.values()

    def of(self, template: PodTemplate) -> Destination | None:
        """The pools on which pods of a GPU template can land, together; None: there are none."""
        fits = self._placement.fits(template)
        # The fits of templates that ask alike are one object, which Placement keeps.
        if id(fits) not in self._by_fits:
            self._by_fits[id(fits)] = self._destination(fits)
        return self._by_fits[id(fits)]

    def _destination(self, fits: tuple[Fit, ...]) -> Destination | None:
        pools = tuple(pool for fit in fits if fit.possible for pool in fit.pools)
        if not pools:
            return None
        return self._by_pools.setdefault(frozenset(map(id, pools)), Destination(pools))

    def on(self, pool: NodePool) -> list[Destination]:
        """The destinations a pool belongs to, as far as pods are there for them."""
        return self._by_pool.get(pool, [])

    def room(self, pool: NodePool, table: InstanceTable) -> Room:
        """`room`, worked out once a pool."""
        found = self._rooms.get(pool)
        if found is None:
            found = self._rooms[pool] = room(pool, table)
        return found

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
