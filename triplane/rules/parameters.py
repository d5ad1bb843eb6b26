"""What a judgement must be told about an environment: one flat set of parameters, each with a default.

Standard-library dataclass on purpose: a check with the defaults must not pay for pydantic. `schema` and `validated`
load it when a configuration is read.
"""

from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Literal

from triplane.inventory import Resource
from triplane.inventory.fields import duration


class Duration(float):
    """Seconds, written as Go writes a duration: "12m", "1h30m"."""

    def __new__(cls, value: "str | float") -> "Duration":
        seconds = duration(value) if isinstance(value, str) else float(value)
        if seconds is None or seconds < 0:
            raise ValueError(f"{value!r} is no duration: write it as 90s, 12m or 1h30m")
        return super().__new__(cls, seconds)

    def __str__(self) -> str:
        return written_duration(self)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            cls, json_schema_input_schema=core_schema.str_schema(pattern=r"^([0-9]+(\.[0-9]+)?(s|m|h))+$"),
            serialization=core_schema.to_string_ser_schema(),
        )  # fmt: skip


def written_duration(seconds: float) -> str:
    """Seconds as people write them: 5400 -> "1h30m"."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    parts = [f"{amount}{unit}" for amount, unit in ((hours, "h"), (minutes, "m"), (rest, "s")) if amount]
    return "".join(parts) or "0s"


_TWELVE_MINUTES = Duration("12m")
_TWO_MINUTES = Duration("2m")
_NOTHING = Duration("0s")
_ONE_HOUR = Duration("1h")


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Facts about the environment that no manifest says. Names are those of the configuration file."""

    __pydantic_config__ = {"extra": "forbid", "use_attribute_docstrings": True}  # noqa: RUF012 - read by pydantic

    karpenter: str = "1.14"
    """Version of Karpenter in the cluster."""
    keda: str = "2.20"
    """Version of KEDA in the cluster."""
    kai: str = "0.17"
    """Version of KAI Scheduler in the cluster."""
    kubernetes: str = "1.34"
    """Version of Kubernetes."""
    vllm_version: str = ""
    """Version of vLLM where no image tag says it; empty: unknown."""
    cold_start: Duration = _TWELVE_MINUTES
    """From an unschedulable pod to its first token: node launch, image pull and loading the model."""
    min_consolidate_after: Duration = _ONE_HOUR
    """The shortest consolidateAfter of a GPU pool."""
    consolidation_allowed_label: str = ""
    """Node label `key=value` of pools that may be consolidated while in use: stateless batch work. Empty: none."""
    min_root_volume_gib: int = 200
    """Room on a GPU node's disk for an image and a model's weights, where no local NVMe is used."""
    min_termination_grace: Duration = _TWO_MINUTES
    """How long the longest answer takes to finish once a pod is told to stop."""
    min_node_grace: Duration = _ONE_HOUR
    """The shortest terminationGracePeriod of a serving GPU pool: it ends pods whatever their disruption budget says."""
    karpenter_gates: tuple[str, ...] = ()
    """Feature gates that are on in Karpenter, such as `NodeRepair`, beside those a Helm release of the input sets."""
    batch_label: str = ""
    """Label `key=value` of batch work, which may wait and may be preempted. Empty: none."""
    spot_allowed_label: str = ""
    """Node label `key=value` of pools whose work survives an interruption, such as checkpointed training."""
    slo: tuple[str, ...] = ()
    """Workloads that serve under an SLO, as `Kind/name`; * stands for anything."""
    gangs: tuple[str, ...] = ()
    """Workloads whose pods only make sense together, as `Kind/name`."""
    pinned: tuple[str, ...] = ()
    """Scalers whose bounds are equal on purpose, as `Kind/name`."""
    external: tuple[str, ...] = ()
    """Objects that exist but are not in the input, as `Kind/name`: references to them are not missing."""
    prod_queues: tuple[str, ...] | None = None
    """Queues that must have numbers for quota and limit; unset: every leaf in production."""
    missing_references: Literal["unknown", "fail"] = "unknown"
    """What to say of a reference to an object that is neither in the input nor listed as external."""
    instance_table: dict[str, dict[str, float]] = field(default_factory=dict)
    """Instance types beside the catalogue's: name to resources, `{g7e.12xlarge: {nvidia.com/gpu: 2}}`."""
    gpu_taint_keys: tuple[str, ...] = ("nvidia.com/gpu", "amd.com/gpu")
    """Taint keys that keep other pods off GPU nodes."""
    other_gpus: int = 0
    """GPUs on nodes that no NodePool makes, such as a managed node group's."""
    topology_domains: dict[str, int] = field(default_factory=dict)
    """GPUs in the largest domain of a topology level, by node label: `{cloud.provider.com/topology-rack: 32}`."""
    overcommit: float = 1.0
    """How far the maxima of all scalers together may exceed the pools, where peaks never coincide: 1.5 is half more."""
    vcpu_quotas: dict[str, int] = field(default_factory=dict)
    """EC2 on-demand vCPU quotas by the first letters of instance types: `{p: 1152, g: 768}`. Empty: not known."""
    burst_budget: Duration = _NOTHING
    """How long a burst may wait for further replicas before the SLO is broken. 0s: not judged."""
    decode_per_prefill: tuple[float, ...] = ()
    """Smallest and largest ratio of decode to prefill replicas at their maxima: `[1, 3]`. Empty: not judged."""
    environment: str = "prod"
    """Name of the environment; rules for production only run in `prod`."""

    @classmethod
    def of(cls, written: dict[str, Any]) -> "Parameters":
        """Parameters as written in a file, over the defaults. Raises pydantic.ValidationError with every fault."""
        from pydantic import TypeAdapter

        return TypeAdapter(cls).validate_python(written)

    @staticmethod
    def lists(listed: tuple[str, ...], resource: Resource) -> bool:
        """Whether a list of `Kind/name` patterns names an object: `lists(parameters.gangs, workload.resource)`."""
        return any(fnmatchcase(f"{resource.kind_name}/{resource.name}", pattern) for pattern in listed)

    def is_external(self, kind: str, name: str) -> bool:
        """Whether an object (kind as kubectl writes it) is declared to live elsewhere."""
        return any(fnmatchcase(f"{kind.partition('.')[0]}/{name}", pattern) for pattern in self.external)

    @classmethod
    def names(cls) -> frozenset[str]:
        return _names()


@cache
def _names() -> frozenset[str]:
    return frozenset(parameter.name for parameter in fields(Parameters))
