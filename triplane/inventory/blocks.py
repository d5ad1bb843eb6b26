"""EC2 Capacity Blocks: reservations with an end, and the pools that have nothing else."""

from triplane.inventory import kinds
from triplane.inventory.fields import at, known, mapping, sequence, text
from triplane.inventory.inventory import Inventory
from triplane.inventory.nodeclasses import NodeClass, NodeClasses
from triplane.inventory.nodepools import NodePool

_TYPE_KEY = "karpenter.k8s.aws/capacity-reservation-type"


class CapacityBlocks:
    """Which pools launch only into Capacity Blocks. Use `inventory.relation(CapacityBlocks)`.

    A pool says it by a requirement; a live node class by its status; a program by the block it buys.
    """

    def __init__(self, inventory: Inventory) -> None:
        self._classes = inventory.relation(NodeClasses)
        self._blocks = [mapping(block.data.get("spec")) for block in inventory.of_kind(kinds.CAPACITY_BLOCK)]
        self._only: dict[NodePool, bool] = {}

    def only(self, pool: NodePool) -> bool:
        """Whether a pool has no capacity but blocks."""
        if pool not in self._only:
            self._only[pool] = pool.only_reserved and self._blocks_only(pool)
        return self._only[pool]

    def _blocks_only(self, pool: NodePool) -> bool:
        if any(r.operator == "In" and set(r.values) == {"capacity-block"} for r in pool.required(_TYPE_KEY)):
            return True
        node_class = self._classes.of(pool)
        return node_class is not None and (self._by_status(node_class) or self._by_program(node_class))

    def _by_status(self, node_class: NodeClass) -> bool:
        found = sequence(at(node_class.resource.data, "status", "capacityReservations"))
        return bool(found) and all(text(at(entry, "reservationType")) == "capacity-block" for entry in found)

    def _by_program(self, node_class: NodeClass) -> bool:
        terms = node_class.reservation_terms
        return bool(terms and self._blocks) and all(any(_picks(term, b) for b in self._blocks) for term in terms)


def _picks(term: object, block: object) -> bool:
    tags, own = mapping(at(term, "tags")), mapping(at(block, "tags"))
    if (wanted := at(term, "id")) is not None:
        return bool(wanted == at(block, "id"))
    return bool(tags) and all(key in own and value in ("*", known(own[key])) for key, value in tags.items())
