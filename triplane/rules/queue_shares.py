"""Judgements on the numbers of a queue: units, limits, quotas and weights, along the tree."""

import math
from fnmatch import fnmatchcase

from triplane.documents import Path
from triplane.inventory.fields import at
from triplane.inventory.queues import RESOURCES, Queue, QueueTree, Share
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Verdicts, fail

QUEUES = "https://github.com/kai-scheduler/KAI-Scheduler/blob/main/docs/queues/README.md"
# Under so many millicores and MB a queue of GPUs was surely meant in cores and GB: one core, one GB.
SMALLEST = 1000


def _path(resource: str, field: str) -> Path:
    return ("spec", "resources", resource, field)


def _shown(amount: float) -> str:
    return "-1 (unlimited)" if math.isinf(amount) else f"{amount:g}"


@rule(
    "QU301",
    "queue-states-the-limit-of-each-resource",
    on=Queue,
    severity=Severity.ERROR,
    profile=Profile.CORE,
    fix="Write a number, or -1 for no limit.",
    sources=(QUEUES, "https://github.com/kai-scheduler/KAI-Scheduler/issues/612"),
)
def queue_states_the_limit_of_each_resource(queue: Queue, context: Context) -> Verdicts:
    """A queue must state a limit for GPUs, CPU and memory.

    To KAI a limit that is not written is 0, and 0 blocks every pod that asks for the resource: a queue with a GPU block
    alone runs nothing, because its memory limit is 0. That holds for parents as well, since every ancestor is checked,
    so this is asked of all queues, not only of leaves. Of negative numbers only -1 means unlimited for GPUs and CPU.
    A queue without GPUs (no gpu block, or quota and limit both 0) is a queue for CPU work and passes.
    """
    if not at(queue.spec, "resources"):
        consequence = "every limit is 0, so nothing can run in the queue"
        yield fail(("spec", "resources"), queue.spec.get("resources"), consequence)
        return
    for resource in RESOURCES:
        share = queue.share(resource)
        if resource == "gpu" and (at(queue.spec, "resources", "gpu") is None or _without_gpus(share)):
            continue
        if share.limit == 0 or (share.limit < 0 and resource != "memory"):
            yield fail(
                _path(resource, "limit"),
                share.limit if "limit" in share.written else None,
                f"every pod that asks for {_NAMES[resource]} is refused with OverLimit",
                default="0",
            )


_NAMES = {"gpu": "GPUs", "cpu": "CPU", "memory": "memory"}


def _without_gpus(share: Share) -> bool:
    return "limit" in share.written and share.limit == 0 and share.quota == 0


@rule(
    "QU302",
    "queue-amounts-are-in-millicores-and-megabytes",
    on=Queue,
    severity=Severity.ERROR,
    profile=Profile.CORE,
    fix="Write CPU in millicores (64 cores: 64000) and memory in MB of 10^6 bytes (512 GiB: 549755.8), or -1.",
    sources=(QUEUES,),
)
def queue_amounts_are_in_millicores_and_megabytes(queue: Queue, context: Context) -> Verdicts:
    """CPU and memory of a queue are counted in millicores and MB.

    Somebody who writes 64 and 512 for a team with 8 GPUs means cores and gigabytes; KAI reads 0.064 cores and half a
    gigabyte, and no GPU pod ever fits. Judged on queues with at least one GPU, below 1,000 of either unit.
    """
    gpu = queue.share("gpu")
    if max(gpu.quota, gpu.limit) < 1:
        return
    for resource, meant in (("cpu", "millicores"), ("memory", "MB")):
        share = queue.share(resource)
        for field, amount in (("quota", share.quota), ("limit", share.limit)):
            if 0 < amount < SMALLEST:
                consequence = f"this is counted in {meant}, too little for a single GPU pod"
                yield fail(_path(resource, field), amount, consequence)


@rule(
    "QU303",
    "quotas-of-children-fit-their-parent",
    on=Queue,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    fix="Raise the parent's quota or lower the children's.",
    sources=(QUEUES, "https://github.com/kai-scheduler/KAI-Scheduler/issues/1783"),
)
def quotas_of_children_fit_their_parent(queue: Queue, context: Context) -> Verdicts:
    """The quotas of a queue's children must not sum up to more than its own.

    A quota is a promise. If the children are promised more than the parent has, each may be within its own quota, so
    that none can reclaim from the other, and non-preemptible pods are refused at the parent. KAI's own check of this is
    off by default and only warns. -1 counts as unlimited: under a parent with a number it cannot be kept.
    """
    children = context.inventory.relation(QueueTree).children.get(queue.name, ())
    if not children:
        return
    for resource in RESOURCES:
        share = queue.share(resource)
        promised = sum(child.share(resource).quota for child in children)
        if promised > share.quota:
            sums = ", ".join(f"{child.name} {_shown(child.share(resource).quota)}" for child in children[:10])
            yield fail(
                _path(resource, "quota"),
                share.quota if "quota" in share.written else None,
                f"the children are promised {_shown(promised)} ({sums}), which the queue cannot keep",
                default="0",
                related=tuple(child.resource for child in children),
            )


@rule(
    "QU304",
    "queue-amounts-are-within-reach",
    on=Queue,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    fix="Lower the amount to the limit above it, or raise that limit.",
    sources=(QUEUES, "https://github.com/kai-scheduler/KAI-Scheduler/issues/1783"),
)
def queue_amounts_are_within_reach(queue: Queue, context: Context) -> Verdicts:
    """What a queue may use must not be more than a limit above it, nor its quota more than its own limit.

    KAI checks the limit of every ancestor when a pod is admitted, so the excess can never be used: a quota above the
    limit is partly dead, and a limit above an ancestor's misleads whoever reads it. A limit of -1 under a parent with
    a number is a way to say "whatever the parent has" and passes.
    """
    above = list(context.inventory.relation(QueueTree).way_up(queue.parent)) if queue.parent else []
    for resource in RESOURCES:
        share = queue.share(resource)
        limits = [(ancestor.share(resource).limit, ancestor) for ancestor in above]
        limits = [(limit, ancestor) for limit, ancestor in limits if limit > 0]
        for field, amount in (("quota", share.quota), ("limit", share.limit)):
            ceilings = limits if field == "limit" or share.limit <= 0 else [(share.limit, queue), *limits]
            lower = [(limit, ancestor) for limit, ancestor in ceilings if limit < amount]
            if lower and not math.isinf(amount):
                limit, ancestor = min(lower, key=lambda found: found[0])
                yield fail(
                    _path(resource, field),
                    amount,
                    f"the limit of queue {ancestor.name} is {limit:g}, so the rest can never be used",
                    related=(ancestor.resource,) if ancestor is not queue else (),
                )


@rule(
    "QU310",
    "production-leaf-queue-has-numbers",
    on=Queue,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("environment", "prod_queues"),
    fix="Write the GPUs the queue is promised and the most it may use.",
    sources=(QUEUES,),
)
def production_leaf_queue_has_numbers(queue: Queue, context: Context) -> Verdicts:
    """A leaf queue in production should have numbers for its GPUs.

    -1 as quota promises everything, as limit allows everything: a neighbour's quota then holds only until this queue
    asks, and nothing bounds what its scalers make Karpenter buy. CPU and memory may be -1, since GPUs bound them. Which
    queues this is asked of is said by `prod_queues` where not all leaves are meant.
    """
    names = context.parameters.prod_queues
    if names is None:
        leaf = context.inventory.relation(QueueTree).is_leaf(queue.name)
        if context.parameters.environment != "prod" or not leaf:
            return
    elif not any(fnmatchcase(queue.name, name) for name in names):
        return
    share = queue.share("gpu")
    for field, amount in (("quota", share.quota), ("limit", share.limit)):
        if math.isinf(amount):
            yield fail(_path("gpu", field), -1, "nothing separates this queue's GPUs from its neighbours'")


@rule(
    "QU312",
    "queue-that-may-exceed-its-quota-has-a-weight",
    on=Queue,
    severity=Severity.INFO,
    profile=Profile.ALL,
    fix="Write overQuotaWeight: 1, or a limit equal to the quota.",
    sources=(QUEUES, "https://github.com/kai-scheduler/KAI-Scheduler/blob/main/docs/fairness/README.md"),
)
def queue_that_may_exceed_its_quota_has_a_weight(queue: Queue, context: Context) -> Verdicts:
    """A queue whose limit is above its quota should have a weight.

    Surplus is shared out by overQuotaWeight, and a weight that is not written is 0: the queue's fair share ends at its
    quota. It may still use idle GPUs, but is the first to lose them and can never reclaim. For CPU and memory it is
    worse: with a fair share of 0 in either, the queue cannot reclaim GPUs that its GPU quota promises.
    """
    for resource in RESOURCES:
        share = queue.share(resource)
        if share.limit > share.quota and share.weight == 0:
            yield fail(
                _path(resource, "overQuotaWeight"),
                share.weight if "overQuotaWeight" in share.written else None,
                f"beyond its quota of {share.quota:g} the queue has no share of what is idle",
                default="0",
            )
