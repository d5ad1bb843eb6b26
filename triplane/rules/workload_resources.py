"""Judgements on what containers with GPUs ask for: resources, shared memory, images, and the engine's split."""

import re
from collections.abc import Iterator

from triplane.documents import Path
from triplane.inventory.engines import engine_of, parallelism, serves, starts_model
from triplane.inventory.fields import at, mapping, quantity, sequence, text
from triplane.inventory.gangs import LEADER_WORKER_SET
from triplane.inventory.workloads import Container, PodTemplate, Workload
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Edit, Verdicts, fail, unknown

MANAGE_RESOURCES = "https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/"
PARALLELISM = "https://docs.vllm.ai/en/latest/serving/parallelism_scaling.html"
SHARED_MEMORY = "/dev/shm"


def _extended(container: Container) -> Iterator[str]:
    """Extended resources a container names: every one with a domain, but for those of Kubernetes itself."""
    for name in dict.fromkeys((*container.requests, *container.limits)):
        if "/" in name and not name.startswith(("kubernetes.io/", "requests.")):
            yield name


@rule(
    "WL510",
    "gpu-request-equals-its-limit",
    on=Workload,
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    fix="Write GPUs under limits, as a whole number, and leave them out of requests.",
    autofix=True,
    sources=("https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/", MANAGE_RESOURCES),
)
def gpu_request_equals_its_limit(workload: Workload, context: Context) -> Verdicts:
    """GPUs must be limits, in whole numbers, and a request for them must say the same.

    Extended resources cannot be overcommitted: the API server refuses a pod whose request differs from its limit, that
    has a request and no limit, or that wants half of one. It refuses the pod and not the Deployment, so an apply
    succeeds and no pod ever appears; the reason stands in the events of the ReplicaSet. The same holds for every other
    extended resource, such as vpc.amazonaws.com/efa. A part of a GPU is asked for by KAI's annotation gpu-fraction.
    """
    for template in workload.templates:
        for container in template.containers:
            resources: Path = (*container.path, "resources")
            for name in _extended(container):
                request, limit = quantity(container.requests.get(name)), quantity(container.limits.get(name))
                if request is not None and limit is None and name not in container.limits:
                    yield fail(
                        (*resources, "limits"),
                        None,
                        f"{name} is requested and not limited, so the API server refuses the pods",
                        edits=(Edit((*resources, "limits", name), container.requests[name]),),
                    )
                elif request is not None and limit is not None and request != limit:
                    consequence = f"{name} must equal its limit {limit:g}, so the API server refuses the pods"
                    yield fail((*resources, "requests"), f"{name} {request:g}", consequence)
                elif limit is not None and limit % 1:
                    consequence = "an extended resource comes in whole numbers, so the API server refuses the pods"
                    yield fail((*resources, "limits", name), container.limits[name], consequence)


@rule(
    "WL511",
    "gpu-container-asks-for-memory",
    on=Workload,
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    fix="Set resources.requests.memory to what loading the model takes, and a limit not below it.",
    sources=(MANAGE_RESOURCES, "https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/"),
)
def gpu_container_asks_for_memory(workload: Workload, context: Context) -> Verdicts:
    """A container with GPUs should ask for memory.

    Weights pass through the host's memory, and caches stay there. A container that asks for none is placed beside
    whatever else fits, Karpenter sizes the node without it, and under memory pressure the kubelet evicts it first: it
    uses more than it asked for, which is nothing.
    """
    for template in workload.templates:
        for container in template.containers:
            if container.gpus and "memory" not in container.requests and "memory" not in container.limits:
                yield fail(
                    (*container.path, "resources", "requests", "memory"),
                    None,
                    "the node is chosen without its memory, and it is the first to be evicted when that runs short",
                )


@rule(
    "WL512",
    "tensor-parallel-pods-share-enough-memory",
    on=Workload,
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    fix="Mount an emptyDir with medium: Memory and a sizeLimit at /dev/shm.",
    sources=(
        "https://docs.vllm.ai/en/latest/deployment/k8s.html",
        "https://kubernetes.io/docs/concepts/storage/volumes/#emptydir",
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html#shared-memory",
    ),
)
def tensor_parallel_pods_share_enough_memory(workload: Workload, context: Context) -> Verdicts:
    """An engine that spreads a model over several GPUs needs room in /dev/shm, and a bound on it.

    Its processes, one a GPU, exchange data through shared memory, and a container runtime gives a container 64 MiB of
    it: NCCL fails at the start, or under load. A volume in memory without sizeLimit may grow to all of the node's
    memory, and what it holds counts as the container's. A pod with hostIPC has the node's /dev/shm.
    """
    for template in workload.templates:
        if template.spec.get("hostIPC") is True:
            continue
        volumes = {text(at(v, "name")): (i, mapping(v)) for i, v in enumerate(sequence(template.spec.get("volumes")))}
        for container in template.containers:
            sizes = parallelism(container)
            if sizes is None or sizes.tensor < 2:
                continue
            mounts = sequence(container.data.get("volumeMounts"))
            mount = next((m for m in mounts if (text(at(m, "mountPath")) or "").rstrip("/") == SHARED_MEMORY), None)
            if mount is None:
                consequence = f"{sizes.tensor} processes share 64 MiB of /dev/shm, too little for NCCL"
                yield fail((*container.path, "volumeMounts"), container.data.get("volumeMounts"), consequence)
                continue
            index, volume = volumes.get(text(at(mount, "name")), (0, {}))
            directory = volume.get("emptyDir")
            path: Path = (*template.path, "volumes", index, "emptyDir")
            if not isinstance(directory, dict):
                continue
            medium = text(directory.get("medium"))
            if medium != "Memory":
                yield fail((*path, "medium"), medium, "/dev/shm lies on the node's disk", default="the disk")
            elif directory.get("sizeLimit") is None:
                yield fail((*path, "sizeLimit"), None, "/dev/shm may take all of the node's memory")


@rule(
    "WL513",
    "parallelism-takes-the-gpus-that-are-there",
    on=Workload,
    severity=Severity.ERROR,
    profile=Profile.CORE,
    fix="Make tensor times pipeline parallel size the GPUs of the pod, or of the whole group where it spans pods.",
    sources=(PARALLELISM, "https://docs.vllm.ai/en/latest/serving/data_parallel_deployment.html"),
)
def parallelism_takes_the_gpus_that_are_there(workload: Workload, context: Context) -> Verdicts:
    """The sizes on an engine's command line must come to the GPUs the pod asks for.

    With more, the engine waits for GPUs that never come, or stops at the start; with fewer, it leaves GPUs idle that
    nobody else can use. vLLM and SGLang take tensor times pipeline parallel GPUs, in one pod or over all pods of a
    group (a LeaderWorkerSet's size); vLLM multiplies that by the data parallel size, or by its local part where ranks
    are spread over pods. Expert parallelism takes no GPUs of its own. Sizes that come out of a variable or a
    configuration file are unknown, and so is data parallelism over pods without a local size, and SGLang's, whose data
    parallel attention shares the tensor parallel GPUs.
    """
    for template in workload.templates:
        for container in template.containers:
            engine = engine_of(container) if container.gpus and not container.init else ""
            if engine in ("vllm", "sglang") and starts_model(container):
                yield from _judged(workload, template, container, engine)


def _judged(workload: Workload, template: PodTemplate, container: Container, engine: str) -> Verdicts:
    sizes, gpus = parallelism(container), container.gpus
    path: Path = (*container.path, "args" if sequence(container.data.get("args")) else "command")
    group = workload.gpus_per_replica if workload.kind == LEADER_WORKER_SET else gpus * template.pods
    spans = group > gpus
    if sizes is None:
        if gpus > 1:
            yield unknown(path, "the parallel sizes are in a variable or a configuration file")
    elif sizes.data > 1 and (engine == "sglang" or (spans and sizes.data_local is None)):
        yield unknown(path, "how many data parallel ranks a pod runs is not written")
    else:
        taken = sizes.instance * (sizes.data_local or sizes.data)
        # Kinds other than a LeaderWorkerSet do not say whether their pods form one instance: each part may.
        whole = taken == group if workload.kind == LEADER_WORKER_SET else spans and taken <= group and not taken % gpus
        if taken != gpus and not whole:
            where = f"the pod has {gpus:g}" + (f" and its group {group:g}" if spans else "")
            consequence = f"the engine waits for GPUs that never come: {where}"
            if taken < gpus:
                consequence = f"GPUs stay idle that nobody else can use: {where}"
            yield fail(path, f"parallel over {taken} GPUs", consequence)


# Words that name whatever is newest; anything without a digit says no version either.
_VERSION = re.compile(r"[0-9]")
_MOVING = re.compile(r"latest|main|master|nightly|stable|edge|dev|head", re.IGNORECASE)


@rule(
    "WL514",
    "serving-image-does-not-move",
    on=Workload,
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("environment",),
    fix="Name a version, better a digest: image@sha256:...",
    sources=("https://kubernetes.io/docs/concepts/containers/images/",),
)
def serving_image_does_not_move(workload: Workload, context: Context) -> Verdicts:
    """An image that serves in production should have a version in its name.

    With `latest`, `nightly` or no tag at all a replica that a scaler adds next week runs another engine than its
    neighbours: other metric names, other memory, other answers. Nobody has rolled anything out, and nothing can be
    rolled back. A digest is best; a tag with a version passes, for nobody but its publisher can move it.
    """
    if context.parameters.environment != "prod":
        return
    for template in workload.templates:
        for container in template.containers:
            if serves(workload, template) and (container.gpus or engine_of(container)) and _moves(container.image):
                yield fail(
                    (*container.path, "image"),
                    container.image,
                    "the next replica may run another engine than its neighbours",
                )


def _moves(image: str) -> bool:
    """Whether an image's name says no version: no tag, one like `latest`, or a moving word before a number."""
    if not image or "@" in image or "$" in image:
        return False
    tag = image.rpartition("/")[2].partition(":")[2]
    return not _VERSION.search(tag) or _MOVING.fullmatch(tag.partition("-")[0]) is not None
