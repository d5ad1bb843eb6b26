"""GPU node pools. A pool's purpose decides how its nodes may be disrupted; an explicit block may only be as safe or safer."""

from typing import Annotated, Literal

from pydantic import Field

from triplane.settings.base import Settings
from triplane.settings.values import GpuCount, Name, PositiveDuration, Quantity, TimeOfDay

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
Purpose = Literal["serving", "training", "batch"]


class NodeCount(Settings):
    """How many nodes a pool may have."""

    max: int = Field(ge=1, le=10_000, strict=True)
    """Limit in whole nodes. Karpenter has no default limit."""
    static: int | None = Field(default=None, ge=1, strict=True)
    """Keep exactly this many nodes (warm capacity). Needs the gate StaticCapacity, and max above it for drift."""


class CapacitySettings(Settings):
    """Where nodes may come from. Reservations first, then the fallback; without one, reservations only."""

    reserved: tuple[Annotated[str, Field(pattern=r"^cr-[0-9a-z]+$")], ...] = ()
    """On-demand capacity reservations, by id."""
    blocks: tuple[Annotated[str, Field(pattern=r"^cr-[0-9a-z]+$")], ...] = ()
    """Capacity Blocks for ML, by id. EC2 takes the nodes back 30 minutes before the block's end."""
    fallback: Literal["on-demand", "spot"] | None = None
    """What to buy when the reservations are full. spot only for purpose batch."""


class MaintenanceWindow(Settings):
    """When nodes may be replaced for drift (a new AMI, a changed NodeClass), one at a time. Outside it: none."""

    days: tuple[Day, ...] = Field(min_length=1)
    start: TimeOfDay = Field(alias="from")
    end: TimeOfDay = Field(alias="to")
    """In UTC, as Karpenter's schedules are. An end before the start is on the next day."""


class DisruptionSettings(Settings):
    """Overrides of what the purpose sets. Only towards safer; the policy itself (WhenEmpty) has no switch."""

    consolidate_after: PositiveDuration | Literal["Never"] | None = None
    """How long a node stays empty before it is removed."""
    expire_after: PositiveDuration | Literal["Never"] | None = None
    """Age at which Karpenter forcefully replaces a node, outside every budget."""
    termination_grace_period: PositiveDuration | None = None
    """Longest drain of a node; it overrides do-not-disrupt and PodDisruptionBudgets."""


class StorageSettings(Settings):
    """Room for an image and a model's weights. The AWS default is a 20 GiB root volume beside 30 TB of unused NVMe."""

    local_nvme: bool = True
    """Join the instance's NVMe disks (RAID0) and use them for images and ephemeral storage, where it has any."""
    root_volume: Quantity = "200Gi"
    """Size of the root volume (of Bottlerocket: of the data volume)."""


class TaintSettings(Settings):
    """A taint in Kubernetes' own words."""

    key: str = Field(min_length=1, max_length=316)
    value: str | None = None
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"] = "NoSchedule"


class NodeClassReference(Settings):
    """An existing NodeClass that this stack does not own."""

    group: str = Field(min_length=1)
    kind: str = Field(min_length=1)
    name: str = Field(min_length=1)


class PoolSettings(Settings):
    """One GPU NodePool and its NodeClass."""

    purpose: Purpose
    """serving: WhenEmpty after 1h, no expiry; training: no drift under a job; batch: may be spot, may expire."""
    accelerator: str
    """The GPU in people's words, such as H100-SXM5 or L4: see `triplane.catalog`."""
    gpus_per_node: GpuCount
    zones: tuple[str, ...] = ()
    """Availability zones; none: any of the region. A pool with EFA or a placement group has exactly one."""
    nodes: NodeCount
    capacity: CapacitySettings = CapacitySettings(fallback="on-demand")
    ami: str | None = Field(default=None, pattern=r"^(al2023|bottlerocket)@v[0-9][0-9A-Za-z.]*$")
    """Pinned AMI alias, such as al2023@v20261115. `latest` would drift every node at each release."""
    efa: bool = False
    """Elastic Fabric Adapter on every node, for gangs over several nodes and KV transfer."""
    placement_group: str | None = None
    """Name of a cluster placement group."""
    maintenance: MaintenanceWindow | None = None
    topology: tuple[Literal["zone", "host"] | Annotated[str, Field(pattern=r"^[a-z0-9./-]+/[A-Za-z0-9._-]+$")], ...] = ()
    """Levels for KAI's topology-aware placement, widest first: zone, host, or a node label key."""
    disruption: DisruptionSettings = DisruptionSettings()
    storage: StorageSettings = StorageSettings()
    labels: dict[str, str] = {}
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
    tags: dict[str, str] = {}
    """Cloud tags on the instances and volumes."""

