"""Judgements on pods that share a GPU through KAI."""

from decimal import Decimal, InvalidOperation

from triplane.documents import Path
from triplane.inventory import kinds
from triplane.inventory.fields import text
from triplane.inventory.queueing import KaiSettings, Queueing, gpu_fraction, gpu_share
from triplane.inventory.queues import Queue
from triplane.inventory.scaling import Scaling
from triplane.inventory.workloads import GPU_SHARE_ANNOTATIONS, Workload
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Verdicts, fail, unknown

KAI = "https://github.com/kai-scheduler/KAI-Scheduler"
# vLLM's --gpu-memory-utilization where it is not given.
VLLM_DEFAULT = 0.9
# Beyond so many pods of one workload, rounding is not followed pod by pod.
MOST_PODS = 1000


@rule(
    "QU319",
    "kai-is-installed-for-shared-gpus",
    on=Workload,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    parameters=("external",),
    fix="In KAI's chart, set global.gpuSharing: true, and with Karpenter global.clusterAutoscaling: true.",
    sources=(f"{KAI}/blob/main/docs/gpu-sharing/README.md", f"{KAI}/blob/main/docs/gpu-sharing/autoscaling/README.md"),
)
def kai_is_installed_for_shared_gpus(workload: Workload, context: Context) -> Verdicts:
    """Pods that ask for a part of a GPU need KAI to be installed with sharing.

    Sharing is off by default, and KAI's webhook then refuses the pods. With Karpenter a second switch is needed: the
    request stands in an annotation, which no node autoscaler reads, so that the pods wait on a cluster without a free
    GPU until KAI's scale adjuster asks for a whole one in their place. How KAI is installed is read from a Helm release
    in the input; where it is installed elsewhere, list Release/kai-scheduler under `external`.
    """
    shared = [
        (template, key)
        for template in workload.templates
        for key in GPU_SHARE_ANNOTATIONS
        if key in template.annotations
    ]
    if not shared or context.parameters.is_external(kinds.HELM_RELEASE, "kai-scheduler"):
        return
    template, key = shared[0]
    path: Path = (*template.metadata_path, "annotations", key)
    installs = context.inventory.relation(KaiSettings).installs
    if not installs:
        yield unknown(path, "how KAI is installed is not in the input")
        return
    needed = ["gpuSharing"]
    if next(context.inventory.of_kind(kinds.NODE_POOL), None) is not None:
        needed.append("clusterAutoscaling")
    for resource, _, settings in installs:
        off = [f"global.{name}" for name in needed if settings.get(name) is not True]
        if off:
            consequence = f"{resource} does not set {' and '.join(off)}, so the pods never get their part of a GPU"
            yield fail(path, text(template.annotations.get(key)), consequence, related=(resource,))


@rule(
    "QU320",
    "engine-keeps-to-its-part-of-the-gpu",
    on=Workload,
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    fix="Set --gpu-memory-utilization to a little less than gpu-fraction.",
    sources=(
        f"{KAI}/blob/main/docs/gpu-sharing/README.md",
        f"{KAI}/issues/49",
        "https://docs.vllm.ai/en/latest/configuration/conserving_memory.html",
    ),
)
def engine_keeps_to_its_part_of_the_gpu(workload: Workload, context: Context) -> Verdicts:
    """An engine must not take more of a shared GPU than its pod asked for.

    gpu-fraction decides where a pod is placed, not what it may use: every container sees the whole card. vLLM takes
    --gpu-memory-utilization of all its memory at start, 0.9 unless told otherwise, so that the second pod on the card
    fails for want of memory. A pod that asks for MPS, which can hold it to its share, passes.
    """
    for template in workload.templates:
        share = gpu_fraction(template)
        if share is None or text(template.annotations.get("mps")) == "true":
            continue
        for container in template.containers:
            if not any("vllm" in word for word in (container.image, *container.words)):
                continue
            written = container.option("--gpu-memory-utilization")
            try:
                taken = float(written) if written is not None else VLLM_DEFAULT
            except ValueError:
                yield unknown(container.path, f"--gpu-memory-utilization is {written}, which is no number")
                continue
            if taken > share:
                yield fail(
                    (*container.path, "args"),
                    f"--gpu-memory-utilization {written}" if written is not None else None,
                    f"it takes more of the card than the {share:g} its pod asked for, and the pod beside it fails",
                    default=f"--gpu-memory-utilization {VLLM_DEFAULT}",
                )


@rule(
    "QU323",
    "fractions-do-not-fill-a-quota-to-the-last-digit",
    on=Queue,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    fix="Leave a little room, such as 0.31 for 0.1 and 0.2, or use parts that add up exactly (0.5, 0.25, 0.125).",
    sources=(f"{KAI}/issues/2209",),
)
def fractions_do_not_fill_a_quota_to_the_last_digit(queue: Queue, context: Context) -> Verdicts:
    """Parts of GPUs should not fill a quota or limit exactly where their sum cannot be written exactly.

    KAI adds up and compares without tolerance: 0.1 and 0.2 make 0.30000000000000004, which is more than 0.3, and the
    last pod waits for ever behind a message whose numbers look right. Judged by adding up the pods of the queue in the
    order of their size, both ways.
    """
    queueing, scaling = context.inventory.relation(Queueing), context.inventory.relation(Scaling)
    parts: list[tuple[float, str, int, Workload]] = []
    for workload in queueing.workloads.get(queue.name, ()):
        most, _ = scaling.maximum(workload)
        for template in workload.templates:
            if (share := gpu_share(template)) is not None:
                parts.append((share, repr(share), min(most * template.pods, MOST_PODS), workload))
    if not parts:
        return
    gpu = queue.share("gpu")
    for field, bound, counted in (
        ("quota", gpu.quota, [part for part in parts if not queueing.preemptible(part[3])]),
        ("limit", gpu.limit, parts),
    ):
        if counted and _misses_by_rounding(bound, [(share, shown, pods) for share, shown, pods, _ in counted]):
            yield fail(
                ("spec", "resources", "gpu", field),
                bound,
                "its pods add up to this exactly, but rounding makes the sum larger, and the last one waits for ever",
                related=tuple(part[3].resource for part in counted),
            )


def _misses_by_rounding(bound: float, parts: list[tuple[float, str, int]]) -> bool:
    """Whether parts that sum up to `bound` in decimals exceed it when added as floats, smallest or largest first."""
    try:
        if sum(Decimal(shown) * pods for _, shown, pods in parts) != Decimal(repr(bound)):
            return False
    except InvalidOperation:
        return False
    for order in (sorted(parts), sorted(parts, reverse=True)):
        total = 0.0
        for share, _, pods in order:
            for _ in range(pods):
                total += share
        if total > bound:
            return True
    return False
