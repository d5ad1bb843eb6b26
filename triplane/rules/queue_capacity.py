"""Judgements on whether what is asked of a queue fits into it."""

import math

from triplane.documents import Path
from triplane.inventory.queueing import Queueing
from triplane.inventory.queues import Queue, QueueTree
from triplane.inventory.resource import Resource
from triplane.inventory.scaling import Scaling
from triplane.inventory.workloads import Workload
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Verdicts, fail

GPU_QUOTA: Path = ("spec", "resources", "gpu", "quota")


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
