"""KAI queues: a tree of guarantees (quota), caps (limit) and shares of what is left (weight), in whole GPUs."""

from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, WithJsonSchema

from triplane.settings.base import Settings
from triplane.settings.values import Duration, Name, quantity_value


def _gpus(value: Any) -> int | str:
    if value == "unlimited" or (value == -1 and not isinstance(value, bool)):
        return "unlimited"
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 1_000_000:
        raise ValueError("must be a whole number of GPUs, 0 or more, or unlimited")
    return value


def _amount(value: Any) -> str:
    if value == "unlimited" or (value == -1 and not isinstance(value, bool)):
        return "unlimited"
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str):
        raise ValueError("must be an amount such as 64, 500m or 256Gi, or unlimited")  # noqa: TRY004 - pydantic reports ValueError
    quantity_value(text)
    return text


GpuAmount = Annotated[
    int | Literal["unlimited"],
    PlainValidator(_gpus),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": -1}, {"const": "unlimited"}]}),
]
"""Whole GPUs; `unlimited` (or -1) for no bound."""

ResourceAmount = Annotated[
    str,
    PlainValidator(_amount),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": -1}, {"type": "string"}]}),
]
"""CPU or memory as Kubernetes writes it; `unlimited` (or -1) for no bound."""


class GpuShare(Settings):
    """What a queue may use of the GPUs."""

    quota: GpuAmount
    """Guaranteed. Non-preemptible pods may use nothing beyond it."""
    limit: GpuAmount | None = None
    """Hard cap; left out: the quota. (KAI's own default is 0, which blocks every pod.)"""
    weight: int = Field(default=1, ge=0, le=1_000_000, strict=True)
    """Share of idle GPUs above the quota, relative to sibling queues."""


class ResourceShare(Settings):
    """What a queue may use of CPU or memory. Left out: unlimited, so that GPUs alone decide."""

    quota: ResourceAmount = "unlimited"
    """Guaranteed. Below need, the queue cannot claim its GPUs back either: KAI compares all three resources."""
    limit: ResourceAmount = "unlimited"
    """Hard cap."""
    weight: int = Field(default=1, ge=0, le=1_000_000, strict=True)
    """Share of what is idle above the quota, relative to sibling queues."""


class MinRuntime(Settings):
    """How long a workload runs before KAI may evict it for another."""

    preempt: Duration | None = None
    """Against a higher priority in the same queue."""
    reclaim: Duration | None = None
    """Against another queue that claims its share."""


class QueueSettings(Settings):
    """One queue. Only leaves take workloads."""

    gpus: GpuShare
    """Guarantee, cap and share of GPUs."""
    cpu: ResourceShare = ResourceShare()
    """CPU cores; left out: unlimited."""
    memory: ResourceShare = ResourceShare()
    """Memory; left out: unlimited."""
    priority: int = Field(default=100, ge=0, le=1_000_000, strict=True)
    """Order among siblings for idle GPUs: higher first. Not the priority of a workload."""
    min_runtime: MinRuntime = MinRuntime()
    """How long workloads of this queue run before others may take their GPUs."""
    shard: Name | None = None
    """KAI scheduling shard; must be that of the pools its pods land on."""
    display_name: str | None = Field(default=None, min_length=1)
    """Name in KAI's messages, in place of the queue's."""
    children: dict[Name, "QueueSettings"] = Field(default_factory=dict)
    """Queues below this one. Names are unique in the whole tree: KAI's queues are cluster-scoped."""

    @property
    def gpu_limit(self) -> int | Literal["unlimited"]:
        """The cap in force: the limit, or the quota where no limit is written."""
        return self.gpus.quota if self.gpus.limit is None else self.gpus.limit
