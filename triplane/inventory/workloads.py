"""Everything that makes pods, read through one table: which pod templates it has, and how many pods a replica has.

Kinds: Pod, Deployment, StatefulSet, ReplicaSet, DaemonSet, Job, CronJob, JobSet, Argo Rollout, LeaderWorkerSet,
RayCluster, RayService, RayJob, Grove PodCliqueSet, DynamoGraphDeployment, KServe InferenceService and
LLMInferenceService, the Kubeflow training jobs, Knative Service, KEDA ScaledJob, Volcano Job.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar

from triplane.documents import Path
from triplane.inventory import kinds
from triplane.inventory.fields import at, known, mapping, number, quantity, sequence, text
from triplane.inventory.nodepools import is_gpu_resource
from triplane.inventory.resource import Resource

ROLE_LABEL = "llm-d.ai/role"
CONTAINER_LISTS = ("containers", "initContainers")
# Annotations by which a pod asks KAI for a part of a GPU (KAI 0.17 docs/gpu-sharing); they stand beside no GPU request.
GPU_SHARE_ANNOTATIONS = ("gpu-fraction", "gpu-memory")


class Container:
    """One container, with its path in the workload."""

    __slots__ = ("_options", "data", "init", "path")

    def __init__(self, data: Mapping[str, Any], path: Path, init: bool) -> None:
        self._options: dict[str, str] | None = None
        self.data = data
        self.path = path
        self.init = init

    @property
    def name(self) -> str:
        return text(self.data.get("name")) or ""

    @property
    def image(self) -> str:
        return text(self.data.get("image")) or ""

    @property
    def requests(self) -> Mapping[str, Any]:
        return mapping(at(self.data, "resources", "requests"))

    @property
    def limits(self) -> Mapping[str, Any]:
        return mapping(at(self.data, "resources", "limits"))

    def requested(self, resource: str) -> float:
        """Amount requested in the base unit; a limit without a request is the request, as the API server has it."""
        return quantity(self.requests.get(resource)) or quantity(self.limits.get(resource)) or 0.0

    @property
    def gpus(self) -> float:
        """GPUs, or slices of one, that the container gets."""
        names = {name for name in (*self.limits, *self.requests) if is_gpu_resource(name)}
        return sum(self.requested(name) for name in names)

    @property
    def words(self) -> tuple[str, ...]:
        """Command and arguments in order, as text."""
        return tuple(str(known(word)) for key in ("command", "args") for word in sequence(self.data.get(key)))

    def option(self, name: str) -> str | None:
        """The value of a command-line option, `--name value` or `--name=value`, also within a shell's command text.

        The last one counts, as for argparse; underscores read as hyphens. None: not given.
        """
        if self._options is None:
            words = [part for word in self.words for part in word.split()]
            self._options = {}
            for word, following in zip(words, [*words[1:], ""], strict=False):
                if word.startswith("-"):
                    given, equals, value = word.partition("=")
                    self._options[given.replace("_", "-")] = value if equals else following
        return self._options.get(name)


class PodTemplate:
    """The pods of one role of a workload. `pods` is how many of them one replica of the workload has.

    `path` leads to the pod spec, `metadata_path` to its metadata (the workload's own where pods have none of theirs).
    """

    def __init__(
        self,
        role: str,
        spec: Mapping[str, Any],
        metadata: Mapping[str, Any],
        path: Path,
        metadata_path: Path,
        pods: int = 1,
        main: Container | None = None,
    ) -> None:
        self.role = role
        self.main = main
        """A container that the kind writes outside the pod spec's list."""
        self.spec = spec
        self.path = path
        self.metadata = metadata
        self.metadata_path = metadata_path
        self.pods = pods

    @cached_property
    def labels(self) -> Mapping[str, Any]:
        return mapping(self.metadata.get("labels"))

    @cached_property
    def annotations(self) -> Mapping[str, Any]:
        return mapping(self.metadata.get("annotations"))

    @cached_property
    def containers(self) -> tuple[Container, ...]:
        listed = (
            Container(mapping(entry), (*self.path, listing, index), listing == "initContainers")
            for listing in CONTAINER_LISTS
            for index, entry in enumerate(sequence(self.spec.get(listing)))
        )
        return (*((self.main,) if self.main else ()), *listed)

    @cached_property
    def tolerations(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(mapping(entry) for entry in sequence(self.spec.get("tolerations")))

    @cached_property
    def gpus(self) -> float:
        """Whole GPUs or slices one pod asks for as extended resources."""
        return self.requested(is_gpu_resource)

    def requested(self, wanted: str | Callable[[str], bool]) -> float:
        """What one pod requests: all containers together, or the largest init container, whichever is more."""
        together, largest = 0.0, 0.0
        for container in self.containers:
            names = {
                n
                for n in (*container.requests, *container.limits)
                if (n == wanted if isinstance(wanted, str) else wanted(n))
            }
            amount = sum(container.requested(name) for name in names)
            # A sidecar (an init container that restarts) runs beside the others.
            if container.init and text(container.data.get("restartPolicy")) != "Always":
                largest = max(largest, amount)
            else:
                together += amount
        return max(together, largest)

    @cached_property
    def uses_gpu(self) -> bool:
        """Whether the pod gets a GPU in any way: whole, a MIG slice, a share through KAI, or a ResourceClaim."""
        return (
            self.gpus > 0
            or any(key in self.annotations for key in GPU_SHARE_ANNOTATIONS)
            or bool(sequence(self.spec.get("resourceClaims")))
        )

    @property
    def scheduler(self) -> str:
        return text(self.spec.get("schedulerName")) or ""


class Workload:
    """An object that makes pods."""

    KINDS: ClassVar[tuple[str, ...]] = ()

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.kind = resource.kind
        self.spec = mapping(resource.data.get("spec"))

    @cached_property
    def templates(self) -> tuple[PodTemplate, ...]:
        """Its pod templates, one a role."""
        return tuple(_TEMPLATES[self.kind](self))

    @cached_property
    def labels(self) -> Mapping[str, Any]:
        return mapping(at(self.resource.data, "metadata", "labels"))

    @cached_property
    def annotations(self) -> Mapping[str, Any]:
        return mapping(at(self.resource.data, "metadata", "annotations"))

    @property
    def replicas(self) -> int:
        """Replicas as written, 1 where nothing is. For kinds whose replica is the whole object (RayCluster), 1."""
        return count(self.spec.get("replicas"), 1) if self.kind in _REPLICATED else 1

    @property
    def made_by(self) -> str:
        """Kind of the controller that made it, as of a live cluster's pods; empty: somebody wrote it.

        Its maker is counted already where both are seen.
        """
        for reference in sequence(at(self.resource.data, "metadata", "ownerReferences")):
            if at(reference, "controller") is True:
                return text(at(reference, "kind")) or ""
        return ""

    @property
    def finishes(self) -> bool:
        """Whether its pods end by themselves, as a training run's do."""
        return self.kind in _FINISHING

    @property
    def scaled_by_replicas(self) -> bool:
        """Whether `spec.replicas` says how many there are."""
        return self.kind in _REPLICATED

    @cached_property
    def gpus_per_replica(self) -> float:
        """GPUs of one replica: of all pods of its roles together (a LeaderWorkerSet's group, a Grove set)."""
        return sum(template.gpus * template.pods for template in self.templates)

    @property
    def pods_per_replica(self) -> int:
        return sum(template.pods for template in self.templates)

    @cached_property
    def uses_gpu(self) -> bool:
        return any(template.uses_gpu for template in self.templates)

    def label(self, key: str) -> str:
        """A label of the workload, else of its first pod template that has it (the order in which KAI reads it)."""
        for labels in (self.labels, *(template.labels for template in self.templates)):
            if (value := text(labels.get(key))) is not None:
                return value
        return ""

    def annotation(self, key: str) -> str:
        for annotations in (self.annotations, *(template.annotations for template in self.templates)):
            if (value := text(annotations.get(key))) is not None:
                return value
        return ""

    @property
    def serving_role(self) -> str:
        """`prefill`, `decode` or whatever else its label llm-d.ai/role says; empty: none."""
        return self.label(ROLE_LABEL)

    def has_label(self, pair: str) -> bool:
        """Whether it or its pods carry the label written `key=value`; an empty pair is carried by none."""
        key, _, value = pair.partition("=")
        return bool(key) and self.label(key) == value


def count(value: Any, default: int) -> int:
    """A replica count; `default` for anything that is no whole number."""
    amount = number(value)
    return int(amount) if amount is not None and amount >= 0 else default


def _template(data: Mapping[str, Any], path: Path, role: str = "", pods: int = 1) -> Iterator[PodTemplate]:
    """A PodTemplateSpec at `path`, if there is one."""
    found = at(data, *path)
    if isinstance(found, dict):
        yield PodTemplate(
            role, mapping(found.get("spec")), mapping(found.get("metadata")), (*path, "spec"), (*path, "metadata"), pods
        )


def _pod_spec(
    data: Mapping[str, Any], path: Path, metadata: Path, role: str = "", pods: int = 1
) -> Iterator[PodTemplate]:
    """A bare PodSpec at `path` whose labels and annotations stand under `metadata`."""
    found = at(data, *path)
    if isinstance(found, dict):
        yield PodTemplate(role, found, mapping(at(data, *metadata)), path, metadata, pods)


def _at_path(*path: str | int) -> Callable[[Workload], Iterator[PodTemplate]]:
    return lambda workload: _template(workload.resource.data, path)


def _pod(workload: Workload) -> Iterator[PodTemplate]:
    return _pod_spec(workload.resource.data, ("spec",), ("metadata",))


def _job_set(workload: Workload) -> Iterator[PodTemplate]:
    for index, job in enumerate(sequence(workload.spec.get("replicatedJobs"))):
        parallelism = count(at(job, "template", "spec", "parallelism"), 1)
        path: Path = ("spec", "replicatedJobs", index, "template", "spec", "template")
        pods = count(at(job, "replicas"), 1) * parallelism
        yield from _template(workload.resource.data, path, text(at(job, "name")) or "", pods)


def _job(workload: Workload) -> Iterator[PodTemplate]:
    return _template(workload.resource.data, ("spec", "template"), pods=count(workload.spec.get("parallelism"), 1))


def _leader_worker_set(workload: Workload) -> Iterator[PodTemplate]:
    path: Path = ("spec", "leaderWorkerTemplate")
    size = count(at(workload.resource.data, *path, "size"), 1)
    leader = isinstance(at(workload.resource.data, *path, "leaderTemplate"), dict)
    yield from _template(workload.resource.data, (*path, "leaderTemplate"), "leader")
    workers = size - 1 if leader else size
    if workers > 0:
        yield from _template(workload.resource.data, (*path, "workerTemplate"), "worker", workers)


def _ray(*cluster: str) -> Callable[[Workload], Iterator[PodTemplate]]:
    def read(workload: Workload) -> Iterator[PodTemplate]:
        data = workload.resource.data
        yield from _template(data, (*cluster, "headGroupSpec", "template"), "head")
        for index, group in enumerate(sequence(at(data, *cluster, "workerGroupSpecs"))):
            # KubeRay: a group replica has numOfHosts pods; replicas counts at least minReplicas.
            replicas = max(count(at(group, "replicas"), 0), count(at(group, "minReplicas"), 0))
            pods = replicas * count(at(group, "numOfHosts"), 1)
            path: Path = (*cluster, "workerGroupSpecs", index, "template")
            yield from _template(data, path, text(at(group, "groupName")) or "worker", pods)

    return read


def _pod_clique_set(workload: Workload) -> Iterator[PodTemplate]:
    for index, clique in enumerate(sequence(at(workload.spec, "template", "cliques"))):
        path: Path = ("spec", "template", "cliques", index)
        pods = count(at(clique, "spec", "replicas"), 1)
        yield from _pod_spec(
            workload.resource.data, (*path, "spec", "podSpec"), path, text(at(clique, "name")) or "", pods
        )


def _dynamo(workload: Workload) -> Iterator[PodTemplate]:
    data = workload.resource.data
    for index, component in enumerate(sequence(workload.spec.get("components"))):  # v1beta1
        pods = count(at(component, "replicas"), 1) * count(at(component, "multinode", "nodeCount"), 1)
        yield from _template(
            data, ("spec", "components", index, "podTemplate"), text(at(component, "name")) or "", pods
        )
    for name, service in mapping(workload.spec.get("services")).items():  # v1alpha1
        path: Path = ("spec", "services", name)
        spec = mapping(at(service, "extraPodSpec"))
        main = dict(mapping(spec.get("mainContainer")))
        amounts = {kind: _dynamo_resources(at(service, "resources", kind)) for kind in ("requests", "limits")}
        main["resources"] = {kind: {**mapping(at(main, "resources", kind)), **amounts[kind]} for kind in amounts}
        metadata = {**mapping(at(service, "extraPodMetadata")), "labels": mapping(at(service, "labels"))}
        yield PodTemplate(
            name,
            spec,
            metadata,
            (*path, "extraPodSpec"),
            (*path, "extraPodMetadata"),
            count(at(service, "replicas"), 1) * count(at(service, "multinode", "nodeCount"), 1),
            Container(main, (*path, "extraPodSpec", "mainContainer"), init=False),
        )


def _dynamo_resources(written: Any) -> dict[str, Any]:
    """v1alpha1 writes `gpu: "8"` for nvidia.com/gpu."""
    return {
        "nvidia.com/gpu" if key == "gpu" else key: value for key, value in mapping(written).items() if key != "custom"
    }


def _inference_service(workload: Workload) -> Iterator[PodTemplate]:
    for role in ("predictor", "transformer"):
        path: Path = ("spec", role)
        component = at(workload.resource.data, *path)
        if not isinstance(component, dict):
            continue
        for framework in ("model", "pytorch", "triton", "huggingface", "onnx", "tensorflow", "sklearn", "xgboost"):
            if isinstance(component.get(framework), dict):
                main = Container(component[framework], (*path, framework), init=False)
                metadata = mapping(workload.resource.data.get("metadata"))
                yield PodTemplate(role, component, metadata, path, ("metadata",), main=main)
                break
        else:
            yield from _pod_spec(workload.resource.data, path, ("metadata",), role)
        workers = count(at(component, "workerSpec", "pipelineParallelSize"), 1) - 1
        if workers > 0:
            yield from _pod_spec(
                workload.resource.data, (*path, "workerSpec"), ("metadata",), f"{role}-worker", workers
            )


def _llm_inference_service(workload: Workload) -> Iterator[PodTemplate]:
    data = workload.resource.data
    for role, path in (("decode", ("spec",)), ("prefill", ("spec", "prefill"))):
        yield from _pod_spec(data, (*path, "template"), ("metadata",), role)
        yield from _pod_spec(data, (*path, "worker"), ("metadata",), f"{role}-worker")


def _kubeflow(field: str) -> Callable[[Workload], Iterator[PodTemplate]]:
    def read(workload: Workload) -> Iterator[PodTemplate]:
        for role, replica in mapping(workload.spec.get(field)).items():
            path: Path = ("spec", field, role, "template")
            yield from _template(workload.resource.data, path, role, count(at(replica, "replicas"), 1))

    return read


def _volcano(workload: Workload) -> Iterator[PodTemplate]:
    for index, task in enumerate(sequence(workload.spec.get("tasks"))):
        path: Path = ("spec", "tasks", index, "template")
        yield from _template(workload.resource.data, path, text(at(task, "name")) or "", count(at(task, "replicas"), 1))


_TEMPLATES: dict[str, Callable[[Workload], Iterator[PodTemplate]]] = {
    "Pod": _pod,
    "Deployment.apps": _at_path("spec", "template"),
    "StatefulSet.apps": _at_path("spec", "template"),
    "ReplicaSet.apps": _at_path("spec", "template"),
    "DaemonSet.apps": _at_path("spec", "template"),
    "Job.batch": _job,
    "CronJob.batch": _at_path("spec", "jobTemplate", "spec", "template"),
    "JobSet.jobset.x-k8s.io": _job_set,
    "Rollout.argoproj.io": _at_path("spec", "template"),
    "LeaderWorkerSet.leaderworkerset.x-k8s.io": _leader_worker_set,
    "RayCluster.ray.io": _ray("spec"),
    "RayService.ray.io": _ray("spec", "rayClusterConfig"),
    "RayJob.ray.io": _ray("spec", "rayClusterSpec"),
    kinds.POD_CLIQUE_SET: _pod_clique_set,
    "DynamoGraphDeployment.nvidia.com": _dynamo,
    kinds.INFERENCE_SERVICE: _inference_service,
    kinds.LLM_INFERENCE_SERVICE: _llm_inference_service,
    "MPIJob.kubeflow.org": _kubeflow("mpiReplicaSpecs"),
    "PyTorchJob.kubeflow.org": _kubeflow("pytorchReplicaSpecs"),
    "TFJob.kubeflow.org": _kubeflow("tfReplicaSpecs"),
    "XGBoostJob.kubeflow.org": _kubeflow("xgbReplicaSpecs"),
    "JAXJob.kubeflow.org": _kubeflow("jaxReplicaSpecs"),
    "Service.serving.knative.dev": _at_path("spec", "template"),
    kinds.SCALED_JOB: _at_path("spec", "jobTargetRef", "template"),
    "Job.batch.volcano.sh": _volcano,
}
_REPLICATED = frozenset(
    (
        "Deployment.apps",
        "StatefulSet.apps",
        "ReplicaSet.apps",
        "Rollout.argoproj.io",
        "LeaderWorkerSet.leaderworkerset.x-k8s.io",
        kinds.POD_CLIQUE_SET,
        kinds.LLM_INFERENCE_SERVICE,
    )
)
_FINISHING = frozenset(kind for kind in _TEMPLATES if "Job" in kind)
Workload.KINDS = tuple(_TEMPLATES)
