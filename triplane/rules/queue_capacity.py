"""Judgements on whether what is asked of a queue fits into it."""

import math

from triplane.documents import Path
from triplane.inventory import Inventory, NodePool
from triplane.inventory.capacity import Landing
from triplane.inventory.gangs import gang_of
from triplane.inventory.queueing import QueueDemand, Queueing, queue_of
from triplane.inventory.queues import Queue, QueueTree
from triplane.inventory.resource import Resource
from triplane.inventory.scaling import Scaling
from triplane.inventory.workloads import Workload
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Verdicts, fail

GPU_QUOTA: Path = ("spec", "resources", "gpu", "quota")
GPU_LIMIT: Path = ("spec", "resources", "gpu", "limit")
QUEUES = "https://github.com/kai-scheduler/KAI-Scheduler/blob/main/docs/queues/README.md"


@rule(
    "QU307",
    "quotas-fit-the-gpus-there-can-be",
    on=Inventory,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    parameters=("instance_table", "other_gpus"),
    fix="Lower the quotas of the queues at the top, or raise the limits of the node pools.",
    sources=(QUEUES, "https://github.com/kai-scheduler/KAI-Scheduler/issues/1750"),
)
def quotas_fit_the_gpus_there_can_be(inventory: Inventory, context: Context) -> Verdicts:
    """The queues at the top must not be promised more GPUs than the node pools may ever have.

    KAI hands out quotas before anything else and does not look whether they can be kept: what is promised beyond the
    GPUs that can exist is missing when every team asks for its own, and reclaiming cannot bring it back, since each is
    within its quota. GPUs on nodes that no NodePool makes are given by `other_gpus`. A pool without a limit holds any
    sum (NP109 speaks of it).
    """
    pools = [pool for pool in inventory.views(NodePool) if pool.gpu]
    promised = [(queue.share("gpu").quota, queue) for queue in inventory.relation(QueueTree).top]
    promised = [(quota, queue) for quota, queue in promised if 0 < quota < math.inf]
    landing, parameters = inventory.relation(Landing), context.parameters
    available = parameters.other_gpus + sum(landing.room(pool, parameters.instance_table).gpus for pool in pools)
    total = sum(quota for quota, _ in promised)
    if not pools or not promised or total <= available:
        return
    quota, largest = max(promised, key=lambda found: found[0])
    yield fail(
        GPU_QUOTA,
        quota,
        f"all queues at the top together are promised {total:g} GPUs, and the node pools may have {available:g}",
        on=largest.resource,
        related=tuple(pool.resource for pool in pools)
        + tuple(queue.resource for _, queue in promised if queue is not largest),
    )


@rule(
    "QU308",
    "queue-limit-holds-one-gang",
    on=Workload,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    parameters=("gangs",),
    fix="Raise the limit of the queue, and of every queue above it, to a whole gang, or make the gang smaller.",
    sources=(QUEUES, "https://github.com/kai-scheduler/KAI-Scheduler/issues/500"),
)
def queue_limit_holds_one_gang(workload: Workload, context: Context) -> Verdicts:
    """One replica, or one gang, must fit the limit of its queue and of every queue above.

    A gang is placed all at once or not at all. One that is larger than a limit on its way to the top is never placed,
    whatever is free; a queue without a GPU block has the limit 0. How many pods a gang has is counted as KAI does: a
    group of a LeaderWorkerSet, a Ray cluster with every host of its smallest groups, one pod of a Deployment.
    """
    queue = queue_of(workload)
    if not queue:
        return
    gang = gang_of(workload, context.parameters.lists(context.parameters.gangs, workload.resource))
    if not gang.gpus:
        return
    for above in context.inventory.relation(QueueTree).way_up(queue):
        if above.share("gpu").limit < gang.gpus:
            pods = f"{gang.pods} pods with {gang.gpus:g} GPUs" if gang.pods > 1 else f"{gang.gpus:g} GPUs"
            yield fail(
                gang.path,
                pods,
                f"queue {above.name} may use {above.share('gpu').limit:g}, so it is never placed",
                related=(above.resource,),
            )
            return


@rule(
    "QU318",
    "scalers-stay-within-the-queue-limit",
    on=Queue,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    parameters=("instance_table",),
    fix="Lower the maxima of the scalers to the queue's limit, raise the limit, or limit the node pool to it.",
    sources=(
        "https://github.com/kai-scheduler/KAI-Scheduler/issues/1615",
        "https://github.com/kubernetes-sigs/karpenter/issues/742",
    ),
)
def scalers_stay_within_the_queue_limit(queue: Queue, context: Context) -> Verdicts:
    """What scalers may ask of a queue together must not be more than its limit while nodes may still be bought.

    KAI marks pods it holds back for the queue's limit as unschedulable, in the same words as pods that lack a node, and
    Karpenter does not know of queues: it buys a GPU node for them, finds it empty an hour later, removes it, and buys
    it again. Judged where the pools those pods can land on may have more GPUs than the queue.
    """
    limit, demand = queue.share("gpu").limit, context.inventory.relation(QueueDemand)
    total = demand.total(queue)
    if total <= limit or not limit:
        return
    asking = [
        ask
        for below in context.inventory.relation(QueueTree).below(queue.name)
        for ask in demand.own.get(below.name, ())
    ]
    landing, table = context.inventory.relation(Landing), context.parameters.instance_table
    places = (landing.of(template) for ask in asking for template in ask.workload.templates if template.gpus)
    pools = dict.fromkeys(pool for place in places if place is not None for pool in place.pools)
    available = sum(landing.room(pool, table).gpus for pool in pools)
    if available <= limit:
        return
    sums = ", ".join(f"{ask.workload.resource} {ask.gpus:g}" for ask in asking[:10])
    yield fail(
        GPU_LIMIT,
        limit,
        f"scalers may ask for {total:g} GPUs ({sums}); Karpenter buys nodes for pods that the queue never admits",
        related=tuple(resource for ask in asking for resource in (ask.workload.resource, ask.scaler.resource))
        + tuple(pool.resource for pool in pools),
    )


@rule(
    "QU309",
    "non-preemptible-workloads-fit-the-quota",
    on=Queue,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    fix="Raise the quota, lower the maximum, or make the workload preemptible (priority below 100).",
    versions="KAI 0.10 and later read the label kai.scheduler/preemptibility; before, only the priority counts.",
    sources=(
        "https://github.com/kai-scheduler/KAI-Scheduler/blob/main/docs/priority/README.md",
        "https://github.com/defilantech/LLMKube/issues/1311",
    ),
)
def non_preemptible_workloads_fit_the_quota(queue: Queue, context: Context) -> Verdicts:
    """Non-preemptible workloads must fit the quota of their queue at their largest.

    KAI gives non-preemptible pods quota only: the limit, which may be far higher, does not help them. A Deployment is
    non-preemptible unless something says otherwise, since its default class is inference (125). What does not fit stays
    pending for ever, while Karpenter may buy nodes for it. KAI checks every ancestor of the queue the same way.
    """
    quota = queue.share("gpu").quota
    if math.isinf(quota):
        return
    asked = [(workload, *_demand(workload, context)) for workload in _workloads_below(queue, context)]
    total = sum(gpus for _, gpus, _ in asked)
    if total <= quota:
        return
    sums = ", ".join(f"{workload.resource} {gpus:g}" for workload, gpus, _ in asked)
    related = [resource for workload, _, scaler in asked for resource in (workload.resource, scaler) if resource]
    yield fail(
        GPU_QUOTA,
        quota if "quota" in queue.share("gpu").written else None,
        f"non-preemptible workloads may ask for {total:g} GPUs ({sums}), and what is over it stays pending",
        default="0",
        related=tuple(related),
    )


def _workloads_below(queue: Queue, context: Context) -> list[Workload]:
    """The non-preemptible GPU workloads of a queue and of all queues below it."""
    tree, queueing = context.inventory.relation(QueueTree), context.inventory.relation(Queueing)
    return [
        workload
        for below in tree.below(queue.name)
        for workload in queueing.workloads.get(below.name, ())
        if workload.gpus_per_replica and not queueing.preemptible(workload)
    ]


def _demand(workload: Workload, context: Context) -> tuple[float, Resource | None]:
    """GPUs at the most replicas, and the scaler that sets them."""
    most, scaler = context.inventory.relation(Scaling).maximum(workload)
    return most * workload.gpus_per_replica, scaler.resource if scaler else None
