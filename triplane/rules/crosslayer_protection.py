"""Judgements on layers that work against each other: what one keeps or places, another takes away."""

from triplane.documents import Path
from triplane.inventory import Inventory, NodePool, Scaler
from triplane.inventory.capacity import Destination, Landing
from triplane.inventory.fields import at, duration, number
from triplane.inventory.nodepools import ZONE
from triplane.inventory.placement import Placement
from triplane.inventory.queueing import Queueing, label_path, queue_of
from triplane.inventory.queues import PARTITION_LABEL, Queue, QueueTree, SchedulingShard
from triplane.inventory.scaling import Scaling
from triplane.inventory.volumes import zones_of_volumes
from triplane.inventory.workloads import Workload
from triplane.rules.parameters import Duration
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.serving import is_under_slo
from triplane.rules.verdicts import Verdicts, fail

KAI = "https://github.com/kai-scheduler/KAI-Scheduler"
DISRUPTION = "https://karpenter.sh/docs/concepts/disruption/"
HPA = "https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/"
SCALE_DOWN_WINDOW = 300.0  # default of behavior.scaleDown.stabilizationWindowSeconds; scaleUp's is 0
PREEMPTIBILITY = "kai.scheduler/preemptibility"


def _window(scaler: Scaler, direction: str) -> float:
    """Seconds for which a scaler looks back before it follows its signal."""
    written = number(at(scaler.resource.data, *scaler.behavior_path, direction, "stabilizationWindowSeconds"))
    return written if written is not None else SCALE_DOWN_WINDOW if direction == "scaleDown" else 0.0


@rule(
    "XL605",
    "empty-nodes-outlast-a-dip-of-the-load",
    on=Inventory,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("cold_start",),
    fix="Set consolidateAfter longer than the scaler's scale-down window and a cold start together.",
    sources=(DISRUPTION, HPA),
)
def empty_nodes_outlast_a_dip_of_the_load(inventory: Inventory, context: Context) -> Verdicts:
    """A pool should keep an empty GPU node for longer than the scaler needs to change its mind.

    A scaler that went down after its window may go up again minutes later. If Karpenter has removed the empty node by
    then, the dip costs a launch, an image and a model again, which is more than the node would have cost in between.
    """
    scaling = inventory.relation(Scaling)
    said: set[NodePool] = set()
    for place in inventory.relation(Landing).destinations:
        scalers = [scaler for workload in place.workloads for scaler in scaling.scalers_of(workload.resource)]
        if not scalers:
            continue
        slowest = max(scalers, key=lambda scaler: _window(scaler, "scaleDown"))
        needed = _window(slowest, "scaleDown") + context.parameters.cold_start
        for pool in place.pools:
            after = duration(pool.consolidate_after or "0s") if pool not in said else None
            # "Never" is no duration: such a pool keeps its nodes.
            if after is not None and after < needed and pool.gpu and not pool.static and not pool.always_zero("Empty"):
                said.add(pool)
                yield fail(
                    ("spec", "disruption", "consolidateAfter"),
                    pool.consolidate_after,
                    f"{slowest.resource} may want the node back {Duration(needed)} after its pods became idle",
                    default="0s",
                    on=pool.resource,
                    related=(slowest.resource,),
                )


@rule(
    "XL606",
    "scheduler-packs-pods-where-only-empty-nodes-go",
    on=SchedulingShard,
    scope="stack",
    severity=Severity.INFO,
    profile=Profile.ALL,
    fix="Set placementStrategy.gpu: binpack, KAI's default.",
    sources=(f"{KAI}/blob/main/docs/operator/scheduling-shards.md", DISRUPTION),
)
def scheduler_packs_pods_where_only_empty_nodes_go(shard: SchedulingShard, context: Context) -> Verdicts:
    """A scheduler that spreads pods leaves no node empty, and a pool of WhenEmpty gives none back.

    Each half is sensible alone. Together a pool at a tenth of its load keeps all its nodes, with a pod on each. Spread
    placement also switches KAI's own consolidation off.
    """
    if shard.placement("gpu") != "spread":
        return
    pools = [
        pool
        for pool in context.inventory.views(NodePool)
        if pool.gpu
        and pool.labels.get(PARTITION_LABEL, "") == shard.partition
        and pool.consolidation_policy == "WhenEmpty"
        and duration(pool.consolidate_after or "0s") is not None
        and not pool.static
    ]
    if pools:
        names = ", ".join(pool.resource.name for pool in pools[:5])
        consequence = f"no node becomes empty, and these pools only remove empty ones: {names}"
        related = tuple(pool.resource for pool in pools)
        yield fail(("spec", "placementStrategy", "gpu"), "spread", consequence, related=related)


@rule(
    "XL607",
    "scaled-role-is-not-taken-away",
    on=Workload,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    parameters=("slo", "batch_label", "spot_allowed_label"),
    fix="Give the role a class of 100 or more within its quota, and let it land on on-demand or reserved nodes.",
    sources=(f"{KAI}/blob/main/docs/priority/README.md", DISRUPTION, f"{KAI}/issues/2144"),
)
def scaled_role_is_not_taken_away(workload: Workload, context: Context) -> Verdicts:
    """A role that a scaler scales for an SLO must not be preemptible, nor run on spot nodes.

    The scaler adds a replica because requests wait; the scheduler takes one for another queue, or EC2 takes the node at
    two minutes' notice; the scaler adds it again, and each round costs a cold start. KAI deletes pods without asking
    their disruption budget. A LeaderWorkerSet is preemptible unless something says otherwise: its default class is
    train. Under an SLO is what `slo` lists, and each role (llm-d.ai/role) that a scaler scales, unless it carries the
    batch label. Overflow that may be taken says so: by the label kai.scheduler/preemptibility, or by landing on pools
    that carry `spot_allowed_label`.
    """
    if not is_under_slo(workload, context):
        return
    queueing = context.inventory.relation(Queueing)
    if queue_of(workload) and workload.label(PREEMPTIBILITY) != "preemptible" and queueing.preemptible(workload):
        name, named = queueing.priority_class(workload)
        first = workload.templates[0].path
        path: Path = (*first, "priorityClassName")
        if workload.label("priorityClassName"):
            path = label_path(workload, "priorityClassName")
        yield fail(
            path,
            name if named else None,
            f"KAI may take its pods at priority {queueing.priority(workload):g} while its scaler adds them",
            default=name,
        )
    landing = context.inventory.relation(Landing)
    for template in workload.templates:
        place = landing.of(template) if template.gpus else None
        spot = _spot(place, context.parameters.spot_allowed_label) if place is not None else None
        if spot is not None:
            consequence = f"its pods may land on {spot.resource}, which may buy spot nodes, and are gone in two minutes"
            yield fail(
                (*template.path, "nodeSelector"),
                template.spec.get("nodeSelector"),
                consequence,
                related=(spot.resource,),
            )
            return


def _spot(place: Destination, allowed: str) -> NodePool | None:
    """A pool of a destination that may buy spot nodes and does not say that its work survives it."""
    return next((pool for pool in place.spot if not pool.has_label(allowed)), None)


@rule(
    "XL609",
    "volume-is-in-a-zone-of-the-pools",
    on=Workload,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    fix="Create the volume in a zone of the pool, widen the pool's zones, or keep weights on storage without a zone.",
    sources=("https://kubernetes.io/docs/concepts/storage/persistent-volumes/#node-affinity",),
)
def volume_is_in_a_zone_of_the_pools(workload: Workload, context: Context) -> Verdicts:
    """A volume must be in a zone where the pods that mount it can have a node.

    A block volume exists in one zone, and GPU capacity often in another: a pool pinned to a reservation's zone cannot
    run a pod whose model lies elsewhere. The pod stays pending, and Karpenter reports a conflict of zones. Judged where
    the volume or its storage class names zones and every pool the pods can land on does.
    """
    inventory = context.inventory
    for template in workload.templates:
        tied = list(zones_of_volumes(workload, template, inventory))
        if not tied:
            continue
        fits = [fit.pools[0] for fit in inventory.relation(Placement).possible(template)]
        zones = [{value for r in pool.required(ZONE) if r.operator == "In" for value in r.values} for pool in fits]
        if not zones or not all(zones):
            continue
        reachable = set().union(*zones)
        for path, own, source in tied:
            if not own & reachable:
                consequence = f"its pools have nodes in {', '.join(sorted(reachable))} only, so its pods stay pending"
                related = (source, *(pool.resource for pool in fits))
                yield fail(path, f"in {', '.join(sorted(own))}", consequence, related=related)


@rule(
    "XL611",
    "pods-land-on-nodes-of-their-own-shard",
    on=Workload,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    fix="Label workload, queue and pool alike with kai.scheduler/node-pool, and let the pods select nodes by it.",
    sources=(f"{KAI}/issues/1045", f"{KAI}/issues/1112", f"{KAI}/blob/main/docs/operator/scheduling-shards.md"),
)
def pods_land_on_nodes_of_their_own_shard(workload: Workload, context: Context) -> Verdicts:
    """Pods of one tenant's shard must not be able to land on another's nodes.

    Queues share nodes; what separates tenants in KAI is a shard, the nodes, queues and pods with one value of the label
    kai.scheduler/node-pool. The label is no node selector: Karpenter buys a node from any pool whose taints and labels
    the pods admit, KAI does not place them there, and both tenants wait, one for its nodes and one for its limit. A
    queue of another shard is never looked at.
    """
    queue_name = queue_of(workload)
    if not queue_name:
        return
    own = workload.label(PARTITION_LABEL)
    shown = f"shard {own}" if own else "the shard without a label"
    queue = context.inventory.relation(QueueTree).get(queue_name)
    path = label_path(workload, PARTITION_LABEL)
    if queue is not None and queue.partition != own:
        consequence = f"queue {queue.name} is in {_shard(queue)}, so its pods are never scheduled"
        yield fail(path, own or None, consequence, related=(queue.resource,))
    landing = context.inventory.relation(Landing)
    for template in workload.templates:
        place = landing.of(template) if template.gpus else None
        others = [pool for partition, pool in place.partitions.items() if partition != own] if place else []
        if others:
            yield fail(
                (*template.path, "nodeSelector"),
                template.spec.get("nodeSelector"),
                f"Karpenter may buy a node of {others[0].resource} for it, where {shown} does not place pods",
                related=tuple(pool.resource for pool in others),
            )


def _shard(queue: Queue) -> str:
    return f"shard {queue.partition}" if queue.partition else "the shard without a label"


@rule(
    "XL612",
    "replicas-arrive-within-the-burst-budget",
    on=Scaler,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("burst_budget", "cold_start", "slo", "batch_label"),
    fix="Raise the minimum replicas, keep nodes warm, or shorten the scale-up window.",
    sources=(HPA, f"{KAI}/blob/main/docs/developer/designs/min-runtime/README.md"),
)
def replicas_arrive_within_the_burst_budget(scaler: Scaler, context: Context) -> Verdicts:
    """From the burst to the further replica it must take no longer than the SLO can bear.

    The times add up: the scaler's window before it goes up, the minimum runtime of pods in other queues that must go
    first, and the cold start. If the sum is more than a burst may wait (`burst_budget`), scaling cannot hold the SLO
    however fast it reacts, and only replicas that are there already can.
    """
    parameters, inventory = context.parameters, context.inventory
    workload = inventory.relation(Scaling).target_workload(scaler)
    if not parameters.burst_budget or workload is None or not is_under_slo(workload, context):
        return
    window = _window(scaler, "scaleUp")
    reclaim = inventory.relation(_longest_reclaim) if queue_of(workload) else 0.0
    total = window + reclaim + parameters.cold_start
    if total > parameters.burst_budget:
        yield fail(
            scaler.minimum_path,
            scaler.minimum,
            f"a further replica takes {Duration(total)} (window {Duration(window)}, minimum runtime "
            f"{Duration(reclaim)}, cold start {parameters.cold_start}); a burst may wait {parameters.burst_budget}",
            related=(workload.resource,),
        )


def _longest_reclaim(inventory: Inventory) -> float:
    """How long KAI may have to wait before it takes GPUs back from another queue, in seconds."""
    return max((queue.runtime("reclaimMinRuntime") or 0.0 for queue in inventory.views(Queue)), default=0.0)
