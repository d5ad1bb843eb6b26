"""GPU node pools: one NodePool and its NodeClass, for Karpenter's AWS provider (1.9 on) and for EKS Auto Mode.

Nothing is left to a default of Karpenter's. What the declared release cannot express is refused, never left out.
"""

import datetime as dt
from collections import Counter
from typing import Any, Final

from triplane import catalog
from triplane.manifests import labels
from triplane.manifests.disruption import disruption, lifetime
from triplane.manifests.identity import ManifestError
from triplane.manifests.nodeclass import ec2_node_class, eks_auto_node_class
from triplane.settings.cluster import ClusterSettings
from triplane.settings.platform import PlatformSettings
from triplane.settings.pools import NodeClassReference, PoolSettings, TaintSettings
from triplane.settings.values import format_duration

_AUTO_MODE_LIFETIME: Final = dt.timedelta(hours=504)
"""EKS Auto Mode replaces every node after at most 21 days (AWS documentation, Auto Mode features)."""
_AUTO_MODE_GRACE: Final = "24h"
"""EKS Auto Mode's own terminationGracePeriod."""

_NODE_CLASS_ONLY: Final = {
    "ami": "ami",
    "placement_group": "placementGroup",
    "storage": "storage",
    "tags": "tags",
}
"""Fields of a pool that only its NodeClass can carry, and their names in the stack file."""

_RESERVED_LABEL_DOMAINS: Final = ("karpenter.sh", "karpenter.k8s.aws", "eks.amazonaws.com")


def pool_manifests(
    name: str,
    pool: PoolSettings,
    cluster: ClusterSettings,
    platform: PlatformSettings,
    *,
    frozen: bool = False,
) -> list[dict[str, Any]]:
    """The NodeClass, unless the pool refers to an existing one, and the NodePool, both named as the pool.

    `frozen`: no node is removed or replaced for any reason that has a budget. Raises ManifestError, and
    `catalog.UnknownName` for an unknown accelerator.
    """
    place = f"pools.{name}"
    dialect = catalog.dialects()[cluster.dialect]
    types = catalog.instance_types(pool.accelerator, pool.gpus_per_node)
    if not types:
        possible = " or ".join(map(str, catalog.gpus_per_node(pool.accelerator)))
        raise ManifestError(
            f"{place}.gpusPerNode: no instance type has {pool.gpus_per_node} {pool.accelerator}; possible: {possible}"
        )
    auto_mode = cluster.dialect == "eks-auto"
    if not auto_mode:
        _refuse_old_karpenter(platform.karpenter.version)
    _refuse_static_trouble(place, pool, platform, auto_mode)

    for field, is_set in (("efa", pool.efa), ("placementGroup", pool.placement_group is not None)):
        if is_set and len(set(pool.zones)) != 1:
            raise ManifestError(
                f"{place}.{field}: needs exactly one zone in zones, found {len(set(pool.zones))}: it does not reach "
                "across zones"
            )

    objects: list[dict[str, Any]] = []
    if pool.node_class is not None:
        class_name = _existing_class(place, pool, pool.node_class, dialect)
    else:
        class_name = name
        build = eks_auto_node_class if auto_mode else ec2_node_class
        objects.append(build(name, pool, cluster, platform, types))

    spec: dict[str, Any] = {}
    if pool.nodes.static is not None:
        spec["replicas"] = pool.nodes.static
    if pool.weight is not None:
        spec["weight"] = pool.weight
    spec["limits"] = _limits(pool)
    spec["disruption"] = disruption(
        name,
        pool,
        frozen=frozen,
        repair_has_budget=not auto_mode
        and catalog.supports("karpenter", platform.karpenter.version, "unhealthy-budget"),
    )
    template: dict[str, Any] = {
        "nodeClassRef": {"group": dialect.group, "kind": dialect.kind, "name": class_name},
        "requirements": _requirements(place, pool, dialect),
        "taints": _taints(place, pool),
        **(_auto_mode_lifetime(name, pool) if auto_mode else lifetime(name, pool)),
    }
    if pool.startup_taints:
        template["startupTaints"] = [_taint(taint) for taint in pool.startup_taints]
    spec["template"] = {"metadata": {"labels": _labels(name, pool, auto_mode)}, "spec": template}
    objects.append({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec})
    return objects


def _existing_class(place: str, pool: PoolSettings, reference: NodeClassReference, dialect: catalog.Dialect) -> str:
    """The name of a NodeClass that somebody else declares. It must itself select the pool's reservations."""
    if (reference.group, reference.kind) != (dialect.group, dialect.kind):
        raise ManifestError(
            f"{place}.nodeClass: {reference.kind} of {reference.group} does not go with dialect {dialect.name}, whose "
            f"requirements match nothing there; it needs {dialect.kind} of {dialect.group}"
        )
    if lost := [key for field, key in _NODE_CLASS_ONLY.items() if field in pool.model_fields_set]:
        raise ManifestError(f"{place}: {', '.join(lost)} belong to the NodeClass, and nodeClass names an existing one")
    return reference.name


def _refuse_old_karpenter(version: str) -> None:
    supported = catalog.supported_releases("karpenter")
    if supported is not None and catalog.release(version) < catalog.release(supported[0]):
        raise ManifestError(
            f"platform.karpenter.version: {version} is older than {supported[0]}, the oldest release whose "
            "NodePools are known"
        )


def _refuse_static_trouble(place: str, pool: PoolSettings, platform: PlatformSettings, auto_mode: bool) -> None:
    if pool.nodes.static is None:
        return
    gates = platform.karpenter.gates
    static = catalog.feature("karpenter", "static-capacity")
    if not auto_mode and static.gate not in gates:
        raise ManifestError(f"{place}.nodes.static: needs the feature gate {static.gate} in platform.karpenter.gates")
    if pool.weight is not None:
        raise ManifestError(
            f"{place}.weight: a static pool launches nothing for pods, so Karpenter allows it no weight"
        )
    terminates_first = "TerminateFirstDrift" in gates and catalog.supports(
        "karpenter", platform.karpenter.version, "terminate-first-drift"
    )
    if pool.nodes.max < pool.nodes.static or (pool.nodes.max == pool.nodes.static and not terminates_first):
        # Drift launches the replacement first (aws/karpenter-provider-aws#8873).
        raise ManifestError(
            f"{place}.nodes.max: {pool.nodes.max} leaves no room above static: {pool.nodes.static}, so a "
            "drifted node could never be replaced"
        )


def _limits(pool: PoolSettings) -> dict[str, str]:
    """Whole nodes, in both measures; a static pool may only limit `nodes`."""
    nodes = {"nodes": str(pool.nodes.max)}
    if pool.nodes.static is not None:
        return nodes
    return {labels.GPU: str(pool.nodes.max * pool.gpus_per_node), **nodes}


def _requirements(place: str, pool: PoolSettings, dialect: catalog.Dialect) -> list[dict[str, Any]]:
    gpu = catalog.accelerator(pool.accelerator)
    wanted: dict[str, tuple[str, ...]] = {
        dialect.gpu_name: (gpu.gpu_name,),
        dialect.gpu_count: (str(pool.gpus_per_node),),
    }
    others = (catalog.accelerator(other) for other in catalog.accelerators() if other != gpu.name)
    if any(other.gpu_name == gpu.gpu_name for other in others):
        if dialect.gpu_memory is None:
            raise ManifestError(f"{place}.accelerator: {dialect.name} has no label that tells {gpu.name} apart")
        wanted[dialect.gpu_memory] = (str(gpu.memory_mib),)
    wanted["kubernetes.io/arch"] = (gpu.arch,)
    wanted["kubernetes.io/os"] = ("linux",)
    wanted["karpenter.sh/capacity-type"] = _capacity_types(place, pool)
    if pool.zones:
        wanted[labels.ZONE] = tuple(dict.fromkeys(pool.zones))
    return [{"key": key, "operator": "In", "values": list(values)} for key, values in wanted.items()]


def _capacity_types(place: str, pool: PoolSettings) -> tuple[str, ...]:
    """`reserved` exactly when a reservation or block is selected: either alone launches nothing, or nothing
    reserved."""
    capacity = pool.capacity
    if capacity.fallback == "spot" and pool.purpose != "batch":
        raise ManifestError(
            f"{place}.capacity.fallback: spot ends nodes at two minutes' notice; only purpose batch may use it"
        )
    types = (
        *(("reserved",) if capacity.reserved or capacity.blocks else ()),
        *((capacity.fallback,) if capacity.fallback else ()),
    )
    if not types:
        raise ManifestError(
            f"{place}.capacity: name a reservation, a block or a fallback; with none of them no node can launch"
        )
    return types


def _taint(taint: TaintSettings) -> dict[str, str]:
    value = {} if taint.value is None else {"value": taint.value}
    return {"key": taint.key, **value, "effect": taint.effect}


def _taints(place: str, pool: PoolSettings) -> list[dict[str, str]]:
    """The GPU taint first; a pool may give it a value. Karpenter stops a pool with the same key and effect twice."""
    own = [taint for taint in pool.taints if taint.key == labels.GPU]
    if any(taint.effect != "NoSchedule" for taint in own):
        raise ManifestError(
            f"{place}.taints: {labels.GPU} has the effect NoSchedule, which device plugins and pods tolerate"
        )
    gpu = own or [TaintSettings(key=labels.GPU)]
    taints = [*gpu, *(taint for taint in pool.taints if taint.key != labels.GPU)]
    seen = Counter((taint.key, taint.effect) for taint in (*taints, *pool.startup_taints))
    if repeated := [f"{key}:{effect}" for (key, effect), times in seen.items() if times > 1]:
        raise ManifestError(f"{place}: {', '.join(repeated)} stands twice among taints and startupTaints")
    return [_taint(taint) for taint in taints]


def _labels(name: str, pool: PoolSettings, auto_mode: bool) -> dict[str, str]:
    """What pods, queues and agents find the nodes by. No node carries do-not-disrupt: it would keep empty nodes too."""
    ours = {labels.POOL: name, labels.PURPOSE: pool.purpose}
    if not auto_mode:
        # The AMI sets it when the node is up; here also before, so that Karpenter counts the device plugin's DaemonSet.
        ours["nvidia.com/gpu.present"] = "true"
    if pool.shard is not None:
        ours[labels.SHARD] = pool.shard
    for key in pool.labels:
        domain = key.rpartition("/")[0]
        taken = key in ours or key == labels.HOST
        if taken or any(domain == reserved or domain.endswith(f".{reserved}") for reserved in _RESERVED_LABEL_DOMAINS):
            raise ManifestError(f"pools.{name}.labels: {key} is set by Karpenter or by this pool itself")
    return {**ours, **pool.labels}


def _auto_mode_lifetime(name: str, pool: PoolSettings) -> dict[str, str]:
    """Auto Mode ends every node after 21 days, whatever the NodePool says: say so in it, with a drain that ends."""
    chosen = pool.disruption.expire_after
    if pool.purpose == "training":
        raise ManifestError(
            f"pools.{name}.purpose: EKS Auto Mode replaces every node after at most 21 days, under a running "
            "job too; training needs Karpenter itself (cluster.dialect: aws)"
        )
    if chosen == "Never" or (isinstance(chosen, dt.timedelta) and chosen > _AUTO_MODE_LIFETIME):
        raise ManifestError(
            f"pools.{name}.disruption.expireAfter: EKS Auto Mode replaces every node after at most "
            f"{format_duration(_AUTO_MODE_LIFETIME)}"
        )
    if chosen is not None:
        return lifetime(name, pool)
    grace = pool.disruption.termination_grace_period
    return {
        "expireAfter": format_duration(_AUTO_MODE_LIFETIME),
        "terminationGracePeriod": _AUTO_MODE_GRACE if grace is None else format_duration(grace),
    }
