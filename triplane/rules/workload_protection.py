"""Judgements on what protects running pods, and what only seems to."""

from triplane import catalog
from triplane.documents import Path
from triplane.inventory.capacity import Landing
from triplane.inventory.fields import duration, known, text
from triplane.inventory.gangs import gang_of
from triplane.inventory.queueing import BUILT_IN, KIND_DEFAULTS, NON_PREEMPTIBLE, Queueing, queue_of
from triplane.inventory.selectors import SelectedPods
from triplane.inventory.standing import Standing
from triplane.inventory.workloads import PodTemplate, Workload
from triplane.rules.parameters import Parameters
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.serving import is_a_serving_role, is_under_slo
from triplane.rules.verdicts import Edit, Verdicts, fail, unknown

DISRUPTION = "https://karpenter.sh/docs/concepts/disruption/"
BUDGETS = "https://kubernetes.io/docs/tasks/run-application/configure-pdb/"

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
DEAD_KEYS = ("karpenter.sh/do-not-evict", "karpenter.sh/do-not-consolidate")
POD_KEYS = (DO_NOT_DISRUPT, "karpenter.sh/disruption-cost")


@rule(
    "WL507",
    "do-not-disrupt-is-spelled-so-that-karpenter-reads-it",
    on=Workload,
    severity=Severity.ERROR,
    profile=Profile.CORE,
    parameters=("karpenter",),
    fix='Write karpenter.sh/do-not-disrupt: "true" on the pod template.',
    autofix=True,
    versions="A duration such as 30m counts since Karpenter 1.12.",
    sources=(
        "https://karpenter.sh/docs/concepts/disruption/#pod-level-controls",
        "https://github.com/kyverno/policies/issues/1277",
    ),
)
def do_not_disrupt_is_spelled_so_that_karpenter_reads_it(workload: Workload, context: Context) -> Verdicts:
    """A pod's protection must be written in the words Karpenter reads.

    Karpenter honours exactly "true" and, since 1.12, a positive Go duration. Anything else ("True", "yes", "1d", a bare
    boolean) counts as absent, and the keys of old releases (do-not-evict, do-not-consolidate) do nothing at all: the
    pod looks protected and is evicted. "false" is a way of saying no, and passes.
    """
    durations = catalog.supports("karpenter", context.parameters.karpenter, "do-not-disrupt-duration")
    for template in workload.templates:
        for key, value in template.annotations.items():
            path: Path = (*template.metadata_path, "annotations", key)
            if key in DEAD_KEYS:
                right: Path = (*template.metadata_path, "annotations", DO_NOT_DISRUPT)
                yield fail(
                    path,
                    value,
                    "Karpenter no longer reads this key, so the pod is not protected",
                    edits=(Edit(path, remove=True), Edit(right, "true")),
                )
            elif key == DO_NOT_DISRUPT:
                if not _read(known(value), durations):
                    edits = (Edit(path, "true"),) if str(value).lower() in ("true", "yes") else ()
                    yield fail(path, value, "Karpenter ignores this value, so the pod is not protected", edits=edits)
            elif key.startswith("karpenter.sh/") and key not in POD_KEYS:
                yield unknown(path, "Karpenter has no pod annotation of this name; is it a slip?")


def _read(value: object, durations: bool) -> bool:
    """Whether Karpenter understands the value (pkg/utils/pod/scheduling.go IsDoNotDisruptActive)."""
    if value in ("true", "false") and isinstance(value, str):
        return True
    seconds = duration(value) if durations and isinstance(value, str) else None
    return seconds is not None and seconds > 0


def _protected(template: PodTemplate) -> bool:
    """Whether Karpenter reads a protection on the pods: `true`, or a duration, in whatever release."""
    return (
        _read(known(template.annotations.get(DO_NOT_DISRUPT)), durations=True)
        and template.annotations[DO_NOT_DISRUPT] != "false"
    )


@rule(
    "WL505",
    "serving-pods-have-a-disruption-budget-that-lets-go",
    on=Workload,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("slo", "batch_label"),
    fix="Add a PodDisruptionBudget with maxUnavailable: 1, and run two replicas where one must always serve.",
    sources=(BUDGETS, DISRUPTION, "https://github.com/kubernetes-sigs/karpenter/issues/2802"),
)
def serving_pods_have_a_disruption_budget_that_lets_go(workload: Workload, context: Context) -> Verdicts:
    """A workload under an SLO should have a disruption budget, and one that lets a pod go.

    Without a budget a drain may take every replica at once. With one that lets none go at the fewest replicas
    (maxUnavailable 0, or minAvailable of all of them) no drain ever ends: drift and upgrades of the node wait until
    terminationGracePeriod, which then ends the pods without asking. Under an SLO is what `slo` lists, and each scaled
    role (llm-d.ai/role). A single replica with maxUnavailable 1 is an interruption that somebody has decided on.
    """
    found = context.inventory.relation(SelectedPods).budgets(workload)
    if not found and workload.scaled_by_replicas and is_under_slo(workload, context):
        yield fail(("spec", "template"), None, "no PodDisruptionBudget selects its pods; a drain may take them all")
    pods = context.inventory.relation(Standing).replicas(workload) * workload.pods_per_replica
    for budget in found if pods and workload.uses_gpu else ():
        spare = budget.spare(pods)
        if spare is not None and spare[0] <= 0:
            yield fail(
                ("spec", spare[1]),
                budget.spec.get(spare[1]),
                f"at the fewest replicas of {workload.resource} ({pods} pods) no pod may go, so no drain ever ends",
                on=budget.resource,
                related=(workload.resource,),
            )


@rule(
    "WL506",
    "gangs-and-training-forbid-disruption",
    on=Workload,
    severity=Severity.ERROR,
    profile=Profile.CORE,
    parameters=("gangs", "batch_label"),
    fix='Annotate the pod template with karpenter.sh/do-not-disrupt: "true".',
    autofix=True,
    sources=(f"{DISRUPTION}#pod-level-controls", "https://github.com/kubernetes-sigs/karpenter/issues/701"),
)
def gangs_and_training_forbid_disruption(workload: Workload, context: Context) -> Verdicts:
    """GPU pods that only make sense together, or that train, must forbid Karpenter to disrupt them.

    Consolidation and drift look at one node. Taking one pod of a gang ends the work of all of them, and a training run
    falls back to its last checkpoint, if there is one. The annotation stands on the pods. Judged are Jobs and training
    kinds, groups of several pods, and what `gangs` lists, wherever they ask for GPUs; what carries `batch_label` may be
    taken and repeated. Expiration and interruption do not ask: NP106 and XL607 look after these.
    """
    if workload.has_label(context.parameters.batch_label):
        return
    together = Parameters.lists(context.parameters.gangs, workload.resource)
    if not (workload.finishes or together or gang_of(workload).pods > 1):
        return
    for template in workload.templates:
        if template.uses_gpu and not _protected(template):
            path: Path = (*template.metadata_path, "annotations", DO_NOT_DISRUPT)
            yield fail(
                path,
                template.annotations.get(DO_NOT_DISRUPT),
                "Karpenter may take one of its pods, and with it the work of all",
                edits=() if DO_NOT_DISRUPT in template.annotations else (Edit(path, "true"),),
            )


@rule(
    "WL515",
    "serving-pods-name-a-priority",
    on=Workload,
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    parameters=("slo", "batch_label"),
    fix="Name a PriorityClass above that of batch work, such as KAI's inference (125).",
    sources=(
        "https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/",
        "https://github.com/kai-scheduler/KAI-Scheduler/blob/main/docs/priority/README.md",
    ),
)
def serving_pods_name_a_priority(workload: Workload, context: Context) -> Verdicts:
    """A workload under an SLO must name a priority class.

    Without one its pods have priority 0: any pod with a class may preempt them, and under node pressure they are ranked
    below. Under an SLO is what `slo` lists, and each role of a model (llm-d.ai/role) on GPUs that is not batch work.
    The label priorityClassName counts where KAI schedules. A Deployment needs no name there: KAI gives its kind the
    class inference, which it never preempts.
    """
    if not is_a_serving_role(workload, context.parameters) or workload.label("priorityClassName"):
        return
    by_kind = BUILT_IN[KIND_DEFAULTS.get(workload.kind, "train")]
    if queue_of(workload) and by_kind >= NON_PREEMPTIBLE:
        return
    for template in workload.templates:
        if template.uses_gpu and not template.spec.get("priorityClassName"):
            yield fail(
                (*template.path, "priorityClassName"),
                None,
                "pods of any class may take its GPUs",
                default="the cluster's default, else priority 0",
            )
            return


@rule(
    "WL523",
    "gpu-pods-do-not-tolerate-the-drain-of-their-node",
    on=Workload,
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    fix="Tolerate the taints of the pool by their keys: {key: nvidia.com/gpu, operator: Exists}.",
    sources=(
        DISRUPTION,
        "https://github.com/kubernetes-sigs/karpenter/issues/641",
        "https://github.com/kubernetes-sigs/karpenter/issues/1894",
    ),
)
def gpu_pods_do_not_tolerate_the_drain_of_their_node(workload: Workload, context: Context) -> Verdicts:
    """GPU pods must not tolerate the taint by which Karpenter drains a node.

    Karpenter taints a node karpenter.sh/disrupted before it drains it, and passes over pods that tolerate the taint:
    they are not evicted, their disruption budget is not asked, and the machine is switched off under them. A toleration
    without a key tolerates everything, this too. DaemonSets are meant to stay until the end.
    """
    if workload.kind == "DaemonSet.apps":
        return
    for template in workload.templates:
        for index, toleration in enumerate(template.tolerations if template.uses_gpu else ()):
            key, effect = text(toleration.get("key")) or "", text(toleration.get("effect")) or ""
            blanket = not key and text(toleration.get("operator")) == "Exists"
            if (blanket or key == "karpenter.sh/disrupted") and effect in ("", "NoSchedule"):
                yield fail(
                    (*template.path, "tolerations", index),
                    "a toleration of every taint" if blanket else key,
                    "a drain passes over its pods, and the node is switched off under them",
                )


# A pod counts as nothing from 1 + deletionCost/2^27 + priority/2^25 <= 0 on (pkg/utils/disruption, Karpenter 1.14).
_DELETION_COST, _PRIORITY = 2.0**27, 2.0**25
_COST_KEYS = ("karpenter.sh/disruption-cost", "controller.kubernetes.io/pod-deletion-cost")


@rule(
    "WL524",
    "running-gpu-pods-count-for-something",
    on=Workload,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    parameters=("karpenter",),
    fix="Use a priority above -33554432 and a deletion cost above -134217728, or forbid disruption of the pods.",
    versions="Since Karpenter 1.14; karpenter.sh/disruption-cost is read since 1.15.",
    sources=("https://github.com/kubernetes-sigs/karpenter/pull/2962", DISRUPTION),
)
def running_gpu_pods_count_for_something(workload: Workload, context: Context) -> Verdicts:
    """A running GPU pod must not weigh so little that its node counts as empty.

    Since 1.14 Karpenter calls a node empty whose pods cost nothing to evict, reckoned from priority and deletion cost.
    At a priority of -33554432 or less, as scavenger classes have, a pod costs nothing: under WhenEmpty its node is
    removed in the midst of the work, without a node to go to. Pods that forbid disruption are safe, and so is a pool
    with an always active budget of 0 for Empty.
    """
    version, inventory = context.parameters.karpenter, context.inventory
    if not catalog.supports("karpenter", version, "eviction-cost-emptiness"):
        return
    keys = _COST_KEYS if catalog.supports("karpenter", version, "disruption-cost") else _COST_KEYS[1:]
    priorities = inventory.relation(Queueing)
    for template in workload.templates:
        if not template.uses_gpu or _protected(template):
            continue
        name = text(template.spec.get("priorityClassName")) or ""
        key = next((key for key in keys if key in template.annotations), "")
        cost, priority = _whole(template.annotations.get(key)), priorities.priorities.get(name, 0.0)
        if 1 + cost / _DELETION_COST + priority / _PRIORITY > 0:
            continue
        place = inventory.relation(Landing).of(template) if template.gpus else None
        if place is not None and all(pool.always_zero("Empty") for pool in place.pools):
            continue
        path: Path = (*template.path, "priorityClassName")
        if cost / _DELETION_COST < priority / _PRIORITY:
            path = (*template.metadata_path, "annotations", key)
        found = template.annotations[key] if key and path[-1] == key else f"{name} ({priority:.0f})"
        defined = priorities.defined.get(name)
        yield fail(
            path,
            found,
            "Karpenter takes a node with only such pods for empty, and removes it while they run",
            related=(defined,) if defined else (),
        )


def _whole(value: object) -> float:
    """A cost as the annotation writes it; 0 for anything that is no whole number, as Karpenter reads it."""
    written = text(value) or ""
    return float(written) if written.lstrip("+-").isdigit() and written.isascii() and len(written) <= 11 else 0.0


@rule(
    "WL525",
    "protected-pods-stay-off-spot",
    on=Workload,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("spot_allowed_label",),
    fix="Let the pods land on on-demand or reserved nodes, or drop the annotation and save the work in two minutes.",
    sources=(DISRUPTION, "https://github.com/aws/karpenter-provider-aws/issues/8276"),
)
def protected_pods_stay_off_spot(workload: Workload, context: Context) -> Verdicts:
    """Pods that forbid disruption should not land on spot nodes.

    An interruption asks nobody. Karpenter drains the node in the two minutes that are left, and a drain waits for pods
    that forbid disruption: they get no signal to save their work and die with the machine. The annotation makes things
    worse than its absence. Pools that carry `spot_allowed_label` say that their work survives it.
    """
    for template in workload.templates:
        place = context.inventory.relation(Landing).of(template) if template.gpus and _protected(template) else None
        allowed = context.parameters.spot_allowed_label
        spot = next((pool for pool in place.spot if not pool.has_label(allowed)), None) if place else None
        if spot is not None:
            yield fail(
                (*template.metadata_path, "annotations", DO_NOT_DISRUPT),
                template.annotations[DO_NOT_DISRUPT],
                f"on a spot node of {spot.resource} the pods are not told to stop and die with it",
                related=(spot.resource,),
            )
            return
