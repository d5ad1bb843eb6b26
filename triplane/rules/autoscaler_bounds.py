"""Judgements on how few and how many replicas an autoscaler may choose."""

import math
from fnmatch import fnmatchcase

from triplane.documents import Path
from triplane.inventory import Scaler, kinds
from triplane.inventory.capacity import Landing
from triplane.inventory.fields import at, number
from triplane.inventory.queueing import queue_of
from triplane.inventory.queues import QueueTree
from triplane.inventory.roles import DECODE, PREFILL, ServingRoles, names_read, origin_of
from triplane.inventory.scalers import Bounds
from triplane.inventory.scaling import KEDA_DEFAULT_MAXIMUM, Scaling, maximum
from triplane.inventory.workloads import ROLE_LABEL, Workload
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Verdicts, fail, unknown


@rule(
    "AS408",
    "serving-path-keeps-a-replica",
    on=Scaler,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    parameters=("slo", "batch_label", "environment"),
    fix="Write a minimum of at least 1, better 2.",
    sources=(
        "https://keda.sh/docs/2.20/reference/scaledobject-spec/#minreplicacount",
        "https://github.com/llm-d/llm-d/pull/2492",
    ),
)
def serving_path_keeps_a_replica(scaler: Scaler, context: Context) -> Verdicts:
    """What serves under an SLO must not be scaled to zero.

    KEDA's minReplicaCount is 0 where nothing is written, so leaving it out is enough. After a quiet hour the first
    request waits for a node, an image and the weights, and with separate roles one of them at zero stops the other.

    On a serving path is what the parameter slo lists, what carries llm-d.ai/role, and what scales on an inference
    server's own series; work with the batch label is not. Judged in production only.
    """
    parameters = context.parameters
    if parameters.environment != "prod" or scaler.made_by or scaler.kind == kinds.SCALED_JOB:
        return
    if not _serves(scaler, context):
        return
    for bounds in scaler.bounds:
        if bounds.minimum == 0 or (bounds.minimum is None and scaler.kind == kinds.SCALED_OBJECT):
            consequence = "after a quiet spell the first request waits a whole cold start"
            yield fail(bounds.minimum_path, bounds.minimum, consequence, default="0")
    if scaler.keda and number(scaler.spec.get("idleReplicaCount")) == 0:
        yield fail(("spec", "idleReplicaCount"), 0, "while idle nothing runs, and the first request waits a cold start")


def _serves(scaler: Scaler, context: Context) -> bool:
    """Whether it scales something on a serving path."""
    roles, parameters = context.inventory.relation(ServingRoles), context.parameters
    key, _, value = parameters.batch_label.partition("=")
    if key and roles.label(scaler, key) == value:
        return False
    names = [f"{scaler.resource.kind_name}/{scaler.resource.name}"]
    if scaler.target is not None:
        names.append(f"{scaler.target.kind.partition('.')[0]}/{scaler.target.name}")
    if any(fnmatchcase(name, pattern) for name in names for pattern in parameters.slo):
        return True
    if roles.label(scaler, ROLE_LABEL):
        return True
    return any(origin_of(name) for _, read in names_read(scaler) for name in read)


@rule(
    "AS409",
    "gpu-scaler-states-its-maximum",
    on=Scaler,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    fix="Write maxReplicaCount: what the queue and the pool can hold.",
    sources=("https://keda.sh/docs/2.20/reference/scaledobject-spec/#maxreplicacount",),
)
def gpu_scaler_states_its_maximum(scaler: Scaler, context: Context) -> Verdicts:
    """KEDA must be told the most GPU replicas it may start.

    Without maxReplicaCount it is 100: a signal gone wrong asks for a hundred times the GPUs of a replica, and Karpenter
    buys them up to its limit. Only the author knows the right number, so there is no default to write.
    """
    if not scaler.keda or scaler.maximum is not None:
        return
    path = scaler.maximum_path
    gpus = context.inventory.relation(ServingRoles).uses_gpu(scaler)
    if gpus is None:
        yield unknown(path, "not set (default 100), and whether its target uses GPUs cannot be told from this input")
    elif gpus:
        found = at(scaler.resource.data, *path)
        yield fail(path, found, "a hundred GPU replicas may start", default=str(KEDA_DEFAULT_MAXIMUM))


@rule(
    "AS410",
    "scaler-maximum-fits-queue-and-pools",
    on=Scaler,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    parameters=("instance_table", "other_gpus"),
    fix="Lower the maximum to what fits, or raise the limits of queue and pools.",
    sources=(
        "https://karpenter.sh/docs/concepts/nodepools/#speclimits",
        "https://github.com/defilantech/LLMKube/issues/1311",
    ),
)
def scaler_maximum_fits_queue_and_pools(scaler: Scaler, context: Context) -> Verdicts:
    """A scaler's maximum must fit the queue's limit and the pools its pods can land on.

    Replicas above it stay pending for ever. The scaler takes them for ordered capacity, node autoscaling is asked for
    nodes it may not build, and the alert that should say "full" never comes.

    A replica counts with all its pods: a LeaderWorkerSet's group, all roles of a set. Every pool on which the pods can
    land counts, so a pool to burst into is enough. A pool without limits holds anything.
    """
    most = maximum(scaler)
    workload = context.inventory.relation(Scaling).target_workload(scaler)
    if most is None or workload is None or scaler.target is None or not workload.gpus_per_replica:
        return
    path = scaler.maximum_path if scaler.maximum is not None else ("spec",)
    asked = most * workload.gpus_per_replica
    found = f"{most} replicas of {workload.gpus_per_replica:g} GPUs"
    for queue in context.inventory.relation(QueueTree).way_up(queue_of(workload)):
        limit = queue.share("gpu").limit
        if "limit" in queue.share("gpu").written and asked > limit:
            related = (workload.resource, queue.resource)
            consequence = f"{asked:g} GPUs at most, but queue {queue.name} stops at {limit:g}: the rest stays pending"
            yield fail(path, found, consequence, related=related)
            break
    yield from _pools_hold(workload, most, found, path, context)


def _pools_hold(workload: Workload, most: int, found: str, path: Path, context: Context) -> Verdicts:
    landing, parameters = context.inventory.relation(Landing), context.parameters
    for template in workload.templates:
        destination = landing.of(template) if template.gpus else None
        if destination is None:
            continue
        elsewhere = parameters.other_gpus // template.gpus
        room = elsewhere + landing.pods(destination, template.gpus, parameters.instance_table)
        wanted = most * template.pods
        if not math.isinf(room) and wanted > room:
            names = ", ".join(pool.resource.name for pool in destination.pools[:3])
            consequence = (
                f"{wanted:g} pods of {template.gpus:g} GPUs, but {names} can hold {room:g}: the rest stays pending"
            )
            yield fail(
                path,
                found,
                consequence,
                related=(workload.resource, *(pool.resource for pool in destination.pools[:3])),
            )
            return


@rule(
    "AS414",
    "scaler-has-room-between-its-bounds",
    on=Scaler,
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    parameters=("pinned",),
    fix="Write a minimum below the maximum.",
    versions="KEDA 2.20 refuses a minimum above the maximum; before, the HPA it makes is refused.",
    sources=(
        "https://github.com/kedacore/keda/issues/6356",
        "https://github.com/opendatahub-io/opendatahub-tests/pull/1920",
    ),
)
def scaler_has_room_between_its_bounds(scaler: Scaler, context: Context) -> Verdicts:
    """A scaler's minimum must lie below its maximum.

    With the minimum above, the object or the HPA made from it is refused and nothing scales. Defaults count: KEDA's
    maximum is 100. Equal bounds pin the count, which is often meant: that is said as unknown, until the parameter
    pinned lists the scaler.
    """
    for bounds in scaler.bounds:
        low, high = bounds.minimum, _upper(scaler, bounds)
        if low is None or high is None or low < high:
            continue
        if low > high:
            shown = f"{low}, above the maximum of {high}"
            yield fail(bounds.minimum_path, shown, "the object is refused, so nothing scales")
        elif not context.parameters.lists(context.parameters.pinned, scaler.resource):
            yield unknown(
                bounds.minimum_path, f"minimum and maximum are both {low}: on purpose? List it under `pinned`"
            )


def _upper(scaler: Scaler, bounds: Bounds) -> int | None:
    return KEDA_DEFAULT_MAXIMUM if scaler.keda and bounds.maximum is None else bounds.maximum


@rule(
    "AS422",
    "roles-keep-their-ratio-at-the-maximum",
    on=Scaler,
    scope="stack",
    severity=Severity.INFO,
    profile=Profile.ALL,
    parameters=("decode_per_prefill",),
    fix="Set the two maxima in the ratio that the token mix needs.",
    sources=("https://arxiv.org/abs/2401.09670",),
)
def roles_keep_their_ratio_at_the_maximum(scaler: Scaler, context: Context) -> Verdicts:
    """The maxima of decode and prefill should stand in the configured ratio.

    Both roles work on the same requests. If one may grow far beyond the other, the smaller one is the limit at peak and
    the larger one's GPUs wait. The right ratio depends on the tokens in and out, so that nothing is judged until the
    parameter decode_per_prefill gives a band.
    """
    band, roles = context.parameters.decode_per_prefill, context.inventory.relation(ServingRoles)
    if len(band) != 2 or roles.role(scaler) != DECODE:
        return
    prefill = next(iter(roles.scalers(roles.model(scaler), PREFILL)), None)
    most, other = maximum(scaler), maximum(prefill) if prefill else None
    if prefill is None or not most or not other or band[0] <= most / other <= band[1]:
        return
    consequence = f"{most / other:.2g} decode replicas a prefill replica at peak, outside {band[0]:g} to {band[1]:g}"
    yield fail(scaler.maximum_path, most, consequence, related=(prefill.resource,))
