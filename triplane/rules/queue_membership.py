"""Judgements on which queue a workload waits in, and which class it waits with."""

from triplane import catalog
from triplane.documents import Path
from triplane.inventory.fields import text
from triplane.inventory.queueing import Queueing, QueueReference, label_path
from triplane.inventory.queues import BUILT_IN_QUEUES, QUEUE_LABEL, SCHEDULER, Queue, QueueTree
from triplane.inventory.resource import Resource
from triplane.inventory.scaling import Scaling
from triplane.inventory.workloads import PodTemplate, Workload
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Edit, Verdict, Verdicts, fail, unknown

KAI = "https://github.com/kai-scheduler/KAI-Scheduler"
# Where no queue label is set, KAI makes the queue's name from this one.
PROJECT_LABEL = "project"
# Operators that write the scheduler's name into the pods themselves.
NAMES_SCHEDULER = ("DynamoGraphDeployment.nvidia.com",)


@rule(
    "QU305",
    "named-queue-is-a-leaf-that-exists",
    on=QueueReference,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    parameters=("external", "missing_references", "kai"),
    fix="Name a leaf queue that exists, or list the queue under `external` if it lives elsewhere.",
    versions="Queues of more than two levels since KAI 0.13.",
    sources=(f"{KAI}/blob/main/docs/queues/README.md", f"{KAI}/issues/44"),
)
def named_queue_is_a_leaf_that_exists(reference: QueueReference, context: Context) -> Verdicts:
    """A workload must name a leaf queue that exists, and a queue a parent that exists.

    KAI drops a queue whose parent is missing, with everything below it; it skips workloads of a queue that has children
    without a word above the debug log; and the walk up a cycle of parents never ends, so that scheduling stops for the
    whole cluster. The API server accepts all of it. Meanwhile Karpenter may buy nodes for the pods that wait.
    """
    name, tree = reference.name, context.inventory.relation(QueueTree)
    if not name:
        return
    if reference.parent and tree.in_cycle(reference.resource.name):
        yield fail(
            reference.path, name, "the queues are each other's parents, and KAI's scheduler never gets past them"
        )
        return
    queue = tree.get(name)
    if queue is None:
        if name in BUILT_IN_QUEUES or context.parameters.is_external("Queue", name):
            return
        lost = "the queue and all below it are dropped" if reference.parent else "its pods are never scheduled"
        yield missing(reference.path, f"queue {name}", lost, context)
    elif reference.parent:
        if queue.parent and not catalog.supports("kai", context.parameters.kai, "nested-queues"):
            consequence = "KAI before 0.13 knows two levels of queues only, so nothing in it runs"
            yield fail(reference.path, name, consequence, related=(queue.resource,))
    elif not tree.is_leaf(name):
        children = tree.children[name]
        consequence = f"the queue has children ({children[0].name}), and only leaves schedule: its pods are skipped"
        yield fail(reference.path, name, consequence, related=(queue.resource, children[0].resource))


def missing(path: Path, what: str, consequence: str, context: Context) -> Verdict:
    """What to say of a reference to an object that is neither in the input nor external."""
    if context.parameters.missing_references == "fail":
        return fail(path, what, f"there is no such object, so {consequence}")
    return unknown(path, f"{what} is not in the input")


@rule(
    "QU306",
    "scheduler-and-queue-are-named-together",
    on=Workload,
    severity=Severity.ERROR,
    profile=Profile.CORE,
    parameters=("external",),
    autofix=True,
    fix="Write schedulerName: kai-scheduler in every pod template and the label kai.scheduler/queue on the workload.",
    sources=(f"{KAI}/issues/44", f"{KAI}/blob/main/docs/quickstart/README.md"),
)
def scheduler_and_queue_are_named_together(workload: Workload, context: Context) -> Verdicts:
    """A workload of KAI's must name both the scheduler and its queue.

    Without a queue label, which must be a label (an annotation is not read), pods go to default-queue, whose quota is
    zero, and wait there. With the label but another scheduler they are placed past every quota. Where one of several
    pod templates lacks the scheduler's name, its pods are placed alone and the gang never comes together. Passes where
    `external` has Queue/default-queue: that says it is meant to be used.
    """
    on_kai = [template for template in workload.templates if template.scheduler == SCHEDULER]
    if not workload.label(QUEUE_LABEL):
        if (
            on_kai
            and not workload.label(PROJECT_LABEL)
            and not context.parameters.is_external("Queue", "default-queue")
        ):
            path: Path = ("metadata", "labels", QUEUE_LABEL) if workload.labels else ("metadata", "labels")
            written = " (the annotation of that name is not read)" if workload.annotation(QUEUE_LABEL) else ""
            yield fail(path, None, f"its pods wait in default-queue, which has no quota{written}")
        return
    if workload.kind in NAMES_SCHEDULER:
        return
    for template in workload.templates:
        if template.scheduler != SCHEDULER and (template.gpus or not on_kai):
            yield _other_scheduler(template)


def _other_scheduler(template: PodTemplate) -> Verdict:
    path: Path = (*template.path, "schedulerName")
    return fail(
        path,
        template.scheduler or None,
        "the pods have a queue of KAI's, but another scheduler places them past every quota",
        default="default-scheduler",
        edits=(Edit(path, SCHEDULER),),
    )


@rule(
    "QU314",
    "priority-class-exists",
    on=Workload,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    parameters=("external", "missing_references"),
    fix="Define the PriorityClass, name one that exists, or list it under `external`.",
    sources=(
        "https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/",
        f"{KAI}/blob/main/docs/priority/README.md",
    ),
)
def priority_class_exists(workload: Workload, context: Context) -> Verdicts:
    """A PriorityClass that pods name must exist.

    The API server refuses pods whose priorityClassName does not exist. KAI's label priorityClassName is treated more
    kindly and worse: a class that does not exist is passed over, and the kind's default counts, which makes a serving
    Deployment non-preemptible or a LeaderWorkerSet preemptible without anybody noticing.
    """
    known_classes = context.inventory.relation(Queueing).priorities
    named: list[tuple[Path, str, str]] = []
    if on_label := workload.label("priorityClassName"):
        named.append((label_path(workload, "priorityClassName"), on_label, "KAI uses the kind's default class"))
    for template in workload.templates:
        if name := text(template.spec.get("priorityClassName")):
            named.append(((*template.path, "priorityClassName"), name, "the API server refuses its pods"))
    for path, name, consequence in named:
        if name not in known_classes and not context.parameters.is_external("PriorityClass", name):
            yield missing(path, f"PriorityClass {name}", consequence, context)


@rule(
    "QU322",
    "prefill-and-decode-have-a-queue-each",
    on=Queue,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    fix="Give each role a leaf queue with a quota of its own under one parent.",
    sources=(f"{KAI}/blob/main/docs/queues/README.md", "https://llm-d.ai/docs/architecture"),
)
def prefill_and_decode_have_a_queue_each(queue: Queue, context: Context) -> Verdicts:
    """Prefill and decode should not share one leaf queue.

    The two roles grow at different times: a burst of long prompts makes prefill take the whole queue, and decode, which
    holds the requests in flight, cannot grow when they arrive there. Two leaves with a quota each keep a place for
    both, and over-quota weights still let either use what the other leaves idle. Judged where a scaler moves at least
    one of them: fixed replicas cannot crowd each other out.
    """
    scaling = context.inventory.relation(Scaling)
    roles: dict[str, list[Workload]] = {}
    for workload in context.inventory.relation(Queueing).workloads.get(queue.name, ()):
        roles.setdefault(workload.serving_role, []).append(workload)
    both = [*roles.get("prefill", ()), *roles.get("decode", ())]
    if len(roles.keys() & {"prefill", "decode"}) < 2 or not any(scaling.scalers_of(w.resource) for w in both):
        return
    names = ", ".join(str(workload.resource) for workload in both[:6])
    related: tuple[Resource, ...] = tuple(workload.resource for workload in both)
    yield fail(
        ("metadata", "name"),
        queue.name,
        f"{names} share its quota: one role's burst starves the other",
        related=related,
    )
