"""Judgements on how Karpenter may consolidate a GPU pool."""

from triplane.documents import Path
from triplane.inventory import NodePool
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Edit, Verdicts, fail

POLICY: Path = ("spec", "disruption", "consolidationPolicy")


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
