"""GPU pools that the same pods fit, and that nothing ranks."""

from triplane.inventory.capacity import instance_types_of
from triplane.inventory.fields import number, text
from triplane.inventory.inventory import Inventory
from triplane.inventory.nodepools import NodePool

_ANY_ZONE = ""


class Overlaps:
    """For each GPU pool an earlier one of equal taints, labels and weight that shares a type and a zone with it.

    Use `inventory.relation(Overlaps)`. Pools are looked up by what they share, never in pairs.
    """

    def __init__(self, inventory: Inventory) -> None:
        self._earlier: dict[NodePool, NodePool] = {}
        first: dict[tuple[object, ...], dict[str, NodePool]] = {}
        for pool in inventory.views(NodePool):
            if not pool.gpu or not pool.on_aws or pool.static:
                continue
            alike = _alike(pool)
            for kind in instance_types_of(pool):
                places = first.setdefault((*alike, kind.name), {})
                if pool not in self._earlier and (other := _meeting(pool, places)) is not None:
                    self._earlier[pool] = other
                for zone in pool.zones or (_ANY_ZONE,):
                    places.setdefault(zone, pool)

    def earlier(self, pool: NodePool) -> NodePool | None:
        return self._earlier.get(pool)


def _alike(pool: NodePool) -> tuple[object, ...]:
    taints = frozenset((text(t.get("key")), text(t.get("value")), text(t.get("effect"))) for t in pool.taints)
    return taints, frozenset(pool.labels.items()), number(pool.spec.get("weight")) or 0.0, pool.node_class_group


def _meeting(pool: NodePool, places: dict[str, NodePool]) -> NodePool | None:
    """A pool among those by zone that shares a zone with this one; one that leaves zones open shares all."""
    if not pool.zones:
        return next(iter(places.values()), None)
    return next((places[zone] for zone in (*pool.zones, _ANY_ZONE) if zone in places), None)
