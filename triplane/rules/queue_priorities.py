"""Judgements on who may displace whom, and when."""

from dataclasses import dataclass

from triplane.documents import Path
from triplane.inventory import Inventory, Resource
from triplane.inventory.fields import text
from triplane.inventory.queueing import Queueing, label_path
from triplane.inventory.queues import Queue, QueueTree, SchedulingShard
from triplane.inventory.scaling import Scaling
from triplane.inventory.workloads import Workload
from triplane.rules.parameters import Parameters
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Verdicts, fail

KAI = "https://github.com/kai-scheduler/KAI-Scheduler/blob/main/docs"


@rule(
    "QU311",
    "serving-pods-are-kept-until-they-serve",
    on=Queue,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("cold_start", "slo"),
    fix="Set reclaimMinRuntime and preemptMinRuntime to a cold start and the time it should serve at least.",
    sources=(f"{KAI}/developer/designs/min-runtime/README.md",),
)
def serving_pods_are_kept_until_they_serve(queue: Queue, context: Context) -> Verdicts:
    """Preemptible serving pods should not be displaced before they have served.

    KAI may reclaim or preempt a pod from its first second on, unless the queue, one above it, or the shard gives a
    minimum runtime. A model that is displaced while it loads has cost a node, a download and minutes, and has answered
    nothing; the scaler asks for it again. Judged on queues that hold preemptible GPU workloads which a scaler scales or
    which serve under an SLO: pods of other kinds start faster, and non-preemptible ones are never displaced.
    """
    queueing, scaling = context.inventory.relation(Queueing), context.inventory.relation(Scaling)
    slo = context.parameters.slo
    serving = [
        workload
        for workload in queueing.workloads.get(queue.name, ())
        if workload.uses_gpu
        and (scaling.scalers_of(workload.resource) or Parameters.lists(slo, workload.resource))
        and queueing.preemptible(workload)
    ]
    if not serving:
        return
    way = list(context.inventory.relation(QueueTree).way_up(queue.name))
    shards = {shard.partition: shard for shard in context.inventory.views(SchedulingShard)}
    cold_start = context.parameters.cold_start
    for key, what in (("reclaimMinRuntime", "other queues"), ("preemptMinRuntime", "higher priorities")):
        said = next((runtime for above in way if (runtime := above.runtime(key)) is not None), None)
        if said is None:
            said = shards[queue.partition].runtime(key) if queue.partition in shards else 0.0
        if said < cold_start:
            yield fail(
                ("spec", key),
                text(queue.spec.get(key)),
                f"{what} may displace {serving[0].resource} before its {cold_start} of starting are over",
                default=f"{said:g}s",
                related=tuple(workload.resource for workload in serving),
            )


@dataclass(slots=True)
class _Uses:
    """What a queue and those below it are used for."""

    serves: bool = False
    trains: bool = False


@rule(
    "QU313",
    "serving-goes-before-training",
    on=Inventory,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    parameters=("batch_label",),
    fix="Give training a class below 100 and below serving's (50 and 125 by default), its queue no higher priority.",
    sources=(f"{KAI}/priority/README.md", f"{KAI}/queues/README.md"),
)
def serving_goes_before_training(inventory: Inventory, context: Context) -> Verdicts:
    """Training must not go before serving.

    In one queue KAI orders and preempts by priority: a training class at or above serving's takes the GPUs of pods that
    answer requests. A training class of 100 or more cannot be preempted at all, and holds the quota serving shares with
    it for days. Between queues the classes do not count, but the queues' own priorities do: the higher one is given
    every surplus GPU it wants before the lower one gets any.

    Judged is what shares a queue, or queues of one parent. Non-preemptible training in a queue of its own keeps to the
    quota it was promised, harms nobody, and passes. Training is what ends by itself (Jobs of all kinds) or carries the
    batch label; serving is GPU work with replicas.
    """
    queueing, tree = inventory.relation(Queueing), inventory.relation(QueueTree)
    uses: dict[str, _Uses] = {}
    for name, workloads in queueing.workloads.items():
        gpu = [workload for workload in workloads if workload.uses_gpu]
        training = [workload for workload in gpu if _trains(workload, context.parameters)]
        serving = [w for w in gpu if w.scaled_by_replicas and not _trains(w, context.parameters)]
        uses[name] = _Uses(bool(serving), bool(training))
        if not serving or not training:
            continue
        lowest = min(serving, key=queueing.priority)
        for workload in training:
            class_name, _ = queueing.priority_class(workload)
            if queueing.priority(workload) >= queueing.priority(lowest):
                consequence = (
                    f"{lowest.resource} ({queueing.priority_class(lowest)[0]}) does not go before it in queue {name}"
                )
            elif not queueing.preemptible(workload):
                consequence = f"it cannot be preempted, and holds the quota that {lowest.resource} needs"
            else:
                continue
            path, written = _class_of(workload)
            yield fail(path, written, consequence, default=class_name, on=workload.resource, related=(lowest.resource,))
    for siblings in _siblings(tree, uses):
        serving_queues = [queue for queue in siblings if uses[queue.name].serves]
        if not serving_queues:
            continue
        lowest_queue = min(serving_queues, key=lambda queue: queue.priority)
        for queue in siblings:
            use = uses[queue.name]
            if use.trains and not use.serves and queue.priority > lowest_queue.priority:
                consequence = f"training is given idle GPUs before queue {lowest_queue.name}, which serves"
                related: tuple[Resource, ...] = (lowest_queue.resource,)
                yield fail(
                    ("spec", "priority"),
                    queue.spec.get("priority"),
                    consequence,
                    default="100",
                    on=queue.resource,
                    related=related,
                )


def _trains(workload: Workload, parameters: Parameters) -> bool:
    return workload.finishes or workload.has_label(parameters.batch_label)


def _class_of(workload: Workload) -> tuple[Path, str | None]:
    """Where the class of a workload stands and what is written there."""
    if on_label := workload.label("priorityClassName"):
        return label_path(workload, "priorityClassName"), on_label
    for template in workload.templates:
        if name := text(template.spec.get("priorityClassName")):
            return (*template.path, "priorityClassName"), name
    first = workload.templates[0].path if workload.templates else ("spec",)
    return (*first, "priorityClassName"), None


def _siblings(tree: QueueTree, uses: dict[str, _Uses]) -> list[list[Queue]]:
    """Queues of one parent, each group once; fills in `uses` for the queues above those that have workloads."""
    for top in tree.top:
        # Parents come before their children in `below`.
        for queue in reversed(list(tree.below(top.name))):
            use = uses.setdefault(queue.name, _Uses())
            for child in tree.children.get(queue.name, ()):
                below = uses[child.name]
                use.serves, use.trains = use.serves or below.serves, use.trains or below.trains
    reached = [group for group in (tree.top, *tree.children.values()) if all(q.name in uses for q in group)]
    return [group for group in reached if len(group) > 1]
