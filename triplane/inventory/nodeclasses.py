"""What a NodePool refers to: EC2NodeClass and the other clouds' node classes, and EC2 capacity reservations."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from triplane.inventory import kinds
from triplane.inventory.fields import at, known, mapping, sequence, text
from triplane.inventory.inventory import Inventory
from triplane.inventory.nodepools import NodePool
from triplane.inventory.resource import Resource

_DEFAULT_KIND = {
    "karpenter.k8s.aws": "EC2NodeClass",
    "eks.amazonaws.com": "NodeClass",
    "karpenter.azure.com": "AKSNodeClass",
}


class NodeClass:
    """A node class of any cloud. Fields are AWS's; another cloud's class simply has none of them."""

    KINDS: ClassVar[tuple[str, ...]] = (
        kinds.EC2_NODE_CLASS,
        kinds.EKS_NODE_CLASS,
        kinds.AKS_NODE_CLASS,
        kinds.GCE_NODE_CLASS,
    )

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.kind = resource.kind
        self.spec = mapping(resource.data.get("spec"))

    @property
    def ami_alias(self) -> str:
        """`al2023@v20261115`; empty where AMIs are selected another way."""
        for term in sequence(self.spec.get("amiSelectorTerms")):
            if alias := text(at(term, "alias")):
                return alias
        return ""

    @property
    def ami_family(self) -> str:
        """`al2023`, `bottlerocket` ..., in lower case: of the alias, else of amiFamily; empty where neither says it."""
        return (self.ami_alias.partition("@")[0] or text(self.spec.get("amiFamily")) or "").lower()

    @property
    def data_device(self) -> str:
        """The volume that holds images and pods' files. Bottlerocket keeps its system on /dev/xvda, and these apart."""
        if self.ami_family == "bottlerocket":
            return "/dev/xvdb"
        root = next((entry for entry in self.block_devices if at(entry, "rootVolume") is True), None)
        return text(at(root, "deviceName")) or "/dev/xvda"

    @property
    def block_devices(self) -> Sequence[Any]:
        return sequence(self.spec.get("blockDeviceMappings"))

    @property
    def network_interfaces(self) -> Sequence[Any]:
        return sequence(self.spec.get("networkInterfaces"))

    @property
    def attaches_efa(self) -> bool:
        """Whether it attaches EFA devices by itself (since 1.11); otherwise a pod's request does, on dynamic pools."""
        return any(text(at(entry, "interfaceType")) == "efa-only" for entry in self.network_interfaces)

    @property
    def reservation_terms(self) -> tuple[Mapping[str, Any], ...]:
        """The capacity reservations it selects; any one term suffices, all of a term's fields must hold."""
        return tuple(mapping(term) for term in sequence(self.spec.get("capacityReservationSelectorTerms")))


class NodeClasses:
    """Which class each pool uses. Use `inventory.relation(NodeClasses)`."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._pools: dict[tuple[str, str], list[NodePool]] = {}
        for pool in inventory.views(NodePool):
            self._pools.setdefault(self.reference(pool), []).append(pool)

    def reference(self, pool: NodePool) -> tuple[str, str]:
        """(kind as kubectl writes it, name) of the class a pool refers to."""
        reference = mapping(at(pool.spec, "template", "spec", "nodeClassRef"))
        group, kind = text(reference.get("group")) or "", text(reference.get("kind")) or ""
        if not group and "/" in (version := text(reference.get("apiVersion")) or ""):
            group = version.partition("/")[0]  # v1beta1
        return f"{kind or _DEFAULT_KIND.get(group, '')}.{group}", text(reference.get("name")) or ""

    def of(self, pool: NodePool) -> NodeClass | None:
        """The class of a pool, if it is in the inventory."""
        found = self._inventory.find(*self.reference(pool))
        return found.view(NodeClass) if found is not None and found.kind in NodeClass.KINDS else None

    def pools(self, node_class: NodeClass) -> list[NodePool]:
        """The pools that use a class."""
        return self._pools.get((node_class.kind, node_class.resource.name), [])


class CapacityReservation:
    """An EC2 capacity reservation as a Pulumi resource (aws:ec2/capacityReservation:CapacityReservation)."""

    KINDS: ClassVar[tuple[str, ...]] = (kinds.CAPACITY_RESERVATION,)

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.spec = mapping(resource.data.get("spec"))

    @property
    def open(self) -> bool:
        """Open reservations are used by any matching launch; targeted ones only by name. EC2's default is open."""
        return (text(self.spec.get("instanceMatchCriteria")) or "open") == "open"

    def selected_by(self, term: Mapping[str, Any]) -> bool | None:
        """Whether a selector term picks it; None where that depends on an id that is not known yet."""
        if "id" in term:
            own = self.spec.get("id")
            return None if not isinstance(own, str) else own == known(term["id"])
        tags, own_tags = mapping(term.get("tags")), mapping(self.spec.get("tags"))
        if not all(key in own_tags and value in ("*", known(own_tags[key])) for key, value in tags.items()):
            return False
        criteria = text(term.get("instanceMatchCriteria"))
        return criteria is None or criteria == ("open" if self.open else "targeted")


class ReservationSelectors:
    """Which node classes select a capacity reservation. Use `inventory.relation(ReservationSelectors)`.

    Classes that select alike are asked once.
    """

    def __init__(self, inventory: Inventory) -> None:
        self.classes = [
            found.view(NodeClass) for found in inventory.of_kind(kinds.EC2_NODE_CLASS, kinds.EKS_NODE_CLASS)
        ]
        self._by_term: dict[str, tuple[Mapping[str, Any], list[NodeClass]]] = {}
        self._selected: dict[NodeClass, list[CapacityReservation]] = {}
        for node_class in self.classes:
            for term in node_class.reservation_terms:
                self._by_term.setdefault(repr(term), (term, []))[1].append(node_class)
        for reservation in inventory.views(CapacityReservation):
            for node_class in self.selecting(reservation)[0]:
                self._selected.setdefault(node_class, []).append(reservation)

    def reservations(self, node_class: NodeClass) -> list[CapacityReservation]:
        """The reservations of the input that a class selects, as far as ids are known."""
        return self._selected.get(node_class, [])

    def selecting(self, reservation: CapacityReservation) -> tuple[list[NodeClass], bool]:
        """The classes that select it, and whether others may: by an id that is not known yet."""
        answers = [(reservation.selected_by(term), classes) for term, classes in self._by_term.values()]
        found = (node_class for selected, classes in answers if selected for node_class in classes)
        return list(dict.fromkeys(found)), any(selected is None for selected, _ in answers)
