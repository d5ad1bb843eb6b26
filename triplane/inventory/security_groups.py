"""EC2 security groups of a Pulumi program, and what they let their own members do."""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from triplane.inventory import kinds
from triplane.inventory.fields import Unknown, at, known, mapping, sequence, text
from triplane.inventory.inventory import Inventory
from triplane.inventory.nodeclasses import NodeClass
from triplane.inventory.resource import Resource

Direction = Literal["ingress", "egress"]
_ALL = ("-1", "all")


class SecurityGroup:
    """aws:ec2/securityGroup:SecurityGroup."""

    KINDS: ClassVar[tuple[str, ...]] = (kinds.SECURITY_GROUP,)

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.spec = mapping(resource.data.get("spec"))

    def selected_by(self, node_class: NodeClass) -> bool:
        """Whether one of a node class's terms picks it: by tags, by name, or by an id that is known."""
        return any(self._fits(mapping(term)) for term in sequence(node_class.spec.get("securityGroupSelectorTerms")))

    def _fits(self, term: Any) -> bool:
        if "id" in term:
            own = self.spec.get("id")
            return own.__class__ is str and own == known(term["id"])
        name, tags, own_tags = text(term.get("name")), mapping(term.get("tags")), mapping(self.spec.get("tags"))
        by_tags = all(key in own_tags and value in ("*", known(own_tags[key])) for key, value in tags.items())
        return bool(tags or name) and by_tags and name in (None, self.resource.name)

    def allows_itself(self, direction: Direction) -> bool:
        """Whether a rule written in the group lets its members exchange everything."""
        return any(
            at(rule, "self") is True and str(at(rule, "protocol")) in _ALL
            for rule in sequence(self.spec.get(direction))
        )


class OwnTraffic:
    """Rules that stand beside their groups. Use `inventory.relation(OwnTraffic)`."""

    def __init__(self, inventory: Inventory) -> None:
        self._allowed: set[tuple[str, Direction]] = set()
        self.unknown = False
        """Whether a rule's group is known only after the update, so that it may be any group's."""
        for group, peer, direction in self._rules(inventory):
            if group.__class__ is Unknown or peer.__class__ is Unknown:
                self.unknown = True
            elif isinstance(group, str) and peer == group:
                self._allowed.add((group, direction))

    def allowed(self, group: SecurityGroup, direction: Direction) -> bool | None:
        """Whether the group's members may exchange everything; None: a rule that says so may be among unknown ones."""
        own = group.spec.get("id")
        if group.allows_itself(direction) or (own.__class__ is str and (own, direction) in self._allowed):
            return True
        return None if self.unknown or (own.__class__ is not str and self._allowed) else False

    @staticmethod
    def _rules(inventory: Inventory) -> Iterator[tuple[Any, Any, Direction]]:
        directions: tuple[Direction, Direction] = ("ingress", "egress")
        for rule in inventory.of_kind(kinds.SECURITY_GROUP_RULE):
            spec = mapping(rule.data.get("spec"))
            direction = next((each for each in directions if each == text(spec.get("type"))), None)
            if direction is not None and str(spec.get("protocol")) in _ALL:
                group = spec.get("securityGroupId")
                yield group, group if spec.get("self") is True else spec.get("sourceSecurityGroupId"), direction
        for kind, way in zip((kinds.INGRESS_RULE, kinds.EGRESS_RULE), directions, strict=True):
            for rule in inventory.of_kind(kind):
                spec = mapping(rule.data.get("spec"))
                if str(spec.get("ipProtocol")) in _ALL:
                    yield spec.get("securityGroupId"), spec.get("referencedSecurityGroupId"), way
