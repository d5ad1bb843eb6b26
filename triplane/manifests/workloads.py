"""The pods of a role: the budget that bounds their evictions, and, where the stack declares it, the workload itself.

`spec.replicas` is never written: the role's autoscaler owns it, and each deployment would set it back.
"""

from typing import Any

from triplane.manifests import labels
from triplane.manifests.contract import (
    PROBE_PERIOD_SECONDS,
    PodContract,
    pod_contract,
    scale_target,
)
from triplane.manifests.engines import DEREGISTRATION_SECONDS, drain_command, launch
from triplane.manifests.identity import ManifestError
from triplane.settings.cluster import ClusterSettings
from triplane.settings.models import ModelSettings, RoleName, WorkloadSettings
from triplane.settings.platform import PlatformSettings
from triplane.settings.pools import PoolSettings

__all__ = ["PodContract", "pod_contract", "scale_target", "workload_manifests"]


def workload_manifests(
    model_name: str,
    model: ModelSettings,
    role_name: RoleName,
    *,
    pool_name: str,
    pool: PoolSettings,
    platform: PlatformSettings,
    cluster: ClusterSettings,
) -> list[dict[str, Any]]:
    """The role's PodDisruptionBudget, and its Deployment (one host a replica) or LeaderWorkerSet where declared here.

    Raises ManifestError for what Kubernetes, KAI or the engine could not run.
    """
    contract = pod_contract(
        model_name, model, role_name, pool_name=pool_name, pool=pool, platform=platform, cluster=cluster
    )
    role = model.roles[role_name]
    if role.workload and role.target:
        raise ManifestError(
            f"models.{model_name}.roles.{role_name}: target names what somebody else declares, workload is declared "
            "here: leave one out"
        )
    manifests = [_disruption_budget(contract)]
    if role.workload:
        build = _deployment if role.hosts == 1 else _leader_worker_set
        manifests.append(build(contract, model, role_name, role.workload))
    return manifests


def _disruption_budget(contract: PodContract) -> dict[str, Any]:
    """One pod at a time, for Karpenter's and kubectl's drains; KAI deletes pods without asking any budget.

    A count of unavailable pods never blocks a drain for ever, as minAvailable does at the floor; and a pod that is not
    ready serves nobody and may always go (AlwaysAllow, Kubernetes 1.27).
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": contract.name, "namespace": contract.namespace, "labels": _identity(contract)},
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": contract.selector},
        },
    }


def _deployment(
    contract: PodContract, model: ModelSettings, role_name: RoleName, workload: WorkloadSettings
) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _owner_metadata(contract),
        "spec": {
            "selector": {"matchLabels": contract.selector},
            # A surge pod counts against the quota, where a non-preemptible one is stuck while Karpenter buys it a node.
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": model.roles[role_name].surge, "maxUnavailable": 1},
            },
            # Kubernetes' 600 s on top of what one pod may need to start; otherwise a slow load counts as a failure.
            "progressDeadlineSeconds": contract.startup_seconds + 600,
            "template": _pod_template(contract, model, role_name, workload),
        },
    }


def _leader_worker_set(
    contract: PodContract, model: ModelSettings, role_name: RoleName, workload: WorkloadSettings
) -> dict[str, Any]:
    role = model.roles[role_name]
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": _owner_metadata(contract),
        "spec": {
            # LeaderReady would make KAI place the leader alone and hold its GPUs while it waits for the workers.
            "startupPolicy": "LeaderCreated",
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {"maxUnavailable": 1, "maxSurge": role.surge},
            },
            "leaderWorkerTemplate": {
                "size": role.hosts,
                # One host lost is the replica lost: the rest hold a broken collective.
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": _pod_template(contract, model, role_name, workload),
                "workerTemplate": _pod_template(contract, model, role_name, workload, worker=True),
            },
        },
    }


def _pod_template(
    contract: PodContract,
    model: ModelSettings,
    role_name: RoleName,
    workload: WorkloadSettings,
    *,
    worker: bool = False,
) -> dict[str, Any]:
    spec: dict[str, Any] = {
        **contract.pod_spec(),
        # A Service named vllm would set VLLM_PORT=tcp://..., which vLLM reads as its own setting.
        "enableServiceLinks": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(contract, model, role_name, workload, worker)],
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": workload.shared_memory}}],
    }
    if workload.service_account:
        spec["serviceAccountName"] = workload.service_account
    else:
        spec["automountServiceAccountToken"] = False
    if workload.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in workload.image_pull_secrets]
    return {"metadata": contract.pod_metadata(), "spec": spec}


def _container(
    contract: PodContract, model: ModelSettings, role_name: RoleName, workload: WorkloadSettings, worker: bool
) -> dict[str, Any]:
    start = launch(model, role_name, workload, worker=worker)
    drain = (
        drain_command(model, start.metrics_path, workload.port)
        if start.metrics_path
        else ["sleep", str(DEREGISTRATION_SECONDS)]
    )
    devices = dict(contract.devices)
    container: dict[str, Any] = {
        "name": model.engine.name,
        "image": workload.image,
        "command": list(start.command),
        "args": list(start.args),
        "env": [*start.env, *({"name": name, "value": value} for name, value in workload.env.items())],
        "ports": [{"name": name, "containerPort": port} for name, port in start.ports.items()],
        "resources": {
            # No CPU limit: throttling the engine's host threads stalls every GPU of the pod.
            "requests": {"cpu": workload.cpu, "memory": workload.memory, **devices},
            "limits": {"memory": workload.memory, **devices},
        },
        "securityContext": _security(contract),
        "lifecycle": {"preStop": {"exec": {"command": drain}}},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }
    if worker:
        del container["ports"]  # a worker host serves nothing: no port, no probe
    else:
        container |= _probes(contract)
    if not container["env"]:
        del container["env"]
    return container


def _probes(contract: PodContract) -> dict[str, Any]:
    """All three engines open their port once the weights are loaded; until then only the startup probe counts.

    Without it, the liveness probe restarts a pod that is still loading (kserve #5062).
    """
    return {
        "startupProbe": _health(PROBE_PERIOD_SECONDS, contract.startup_failures),
        "readinessProbe": _health(5, 3),
        # A restart costs a cold start, so a busy engine gets a minute before it counts as dead.
        "livenessProbe": _health(PROBE_PERIOD_SECONDS, 60 // PROBE_PERIOD_SECONDS),
    }


def _health(period: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": "/health", "port": "http"},
        "timeoutSeconds": 5,
        "periodSeconds": period,
        "failureThreshold": failures,
    }


def _security(contract: PodContract) -> dict[str, Any]:
    """Engine images run as root and hold their files as root, so no runAsNonRoot; capabilities they need none of,
    except to pin memory for EFA."""
    capabilities: dict[str, list[str]] = {"drop": ["ALL"]}
    if labels.EFA in contract.devices:
        capabilities["add"] = ["IPC_LOCK"]
    return {"allowPrivilegeEscalation": False, "capabilities": capabilities}


def _owner_metadata(contract: PodContract) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": contract.name,
        "namespace": contract.namespace,
        "labels": dict(contract.owner_labels),
    }
    if contract.owner_annotations:
        metadata["annotations"] = dict(contract.owner_annotations)
    return metadata


def _identity(contract: PodContract) -> dict[str, str]:
    return {key: contract.labels[key] for key in (labels.APP, labels.MODEL, labels.ROLE)}
