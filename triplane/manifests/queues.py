"""KAI objects: the queue tree, the scheduling shards it is split into, and the topologies that gangs are placed by.

Every resource block is written out in full. KAI's Queue has no schema defaults, and an omitted limit means 0, which
blocks every pod; a CPU or memory share of 0 also stops a queue from reclaiming GPUs, since KAI compares all three.

No PriorityClass is declared here: KAI's chart ships train (50), build-preemptible (75), build (100) and inference
(125), and whether a workload may be preempted is said by its label (KAI 0.10), not by a lower priority.
"""

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from triplane import catalog
from triplane.manifests import labels
from triplane.manifests.identity import ManifestError
from triplane.settings.platform import PlatformSettings
from triplane.settings.pools import PoolSettings
from triplane.settings.queues import QueueSettings, ResourceShare
from triplane.settings.values import format_duration, quantity_value

Number = int | float

UNLIMITED = -1
"""KAI tests for exactly this number; any other negative GPU or CPU limit is taken literally."""

DEFAULT_SHARD = "default"
"""Name of the SchedulingShard that KAI's chart declares, for objects without a shard label."""

LEVEL_LABELS: Mapping[str, str] = {"zone": labels.ZONE, "host": labels.HOST}
"""Level names of the stack file that stand for a well-known node label. Any other level is a label key itself."""


def queue_manifests(
    queues: Mapping[str, QueueSettings], pools: Mapping[str, PoolSettings], platform: PlatformSettings
) -> list[dict[str, Any]]:
    """SchedulingShards, Topologies, then the Queues with every parent before its children.

    Raises ManifestError for a tree that KAI would accept and then never schedule from: two queues of one name, a child
    in another shard than its parent, a shard named like KAI's own, and, below KAI 0.13, any depth but parent and leaf.
    """
    placed = list(_placed(queues))
    _refuse_unschedulable(placed, platform.kai.version)
    shards = {p.shard for p in pools.values() if p.shard} | {q.shard for q in placed if q.shard}
    if DEFAULT_SHARD in shards:
        raise ManifestError(f"shard {DEFAULT_SHARD} is the one KAI's chart declares; leave the shard out to be in it")
    level_lists = {levels for p in pools.values() if (levels := topology_levels(p.topology))}
    return [
        *(_shard(name) for name in sorted(shards)),
        *(_topology(levels, platform.kai.version) for levels in sorted(level_lists)),
        *(_queue(queue) for queue in placed),
    ]


def topology_levels(topology: Sequence[str]) -> tuple[str, ...]:
    """Levels of a pool as node labels, widest first: `("zone", "host")` -> the zone and the hostname label.

    Raises ManifestError where KAI's Topology would be refused: a level twice, or the host above another level.
    """
    levels = tuple(LEVEL_LABELS.get(level, level) for level in topology)
    if len(set(levels)) < len(levels):
        raise ManifestError(f"topology {list(topology)}: each level once")
    if labels.HOST in levels[:-1]:
        raise ManifestError(f"topology {list(topology)}: host is the narrowest level and comes last")
    return levels


def topology_name(topology: Sequence[str]) -> str:
    """Name of the Topology for a pool's levels: `zone-host`, or `zone-rack-host-1a2b3c` with labels of one's own.

    The levels of a Topology cannot be changed, so other levels must give another name. Equal levels share one.
    """
    levels = topology_levels(topology)
    short = {label: name for name, label in LEVEL_LABELS.items()}
    words = [
        short.get(level) or re.sub(r"[^a-z0-9]+", "-", level.rsplit("/", 1)[-1].lower()).strip("-") for level in levels
    ]
    if any(level not in short for level in levels):  # two labels may end alike: example.com/rack, other.com/rack
        words.append(hashlib.sha256("\n".join(levels).encode()).hexdigest()[:6])
    return "-".join(words)


@dataclass(frozen=True)
class _Placed:
    """A queue with its place in the tree."""

    name: str
    settings: QueueSettings
    parent: "_Placed | None"

    @property
    def shard(self) -> str | None:
        """A child belongs to its parent's shard: a shard that sees one without the other drops it as an orphan."""
        return self.settings.shard or (self.parent.shard if self.parent else None)

    @property
    def depth(self) -> int:
        return 1 + (self.parent.depth if self.parent else 0)


def _placed(queues: Mapping[str, QueueSettings], parent: _Placed | None = None) -> Iterator[_Placed]:
    for name, settings in queues.items():
        queue = _Placed(name, settings, parent)
        yield queue
        yield from _placed(settings.children, queue)


def _refuse_unschedulable(placed: Sequence[_Placed], kai_version: str) -> None:
    seen: set[str] = set()
    for queue in placed:
        if queue.name in seen:
            raise ManifestError(
                f"queue {queue.name} is declared twice: Queues are cluster-scoped, whatever their parent"
            )
        seen.add(queue.name)
        if queue.parent and queue.shard != queue.parent.shard:
            raise ManifestError(
                f"queue {queue.name} is in shard {queue.shard}, its parent {queue.parent.name} in {queue.parent.shard}"
            )
        if not catalog.supports("kai", kai_version, "nested-queues") and queue.depth != (
            1 if queue.settings.children else 2
        ):
            raise ManifestError(
                f"queue {queue.name}: KAI {kai_version} schedules from exactly two levels, a parent and its leaves; "
                "any depth needs 0.13"
            )


def _queue(queue: _Placed) -> dict[str, Any]:
    settings = queue.settings
    metadata: dict[str, Any] = {"name": queue.name}
    if queue.shard:
        metadata["labels"] = {labels.SHARD: queue.shard}
    spec: dict[str, Any] = {}
    if settings.display_name:
        spec["displayName"] = settings.display_name
    if queue.parent:
        spec["parentQueue"] = queue.parent.name
    spec["priority"] = settings.priority
    # Left out, these inherit up the tree and end at the shard's 0s. Writing the default would cut that inheritance.
    if settings.min_runtime.preempt is not None:
        spec["preemptMinRuntime"] = format_duration(settings.min_runtime.preempt)
    if settings.min_runtime.reclaim is not None:
        spec["reclaimMinRuntime"] = format_duration(settings.min_runtime.reclaim)
    gpus = settings.gpus
    spec["resources"] = {
        "gpu": {
            "quota": _gpus(gpus.quota),
            "limit": _gpus(gpus.quota if gpus.limit is None else gpus.limit),
            "overQuotaWeight": gpus.weight,
        },
        "cpu": _share(settings.cpu, millicores),
        "memory": _share(settings.memory, megabytes),
    }
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": metadata, "spec": spec}


def _gpus(amount: int | str) -> int:
    return UNLIMITED if isinstance(amount, str) else amount


def _share(share: ResourceShare, unit: Any) -> dict[str, Number]:
    return {
        "quota": UNLIMITED if share.quota == "unlimited" else unit(share.quota),
        "limit": UNLIMITED if share.limit == "unlimited" else unit(share.limit),
        "overQuotaWeight": share.weight,
    }


def millicores(quantity: str) -> Number:
    """KAI's unit of CPU: `16` -> 16000, `500m` -> 500."""
    return _number(quantity_value(quantity) * 1000)


def megabytes(quantity: str) -> Number:
    """KAI's unit of memory, 10^6 bytes: `64Gi` -> 68719.476736, `64G` -> 64000.

    KAI multiplies by 10^6 in floating point and compares exactly, so the number is the smallest that gives back at
    least the bytes asked for: a pod of 64Gi fits a limit of 64Gi.
    """
    size = quantity_value(quantity)
    number = _number(size / 10**6)
    while Decimal(number * 1e6) < size:
        number = math.nextafter(number, math.inf)
    return number


def _number(value: Decimal) -> Number:
    return int(value) if value == value.to_integral_value() else float(value)


def _shard(name: str) -> dict[str, Any]:
    """A shard of its own beside KAI's `default`, which takes nodes, queues and pods without the shard label."""
    return {
        "apiVersion": "kai.scheduler/v1",
        "kind": "SchedulingShard",
        "metadata": {"name": name},
        # Binpack keeps whole nodes free for gangs and lets others run empty, which is when Karpenter removes them.
        "spec": {"partitionLabelValue": name, "placementStrategy": {"gpu": "binpack", "cpu": "binpack"}},
    }


def _topology(levels: tuple[str, ...], kai_version: str) -> dict[str, Any]:
    short = {label: name for name, label in LEVEL_LABELS.items()}
    with_aliases = catalog.supports("kai", kai_version, "topology-aliases")
    return {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": topology_name(levels)},
        "spec": {
            "levels": [
                {"nodeLabel": level, **({"alias": short[level]} if with_aliases and level in short else {})}
                for level in levels
            ]
        },
    }
