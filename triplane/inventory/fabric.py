"""Pods that talk across nodes: what a destination's nodes can do for them, and whether they stay close together."""

from triplane.inventory.capacity import Destination, instance_types_of, node_sizes
from triplane.inventory.fields import at, sequence
from triplane.inventory.inventory import Inventory
from triplane.inventory.nodepools import ZONE
from triplane.inventory.placement import node_requirements
from triplane.inventory.workloads import PodTemplate, Workload

EFA = "vpc.amazonaws.com/efa"


class Fabric:
    """What the pools of a destination offer for traffic across nodes. Use `inventory.relation(Fabric)`."""

    def __init__(self, inventory: Inventory) -> None:
        self._known: dict[Destination, tuple[bool, tuple[int, ...]]] = {}

    def efa(self, place: Destination) -> bool:
        """Whether every instance type of every pool has EFA."""
        return self._of(place)[0]

    def sizes(self, place: Destination) -> tuple[int, ...]:
        """GPUs that a node may have, ascending; empty where a pool's are not known."""
        return self._of(place)[1]

    def _of(self, place: Destination) -> tuple[bool, tuple[int, ...]]:
        found = self._known.get(place)
        if found is None:
            sizes = [node_sizes(pool, {}) for pool in place.pools]
            types = [instance_types_of(pool) if pool.on_aws else () for pool in place.pools]
            everywhere = all(allowed and all(kind.efa for kind in allowed) for allowed in types)
            together = tuple(sorted({size for each in sizes for size in each})) if all(sizes) else ()
            found = self._known[place] = everywhere, together
        return found


def stays_close(workload: Workload, template: PodTemplate) -> bool:
    """Whether something asks that the pods stay near one another, be it only as a preference."""
    return bool(workload.annotation("kai.scheduler/topology-preferred-placement")) or stays_in_one_domain(
        workload, template
    )


def stays_in_one_domain(workload: Workload, template: PodTemplate) -> bool:
    """Whether something demands that the pods stay in one domain: KAI's topology, pod affinity, or LWS exclusivity."""
    affinity = at(template.spec, "affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    return bool(
        workload.annotation("kai.scheduler/topology-required-placement")
        or workload.annotation("leaderworkerset.sigs.k8s.io/exclusive-topology")
        or sequence(affinity)
    )


def names_its_zone(template: PodTemplate) -> bool:
    """Whether the pods ask for exactly one zone themselves."""
    return all(
        any(key == ZONE and operator == "In" and len(values) == 1 for key, operator, values in terms)
        for terms in node_requirements(template)
    )
