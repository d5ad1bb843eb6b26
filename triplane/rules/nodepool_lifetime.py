"""Judgements on how long a GPU node lives, and how it ends."""

import math

from triplane.inventory import NodePool
from triplane.inventory.fields import at
from triplane.inventory.nodepools import EXPIRE_AFTER, GRACE_PERIOD
from triplane.rules.parameters import written_duration
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.tenants import patient_on, protected_on, trains
from triplane.rules.verdicts import Verdicts, fail

_EXPIRATION = "https://karpenter.sh/docs/concepts/disruption/#expiration"
_GRACE = "https://karpenter.sh/docs/concepts/disruption/#terminationgraceperiod"


@rule(
    "NP106",
    "gpu-pool-says-when-its-nodes-expire",
    on=NodePool,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    parameters=("gangs",),
    fix="Write expireAfter: Never under spec.template.spec, and patch by drift inside a window.",
    versions="Since Karpenter 1.0 expiry is forceful; EKS Auto Mode ends every node after 21 days whatever is written.",
    sources=(
        _EXPIRATION,
        "https://github.com/aws/karpenter-provider-aws/issues/6980",
        "https://github.com/kubernetes-sigs/karpenter/issues/1750",
    ),
)
def gpu_pool_says_when_its_nodes_expire(pool: NodePool, context: Context) -> Verdicts:
    """A GPU pool must say when its nodes expire, and a pool of gangs must say Never.

    Without a word a node expires after 720h. Since 1.0 that is forceful: no budget counts, no replacement comes first,
    do-not-disrupt only delays it. The nodes of a gang, bought within seconds of one another, all go together and take
    the job with them. A finite age that somebody wrote down is accepted for a pool that serves, not for one that trains
    (label triplane.dev/purpose) or that gangs can land on.
    """
    if not pool.gpu or pool.v1beta1 or math.isinf(pool.expires):
        return
    written = at(pool.resource.data, *EXPIRE_AFTER)
    gang, related = trains(pool, context)
    if gang:
        consequence = "all nodes of a gang expire together, outside every budget and without a replacement"
        yield fail(EXPIRE_AFTER, written, consequence, default="720h", related=related)
    elif written is None:
        yield fail(EXPIRE_AFTER, None, "nodes end by force at that age, outside every budget", default="720h")


@rule(
    "NP107",
    "expiry-of-protected-pods-ends",
    on=NodePool,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    fix="Set terminationGracePeriod as well, above the longest answer or job; or write expireAfter: Never.",
    sources=(
        _GRACE,
        "https://github.com/kubernetes-sigs/karpenter/issues/1789",
        "https://github.com/kubernetes-sigs/karpenter/issues/1928",
    ),
)
def expiry_of_protected_pods_ends(pool: NodePool, context: Context) -> Verdicts:
    """A pool whose nodes expire under protected pods must have a terminationGracePeriod.

    An expired node is tainted and drained of everything but the pods with do-not-disrupt. Without a grace period it
    stays like that: it takes no new work, is not replaced, and is paid for, for days.
    """
    if not pool.gpu or pool.v1beta1 or math.isinf(pool.expires) or pool.grace_period is not None:
        return
    if (workload := protected_on(pool, context)) is not None:
        consequence = f"an expired node hangs, tainted and paid for, as long as pods of {workload} run"
        yield fail(GRACE_PERIOD, None, consequence, default="none: it waits for ever", related=(workload,))


@rule(
    "NP108",
    "grace-period-outlasts-the-pods",
    on=NodePool,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("min_node_grace", "batch_label"),
    fix="Raise terminationGracePeriod above the longest drain, or leave it out.",
    sources=(_GRACE, "https://github.com/kubernetes-sigs/karpenter/issues/1776"),
)
def grace_period_outlasts_the_pods(pool: NodePool, context: Context) -> Verdicts:
    """A terminationGracePeriod must be longer than the pods of the pool take to end.

    It overrides PodDisruptionBudgets, do-not-disrupt and the pods' own grace: a pod is deleted early enough to have its
    own grace, and one that asks for more than the node has is deleted at the start of the drain. A short value thus
    turns a careful drain into a kill, and lets drift act on protected pods besides.
    """
    grace = pool.grace_period
    if not pool.gpu or grace is None or pool.waits(context.parameters.batch_label):
        return
    written = at(pool.resource.data, *GRACE_PERIOD)
    if (workload := patient_on(pool, grace, context)) is not None:
        consequence = f"pods of {workload} want longer to end and are deleted at once when the node drains"
        yield fail(GRACE_PERIOD, written, consequence, related=(workload,))
    elif grace < context.parameters.min_node_grace:
        least = written_duration(context.parameters.min_node_grace)
        yield fail(
            GRACE_PERIOD, written, f"after that pods are killed against their disruption budget; at least {least}"
        )


@rule(
    "NP124",
    "grace-period-does-not-open-drift-to-jobs",
    on=NodePool,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    parameters=("gangs",),
    fix='Leave terminationGracePeriod out, or add a budget {nodes: "0", reasons: [Drifted]} without schedule.',
    sources=(
        _GRACE,
        "https://github.com/aws/karpenter-provider-aws/issues/7708",
        "https://github.com/kubernetes-sigs/karpenter/issues/1702",
    ),
)
def grace_period_does_not_open_drift_to_jobs(pool: NodePool, context: Context) -> Verdicts:
    """A pool of training or of gangs must not have a terminationGracePeriod while drift is open.

    With a grace period Karpenter lets drift act on nodes whose pods say do-not-disrupt: the next AMI ends the job that
    the annotation was to protect. Without one, or with drift closed by a permanent budget of zero, it waits.
    """
    if not pool.gpu or pool.grace_period is None or pool.always_zero("Drifted"):
        return
    gang, related = trains(pool, context)
    if gang:
        written = at(pool.resource.data, *GRACE_PERIOD)
        yield fail(GRACE_PERIOD, written, "drift may now end jobs that say do-not-disrupt", related=related)
