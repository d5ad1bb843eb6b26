"""Pods that only make sense together: what a scheduler must place at once, and KAI's own objects about it.

How many pods KAI takes as one gang for each kind: pkg/podgrouper/podgrouper/plugins (KAI 0.17).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from triplane.documents import Path
from triplane.inventory import kinds
from triplane.inventory.fields import at, mapping, number, sequence, text
from triplane.inventory.resource import Resource
from triplane.inventory.workloads import PodTemplate, Workload, count

LEADER_WORKER_SET = "LeaderWorkerSet.leaderworkerset.x-k8s.io"
MIN_MEMBER = "kai.scheduler/batch-min-member"
_RAY = ("RayCluster.ray.io", "RayService.ray.io", "RayJob.ray.io")
# One replica of these is one gang. All other kinds are placed pod by pod.
_WHOLE = frozenset(
    (
        LEADER_WORKER_SET,
        *_RAY,
        "JobSet.jobset.x-k8s.io",
        "MPIJob.kubeflow.org",
        "PyTorchJob.kubeflow.org",
        "TFJob.kubeflow.org",
        "XGBoostJob.kubeflow.org",
        "JAXJob.kubeflow.org",
        "Job.batch.volcano.sh",
        kinds.POD_CLIQUE_SET,
    )
)


@dataclass(frozen=True, slots=True)
class Gang:
    """The pods that must be placed together, as templates and how many of each. `path` says where its size stands."""

    members: tuple[tuple[PodTemplate, int], ...]
    path: Path

    @property
    def pods(self) -> int:
        return sum(pods for _, pods in self.members)

    @property
    def gpus(self) -> float:
        return sum(template.gpus * pods for template, pods in self.members)


def gang_of(workload: Workload, together: bool = False) -> Gang:
    """The largest gang of a workload: one replica where its kind is gang-scheduled, else one pod.

    `together`: somebody says that its pods only make sense together, though its kind does not.
    """
    templates = workload.templates
    members: list[tuple[PodTemplate, int]]
    if workload.kind in _WHOLE or together:
        members = [(template, _least(workload, template)) for template in templates]
    else:
        largest = max(templates, key=lambda template: template.gpus, default=None)
        # A Job is one pod after another for KAI, unless an annotation asks for several at once.
        asked = text(workload.annotations.get(MIN_MEMBER)) or ""
        pods = int(asked) if workload.kind == "Job.batch" and asked.isascii() and asked.isdigit() else 1
        members = [(largest, pods)] if largest is not None else []
    return Gang(tuple((template, pods) for template, pods in members if pods), _path(workload, members))


def _least(workload: Workload, template: PodTemplate) -> int:
    """The fewest pods of a role that the gang needs; the controllers start with these."""
    data, path = workload.resource.data, template.path
    if workload.kind in _RAY and template.role != "head":
        group = at(data, *path[:-2])
        least = count(at(group, "minReplicas"), 0) or count(at(group, "replicas"), 0)
        return least * count(at(group, "numOfHosts"), 1)
    if workload.kind == kinds.POD_CLIQUE_SET:
        return count(at(data, *path[:-1], "minAvailable"), template.pods)
    if workload.kind == "PyTorchJob.kubeflow.org" and template.role == "Worker":
        return count(at(workload.spec, "elasticPolicy", "minReplicas"), template.pods)
    return template.pods


def _path(workload: Workload, members: list[tuple[PodTemplate, int]]) -> Path:
    if workload.kind == LEADER_WORKER_SET:
        return ("spec", "leaderWorkerTemplate", "size")
    biggest = max(members, key=lambda member: member[0].gpus * member[1], default=None)
    if biggest is None:
        return ("spec",)
    # The role that holds the template: `spec.workerGroupSpecs[0]`, `spec.replicatedJobs[1]`.
    path = biggest[0].path
    place = next((index for index, part in enumerate(path) if isinstance(part, int)), None)
    return path if place is None else path[: place + 1]


@dataclass(frozen=True, slots=True)
class SubGroup:
    """One subgroup of a PodGroup. Amounts are None where they are not written."""

    path: Path
    name: str
    parent: str
    min_member: float | None
    min_sub_group: float | None


class PodGroup:
    """A KAI PodGroup (scheduling.run.ai/v2alpha2) that somebody wrote; KAI makes the others itself."""

    KINDS: ClassVar[tuple[str, ...]] = (kinds.POD_GROUP,)

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.spec = mapping(resource.data.get("spec"))

    @property
    def min_member(self) -> float | None:
        return number(self.spec.get("minMember"))

    @property
    def min_sub_group(self) -> float | None:
        return number(self.spec.get("minSubGroup"))

    @property
    def sub_groups(self) -> tuple[SubGroup, ...]:
        return tuple(
            SubGroup(
                ("spec", "subGroups", index),
                text(at(entry, "name")) or "",
                text(at(entry, "parent")) or "",
                number(at(entry, "minMember")),
                number(at(entry, "minSubGroup")),
            )
            for index, entry in enumerate(sequence(self.spec.get("subGroups")))
        )


class Topology:
    """A KAI Topology (kai.scheduler/v1alpha1): node labels from the widest domain to the narrowest."""

    KINDS: ClassVar[tuple[str, ...]] = (kinds.TOPOLOGY,)

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.spec = mapping(resource.data.get("spec"))

    @property
    def levels(self) -> dict[str, str]:
        """Every name a level goes by (its node label, and its alias since 0.17), to its node label."""
        names: dict[str, str] = {}
        for entry in sequence(self.spec.get("levels")):
            if label := text(at(entry, "nodeLabel")):
                names[label] = label
                if alias := text(at(entry, "alias")):
                    names[alias] = label
        return names


@dataclass(frozen=True, slots=True)
class Group:
    """A clique or a scaling group of a PodCliqueSet: replicas and how many of them must be available."""

    path: Path
    name: str
    replicas: int
    min_available: int
    least: int | None
    """The smallest count its own autoscaler may choose; None: nothing says one."""
    least_path: Path


class PodCliqueSet:
    """A Grove PodCliqueSet (grove.io/v1alpha1)."""

    KINDS: ClassVar[tuple[str, ...]] = (kinds.POD_CLIQUE_SET,)

    def __init__(self, resource: Resource) -> None:
        self.resource = resource

    @property
    def groups(self) -> Iterator[Group]:
        template: Path = ("spec", "template")
        for index, clique in enumerate(sequence(at(self.resource.data, *template, "cliques"))):
            spec = mapping(at(clique, "spec"))
            yield _group(spec, (*template, "cliques", index, "spec"), text(at(clique, "name")), "autoScalingConfig", 0)
        for index, group in enumerate(sequence(at(self.resource.data, *template, "podCliqueScalingGroups"))):
            # A scaling group needs one replica unless it says more; a clique needs all of its pods.
            path: Path = (*template, "podCliqueScalingGroups", index)
            yield _group(mapping(group), path, text(at(group, "name")), "scaleConfig", 1)


def _group(fields: Mapping[str, Any], path: Path, name: str | None, scaling: str, default: int) -> Group:
    replicas = count(fields.get("replicas"), 1)
    least = at(fields, scaling, "minReplicas")
    return Group(
        path,
        name or "",
        replicas,
        count(fields.get("minAvailable"), default or replicas),
        count(least, replicas) if least is not None else None,
        (*path, scaling, "minReplicas"),
    )
