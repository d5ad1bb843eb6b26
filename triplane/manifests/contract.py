"""What the pods of a role must carry to be placed, counted, routed and scaled, whoever declares them.

The stack's own Deployments and LeaderWorkerSets are built from this contract; `triplane preview` prints it for roles
whose workload is declared elsewhere.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from triplane import catalog
from triplane.manifests import labels
from triplane.manifests.identity import ManifestError
from triplane.manifests.queues import topology_levels, topology_name
from triplane.settings.cluster import ClusterSettings
from triplane.settings.models import DynamoTarget, ModelSettings, RoleName, RoleSettings
from triplane.settings.platform import PlatformSettings
from triplane.settings.pools import PoolSettings
from triplane.settings.values import format_duration

DYNAMO_QUEUE: Final = "nvidia.com/kai-scheduler-queue"
"""Annotation of a DynamoGraphDeployment: its operator writes the queue label and the scheduler's name on the pods."""
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
TOPOLOGY: Final = "kai.scheduler/topology"
PREEMPTION_DELAY: Final = "kai.scheduler/preemption-delay"
STALENESS_GRACE: Final = "kai.scheduler/staleness-grace-period"

DEFAULT_GRACE_SECONDS: Final = 600
"""A long answer takes minutes; a pod that is empty sooner goes sooner."""
PROBE_PERIOD_SECONDS: Final = 10


@dataclass(frozen=True)
class OptIn:
    """How one kind of workload joins KAI."""

    queue: str
    """Where the queue is written."""
    pods: str
    """Where scheduler name, tolerations and the like are written."""
    gang: str
    """What KAI places all at once."""


_TEMPLATE = "spec.template"
_OWNER_AND_TEMPLATE = f"label {labels.QUEUE} in metadata.labels and spec.template.metadata.labels"

OPT_IN: Mapping[str, OptIn] = MappingProxyType(
    {
        "Deployment": OptIn(_OWNER_AND_TEMPLATE, _TEMPLATE, "each pod by itself"),
        "StatefulSet": OptIn(_OWNER_AND_TEMPLATE, _TEMPLATE, "no gang: all pods in one elastic group of at least 1"),
        "Job": OptIn(_OWNER_AND_TEMPLATE, _TEMPLATE, "one group, kai.scheduler/batch-min-member pods of it (KAI 0.15)"),
        "JobSet": OptIn(
            f"label {labels.QUEUE} in metadata.labels and in every replicatedJob's pod template",
            "spec.replicatedJobs[].template.spec.template",
            "the whole JobSet (KAI 0.16; 1 pod in 0.15)",
        ),
        "LeaderWorkerSet": OptIn(
            f"label {labels.QUEUE} in metadata.labels and both templates' metadata.labels",
            "spec.leaderWorkerTemplate.leaderTemplate and .workerTemplate",
            "each replica: a leader and its workers",
        ),
        "RayCluster": OptIn(
            f"label {labels.QUEUE} in metadata.labels",
            "spec.headGroupSpec.template and every spec.workerGroupSpecs[].template",
            "the head and every worker group's minimum",
        ),
        "PodCliqueSet": OptIn(
            f"label {labels.QUEUE} in metadata.labels and every clique's labels",
            "spec.template.cliques[].spec.podSpec",
            "what Grove's PodGang says; topology belongs on the PodGang",
        ),
        "DynamoGraphDeployment": OptIn(
            f"annotation {DYNAMO_QUEUE} in metadata.annotations; the operator labels the pods",
            "the component's extraPodMetadata and extraPodSpec",
            "what Grove's PodGang says; topology belongs in topologyConstraint",
        ),
    }
)
"""The one table of kinds, as KAI's pod grouper reads them (0.12 to 0.17)."""

# Scale targets that are a part of the object which KAI or its integration reads.
_OWNERS = {
    "DynamoGraphDeploymentScalingAdapter": "DynamoGraphDeployment",
    "PodClique": "PodCliqueSet",
    "PodCliqueScalingGroup": "PodCliqueSet",
    "RayService": "RayCluster",
    "RayJob": "RayCluster",
}

_OTHER = OptIn(
    f"label {labels.QUEUE} on the top owner and the pod template",
    "its pod template",
    "no gang: all pods in one elastic group of at least 1",
)


@dataclass(frozen=True)
class PodContract:
    """What one role's owner object and pods must carry. `as_dict()` is the printable form."""

    name: str
    namespace: str
    owner_kind: str
    opt_in: OptIn
    owner_labels: Mapping[str, str]
    owner_annotations: Mapping[str, str]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    priority_class_name: str
    node_selector: Mapping[str, str]
    tolerations: tuple[Mapping[str, str], ...]
    devices: Mapping[str, str]
    """Extended resources of one pod, both as request and as limit."""
    termination_grace_seconds: int
    """Longest drain. Above the pool's terminationGracePeriod Karpenter would delete the pod at once."""
    startup_seconds: int
    """What a startup probe must allow: twice the cold start."""
    notes: tuple[str, ...]

    @property
    def selector(self) -> dict[str, str]:
        """Selects this role's pods and no other's: overlapping selectors stop both HPAs (Kubernetes 1.27)."""
        return {key: self.labels[key] for key in (labels.APP, labels.ROLE)}

    def pod_metadata(self) -> dict[str, Any]:
        metadata: dict[str, Any] = {"labels": dict(self.labels)}
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        return metadata

    def pod_spec(self) -> dict[str, Any]:
        """The part of a pod's spec that the contract fixes, without containers."""
        return {
            "schedulerName": labels.SCHEDULER,
            "priorityClassName": self.priority_class_name,
            "nodeSelector": dict(self.node_selector),
            "tolerations": [dict(toleration) for toleration in self.tolerations],
            "terminationGracePeriodSeconds": self.termination_grace_seconds,
        }

    def as_dict(self) -> dict[str, Any]:
        """Plain values, in reading order, for YAML."""
        owner: dict[str, Any] = {"kind": self.owner_kind, "queue": self.opt_in.queue, "gang": self.opt_in.gang}
        if self.owner_labels:
            owner["labels"] = dict(self.owner_labels)
        if self.owner_annotations:
            owner["annotations"] = dict(self.owner_annotations)
        devices = dict(self.devices)
        return {
            "role": self.name,
            "namespace": self.namespace,
            "owner": owner,
            "pods": {
                "in": self.opt_in.pods,
                "metadata": self.pod_metadata(),
                "spec": {
                    **self.pod_spec(),
                    "containers": [
                        {
                            "resources": {"requests": devices, "limits": dict(devices)},
                            "startupProbe": {
                                "periodSeconds": PROBE_PERIOD_SECONDS,
                                "failureThreshold": self.startup_failures,
                            },
                        }
                    ],
                },
            },
            "notes": list(self.notes),
        }

    @property
    def startup_failures(self) -> int:
        """failureThreshold of a startup probe that asks every PROBE_PERIOD_SECONDS."""
        return math.ceil(self.startup_seconds / PROBE_PERIOD_SECONDS)


def scale_target(model_name: str, model: ModelSettings, role_name: RoleName) -> dict[str, str]:
    """What a role's autoscaler scales, as a scaleTargetRef: apiVersion, kind, name."""
    role = model.roles[role_name]
    if isinstance(role.target, DynamoTarget):
        # Dynamo names the adapter after the component in lower case, and refuses direct edits of the replicas.
        name = f"{role.target.deployment}-{role.target.component.lower()}"
        return {"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentScalingAdapter", "name": name}
    if role.target is not None:
        return {"apiVersion": role.target.api_version, "kind": role.target.kind, "name": role.target.name}
    name = labels.role_name(model_name, role_name)
    if role.hosts > 1:
        return {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": name}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}


def pod_contract(
    model_name: str,
    model: ModelSettings,
    role_name: RoleName,
    *,
    pool_name: str,
    pool: PoolSettings,
    platform: PlatformSettings,
    cluster: ClusterSettings,
) -> PodContract:
    """The contract of a role's pods. Raises ManifestError where no pod could keep it."""
    role = model.roles[role_name]
    place = f"models.{model_name}.roles.{role_name}"
    name = labels.role_name(model_name, role_name)
    if len(name) > 63:
        raise ManifestError(f"{place}: the label {labels.APP}: {name} has {len(name)} characters, of at most 63")
    target_kind = scale_target(model_name, model, role_name)["kind"]
    owner_kind = _OWNERS.get(target_kind, target_kind)
    if role.hosts > 1 and owner_kind in ("Deployment", "StatefulSet"):
        raise ManifestError(
            f"{place}: KAI makes no gang of a {owner_kind}, so its {role.hosts} hosts would not start together. "
            "Target a LeaderWorkerSet"
        )

    kai = {
        labels.QUEUE: role.queue,
        labels.PREEMPTIBILITY: "preemptible" if role.preemptible else "non-preemptible",
        **({labels.SHARD: pool.shard} if pool.shard else {}),
    }
    identity = {labels.APP: name, labels.MODEL: model_name, labels.ROLE: labels.role_label(role_name)}
    owner_annotations = _gang_annotations(model, role, pool, platform, owner_kind)
    owner_labels = {**identity, **kai}
    if owner_kind == "DynamoGraphDeployment":
        owner_labels, owner_annotations = {}, {DYNAMO_QUEUE: role.queue, **owner_annotations}
    return PodContract(
        name=name,
        namespace=model.namespace,
        owner_kind=owner_kind,
        opt_in=OPT_IN.get(owner_kind, _OTHER),
        owner_labels=owner_labels,
        owner_annotations=owner_annotations,
        labels={**identity, **kai},
        annotations=_pod_annotations(model, role, pool, platform, cluster),
        # 125 in KAI's chart. A preemptible role keeps it: its label lets others take its GPUs, its rank in its own
        # queue stays above training's.
        priority_class_name="inference",
        # The shard label is no node selector: without this, Karpenter may buy a node outside the shard.
        node_selector={labels.POOL: pool_name, **({labels.SHARD: pool.shard} if pool.shard else {})},
        tolerations=_tolerations(pool),
        devices=_devices(place, role_name, role, pool),
        termination_grace_seconds=_grace(place, role, pool),
        startup_seconds=math.ceil(2 * model.cold_start.total_seconds()),
        notes=_notes(role_name, role, pool, owner_kind),
    )


def _gang_annotations(
    model: ModelSettings, role: RoleSettings, pool: PoolSettings, platform: PlatformSettings, owner_kind: str
) -> dict[str, str]:
    """Annotations that KAI reads from the top owner only."""
    annotations: dict[str, str] = {}
    # Grove and Dynamo carry topology in fields of their own, and one pod has no topology.
    if role.hosts > 1 and owner_kind not in ("PodCliqueSet", "DynamoGraphDeployment"):
        above_host = [level for level in topology_levels(pool.topology) if level != labels.HOST]
        if above_host:
            annotations[TOPOLOGY] = topology_name(pool.topology)
            annotations[f"{TOPOLOGY}-required-placement"] = above_host[0]
            if len(above_host) > 1:
                annotations[f"{TOPOLOGY}-preferred-placement"] = above_host[-1]
    cold_start = format_duration(model.cold_start)
    if role.hosts > 1 and catalog.supports("kai", platform.kai.version, "staleness-grace-period"):
        # The default is 60 s: a gang that loses a node would be deleted before the next node is there.
        annotations[STALENESS_GRACE] = cold_start
    if role.preemptible and catalog.supports("kai", platform.kai.version, "preemption-delay"):
        # Otherwise KAI evicts others in the first second instead of waiting for the node that Karpenter buys.
        annotations[PREEMPTION_DELAY] = cold_start
    return annotations


def _pod_annotations(
    model: ModelSettings,
    role: RoleSettings,
    pool: PoolSettings,
    platform: PlatformSettings,
    cluster: ClusterSettings,
) -> dict[str, str]:
    """Whether Karpenter may move a running pod.

    "true" on training pods, which lose work, and on gangs, where each drifted node would restart the whole group: their
    nodes are replaced when the job or group ends, or in the window where the pool sets a terminationGracePeriod. A
    serving pod of one host gets its cold start only: "true" would keep a drifted node for ever, and what protects it
    later is the pool's drift window and the PodDisruptionBudget. Durations need Karpenter 1.12; earlier releases
    ignore the annotation with an event. Auto Mode's release is not ours to know.
    """
    if pool.purpose == "training" or role.hosts > 1:
        return {DO_NOT_DISRUPT: "true"}
    if cluster.dialect == "aws" and catalog.supports(
        "karpenter", platform.karpenter.version, "do-not-disrupt-duration"
    ):
        return {DO_NOT_DISRUPT: format_duration(model.cold_start)}
    return {}


def _tolerations(pool: PoolSettings) -> tuple[Mapping[str, str], ...]:
    """The pool's taints, one by one. A blanket `Exists` would also tolerate Karpenter's disruption taint, and Karpenter
    ends the node under such pods without evicting them."""
    gpu = {"key": labels.GPU, "operator": "Exists", "effect": "NoSchedule"}
    own = (
        {"key": taint.key, "operator": "Exists", "effect": taint.effect}
        if taint.value is None
        else {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
        for taint in pool.taints
        if taint.key != labels.GPU
    )
    return (gpu, *own)


def _devices(place: str, role_name: RoleName, role: RoleSettings, pool: PoolSettings) -> dict[str, str]:
    """GPUs, and the pod's share of the node's EFA interfaces where pods talk across nodes.

    No hugepages: Karpenter knows of none on any instance type, so a pod that asks for them never gets a node.
    """
    devices = {labels.GPU: str(role.gpus)}
    if pool.efa and (role.hosts > 1 or role_name != "aggregated"):
        types = catalog.instance_types(pool.accelerator, pool.gpus_per_node)
        # The fewest among types that have any: Karpenter picks the type after the pod has asked.
        interfaces = min((t.efa for t in types if t.efa), default=0) * role.gpus // pool.gpus_per_node
        if interfaces == 0:
            raise ManifestError(
                f"{place}: the node's EFA interfaces leave none for {role.gpus} of its {pool.gpus_per_node} GPUs; "
                "take the whole node, or leave efa out of the pool"
            )
        devices[labels.EFA] = str(interfaces)
    return devices


def _grace(place: str, role: RoleSettings, pool: PoolSettings) -> int:
    node = pool.disruption.termination_grace_period
    longest = None if node is None else int(node.total_seconds())
    wanted = role.workload.termination_grace if role.workload else None
    if wanted is None:
        return DEFAULT_GRACE_SECONDS if longest is None else min(DEFAULT_GRACE_SECONDS, longest)
    seconds = math.ceil(wanted.total_seconds())
    if longest is not None and seconds > longest:
        raise ManifestError(
            f"{place}.workload.terminationGrace: {format_duration(wanted)} is longer than the pool's "
            f"terminationGracePeriod, {longest} s: Karpenter would delete the pod as the drain starts"
        )
    return seconds


def _notes(role_name: RoleName, role: RoleSettings, pool: PoolSettings, owner_kind: str) -> tuple[str, ...]:
    """What no field of the pods can hold."""
    notes = [
        "Leave spec.replicas out of the workload: every deployment would set it back to that number.",
        f"Prometheus must keep the pods' labels {labels.ROLE} and {labels.MODEL} (podTargetLabels of a PodMonitor), as "
        "llm_d_ai_role and llm_d_ai_model.",
        "KAI reads the queue when a pod is created: a running workload moves to another queue only by new pods.",
    ]
    if role.preemptible:
        notes.append("KAI deletes preemptible pods when their GPUs are claimed; no PodDisruptionBudget holds them.")
    if role.signal.backlog is not None:
        notes.append(
            "backlog counts the endpoint picker's tokens in flight: llm-d-router above 0.10.0 (#2529), one replica of "
            "it, with the producer inflight-load-producer."
        )
    if role.signal.flow_control_queue is not None:
        notes.append("flowControlQueue needs the endpoint picker's feature gate flowControl.")
    if role_name == "decode":
        notes.append(
            "llm-d sends a request to prefill through the routing sidecar of the decode pod: add it with patches:, or "
            "route with a proxy that knows both roles."
        )
    if pool.shard and owner_kind in ("PodCliqueSet", "DynamoGraphDeployment"):
        notes.append(
            f"Grove must carry the label {labels.SHARD} to the PodGang and the pods (grove #490, dynamo #10084): "
            "without it KAI looks for the queue in its default shard."
        )
    if role.hosts > 1 and owner_kind == "LeaderWorkerSet":
        notes.append(
            "Only leaders serve: an InferencePool or Service also selects leaderworkerset.sigs.k8s.io/worker-index: "
            '"0".'
        )
    return tuple(notes)
