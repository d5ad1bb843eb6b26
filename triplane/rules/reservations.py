"""Judgements on EC2 capacity reservations and the pools that should use them."""

from functools import cache

from triplane import catalog
from triplane.documents import Path
from triplane.inventory import NodePool
from triplane.inventory.blocks import CapacityBlocks
from triplane.inventory.capacity import Landing, instance_types_of
from triplane.inventory.fields import at, text
from triplane.inventory.nodeclasses import CapacityReservation, NodeClass, NodeClasses, ReservationSelectors
from triplane.inventory.nodepools import AWS_DOMAINS, INSTANCE_TYPE, ZONE
from triplane.inventory.placement import admits
from triplane.inventory.workloads import Workload
from triplane.rules.installations import gate_is_on
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
    selectors = context.inventory.relation(ReservationSelectors)
    selecting, undecided = selectors.selecting(reservation)
    if selecting:
        return
    related = tuple(node_class.resource for node_class in selectors.classes[:5])
    if undecided:
        why = "node classes select reservations by id, and this one's id is known only after the update"
        yield unknown(("spec", "instanceMatchCriteria"), why, related=related)
    elif selectors.classes:
        yield fail(
            ("spec", "instanceMatchCriteria"),
            reservation.spec.get("instanceMatchCriteria"),
            "no node class selects this reservation, so Karpenter never launches into it and it is paid for empty",
            default="open",
            related=related,
        )


_SELECTING = NodeClass.KINDS[:2]  # EC2NodeClass and Auto Mode's NodeClass


_ODCR = "https://karpenter.sh/docs/tasks/odcrs/"
TERMS: Path = ("spec", "capacityReservationSelectorTerms")


@rule(
    "NC201",
    "reserved-pool-has-a-class-that-selects-reservations",
    on=NodePool,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    parameters=("external", "missing_references"),
    fix="Add capacityReservationSelectorTerms to its node class, or leave reserved out.",
    sources=(_ODCR, "https://github.com/zalando-incubator/kubernetes-on-aws/pull/12193"),
)
def reserved_pool_has_a_class_that_selects_reservations(pool: NodePool, context: Context) -> Verdicts:
    """A pool that asks for reserved capacity must use a node class that selects a reservation.

    `reserved` in the pool and the selector terms in the class are two halves. Without the second Karpenter knows no
    reservation: a pool of only `reserved` launches nothing at all, and one that also has on-demand pays for on-demand
    beside the reservation.
    """
    if "reserved" not in (pool.capacity_types or ()) or not pool.on_aws:
        return
    classes = context.inventory.relation(NodeClasses)
    node_class, (kind, name) = classes.of(pool), classes.reference(pool)
    if node_class is not None:
        if not node_class.reservation_terms:
            consequence = f"{node_class.resource} selects no reservation, so Karpenter never launches into one"
            found = ", ".join(sorted(pool.capacity_types or ()))
            yield fail(pool.capacity_type_path, found, consequence, related=(node_class.resource,))
    elif name and not context.parameters.is_external(kind, name):
        path: Path = ("spec", "template", "spec", "nodeClassRef", "name")
        what = f"{kind.partition('.')[0]} {name}"
        if context.parameters.missing_references == "fail":
            yield fail(path, name, f"there is no {what}, so the pool launches nothing")
        else:
            yield unknown(path, f"{what} is not in the input; does it select reservations?")


@rule(
    "NC202",
    "selected-reservation-is-used-by-a-pool",
    on=NodeClass,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    fix="Add reserved to the capacity types of a pool that uses this class.",
    sources=(_ODCR,),
)
def selected_reservation_is_used_by_a_pool(node_class: NodeClass, context: Context) -> Verdicts:
    """A node class that selects reservations must be used by a pool that allows reserved capacity.

    Otherwise the reservation is paid for and stays empty, while the pool buys on-demand. Where no pool of the input
    uses the class, it cannot be told.
    """
    if not node_class.reservation_terms or node_class.kind not in _SELECTING:
        return
    pools = context.inventory.relation(NodeClasses).pools(node_class)
    if not pools:
        yield unknown(TERMS, "no pool of the input uses this class")
    elif not any(pool.capacity_types is None or "reserved" in pool.capacity_types for pool in pools):
        consequence = f"{pools[0].resource} does not allow reserved: the reservation is paid for and stays empty"
        related = tuple(pool.resource for pool in pools[:5])
        yield fail(TERMS, list(node_class.reservation_terms), consequence, related=related)


@rule(
    "NC204",
    "serving-does-not-depend-on-a-capacity-block",
    on=Workload,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    parameters=("slo",),
    fix="Let the pods land on another pool as well, reserved or on-demand, and set an alarm on the block's end.",
    versions="Capacity Blocks can be selected since Karpenter 1.6.",
    sources=(_ODCR, "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html"),
)
def serving_does_not_depend_on_a_capacity_block(workload: Workload, context: Context) -> Verdicts:
    """What serves must have somewhere to go when a Capacity Block ends.

    EC2 ends the instances 30 minutes before the end of a block (60 for UltraServers), and Karpenter drains the nodes 10
    minutes earlier. Pods that can land only on such a pool stop then, on a known date. How near that date is, a
    judgement of manifests does not say: its answer would change without any change.
    """
    if not (workload.serving_role or context.parameters.lists(context.parameters.slo, workload.resource)):
        return
    landing, blocks = context.inventory.relation(Landing), context.inventory.relation(CapacityBlocks)
    for template in workload.templates:
        place = landing.of(template) if template.gpus else None
        if place is not None and all(blocks.only(pool) for pool in place.pools):
            pool = place.pools[0].resource
            consequence = "its nodes go 40 minutes before the Capacity Block ends, and the pods have nowhere else to go"
            related = tuple(pool.resource for pool in place.pools[:5])
            yield fail(template.path, f"only for {pool}", consequence, related=related)


@rule(
    "NC209",
    "reservation-fits-a-pool-that-selects-it",
    on=CapacityReservation,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    fix="Let the pool allow the reservation's instance type and zone.",
    sources=(_ODCR, "https://github.com/aws/karpenter-provider-aws/issues/7796"),
)
def reservation_fits_a_pool_that_selects_it(reservation: CapacityReservation, context: Context) -> Verdicts:
    """A reservation's instance type and zone must be among those of a pool that selects it.

    A node class may select any reservation; Karpenter launches into it only what the pool's requirements allow. One
    letter off in the type or the zone, and the reservation is paid for empty. The zones of subnets that are selected by
    tag are not judged.
    """
    classes = context.inventory.relation(NodeClasses)
    selecting, _ = context.inventory.relation(ReservationSelectors).selecting(reservation)
    kind, zone = text(reservation.spec.get("instanceType")), text(reservation.spec.get("availabilityZone"))
    found: list[NodePool] = []
    wrong: Path = ("spec", "instanceType")
    for pool in (pool for node_class in selecting for pool in classes.pools(node_class) if _takes_reserved(pool)):
        found.append(pool)
        if kind is None or _admits(pool, kind):
            if zone is None or admits(pool, ZONE, "In", (zone,)):
                return
            wrong = ("spec", "availabilityZone")
    if found:
        what = "zone" if wrong[1] == "availabilityZone" else "type"
        consequence = f"{found[0].resource} does not allow this {what}: the reservation stays empty"
        related = tuple(pool.resource for pool in found[:5])
        yield fail(wrong, at(reservation.resource.data, *wrong), consequence, related=related)


def _takes_reserved(pool: NodePool) -> bool:
    return pool.capacity_types is None or "reserved" in pool.capacity_types


@cache
def _names() -> frozenset[str]:
    return frozenset(kind.name for kind in catalog.every_instance_type())


def _admits(pool: NodePool, kind: str) -> bool:
    if kind in _names():
        return any(allowed.name == kind for allowed in instance_types_of(pool))
    family = kind.partition(".")[0]
    families = (f"{domain}/instance-family" for domain in AWS_DOMAINS)
    return admits(pool, INSTANCE_TYPE, "In", (kind,)) and all(admits(pool, key, "In", (family,)) for key in families)


@rule(
    "NC213",
    "delete-first-only-with-targeted-reservations",
    on=NodeClass,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("karpenter", "karpenter_gates"),
    fix="Select targeted reservations, which nothing else can use, or leave the gate off.",
    versions="The gates TerminateFirstDrift and TerminateFirstRepair exist since Karpenter 1.15.",
    sources=("https://karpenter.sh/docs/reference/settings/", "https://karpenter.sh/docs/concepts/disruption/#drift"),
)
def delete_first_only_with_targeted_reservations(node_class: NodeClass, context: Context) -> Verdicts:
    """With the TerminateFirst gates, reservations must be targeted.

    These gates delete a node before its replacement is launched, so that drift works in a full reservation. In between
    the place is free: any other instance of that type in the account falls into an open reservation, and the
    replacement finds none, without a bound in time. A targeted reservation waits for whoever names it.
    """
    gates = [gate for gate in _DELETE_FIRST if gate_is_on(gate, "terminate-first-drift", context)]
    if not gates or not node_class.reservation_terms:
        return
    consequence = f"{gates[0]} deletes first, and anything in the account may take the free place"
    for index, term in enumerate(node_class.reservation_terms):
        if text(term.get("instanceMatchCriteria")) == "open":
            yield fail((*TERMS, index, "instanceMatchCriteria"), "open", consequence)
            return
    for reservation in context.inventory.relation(ReservationSelectors).reservations(node_class):
        if reservation.open:
            found = f"with the open reservation {reservation.resource.name}"
            yield fail(TERMS, found, consequence, related=(reservation.resource,))
            return


_DELETE_FIRST = ("TerminateFirstDrift", "TerminateFirstRepair")
