"""Judgements on EC2 capacity reservations and the pools that should use them."""

from triplane import catalog
from triplane.inventory.nodeclasses import CapacityReservation, NodeClass
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Verdicts, fail, unknown


@rule(
    "NC203",
    "open-reservation-is-selected-by-a-node-class",
    on=CapacityReservation,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    parameters=("karpenter",),
    fix="Select it in the EC2NodeClass: capacityReservationSelectorTerms with its id or tags.",
    versions="From Karpenter 1.6 on, where the gate ReservedCapacity is on by default.",
    sources=(
        "https://karpenter.sh/docs/tasks/odcrs/",
        "https://github.com/zalando-incubator/kubernetes-on-aws/pull/11623",
    ),
)
def open_reservation_is_selected_by_a_node_class(reservation: CapacityReservation, context: Context) -> Verdicts:
    """An open capacity reservation must be selected by a node class, or Karpenter never uses it.

    Before 1.6 a launch fell into an open reservation by itself. Since then Karpenter launches everything else with the
    preference `none`, so a reservation that no EC2NodeClass selects is paid for and stays empty.
    """
    if not reservation.open or not catalog.supports("karpenter", context.parameters.karpenter, "reserved-capacity"):
        return
    classes = [node_class for node_class in context.inventory.views(NodeClass) if node_class.kind in _SELECTING]
    answers = [reservation.selected_by(term) for node_class in classes for term in node_class.reservation_terms]
    if any(answers):
        return
    related = tuple(node_class.resource for node_class in classes)
    if None in answers:
        why = "node classes select reservations by id, and this one's id is known only after the update"
        yield unknown(("spec", "instanceMatchCriteria"), why, related=related)
    elif classes:
        yield fail(
            ("spec", "instanceMatchCriteria"),
            reservation.spec.get("instanceMatchCriteria"),
            "no node class selects this reservation, so Karpenter never launches into it and it is paid for empty",
            default="open",
            related=related,
        )


_SELECTING = NodeClass.KINDS[:2]  # EC2NodeClass and Auto Mode's NodeClass
