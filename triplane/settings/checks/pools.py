"""Pools: what hardware and release allow, and what a purpose means for disruption."""

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterator

from triplane import catalog
from triplane.documents import Path
from triplane.settings.declared import Declared
from triplane.settings.pools import KEEP_EMPTY_NODE, PoolSettings
from triplane.settings.values import format_duration
from triplane.settings.wording import Finding

# What only a NodeClass can carry, by the key in the stack file. With an existing NodeClass it would be dropped.
_OF_THE_NODE_CLASS = {
    "ami": ("ami",),
    "efa": ("efa",),
    "placement_group": ("placementGroup",),
    "storage": ("storage",),
    "tags": ("tags",),
}

_OWN_LABELS = re.compile(r"kubernetes\.io/hostname|nvidia\.com/gpu\.present|kai\.scheduler/node-pool|triplane\.dev/.*")
_CONTROLLERS_LABELS = re.compile(r"(.*\.)?(karpenter\.sh|karpenter\.k8s\.aws|eks\.amazonaws\.com)/.*")
_CONTROLLERS_TAGS = re.compile(r"eks:eks-cluster-name|kubernetes\.io/cluster.*|karpenter\.(sh|k8s\.aws)/.*")
_GPU_TAINT = "nvidia.com/gpu"
_CHARTS_SHARD = "default"
# docs.aws.amazon.com/eks/latest/userguide/auto-mode: the longest life of a node.
_AUTO_MODE_LIFETIME = dt.timedelta(days=21)


def accelerator_is_known(declared: Declared) -> Iterator[Finding]:
    """A name in the catalogue, and as many GPUs a node as some instance type has."""
    for name, pool in declared.pools.items():
        path = ("pools", name)
        try:
            counts = catalog.gpus_per_node(pool.accelerator)
        except catalog.UnknownName as error:
            known = "" if error.reason else f" Known: {', '.join(catalog.accelerators())}"
            yield Finding((*path, "accelerator"), f"{error}{'' if str(error).endswith('?') else '.'}{known}")
            continue
        if pool.gpus_per_node not in counts:
            choice = " or ".join(map(str, counts))
            message = f"no instance type has {pool.gpus_per_node} {pool.accelerator}. Set gpusPerNode: {choice}"
            yield Finding((*path, "gpusPerNode"), message)


def capacity_fits_purpose(declared: Declared) -> Iterator[Finding]:
    """Spot ends nodes at two minutes' notice, a Capacity Block at its end: only where a purpose can bear that."""
    for name, pool in declared.pools.items():
        path, capacity = ("pools", name, "capacity"), pool.capacity
        if not (capacity.reserved or capacity.blocks or capacity.fallback):
            yield Finding(path, "names no source of nodes. Set fallback: on-demand, or reserved: [cr-...]", at_key=True)
        if capacity.fallback == "spot" and pool.purpose != "batch":
            message = f"spot ends nodes at two minutes' notice, which purpose {pool.purpose} cannot bear. Set on-demand"
            yield Finding((*path, "fallback"), message)
        if capacity.blocks and pool.purpose == "serving" and capacity.fallback is None:
            message = (
                "a Capacity Block ends, and its nodes with it. Set fallback: on-demand beside it, or reserved: instead"
            )
            yield Finding((*path, "blocks"), message)
        for key, ids in (("reserved", capacity.reserved), ("blocks", capacity.blocks)):
            repeated = [item for item, times in Counter(ids).items() if times > 1]
            if repeated:
                yield Finding((*path, key), f"{repeated[0]} stands here twice: remove one")


def disruption_is_as_safe_as_the_purpose(declared: Declared) -> Iterator[Finding]:
    """A block may keep nodes longer than the purpose does, never shorter."""
    for name, pool in declared.pools.items():
        path, chosen = ("pools", name, "disruption"), pool.disruption
        floor = KEEP_EMPTY_NODE[pool.purpose]
        if isinstance(chosen.consolidate_after, dt.timedelta) and chosen.consolidate_after < floor:
            message = (
                f"{format_duration(chosen.consolidate_after)} is shorter than the {format_duration(floor)} that "
                f"purpose {pool.purpose} keeps an empty node. Set {format_duration(floor)} or longer, or Never"
            )
            yield Finding((*path, "consolidateAfter"), message)
        yield from _lifetime(path, pool)


def _lifetime(path: Path, pool: PoolSettings) -> Iterator[Finding]:
    expires, grace = pool.disruption.expire_after, pool.disruption.termination_grace_period
    finite = expires if isinstance(expires, dt.timedelta) else None
    if pool.purpose == "training":
        if grace is not None:
            message = "opens drift and expiry to nodes whose jobs carry do-not-disrupt. Remove it from a training pool"
            yield Finding((*path, "terminationGracePeriod"), message)
        if finite is not None:
            message = (
                "ends running jobs, and all nodes of a gang at once, for they are of one age. Set expireAfter: Never"
            )
            yield Finding((*path, "expireAfter"), message)
        return
    if finite is None:
        return
    if grace is None:
        message = (
            "without terminationGracePeriod one protected pod keeps an expired node, paid and empty, for ever. "
            "Set expireAfter: Never, or terminationGracePeriod as well"
        )
        yield Finding((*path, "expireAfter"), message)
    if pool.longest_job is not None and finite <= pool.longest_job:
        longest = format_duration(pool.longest_job)
        message = f"{format_duration(finite)} is no longer than longestJob, {longest}: every such job would be cut off"
        yield Finding((*path, "expireAfter"), f"{message}. Set more than {longest}, or Never")


def one_zone(declared: Declared) -> Iterator[Finding]:
    """EFA does not reach across zones, and a cluster placement group lies in one."""
    for name, pool in declared.pools.items():
        path = ("pools", name)
        for key, used in (("efa", pool.efa), ("placementGroup", pool.placement_group is not None)):
            if used and len(set(pool.zones)) != 1:
                found = f"found {', '.join(pool.zones)}" if pool.zones else "found none, which means any"
                yield Finding((*path, key), f"needs exactly one zone, {found}. Set zones: [us-east-1b] or the like")
        if len(set(pool.zones)) != len(pool.zones):
            yield Finding((*path, "zones"), "a zone stands here twice: remove one")
        region = declared.cluster.region if declared.cluster else None
        for index, zone in enumerate(pool.zones):
            if region and not zone.startswith(region):
                message = f"{zone} is no zone of region {region}{declared.line(('cluster', 'region'))}"
                yield Finding((*path, "zones", index), message)


def efa_exists(declared: Declared) -> Iterator[Finding]:
    """Not every instance type has Elastic Fabric Adapters."""
    for name, pool in declared.pools.items():
        if (
            pool.efa
            and _known(pool)
            and not all(it.efa for it in catalog.instance_types(pool.accelerator, pool.gpus_per_node))
        ):
            message = f"instance types with {pool.gpus_per_node} {pool.accelerator} have no EFA. Remove efa"
            yield Finding(("pools", name, "efa"), message)


def release_has_the_fields(declared: Declared) -> Iterator[Finding]:
    """Fields that came with a release of Karpenter."""
    if declared.platform is None or (declared.cluster and declared.cluster.dialect != "aws"):
        return
    version = declared.platform.karpenter.version
    for name, pool in declared.pools.items():
        static = pool.nodes.static is not None
        used = {
            "static-capacity": (("nodes", "static"), static),
            "placement-group": (("placementGroup",), pool.placement_group is not None),
            "network-interfaces": (("efa",), pool.efa and static),  # a static pool sees no pod that asks for EFA
            "reserved-capacity": (("capacity", "reserved"), bool(pool.capacity.reserved)),
            "capacity-blocks": (("capacity", "blocks"), bool(pool.capacity.blocks)),
        }
        for feature, (keys, is_used) in used.items():
            if is_used and not catalog.supports("karpenter", version, feature):
                since = catalog.feature("karpenter", feature).since
                where = declared.line(("platform", "karpenter", "version"))
                message = f"needs Karpenter {since}, and this stack has {version}{where}. Raise it, or remove this"
                yield Finding(("pools", name, *keys), message)


def static_pool_is_possible(declared: Declared) -> Iterator[Finding]:
    """Static pools are behind a gate, take no weight, and drift only where a node fits above `static`."""
    own_karpenter = declared.cluster is None or declared.cluster.dialect == "aws"
    gates = declared.platform.karpenter.gates if declared.platform else frozenset()
    for name, pool in declared.pools.items():
        static = pool.nodes.static
        if static is None:
            continue
        path = ("pools", name)
        if own_karpenter and declared.platform and "StaticCapacity" not in gates:
            message = "needs a feature gate. Set platform: {karpenter: {gates: [StaticCapacity]}}"
            yield Finding((*path, "nodes", "static"), message)
        if pool.weight is not None:
            yield Finding(
                (*path, "weight"), "a static pool launches nothing for pods, so it takes no weight. Remove it"
            )
        if static > pool.nodes.max:
            yield Finding(
                (*path, "nodes", "static"), f"{static} nodes are more than max: {pool.nodes.max}. Set max: {static + 1}"
            )
        elif static == pool.nodes.max and "TerminateFirstDrift" not in gates:
            message = f"leaves no room for the replacement of a drifted node, which comes first. Set max: {static + 1}"
            yield Finding((*path, "nodes", "max"), message)


def image_is_pinned(declared: Declared) -> Iterator[Finding]:
    """A NodeClass needs an image, and the newest one would drift every node at each release."""
    if declared.cluster is None or declared.cluster.dialect != "aws":
        return
    for name, pool in declared.pools.items():
        if pool.ami is None and pool.node_class is None:
            message = "needs a pinned image. Set ami: al2023@v20261115, or nodeClass for an existing NodeClass"
            yield Finding(("pools", name), message, at_key=True)


def node_class_carries_its_own(declared: Declared) -> Iterator[Finding]:
    """An existing NodeClass is not changed: what belongs to it cannot be set here."""
    for name, pool in declared.pools.items():
        if pool.node_class is None:
            continue
        path = ("pools", name)
        for field, keys in _OF_THE_NODE_CLASS.items():
            if field in pool.model_fields_set:
                yield Finding(
                    (*path, *keys), "belongs to the NodeClass, and nodeClass names an existing one: remove one", True
                )
        for key, ids in (("reserved", pool.capacity.reserved), ("blocks", pool.capacity.blocks)):
            if ids:
                message = "is selected in the NodeClass, and nodeClass names an existing one: remove one"
                yield Finding((*path, "capacity", key), message, at_key=True)
        if declared.cluster:
            dialect = catalog.dialects()[declared.cluster.dialect]
            if (pool.node_class.group, pool.node_class.kind) != (dialect.group, dialect.kind):
                message = f"dialect {dialect.name} needs group: {dialect.group} and kind: {dialect.kind}"
                yield Finding((*path, "nodeClass"), message)


def auto_mode_can_express_it(declared: Declared) -> Iterator[Finding]:
    """EKS Auto Mode chooses image, NVMe layout and network itself."""
    if declared.cluster is None or declared.cluster.dialect != "eks-auto":
        return
    for name, pool in declared.pools.items():
        used = {
            ("ami",): pool.ami is not None,
            ("efa",): pool.efa,
            ("placementGroup",): pool.placement_group is not None,
            ("storage", "localNvme"): not pool.storage.local_nvme,
        }
        for keys, is_used in used.items():
            if is_used:
                message = "EKS Auto Mode chooses this itself. Remove it, or name a NodeClass of your own in nodeClass"
                yield Finding(("pools", name, *keys), message)
        expires = pool.disruption.expire_after
        if pool.purpose == "training":
            message = "EKS Auto Mode replaces every node after 21 days, under a running job too. Use dialect: aws"
            yield Finding(("pools", name, "purpose"), message)
        elif expires == "Never" or (isinstance(expires, dt.timedelta) and expires > _AUTO_MODE_LIFETIME):
            message = "EKS Auto Mode replaces every node after 21 days at most. Set 504h or less, or leave it out"
            yield Finding(("pools", name, "disruption", "expireAfter"), message)


def labels_taints_and_tags_are_free(declared: Declared) -> Iterator[Finding]:
    """Some names belong to Karpenter, the cloud, or this pool."""
    for name, pool in declared.pools.items():
        path = ("pools", name)
        for key in pool.labels:
            if _OWN_LABELS.fullmatch(key) or _CONTROLLERS_LABELS.fullmatch(key):
                yield Finding(
                    (*path, "labels", key), "is set by Karpenter or by this pool itself. Remove it", at_key=True
                )
        for key in pool.tags:
            if _CONTROLLERS_TAGS.fullmatch(key):
                yield Finding((*path, "tags", key), "is how Karpenter finds its instances. Remove it", at_key=True)
        seen: set[tuple[str, str]] = set()
        for block, taints in (("taints", pool.taints), ("startupTaints", pool.startup_taints)):
            for index, taint in enumerate(taints):
                if taint.key == _GPU_TAINT and (block == "startupTaints" or taint.effect != "NoSchedule"):
                    message = f"{_GPU_TAINT} is always there with effect NoSchedule, which device plugins tolerate"
                    yield Finding((*path, block, index), message)
                elif (taint.key, taint.effect) in seen:
                    message = f"{taint.key}:{taint.effect} stands twice, and Karpenter stops such a pool. Remove one"
                    yield Finding((*path, block, index), message)
                seen.add((taint.key, taint.effect))


def maintenance_days_differ(declared: Declared) -> Iterator[Finding]:
    """A day named twice is a slip for another day."""
    for name, pool in declared.pools.items():
        days = pool.maintenance.days if pool.maintenance else ()
        repeated = [day for day, times in Counter(days).items() if times > 1]
        if repeated:
            yield Finding(("pools", name, "maintenance", "days"), f"{repeated[0]} stands here twice: remove one")


def topology_is_ordered(declared: Declared) -> Iterator[Finding]:
    """KAI's Topology refuses a level twice, and anything below the host."""
    for name, pool in declared.pools.items():
        levels = ["kubernetes.io/hostname" if level == "host" else level for level in pool.topology]
        path = ("pools", name, "topology")
        if len(set(levels)) < len(levels):
            yield Finding(path, "a level stands here twice: remove one")
        elif "kubernetes.io/hostname" in levels[:-1]:
            yield Finding(path, "host is the narrowest level. Put it last")


def shard_is_free(declared: Declared) -> Iterator[Finding]:
    """KAI's chart declares the shard `default` itself."""
    for path, shard in (
        *((("pools", name), pool.shard) for name, pool in declared.pools.items()),
        *((queue.path, queue.settings.shard) for queue in declared.queues),
    ):
        if shard == _CHARTS_SHARD:
            yield Finding((*path, "shard"), f"{shard} is the shard of whatever names none. Remove it")


def _known(pool: PoolSettings) -> bool:
    try:
        return pool.gpus_per_node in catalog.gpus_per_node(pool.accelerator)
    except catalog.UnknownName:
        return False


CHECKS = (
    accelerator_is_known,
    capacity_fits_purpose,
    disruption_is_as_safe_as_the_purpose,
    one_zone,
    efa_exists,
    release_has_the_fields,
    static_pool_is_possible,
    image_is_pinned,
    node_class_carries_its_own,
    auto_mode_can_express_it,
    labels_taints_and_tags_are_free,
    maintenance_days_differ,
    topology_is_ordered,
    shard_is_free,
)
