"""KAI queues: a tree of guarantees (quota), caps (limit) and shares of what is left (weight), in whole GPUs."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from triplane.settings.base import Settings
from triplane.settings.values import Duration, Name, Quantity


def _unlimited(value: Any) -> Any:
    return "unlimited" if value == -1 and not isinstance(value, bool) else value


GpuAmount = Annotated[
    Annotated[int, Field(ge=0, strict=True)] | Literal["unlimited"],
    BeforeValidator(_unlimited),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": -1}, {"const": "unlimited"}]}),
]
"""Whole GPUs; `unlimited` (or -1) for no bound."""

ResourceAmount = Annotated[Quantity | Literal["unlimited"], BeforeValidator(_unlimited)]
"""CPU or memory as Kubernetes writes it; `unlimited` (or -1) for no bound."""


class GpuShare(Settings):
    """What a queue may use of the GPUs."""

    quota: GpuAmount
    """Guaranteed. Non-preemptible pods may use nothing beyond it."""
    limit: GpuAmount | None = None
    """Hard cap; left out: the quota. (KAI's own default is 0, which blocks every pod.)"""
    weight: int = Field(default=1, ge=0, strict=True)
    """Share of idle GPUs above the quota, relative to sibling queues."""


class ResourceShare(Settings):
    """What a queue may use of CPU or memory. Left out: unlimited, so that GPUs alone decide."""

    quota: ResourceAmount = "unlimited"
    limit: ResourceAmount = "unlimited"
    weight: int = Field(default=1, ge=0, strict=True)


class MinRuntime(Settings):
    """How long a workload runs before KAI may evict it for another."""

    preempt: Duration | None = None
    """Against a higher priority in the same queue."""
    reclaim: Duration | None = None
    """Against another queue that claims its share."""


class QueueSettings(Settings):
    """One queue. Only leaves take workloads."""

    gpus: GpuShare
    cpu: ResourceShare = ResourceShare()
    memory: ResourceShare = ResourceShare()
    priority: int = Field(default=100, ge=0, strict=True)
    """Order among siblings for idle GPUs: higher first. Not the priority of a workload."""
    min_runtime: MinRuntime = MinRuntime()
    shard: Name | None = None
    """KAI scheduling shard; must be that of the pools its pods land on."""
    display_name: str | None = None
    children: dict[Name, "QueueSettings"] = {}
