"""Judgements on when Karpenter may consolidate a GPU pool."""

from triplane.documents import Path
from triplane.inventory import NodePool
from triplane.inventory.fields import duration
from triplane.rules.parameters import written_duration
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Edit, Verdicts, fail

POLICY: Path = ("spec", "disruption", "consolidationPolicy")
AFTER: Path = ("spec", "disruption", "consolidateAfter")
# Work that finishes leaves nodes empty between two jobs only for minutes; but the first nodes of a gang wait empty for
# its last one, and emptiness is validated once (kubernetes-sigs/karpenter#3185).
_LEAST_FOR_JOBS = 15 * 60.0


@rule(
    "NP101",
    "gpu-pool-consolidates-only-empty-nodes",
    on=NodePool,
    severity=Severity.ERROR,
    profile=Profile.CORE,
    parameters=("consolidation_allowed_label",),
    fix="Write consolidationPolicy: WhenEmpty.",
    autofix=True,
    versions="Balanced exists since Karpenter 1.14; v1beta1 pools default to WhenUnderutilized.",
    sources=(
        "https://karpenter.sh/docs/concepts/disruption/",
        "https://github.com/kubernetes-sigs/karpenter/issues/992",
        "https://github.com/ministryofjustice/modernisation-platform/pull/7329",
    ),
)
def gpu_pool_consolidates_only_empty_nodes(pool: NodePool, context: Context) -> Verdicts:
    """A GPU pool must not let Karpenter drain nodes that are in use.

    Karpenter's default policy, WhenEmptyOrUnderutilized, drains a running node as soon as it finds a cheaper way to
    hold its pods. One inference pod on an eight-GPU node looks exactly like that: the pod is evicted, a new node is
    bought, and the model is loaded again for minutes while requests queue. Balanced (1.14) weighs pods equally, so the
    single large pod of a GPU node looks cheap to move as well.

    Safe are WhenEmpty; consolidateAfter Never, which switches consolidation off; and a static pool (`replicas`), where
    Karpenter ignores these fields. A budget of zero for Underutilized is no substitute: it holds only as long as its
    list is left alone, and one more entry with a schedule, or a lost one, opens the pool. WhenEmpty is no promise that
    nothing is ever evicted: drift, expiry and interruption remain.
    """
    if not pool.gpu or pool.static or pool.consolidate_after == "Never" or pool.consolidation_policy == "WhenEmpty":
        return
    if pool.has_label(context.parameters.consolidation_allowed_label):
        return
    yield fail(
        POLICY,
        pool.consolidation_policy,
        "Karpenter may drain a GPU node that is serving, and its model loads again from the start",
        default=pool.default_policy,
        edits=(Edit(POLICY, "WhenEmpty"),),
    )


@rule(
    "NP102",
    "empty-gpu-node-waits-before-it-goes",
    on=NodePool,
    severity=Severity.ERROR,
    profile=Profile.CORE,
    parameters=("min_consolidate_after", "batch_label"),
    fix="Write consolidateAfter: 1h, or longer; Never keeps idle nodes until they expire.",
    versions="Up to Karpenter 1.14 a disruption block must have consolidateAfter; from 1.15 on 0s holds without it.",
    sources=(
        "https://karpenter.sh/docs/concepts/disruption/#consolidation",
        "https://github.com/kubernetes-sigs/karpenter/issues/3185",
        "https://github.com/kubernetes-sigs/karpenter/issues/1271",
    ),
)
def empty_gpu_node_waits_before_it_goes(pool: NodePool, context: Context) -> Verdicts:
    """An empty GPU node must not be taken away at once.

    A scaler goes down and up again within minutes. A node that goes as soon as it is empty is bought a second time,
    when there may be none to buy, and its model is loaded again: that costs more than the idle minutes. Emptiness is
    also validated only once, so a node can go just as protected pods arrive on it (#3185); a long delay makes that
    rare.

    The parameter `min_consolidate_after` (1h) holds for serving. Pools for training or batch, which the label
    triplane.dev/purpose or the parameter `batch_label` tells, need 15 minutes: enough for the last node of a gang.
    """
    if not pool.gpu or pool.static or pool.consolidation_policy != "WhenEmpty" or pool.consolidate_after == "Never":
        return
    floor = float(context.parameters.min_consolidate_after)
    if pool.purpose == "training" or pool.waits(context.parameters.batch_label):
        floor = min(floor, _LEAST_FOR_JOBS)
    written = pool.consolidate_after
    seconds = 0.0 if written is None else duration(written)
    if seconds is not None and seconds < floor:
        consequence = (
            f"a node idle between two requests is deleted and bought again; at least {written_duration(floor)}"
        )
        yield fail(AFTER, written, consequence, default="0s")
