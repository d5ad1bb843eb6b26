"""Models to serve: engine, objective and cold start, and one autoscaled role each for prefill and decode."""

from typing import Literal

from pydantic import Field

from triplane.settings.base import Settings
from triplane.settings.values import GpuCount, Name, Percentage, PositiveDuration, Quantity, Version

RoleName = Literal["prefill", "decode", "aggregated"]


class EngineSettings(Settings):
    """The serving engine. Its version decides which metric names exist."""

    name: Literal["vllm", "sglang", "trtllm"] = "vllm"
    version: Version


class ServiceObjective(Settings):
    """Latency a request should meet."""

    ttft_p99: PositiveDuration = Field(alias="ttftP99")
    """99th percentile of the time to first token."""
    itl_p99: PositiveDuration = Field(alias="itlP99")
    """99th percentile of the time between two tokens."""


class TrafficSettings(Settings):
    """The load a model is planned for."""

    requests_per_second: float = Field(gt=0)
    input_tokens: int = Field(ge=1, strict=True)
    """Mean prompt length."""
    output_tokens: int = Field(ge=1, strict=True)
    """Mean answer length."""


class ReplicaRange(Settings):
    """Bounds of a role's autoscaler. Both explicit: KEDA's own defaults are 0 and 100."""

    min: int = Field(ge=0, strict=True)
    """Floor. 0 only where the model has no SLO."""
    max: int = Field(ge=1, strict=True)


class WvaSignal(Settings):
    """llm-d Workload Variant Autoscaler computes the replicas (deprecated upstream since 0.9; kept for those who run it)."""

    variant_cost: float = Field(ge=0)
    """GPUs per replica times price, in any one unit."""


class SignalSettings(Settings):
    """What a role scales on: exactly one measure of waiting work or of KV cache. None of them is a duty cycle."""

    backlog: PositiveDuration | None = None
    """Prefill: seconds of queued prompt work per replica, from in-flight tokens (EPP); needs tokensPerSecond."""
    tokens_per_second: float | None = Field(default=None, gt=0)
    """Prefill rate of one replica, measured."""
    kv_usage: Percentage | None = None
    """Decode: KV cache in use, summed over the role's pods and divided by this target."""
    queue_depth: int | None = Field(default=None, ge=1, strict=True)
    """Requests waiting for capacity, per replica."""
    concurrency: int | None = Field(default=None, ge=1, strict=True)
    """Requests running, per replica."""
    flow_control_queue: int | None = Field(default=None, ge=1, strict=True)
    """Requests queued in the EPP, per replica; needs its flowControl gate and inferencePool."""
    inference_pool: Name | None = None
    """InferencePool that the EPP serves, for flowControlQueue."""
    wva: WvaSignal | None = None


class ObjectTarget(Settings):
    """An object with a scale subresource that somebody else declares."""

    api_version: str = Field(min_length=1)
    kind: str = Field(min_length=1)
    name: Name


class DynamoTarget(Settings):
    """A component of a DynamoGraphDeployment, scaled through its scaling adapter."""

    deployment: Name
    """The DynamoGraphDeployment."""
    component: str = Field(min_length=1)


class WorkloadSettings(Settings):
    """The serving workload itself, where this stack declares it: a Deployment, or a LeaderWorkerSet over several hosts."""

    image: str = Field(min_length=1)
    args: tuple[str, ...] = ()
    """Arguments of the engine."""
    env: dict[str, str] = {}
    cpu: Quantity = "8"
    memory: Quantity = "64Gi"
    port: int = Field(default=8000, ge=1, le=65535, strict=True)
    shared_memory: Quantity = "16Gi"
    """Size of /dev/shm, which NCCL needs."""
    termination_grace: PositiveDuration | None = None
    """Longest drain of a pod; left out: 10 minutes, or the longest that the pool allows."""
    service_account: Name | None = None
    image_pull_secrets: tuple[str, ...] = ()


class RoleSettings(Settings):
    """One role of a model: where its replicas run, how many, and what they scale on."""

    pool: Name
    queue: Name
    gpus: GpuCount
    """GPUs of one pod (tensor parallel)."""
    hosts: int = Field(default=1, ge=1, strict=True)
    """Pods of one replica. More than one: a gang, a LeaderWorkerSet group."""
    replicas: ReplicaRange
    surge: int = Field(default=0, ge=0, strict=True)
    """Replicas that a rollout may add above max; they count against the quota."""
    preemptible: bool = False
    """Preemptible replicas may use GPUs above the quota, and KAI may take them back at any time (no PDB protects them)."""
    signal: SignalSettings
    autoscaler: Literal["keda", "hpa"] = "keda"
    target: ObjectTarget | DynamoTarget | None = None
    """What to scale; left out: the workload of this role, or a Deployment named <model>-<role>."""
    workload: WorkloadSettings | None = None

    @property
    def gpus_per_replica(self) -> int:
        """GPUs of one replica over all its pods."""
        return self.gpus * self.hosts


class ModelSettings(Settings):
    """One model, served by one aggregated role or by prefill and decode."""

    model: str = Field(min_length=1)
    """Name of the weights, such as nvidia/Llama-3.3-70B-Instruct-FP8."""
    engine: EngineSettings
    namespace: Name
    slo: ServiceObjective | None = None
    cold_start: PositiveDuration
    """From no node to the first token. Sizes probes, windows, rate caps and headroom."""
    traffic: TrafficSettings | None = None
    served_name: str | None = None
    """The engine's served-model-name where it differs from the model."""
    roles: dict[RoleName, RoleSettings] = Field(min_length=1)
