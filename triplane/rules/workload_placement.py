"""Judgements on whether pods can land on the pools there are."""

import re
from collections.abc import Iterable

from triplane.catalog import InstanceType
from triplane.documents import Path
from triplane.inventory.admission import Admission
from triplane.inventory.capacity import Landing
from triplane.inventory.fields import at, mapping, sequence, text
from triplane.inventory.placement import NODE_POOL_LABEL, Placement, node_requirements
from triplane.inventory.workloads import PodTemplate, Workload
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Verdicts, fail, unknown

TAINTS = "https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/"
SCHEDULING = "https://karpenter.sh/docs/concepts/scheduling/"


@rule(
    "WL501",
    "gpu-pods-tolerate-the-taints-of-a-gpu-pool",
    on=Workload,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    fix="Add a toleration for the pool's taint, with operator Exists so that any value matches.",
    sources=(
        TAINTS,
        "https://github.com/aws/karpenter-provider-aws/issues/7574",
    ),
)
def gpu_pods_tolerate_the_taints_of_a_gpu_pool(workload: Workload, context: Context) -> Verdicts:
    """A pod that asks for GPUs must tolerate the taints of a pool that has them.

    GPU pools are tainted so that other pods stay away. Without the toleration the pod is pending for ever, and
    Karpenter says only that no NodePool is compatible. Judged where the input holds a GPU pool that would otherwise do;
    where labels stand in the way, WL504 speaks.
    """
    placement = context.inventory.relation(Placement)
    for template in workload.templates:
        if not template.gpus:
            continue
        if placement.possible(template):
            continue
        found = placement.fits(template)
        near = [fit for fit in found if fit.pools[0].gpu and all(kind == "taint" for kind, _ in fit.misfits)]
        if near:
            taints = ", ".join(sorted({what for fit in near for _, what in fit.misfits}))
            yield fail(
                (*template.path, "tolerations"),
                template.spec.get("tolerations"),
                f"the pods tolerate no GPU pool's taints ({taints}), so they stay pending",
                related=tuple(pool.resource for fit in near for pool in fit.pools),
            )


@rule(
    "WL502",
    "pods-without-gpu-stay-off-gpu-nodes",
    on=Workload,
    severity=Severity.ERROR,
    profile=Profile.CORE,
    parameters=("gpu_taint_keys",),
    fix="Drop the toleration, or tolerate the taints that are meant by their keys.",
    sources=(TAINTS, "https://github.com/aws/karpenter-provider-aws/issues/8447"),
)
def pods_without_gpu_stay_off_gpu_nodes(workload: Workload, context: Context) -> Verdicts:
    """Pods that ask for no GPU must not tolerate the taint of GPU nodes.

    The taint is all that keeps them away. A log shipper or a gateway with a blanket toleration takes the processors of
    a GPU node so that a GPU pod no longer fits, and keeps the node, at tens of dollars an hour, from ever being empty.
    GPUs, slices of one (nvidia.com/mig-*), KAI's gpu-fraction and ResourceClaims all count as asking. DaemonSets belong
    on every node, and pods that must stand beside others by a required affinity have a reason.
    """
    if workload.kind == "DaemonSet.apps":
        return
    for template in workload.templates:
        if template.uses_gpu or _stands_beside_others(template):
            continue
        for index, toleration in enumerate(template.tolerations):
            key, effect = text(toleration.get("key")) or "", text(toleration.get("effect")) or ""
            blanket = not key and text(toleration.get("operator")) == "Exists" and effect in ("", "NoSchedule")
            if blanket or (key in context.parameters.gpu_taint_keys and effect != "PreferNoSchedule"):
                yield fail(
                    (*template.path, "tolerations", index),
                    "a toleration of every taint" if blanket else key,
                    "its pods take room on GPU nodes, and keep them from ever being empty",
                )


def _stands_beside_others(template: PodTemplate) -> bool:
    required: Path = ("affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    return bool(sequence(at(template.spec, *required)))


@rule(
    "WL503",
    "pods-fit-a-node-of-their-pools",
    on=Workload,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    parameters=("instance_table", "other_gpus"),
    fix="Ask for less, or allow a larger instance type in the pool.",
    sources=(
        "https://github.com/aws/karpenter-provider-aws/issues/8064",
        "https://github.com/aws/karpenter-provider-aws/issues/6507",
    ),
)
def pods_fit_a_node_of_their_pools(workload: Workload, context: Context) -> Verdicts:
    """A GPU pod must fit the largest node that its pools may have.

    A pod of 8 GPUs on a pool of 4-GPU instances is pending for ever, and so is one that asks for all 192 processors of
    a node: the system keeps some of them. GPUs are compared with what the allowed types have, processors and memory
    with what Karpenter computes as allocatable; DaemonSets take more of that, so a close fit may still be too large.
    Where a pool allows a type that is neither in the catalogue nor in `instance_table`, nothing is said.
    """
    if context.parameters.other_gpus:
        return
    landing, table = context.inventory.relation(Landing), context.parameters.instance_table
    for template in workload.templates:
        place = landing.of(template) if template.gpus else None
        most = landing.largest(place, table) if place is not None else None
        if place is None or most is None:
            continue
        lacking: tuple[str, str] | None = None
        if template.gpus > most:
            lacking = (
                f"{template.gpus:g} GPUs a pod",
                f"no node of its pools has more than {most}, so they stay pending",
            )
        elif types := landing.types(place):
            lacking = _lacking(template, types)
        if lacking is not None:
            related = tuple(pool.resource for pool in place.pools)
            yield fail((*template.path, "containers"), *lacking, related=related)


def _lacking(template: PodTemplate, types: Iterable[InstanceType]) -> tuple[str, str] | None:
    """What no instance type has enough of, beside GPUs, and the most there is; None: some type does."""
    cpu, memory = template.requested("cpu"), template.requested("memory") / 2**20
    rooms = [(t.allocatable_cpu_millis / 1000, t.allocatable_memory_mib) for t in types if t.gpu_count >= template.gpus]
    if any(cpu <= cpus and memory <= mib for cpus, mib in rooms):
        return None
    most_cpu, most_memory = (max(room[index] for room in rooms) for index in (0, 1))
    asked, most = f"{cpu:g} processors", f"{most_cpu:g}"
    if cpu <= most_cpu:
        asked, most = f"{memory / 1024:g} GiB of memory", f"{most_memory / 1024:.0f} GiB"
    return (
        f"{asked} a pod",
        f"no node of its pools with enough GPUs can give more than {most}, so the pods stay pending",
    )


@rule(
    "WL504",
    "gpu-pods-select-labels-that-a-pool-has",
    on=Workload,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    parameters=("other_gpus", "external", "missing_references"),
    fix="Select labels of the pool: those of its template, its requirements, or those Karpenter knows.",
    sources=(SCHEDULING, "https://github.com/aws/karpenter-provider-aws/issues/5073"),
)
def gpu_pods_select_labels_that_a_pool_has(workload: Workload, context: Context) -> Verdicts:
    """What GPU pods select nodes by must be on the nodes of some GPU pool.

    Karpenter creates a node only for pods whose node selector and affinity its pool can satisfy. A label of one's own
    must stand on the pool's template or among its requirements; a slip in it, or arm64 for GPUs that only come with
    amd64, leaves the pods pending for ever. Labels that agents write later, such as those of GPU feature discovery,
    pass. A pool that is asked for by name and is not here may live elsewhere.
    """
    if context.parameters.other_gpus:
        return
    placement = context.inventory.relation(Placement)
    for template in workload.templates:
        if not template.gpus or placement.possible(template):
            continue
        near = [fit for fit in placement.fits(template) if fit.pools[0].gpu]
        labels = [[what for kind, what in fit.misfits if kind == "label"] for fit in near]
        if not near or not all(labels):
            continue  # nothing to compare with, or it is the taint that stands in the way: WL501
        key = min(labels, key=len)[0]
        selector: Path = (*template.path, "nodeSelector")
        selected = mapping(template.spec.get("nodeSelector"))
        path: Path = (*selector, key) if key in selected else (*template.path, "affinity", "nodeAffinity")
        wanted = [
            value for terms in node_requirements(template) for k, _, values in terms if k == key for value in values
        ]
        if key == NODE_POOL_LABEL and context.parameters.missing_references == "unknown":
            if not all(context.parameters.is_external("NodePool", name) for name in wanted):
                yield unknown(path, f"NodePool {', '.join(wanted)} is not in the input")
            continue
        names = ", ".join(dict.fromkeys(pool.resource.name for fit in near for pool in fit.pools[:3]))
        yield fail(
            path,
            f"{key} {', '.join(wanted)}" if wanted else key,
            f"no GPU pool has such nodes ({names}), so the pods stay pending",
            related=tuple(pool.resource for fit in near for pool in fit.pools),
        )


_FIELDS = re.compile(r"\b(tolerations|nodeSelector|nodeAffinity|affinity)\b")


@rule(
    "WL518",
    "gpu-pods-get-their-placement-from-their-manifest",
    on=Admission,
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("gpu_taint_keys",),
    fix="Write toleration and selector in the pod templates, and let a policy check them instead.",
    sources=("https://github.com/aws/karpenter-provider-aws/issues/8066",),
)
def gpu_pods_get_their_placement_from_their_manifest(admission: Admission, context: Context) -> Verdicts:
    """A policy should not write the toleration or the node selector of GPU pods.

    What the manifest says and what the pod has then differ. Whoever reads the manifest, this tool too, sees pods that
    fit no GPU pool; a pod that is created while the policy is away stays pending; and where the policy changes pods
    after Karpenter has seen them, it buys a second node. Judged are mutations of tolerations, selectors or affinity
    that mention a GPU.
    """
    words = (*context.parameters.gpu_taint_keys, "nvidia.com/", "amd.com/gpu", "gpu")
    for path, written in admission.writes:
        field = _FIELDS.search(written)
        if field is not None and any(word in written for word in words):
            consequence = "the pods that run are not those that were written and judged"
            yield fail(path, f"a change of {field[1]}", consequence)


# Software that makes a node's GPUs usable or visible, by the names of its images.
_AGENTS = re.compile(
    r"(k8s-device-plugin|gpu-feature-discovery|dcgm-exporter|k8s-driver-manager|k8s-mig-manager|nvidia-driver|container-toolkit"
    r"|amdgpu|k8s-dra-driver)"
)


@rule(
    "WL519",
    "gpu-agents-tolerate-the-taints-of-gpu-pools",
    on=Workload,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    parameters=("gpu_taint_keys",),
    fix="Tolerate the key of the pool's taint with operator Exists, so that any value matches.",
    sources=(
        TAINTS,
        "https://github.com/NVIDIA/k8s-device-plugin/issues/1934",
        "https://github.com/aws/karpenter-provider-aws/issues/1914",
    ),
)
def gpu_agents_tolerate_the_taints_of_gpu_pools(workload: Workload, context: Context) -> Verdicts:
    """DaemonSets that serve GPU nodes must tolerate the taints of the GPU pools.

    Without the device plugin a node never offers its GPUs: Karpenter waits for them, never counts the node as ready,
    does not consolidate it, and the bill goes on while the pods are pending. A DaemonSet that fits no node says
    nothing: it wants 0 pods and has 0. Judged are DaemonSets whose image is a known GPU agent, that select nodes by an
    nvidia.com label, or that tolerate a GPU taint with another value, where a GPU pool keeps them off by taints alone
    and none takes them.
    """
    if workload.kind != "DaemonSet.apps":
        return
    placement = context.inventory.relation(Placement)
    for template in workload.templates:
        if not _is_for_gpus(template, context.parameters.gpu_taint_keys):
            continue
        fits = [fit for fit in placement.fits(template) if fit.pools[0].gpu]
        if any(fit.possible for fit in fits):
            continue
        near = [fit for fit in fits if all(kind == "taint" for kind, _ in fit.misfits)]
        if near:
            taints = ", ".join(sorted({what for fit in near for _, what in fit.misfits}))
            yield fail(
                (*template.path, "tolerations"),
                template.spec.get("tolerations"),
                f"it tolerates no GPU pool's taints ({taints}) and runs on no GPU node",
                related=tuple(pool.resource for fit in near for pool in fit.pools),
            )


def _is_for_gpus(template: PodTemplate, taint_keys: tuple[str, ...]) -> bool:
    selected = {key for terms in node_requirements(template) for key, _, _ in terms}
    return (
        any(_AGENTS.search(container.image) for container in template.containers)
        or any(key.startswith(("nvidia.com/", "amd.com/")) for key in selected)
        or any(text(toleration.get("key")) in taint_keys for toleration in template.tolerations)
    )
