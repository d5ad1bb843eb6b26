"""Judgements on whether gangs and scalers fit the nodes there can be."""

import math
from collections.abc import Callable, Iterable

from triplane.documents import Path
from triplane.inventory import Inventory, NodePool
from triplane.inventory.capacity import (
    Destination,
    InstanceTable,
    Landing,
    Reservations,
    instance_types_of,
    reserved_gpus,
)
from triplane.inventory.gangs import Gang, gang_of
from triplane.inventory.nodeclasses import CapacityReservation
from triplane.inventory.nodepools import CAPACITY_TYPE
from triplane.inventory.queueing import Queueing, queue_of
from triplane.inventory.scaling import Scaling
from triplane.inventory.workloads import PodTemplate, Workload
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Verdicts, fail, unknown

LIMITS: Path = ("spec", "limits")
NODEPOOLS = "https://karpenter.sh/docs/concepts/nodepools/#speclimits"
RESERVATIONS = "https://karpenter.sh/docs/tasks/odcrs/"


def _gang(workload: Workload, context: Context) -> tuple[Gang, list[tuple[PodTemplate, int, Destination]]] | None:
    """A gang of several GPU pods, and where each role can land; None: no gang, or a role that lands nowhere."""
    gang = gang_of(workload, context.parameters.lists(context.parameters.gangs, workload.resource))
    if gang.pods < 2 or not gang.gpus:
        return None
    landing = context.inventory.relation(Landing)
    roles = [(template, pods, landing.of(template)) for template, pods in gang.members if template.gpus]
    if any(place is None for _, _, place in roles):
        return None
    return gang, [(template, pods, place) for template, pods, place in roles if place is not None]


def _pools(places: Iterable[Destination]) -> list[NodePool]:
    return list(dict.fromkeys(pool for place in places for pool in place.pools))


@rule(
    "XL601",
    "gang-fits-its-pools",
    on=Workload,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    parameters=("gangs", "instance_table", "other_gpus"),
    fix="Raise the limits of the pool to a whole gang, or make the gang smaller.",
    sources=(NODEPOOLS, "https://github.com/kubernetes-sigs/karpenter/issues/3138"),
)
def gang_fits_its_pools(workload: Workload, context: Context) -> Verdicts:
    """A gang must fit the nodes that its pools may have.

    Karpenter does not know of gangs. It buys nodes for the pods that still fit the limit, the others stay pending, and
    the gang never starts: the nodes are paid for without any work until somebody notices. Counted are GPUs and nodes of
    every pool the pods can land on, also of a static pool.
    """
    found = _gang(workload, context)
    if found is None:
        return
    gang, roles = found
    landing, table, other = _landing(context)
    available = other + _available(roles, context)
    if gang.gpus > available:
        pools = _pools(place for _, _, place in roles)
        names = ", ".join(pool.resource.name for pool in pools[:5])
        yield fail(
            gang.path,
            f"{gang.pods} pods with {gang.gpus:g} GPUs",
            f"its pools ({names}) may have {available:g}, so it never starts, on nodes that are paid for",
            related=tuple(pool.resource for pool in pools),
        )
        return
    for template, pods, place in roles:
        most = other // template.gpus + landing.pods(place, template.gpus, table)
        if most < pods and not any(size % template.gpus for size in landing.sizes(place, table)):
            yield fail(
                gang.path,
                f"{pods} pods of {template.gpus:g} GPUs",
                f"the nodes its pools may have hold {most:g} of them, so it never starts",
                related=tuple(pool.resource for pool in place.pools),
            )
            return


def _landing(context: Context) -> tuple[Landing, InstanceTable, int]:
    parameters = context.parameters
    return context.inventory.relation(Landing), parameters.instance_table, parameters.other_gpus


def _available(roles: list[tuple[PodTemplate, int, Destination]], context: Context) -> float:
    """GPUs of all pools the roles of a gang can land on, each pool once."""
    landing, table, _ = _landing(context)
    places = dict.fromkeys(place for _, _, place in roles)
    if len(places) == 1:
        return landing.gpus(roles[0][2], table)
    return sum(landing.room(pool, table).gpus for pool in _pools(places))


@rule(
    "XL604",
    "gang-pods-divide-their-nodes",
    on=Workload,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    parameters=("gangs", "instance_table", "other_gpus"),
    fix="Let each pod ask for a number of GPUs that divides those of a node, or raise the pool's limits.",
    sources=(NODEPOOLS,),
)
def gang_pods_divide_their_nodes(workload: Workload, context: Context) -> Verdicts:
    """The pods of a gang must fit node by node, not only in sum.

    On nodes of 8 GPUs two pods of 3 leave 2 GPUs that no third pod can use. A gang of ten such pods counts 30 GPUs,
    fits a limit of 32, and yet needs a fifth node. Judged where the remainder makes the difference: pods that waste
    GPUs on a pool with room enough cost money, but start.
    """
    found = _gang(workload, context)
    if found is None:
        return
    gang, roles = found
    landing, table, other = _landing(context)
    if gang.gpus > other + _available(roles, context):
        return  # XL601 says so
    for template, pods, place in roles:
        most = other // template.gpus + landing.pods(place, template.gpus, table)
        left = sorted(size for size in landing.sizes(place, table) if size % template.gpus)
        if most < pods and left:
            size = left[-1]
            yield fail(
                (*template.path, "containers"),
                f"{template.gpus:g} GPUs a pod",
                f"on nodes of {size} GPUs {size % template.gpus:g} are left over, and {most:g} of {pods} pods fit",
                related=tuple(pool.resource for pool in place.pools),
            )
            return


@rule(
    "XL602",
    "scalers-together-fit-the-pools",
    on=Inventory,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    parameters=("instance_table", "other_gpus", "overcommit", "batch_label"),
    fix="Lower the maxima until they fit together, raise the pool's limits, or say by `overcommit` that peaks differ.",
    sources=(NODEPOOLS, "https://github.com/defilantech/LLMKube/issues/1311"),
)
def scalers_together_fit_the_pools(inventory: Inventory, context: Context) -> Verdicts:
    """Scalers that share node pools must fit them together at their maxima.

    Each maximum alone looks right against the pool; in a common peak the second scaler finds the pool full, and its
    pods stay pending while its requests wait. Summed up are the maxima of all that scales and the replicas of what does
    not, over pools that share pods; Jobs, batch work and what KAI may preempt give way and do not count. A single
    workload is AS410's.
    """
    landing, parameters = inventory.relation(Landing), context.parameters
    scaling, queueing = inventory.relation(Scaling), inventory.relation(Queueing)

    def most(workload: Workload) -> float:
        replicas, scaler = scaling.maximum(workload)
        if scaler is not None:
            return replicas
        gives_way = workload.has_label(parameters.batch_label)
        gives_way = gives_way or (bool(queue_of(workload)) and queueing.preemptible(workload))
        return replicas if workload.scaled_by_replicas and not gives_way else 0

    for together in landing.together():
        full: list[tuple[list[Destination], float, float]] = []
        for places in [[place] for place in together] if len(together) > 1 else []:
            full.extend(_too_much(places, most, landing, context))
        for places, asked, available in full or _too_much(together, most, landing, context):
            asking = dict.fromkeys(workload for place in places for workload in place.workloads if most(workload))
            scalers = [scaler for workload in asking for scaler in scaling.scalers_of(workload.resource)]
            if len(asking) < 2 or not scalers:
                continue
            pool = places[0].pools[0]
            sums = ", ".join(f"{w.resource} {most(w) * w.gpus_per_replica:g}" for w in list(asking)[:10])
            yield fail(
                LIMITS,
                f"{available:g} GPUs" if len(_pools(places)) == 1 else f"{available:g} GPUs with the pools beside it",
                f"at their maxima they ask for {asked:g} ({sums}), and what comes last stays pending",
                on=pool.resource,
                related=tuple(w.resource for w in asking) + tuple(scaler.resource for scaler in scalers),
            )


def _too_much(
    places: list[Destination], most: Callable[[Workload], float], landing: Landing, context: Context
) -> list[tuple[list[Destination], float, float]]:
    """The places, what is asked of them and what they may have, if that is too little."""
    parameters = context.parameters
    asked = sum(place.gpus(most) for place in places)
    rooms = (landing.room(pool, parameters.instance_table) for pool in _pools(places))
    available = parameters.other_gpus + sum(room.gpus for room in rooms)
    return [(places, asked, available)] if asked > available * parameters.overcommit else []


@rule(
    "XL603",
    "reservation-is-filled-by-minimum-replicas",
    on=CapacityReservation,
    scope="stack",
    severity=Severity.INFO,
    profile=Profile.ALL,
    parameters=("instance_table",),
    fix="Raise the minimum replicas to what is paid for, let training use the rest, or reserve less.",
    sources=(RESERVATIONS,),
)
def reservation_is_filled_by_minimum_replicas(reservation: CapacityReservation, context: Context) -> Verdicts:
    """A reservation is paid for whether it is used or not, so the fewest replicas should fill it.

    Judged against everything that can land on the pools which launch into the reservation: minimum replicas of what
    scales, replicas and Jobs as they stand.
    """
    inventory, table = context.inventory, context.parameters.instance_table
    reserved, scaling = reserved_gpus(reservation, table), inventory.relation(Scaling)
    places = inventory.relation(_places_of_reservations).get(reservation, [])
    used = sum(place.gpus(lambda workload: scaling.minimum(workload)[0]) for place in places)
    if reserved is None or not places or used >= reserved:
        return
    yield fail(
        ("spec", "instanceCount"),
        reservation.spec.get("instanceCount"),
        f"{reserved:g} GPUs are paid for, and at the fewest replicas {used:g} are used",
        related=tuple(pool.resource for pool in _pools(places)),
    )


def _places_of_reservations(inventory: Inventory) -> dict[CapacityReservation, list[Destination]]:
    """Where pods land that a reservation can hold."""
    reservations = inventory.relation(Reservations)
    found: dict[CapacityReservation, list[Destination]] = {}
    for place in inventory.relation(Landing).destinations:
        for reservation in dict.fromkeys(r for pool in place.pools for r in reservations.of(pool) or ()):
            found.setdefault(reservation, []).append(place)
    return found


@rule(
    "XL608",
    "reserved-only-pool-holds-the-minimum",
    on=Inventory,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    parameters=("instance_table",),
    fix="Let the pool fall back to on-demand, reserve more, or lower the minimum replicas.",
    sources=(RESERVATIONS,),
)
def reserved_only_pool_holds_the_minimum(inventory: Inventory, context: Context) -> Verdicts:
    """A pool that launches into reservations alone must hold the fewest replicas of what lands there.

    Without another capacity type there is no fallback: pods beyond the reservation are pending whatever the pool's
    limit, and a minimum that does not fit is never reached. Counted are workloads that can land on such pools only.
    How large a reservation is must be in the input, else it is unknown.
    """
    landing, reservations = inventory.relation(Landing), inventory.relation(Reservations)
    scaling, table = inventory.relation(Scaling), context.parameters.instance_table
    for place in landing.destinations:
        if not all(_reserved_only(pool) for pool in place.pools):
            continue
        needed = place.gpus(lambda workload: scaling.minimum(workload)[0] if workload.scaled_by_replicas else 0)
        requirement = place.pools[0].required(CAPACITY_TYPE)[0]
        found = [reservations.of(pool) for pool in place.pools]
        held = [reserved_gpus(r, table) for r in dict.fromkeys(r for group in found for r in group or ())]
        if None in found or None in held or not held:
            if needed:
                yield unknown(LIMITS, f"how much {place.pools[0].resource} has reserved is not in the input")
            continue
        total = sum(gpus for gpus in held if gpus is not None)
        if needed > total:
            yield fail(
                requirement.path,
                "reserved only",
                f"its reservations hold {total:g} GPUs, and the fewest replicas need {needed:g}",
                on=place.pools[0].resource,
                related=tuple(workload.resource for workload in place.workloads),
            )


def _reserved_only(pool: NodePool) -> bool:
    return any(r.operator == "In" and set(r.values) == {"reserved"} for r in pool.required(CAPACITY_TYPE))


@rule(
    "XL610",
    "vcpu-quota-covers-the-pool",
    on=NodePool,
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("vcpu_quotas",),
    fix="Ask AWS for a higher vCPU quota, or lower the pool's limits.",
    sources=(
        "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-on-demand-instances.html",
        "https://github.com/aws/karpenter-provider-aws/issues/6328",
    ),
)
def vcpu_quota_covers_the_pool(pool: NodePool, context: Context) -> Verdicts:
    """The account's vCPU quota should cover what a pool may grow to.

    EC2 counts vCPUs by class of instance, and new accounts have few for GPU classes. Beyond the quota launches fail
    with VcpuLimitExceeded, which looks like a shortage and is not: no other zone helps. The quotas are given by
    `vcpu_quotas`; of the types a pool may launch the one that needs the fewest vCPUs counts.
    """
    quotas, nodes = context.parameters.vcpu_quotas, pool.limits.get("nodes", math.inf)
    limited = [amount for name, amount in pool.limits.items() if name == "nvidia.com/gpu"]
    needs: list[tuple[float, str]] = []
    for kind in instance_types_of(pool):
        family = kind.family[:1]
        if family not in quotas:
            return
        count = min((nodes, *(amount // kind.gpu_count for amount in limited if kind.gpu_count)))
        needs.append((min(count * kind.vcpu, pool.limits.get("cpu", math.inf)), family))
    spot_only = any(r.operator == "In" and set(r.values) == {"spot"} for r in pool.required(CAPACITY_TYPE))
    if not needs or spot_only:
        return  # spot has a quota of its own
    least, family = min(needs)
    if quotas[family] < least < math.inf:
        consequence = f"that is at least {least:g} vCPUs, and the quota for {family} instances is {quotas[family]}"
        yield fail(LIMITS, f"{nodes:g} nodes" if not limited else f"{limited[0]:g} GPUs", consequence)
