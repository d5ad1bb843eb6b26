"""Models to serve: engine, objective and cold start, and one autoscaled role each for prefill and decode."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from triplane.settings.base import Settings
from triplane.settings.values import (
    Flag,
    Form,
    GpuCount,
    Name,
    Number,
    Percentage,
    PositiveDuration,
    PositiveNumber,
    Quantity,
    Version,
)

RoleName = Literal["prefill", "decode", "aggregated"]


class EngineSettings(Settings):
    """The serving engine. Its version decides which metric names exist."""

    name: Literal["vllm", "sglang", "trtllm"] = "vllm"
    """Which engine serves."""
    version: Version
    """Its release, such as "0.12.0"."""


class ServiceObjective(Settings):
    """Latency a request should meet."""

    ttft_p99: PositiveDuration = Field(alias="ttftP99")
    """99th percentile of the time to first token."""
    itl_p99: PositiveDuration = Field(alias="itlP99")
    """99th percentile of the time between two tokens."""


class TrafficSettings(Settings):
    """The load a model is planned for."""

    requests_per_second: PositiveNumber
    """Mean arrival rate."""
    input_tokens: int = Field(ge=1, le=100_000_000, strict=True)
    """Mean prompt length."""
    output_tokens: int = Field(ge=1, le=100_000_000, strict=True)
    """Mean answer length."""


class ReplicaRange(Settings):
    """Bounds of a role's autoscaler. Both explicit: KEDA's own defaults are 0 and 100."""

    min: int = Field(ge=0, le=10_000, strict=True)
    """Floor. 0 only where the model has no SLO."""
    max: int = Field(ge=1, le=10_000, strict=True)
    """Ceiling. With the surge it must fit the queue's quota."""


class WvaSignal(Settings):
    """Replicas from llm-d's Workload Variant Autoscaler: deprecated upstream since 0.9, kept for those who run it."""

    variant_cost: Number = Field(ge=0)
    """GPUs per replica times price, in any one unit."""


class SignalSettings(Settings):
    """What a role scales on: exactly one measure of waiting work or of KV cache. None of them is a duty cycle."""

    backlog: PositiveDuration | None = None
    """Prefill: seconds of queued prompt work per replica, from in-flight tokens (EPP); needs tokensPerSecond."""
    tokens_per_second: PositiveNumber | None = None
    """Prefill rate of one replica, measured."""
    kv_usage: Percentage | None = None
    """Decode: KV cache in use, summed over the role's pods and divided by this target."""
    queue_depth: int | None = Field(default=None, ge=1, le=1_000_000, strict=True)
    """Requests waiting for capacity, per replica."""
    concurrency: int | None = Field(default=None, ge=1, le=1_000_000, strict=True)
    """Requests running, per replica."""
    flow_control_queue: int | None = Field(default=None, ge=1, le=1_000_000, strict=True)
    """Requests queued in the EPP, per replica; needs its flowControl gate and inferencePool."""
    inference_pool: Name | None = None
    """InferencePool that the EPP serves, for flowControlQueue."""
    wva: WvaSignal | None = None
    """Replicas as llm-d WVA computes them."""


class ObjectTarget(Settings):
    """An object with a scale subresource that somebody else declares."""

    api_version: Annotated[str, Form(r"([a-z0-9.-]+/)?v[0-9][a-z0-9]*", "a group and version such as apps/v1")]
    """Such as apps/v1 or leaderworkerset.x-k8s.io/v1."""
    kind: Annotated[str, Form(r"[A-Z][A-Za-z0-9]*", "a kind such as Deployment")]
    """Such as Deployment or LeaderWorkerSet."""
    name: Name
    """The object's name, in the model's namespace."""


class DynamoTarget(Settings):
    """A component of a DynamoGraphDeployment, scaled through its scaling adapter."""

    deployment: Name
    """The DynamoGraphDeployment."""
    component: str = Field(min_length=1, max_length=63)
    """Name of the component."""


def _target_kind(value: Any) -> str:
    dynamo = (
        "deployment" in value or "component" in value if isinstance(value, dict) else isinstance(value, DynamoTarget)
    )
    return "dynamo" if dynamo else "object"


ScaleTarget = Annotated[
    Annotated[ObjectTarget, Tag("object")] | Annotated[DynamoTarget, Tag("dynamo")], Discriminator(_target_kind)
]
"""An object with a scale subresource (apiVersion, kind, name), or a Dynamo component (deployment, component)."""


class WorkloadSettings(Settings):
    """The serving workload, where this stack declares it: a Deployment, or a LeaderWorkerSet over several hosts."""

    image: Annotated[str, Form(r"\S+", "an image such as vllm/vllm-openai:v0.12.0")]
    """The engine's container image."""
    args: tuple[str, ...] = ()
    """Arguments of the engine."""
    env: dict[Annotated[str, Form(r"[-._a-zA-Z][-._a-zA-Z0-9]*", "the name of a variable such as HF_HOME")], str] = (
        Field(default_factory=dict)
    )
    """Environment variables of the engine. Secrets belong in a Secret that the pod reads."""
    cpu: Quantity = "8"
    """CPU of one pod."""
    memory: Quantity = "64Gi"
    """Memory of one pod."""
    port: int = Field(default=8000, ge=1, le=65535, strict=True)
    """Port of the engine's HTTP API."""
    shared_memory: Quantity = "16Gi"
    """Size of /dev/shm, which NCCL needs."""
    termination_grace: PositiveDuration | None = None
    """Longest drain of a pod; left out: 10 minutes, or the longest that the pool allows."""
    service_account: Name | None = None
    """ServiceAccount of the pods; left out: the namespace's default."""
    image_pull_secrets: tuple[Name, ...] = ()
    """Secrets for pulling the image."""


class RoleSettings(Settings):
    """One role of a model: where its replicas run, how many, and what they scale on."""

    pool: Name
    """The pool its pods land on."""
    queue: Name
    """The leaf queue its pods draw from."""
    gpus: GpuCount
    """GPUs of one pod (tensor parallel)."""
    hosts: int = Field(default=1, ge=1, le=1_000, strict=True)
    """Pods of one replica. More than one: a gang, a LeaderWorkerSet group."""
    replicas: ReplicaRange
    """Bounds of the autoscaler."""
    surge: int = Field(default=0, ge=0, le=10_000, strict=True)
    """Replicas that a rollout may add above max; they count against the quota."""
    preemptible: Flag = False
    """Replicas may use GPUs above the quota, and KAI may take them back at any time: no PDB protects them."""
    signal: SignalSettings
    """What the role scales on."""
    autoscaler: Literal["keda", "hpa"] = "keda"
    """keda: a ScaledObject; hpa: a HorizontalPodAutoscaler over an adapter's external metrics."""
    target: ScaleTarget | None = None
    """What to scale; left out: the workload of this role, or a Deployment named <model>-<role>."""
    workload: WorkloadSettings | None = None
    """The serving workload itself, where this stack declares it; left out: somebody else declares it."""

    @property
    def gpus_per_replica(self) -> int:
        """GPUs of one replica over all its pods."""
        return self.gpus * self.hosts


class ModelSettings(Settings):
    """One model, served by one aggregated role or by prefill and decode."""

    model: str = Field(min_length=1)
    """Name of the weights, such as nvidia/Llama-3.3-70B-Instruct-FP8."""
    engine: EngineSettings
    """What serves it."""
    namespace: Name
    """Where its pods run."""
    slo: ServiceObjective | None = None
    """Latency objective; with one, no role may scale to zero."""
    cold_start: PositiveDuration
    """From no node to the first token. Sizes probes, windows, rate caps and headroom."""
    traffic: TrafficSettings | None = None
    """The load it is planned for."""
    served_name: str | None = Field(default=None, min_length=1)
    """The engine's served-model-name where it differs from the model."""
    roles: dict[RoleName, RoleSettings] = Field(min_length=1)
    """prefill and decode together, or aggregated alone."""
