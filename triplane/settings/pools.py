"""GPU node pools. A pool's purpose decides how its nodes may be disrupted; a block may only be as safe or safer."""

import datetime as dt
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, WithJsonSchema

from triplane.settings.base import Settings
from triplane.settings.values import (
    Flag,
    Form,
    GpuCount,
    LabelKey,
    LabelValue,
    Name,
    NodeDuration,
    NodeDurationOrNever,
    PositiveDuration,
    TimeOfDay,
    label_key,
    quantity_value,
)


def _topology_level(value: Any) -> str:
    if value in ("zone", "host"):
        return str(value)
    if not isinstance(value, str) or "/" not in value:
        raise ValueError("a level is zone, host, or a node label key such as topology.example.com/rack")
    return label_key(value)


TopologyLevel = Annotated[
    str, PlainValidator(_topology_level), WithJsonSchema({"type": "string", "examples": ["zone", "host"]})
]
"""A level of placement: zone, host, or the key of a node label."""


def _volume_size(value: Any) -> str:
    size = quantity_value(value) / 2**30 if isinstance(value, str) else Decimal(0)
    if size % 1 or not 1 <= size <= 59_000:  # the bounds of EC2NodeClass's own schema
        raise ValueError("must be a volume size such as 200Gi, at most 59000Gi")
    return str(value)


VolumeSize = Annotated[
    str,
    PlainValidator(_volume_size),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]+(Gi|Ti)$", "examples": ["200Gi"]}),
]
"""Size of a volume in whole GiB."""

AmiAlias = Annotated[
    str,
    Form(r"(al2023|bottlerocket)@v[0-9][0-9A-Za-z.]{0,15}", "a pinned alias such as al2023@v20261115, never @latest"),
]
"""A family and a release of it."""

ReservationId = Annotated[str, Form(r"cr-[0-9a-z]+", "the id of a capacity reservation such as cr-0a1b2c3d")]

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
Purpose = Literal["serving", "training", "batch"]


KEEP_EMPTY_NODE: dict[Purpose, dt.timedelta] = {
    # Longer than a scaler's way down and up again, so that a dip in traffic does not buy the node twice.
    "serving": dt.timedelta(hours=1),
    # The first nodes of a gang wait empty for its last one (kubernetes-sigs/karpenter#3185).
    "training": dt.timedelta(minutes=30),
    "batch": dt.timedelta(minutes=15),
}
"""How long a purpose keeps an empty node at least; left out, it is consolidateAfter itself."""


class NodeCount(Settings):
    """How many nodes a pool may have."""

    max: int = Field(ge=1, le=10_000, strict=True)
    """Limit in whole nodes. Karpenter has no default limit."""
    static: int | None = Field(default=None, ge=1, le=10_000, strict=True)
    """Keep exactly this many nodes (warm capacity). Needs the gate StaticCapacity, and max above it for drift."""


class CapacitySettings(Settings):
    """Where nodes may come from. Reservations first, then the fallback; without one, reservations only."""

    reserved: tuple[ReservationId, ...] = ()
    """On-demand capacity reservations, by id."""
    blocks: tuple[ReservationId, ...] = ()
    """Capacity Blocks for ML, by id. EC2 takes the nodes back 30 minutes before the block's end."""
    fallback: Literal["on-demand", "spot"] | None = None
    """What to buy when the reservations are full. spot only for purpose batch."""


class MaintenanceWindow(Settings):
    """When nodes may be replaced for drift (a new AMI, a changed NodeClass), one at a time. Outside it: none."""

    days: tuple[Day, ...] = Field(min_length=1, max_length=7)
    """Days in UTC on which the window opens."""
    start: TimeOfDay = Field(alias="from")
    """In UTC, as Karpenter's schedules are."""
    end: TimeOfDay = Field(alias="to")
    """In UTC. An end before the start is on the next day; equal to it, the window lasts 24 hours."""


class DisruptionSettings(Settings):
    """Overrides of what the purpose sets. Only towards safer; the policy itself (WhenEmpty) has no switch."""

    consolidate_after: NodeDurationOrNever | None = None
    """How long a node stays empty before it is removed."""
    expire_after: NodeDurationOrNever | None = None
    """Age at which Karpenter forcefully replaces a node, outside every budget."""
    termination_grace_period: NodeDuration | None = None
    """Longest drain of a node; it overrides do-not-disrupt and PodDisruptionBudgets."""


class StorageSettings(Settings):
    """Room for an image and a model's weights. The AWS default is a 20 GiB root volume beside 30 TB of unused NVMe."""

    local_nvme: Flag = True
    """Join the instance's NVMe disks (RAID0) and use them for images and ephemeral storage, where it has any."""
    root_volume: VolumeSize = "200Gi"
    """Size of the root volume (of Bottlerocket: of the data volume)."""


class TaintSettings(Settings):
    """A taint in Kubernetes' own words."""

    key: LabelKey
    """Such as example.com/dedicated."""
    value: LabelValue | None = None
    """Left out: empty."""
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"] = "NoSchedule"
    """What happens to pods that do not tolerate it."""


class NodeClassReference(Settings):
    """An existing NodeClass that this stack does not own."""

    group: Annotated[str, Form(r"[^/\s]+", "an API group such as karpenter.k8s.aws")]
    """API group, such as karpenter.k8s.aws."""
    kind: Annotated[str, Form(r"[A-Z][A-Za-z0-9]*", "a kind such as EC2NodeClass")]
    """Such as EC2NodeClass."""
    name: Name
    """The object's name."""


class PoolSettings(Settings):
    """One GPU NodePool and its NodeClass."""

    purpose: Purpose
    """serving: WhenEmpty after 1h, no expiry; training: no drift under a job; batch: may be spot, may expire."""
    accelerator: str
    """The GPU in people's words, such as H100-SXM5 or L4: see `triplane.catalog`."""
    gpus_per_node: GpuCount
    """GPUs of one node: with the accelerator it decides the instance type."""
    zones: tuple[LabelValue, ...] = ()
    """Availability zones; none: any of the region. A pool with EFA or a placement group has exactly one."""
    nodes: NodeCount
    """How many nodes the pool may have."""
    capacity: CapacitySettings = CapacitySettings(fallback="on-demand")
    """Where nodes come from; left out: on-demand."""
    ami: AmiAlias | None = None
    """Pinned AMI alias, such as al2023@v20261115. `latest` would drift every node at each release."""
    efa: Flag = False
    """Elastic Fabric Adapter on every node, for gangs over several nodes and KV transfer."""
    placement_group: str | None = Field(default=None, min_length=1)
    """Name of a cluster placement group."""
    maintenance: MaintenanceWindow | None = None
    """When nodes may be replaced for drift; left out: never."""
    topology: tuple[TopologyLevel, ...] = Field(default=(), max_length=16)
    """Levels for KAI's topology-aware placement, widest first: zone, host, or a node label key."""
    disruption: DisruptionSettings = DisruptionSettings()
    """Overrides of what the purpose sets, towards safer only."""
    storage: StorageSettings = StorageSettings()
    """Disks of a node."""
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    """Further labels on every node of the pool."""
    taints: tuple[TaintSettings, ...] = ()
    """Further taints; nvidia.com/gpu:NoSchedule is always there."""
    startup_taints: tuple[TaintSettings, ...] = ()
    """Taints that an agent removes when the node is ready."""
    weight: int | None = Field(default=None, ge=1, le=100, strict=True)
    """Karpenter's preference among pools that fit; a preference only."""
    shard: Name | None = None
    """KAI scheduling shard (kai.scheduler/node-pool) that these nodes belong to."""
    node_class: NodeClassReference | None = None
    """Use an existing NodeClass instead of declaring one."""
    longest_job: PositiveDuration | None = None
    """Longest job on the pool; bounds a finite expireAfter."""
    tags: dict[Annotated[str, Field(min_length=1)], str] = Field(default_factory=dict)
    """Cloud tags on the instances and volumes."""

    @property
    def gpus(self) -> int:
        """GPUs of the pool at its node limit."""
        return self.nodes.max * self.gpus_per_node
