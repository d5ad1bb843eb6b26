"""GPU NodePools and their NodeClasses as pools of a stack file."""

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from triplane import catalog
from triplane.settings.adoption.objects import (
    Inexpressible,
    Object,
    get,
    listed,
    mapping,
    name_of,
    of_kind,
    title,
    whole,
)
from triplane.settings.pools import KEEP_EMPTY_NODE, Purpose
from triplane.settings.values import format_duration, parse_duration

_GPU = "nvidia.com/gpu"
_PINNED = re.compile(r"(al2023|bottlerocket)@v[0-9][0-9A-Za-z.]*")
# Written by every pool, so that an object which says the same says nothing new.
_IMPLIED = {"kubernetes.io/arch": ["amd64"], "kubernetes.io/os": ["linux"]}
_OWN_LABELS = re.compile(r"triplane\.dev/.*|nvidia\.com/gpu\.present|kai\.scheduler/node-pool")


def adopt_pools(objects: Iterable[Object], notes: list[Inexpressible]) -> dict[str, Any]:
    """Every NodePool that asks for GPUs; others are left alone."""
    found = list(objects)
    classes = {name_of(item): item for item in of_kind(found, "EC2NodeClass", "karpenter.k8s.aws")}
    node_pools = of_kind(found, "NodePool", "karpenter.sh")
    users = Counter(str(get(pool, "spec", "template", "spec", "nodeClassRef", "name")) for pool in node_pools)
    pools: dict[str, Any] = {}
    for node_pool in node_pools:
        block = _Pool(node_pool, notes).block(classes, users)
        if block is not None:
            pools[name_of(node_pool)] = block
    return pools


class _Pool:
    """One NodePool being read."""

    def __init__(self, node_pool: Object, notes: list[Inexpressible]) -> None:
        self.object = node_pool
        self.notes = notes
        self.spec = mapping(get(node_pool, "spec"))
        self.template = mapping(get(node_pool, "spec", "template", "spec"))
        self.labels = mapping(get(node_pool, "spec", "template", "metadata", "labels"))
        self.requirements = [item for item in listed(self.template.get("requirements")) if isinstance(item, Mapping)]
        self.read: set[str] = set()

    def note(self, field: str, message: str) -> None:
        self.notes.append(Inexpressible(title(self.object), field, message))

    def values(self, *keys: str) -> list[str]:
        """The values of the first `In` requirement with one of these keys."""
        for item in self.requirements:
            if item.get("key") in keys and item.get("operator") == "In":
                self.read.add(str(item["key"]))
                return [str(value) for value in listed(item.get("values"))]
        return []

    def block(self, classes: Mapping[str, Object], users: Mapping[str, int]) -> dict[str, Any] | None:
        gpu = self.gpu()
        if gpu is None:
            return None
        accelerator, gpus_per_node = gpu
        capacity_types = self.values("karpenter.sh/capacity-type")
        purpose = self.purpose(capacity_types)
        block: dict[str, Any] = {"purpose": purpose, "accelerator": accelerator, "gpusPerNode": gpus_per_node}
        if zones := self.values("topology.kubernetes.io/zone"):
            block["zones"] = zones
        block["nodes"] = self.nodes(gpus_per_node)
        reserved = self.node_class(block, classes, users)
        block["capacity"] = self.capacity(capacity_types, purpose, reserved)
        if disruption := self.disruption(purpose):
            block["disruption"] = disruption
        self.dress(block)
        for item in self.requirements:
            key = str(item.get("key"))
            if key not in self.read and item.get("values") != _IMPLIED.get(key, object()):
                self.note("spec.template.spec.requirements", f"{key} {item.get('operator')} is left out")
        return block

    def gpu(self) -> tuple[str, int] | None:
        """Accelerator and GPUs a node; None for a pool without GPUs, or one that mixes kinds, which is noted."""
        names = self.values("karpenter.k8s.aws/instance-gpu-name", "eks.amazonaws.com/instance-gpu-name")
        counts = self.values("karpenter.k8s.aws/instance-gpu-count", "eks.amazonaws.com/instance-gpu-count")
        memory = self.values("karpenter.k8s.aws/instance-gpu-memory", "eks.amazonaws.com/instance-gpu-memory")
        types = []
        for name in self.values("node.kubernetes.io/instance-type"):
            try:
                types.append(catalog.instance_type(name))
            except catalog.UnknownName:
                if names or _GPU in mapping(self.spec.get("limits")):
                    self.note("spec.template.spec.requirements", f"instance type {name} is not known here")
        gpus = [catalog.accelerator(name) for name in catalog.accelerators()]
        fits = {
            (gpu.name, count)
            for gpu in gpus
            for count in catalog.gpus_per_node(gpu.name)
            if (not names or gpu.gpu_name in names)
            and (not counts or str(count) in counts)
            and (not memory or str(gpu.memory_mib) in memory)
            and (
                not types
                or (gpu.gpu_name, gpu.memory_mib, count) in {(t.gpu_name, t.gpu_memory_mib, t.gpu_count) for t in types}
            )
        }
        if not names and not types:
            if _GPU in mapping(self.spec.get("limits")):
                self.note("", "limits GPUs and names neither GPU nor instance type: left out")
            else:
                self.note("", "asks for no GPU: left out")
            return None
        if len(fits) != 1:
            choice = ", ".join(f"{count} x {name}" for name, count in sorted(fits)) or "no shape that is known here"
            self.note("spec.template.spec.requirements", f"allows {choice}, and a pool has one shape: left out")
            return None
        return fits.pop()

    def purpose(self, capacity_types: list[str]) -> Purpose:
        written = self.labels.get("triplane.dev/purpose")
        for purpose in KEEP_EMPTY_NODE:
            if purpose == written:
                return purpose
        guess: Purpose = "batch" if "spot" in capacity_types or not capacity_types else "serving"
        why = "spot is allowed" if guess == "batch" else "spot is not allowed"
        self.note("", f"purpose: {guess} is a guess, since {why}: serving, training or batch")
        return guess

    def nodes(self, gpus_per_node: int) -> dict[str, int]:
        limits = mapping(self.spec.get("limits"))
        most = whole(limits.get("nodes"))
        gpus = whole(limits.get(_GPU))
        if gpus is not None:
            by_gpus = gpus // gpus_per_node
            most = by_gpus if most is None else min(most, by_gpus)
        static = whole(self.spec.get("replicas"))
        if most is None or most < 1:
            now = whole(get(self.object, "status", "nodes"))
            most = max(static or 0, now or 0, 1)
            self.note("spec.limits", f"no limit in nodes or GPUs: nodes: {{max: {most}}} is what runs now, or 1")
        return {"max": most, "static": static} if static else {"max": most}

    def capacity(self, types: list[str], purpose: Purpose, reserved: list[str]) -> dict[str, Any]:
        capacity: dict[str, Any] = {"reserved": reserved} if reserved else {}
        if not types:
            self.note("spec.template.spec.requirements", "no capacity type, which allows all: on-demand now")
            types = ["on-demand"]
        if "spot" in types and purpose == "batch":
            capacity["fallback"] = "spot"
            if "on-demand" in types:
                self.note("spec.template.spec.requirements", "spot and on-demand: spot alone now")
        elif "on-demand" in types or not reserved:
            capacity["fallback"] = "on-demand"
            if "spot" in types:
                self.note("spec.template.spec.requirements", f"spot is not for purpose {purpose}: on-demand now")
        return capacity

    def node_class(self, block: dict[str, Any], classes: Mapping[str, Object], users: Mapping[str, int]) -> list[str]:
        """Expresses the NodeClass, or refers to it; returns the reservations that the pool may name."""
        reference = mapping(self.template.get("nodeClassRef"))
        name = str(reference.get("name"))
        node_class = classes.get(name)
        spec = mapping(get(node_class, "spec"))
        terms = listed(spec.get("amiSelectorTerms"))
        alias = str(get(terms[0], "alias")) if len(terms) == 1 else ""
        if node_class is None or users[name] > 1 or name != name_of(self.object) or not _PINNED.fullmatch(alias):
            block["nodeClass"] = {key: str(reference.get(key)) for key in ("group", "kind", "name")}
            self.note("spec.template.spec.nodeClassRef", f"{name} is referred to, not declared")
            return []
        block["ami"] = alias
        interfaces = listed(spec.get("networkInterfaces"))
        if any(get(item, "interfaceType") == "efa-only" for item in interfaces):
            block["efa"] = True
        if group := get(spec, "placementGroupSelector", "name"):
            block["placementGroup"] = group
        self.storage(block, spec)
        if tags := {key: str(value) for key, value in mapping(spec.get("tags")).items() if key != "triplane.dev/pool"}:
            block["tags"] = tags
        for field in ("userData", "kubelet", "metadataOptions", "detailedMonitoring", "context", "instanceProfile"):
            value = spec.get(field)
            standard = field == "metadataOptions" and get(value, "httpTokens") == "required"
            if value is not None and not standard:
                self.notes.append(
                    Inexpressible(title(node_class), f"spec.{field}", "is left out: add it under patches:")
                )
        return [str(item["id"]) for item in listed(spec.get("capacityReservationSelectorTerms")) if get(item, "id")]

    def storage(self, block: dict[str, Any], spec: Mapping[str, Any]) -> None:
        storage: dict[str, Any] = {}
        devices = listed(spec.get("blockDeviceMappings"))
        sizes = [str(get(device, "ebs", "volumeSize")) for device in devices if get(device, "ebs", "volumeSize")]
        if sizes and sizes[-1] != "200Gi":
            storage["rootVolume"] = sizes[-1]
        if spec.get("instanceStorePolicy") != "RAID0":
            types = catalog.instance_types(block["accelerator"], block["gpusPerNode"])
            if any(it.nvme_gb for it in types):
                storage["localNvme"] = False
        if storage:
            block["storage"] = storage

    def disruption(self, purpose: Purpose) -> dict[str, Any]:
        written = mapping(self.spec.get("disruption"))
        result: dict[str, Any] = {}
        static = self.spec.get("replicas") is not None
        if written.get("consolidationPolicy", "WhenEmptyOrUnderutilized") != "WhenEmpty" and not static:
            found = written.get("consolidationPolicy", "left out, which is WhenEmptyOrUnderutilized")
            self.note("spec.disruption.consolidationPolicy", f"{found}: WhenEmpty now")
        floor = KEEP_EMPTY_NODE[purpose]
        after = self.duration("spec.disruption.consolidateAfter", written.get("consolidateAfter", "0s"))
        if isinstance(after, dt.timedelta) and after < floor and not static:
            self.note("spec.disruption.consolidateAfter", f"{format_duration(after)}: {format_duration(floor)} now")
        elif after is not None and after != floor and not (isinstance(after, dt.timedelta) and after < floor):
            result["consolidateAfter"] = _text(after)
        if any("schedule" in mapping(budget) for budget in listed(written.get("budgets"))):
            self.note("spec.disruption.budgets", "have schedules: no drift at all now, until maintenance: is set")
        expires = self.duration("spec.template.spec.expireAfter", self.template.get("expireAfter", "720h"))
        grace = self.duration(
            "spec.template.spec.terminationGracePeriod", self.template.get("terminationGracePeriod", "Never")
        )
        if isinstance(grace, dt.timedelta) and purpose != "training":
            result["terminationGracePeriod"] = _text(grace)
        elif isinstance(grace, dt.timedelta):
            self.note("spec.template.spec.terminationGracePeriod", "opens drift under a job: left out")
        if isinstance(expires, dt.timedelta) and isinstance(grace, dt.timedelta) and purpose != "training":
            result["expireAfter"] = _text(expires)
        elif isinstance(expires, dt.timedelta):
            self.note("spec.template.spec.expireAfter", f"{format_duration(expires)}: Never now")
        return result

    def duration(self, field: str, value: Any) -> dt.timedelta | str | None:
        try:
            return "Never" if value == "Never" else parse_duration(value)
        except ValueError as error:
            self.note(field, f"{value!r}: {error}")
            return None

    def dress(self, block: dict[str, Any]) -> None:
        """Labels, taints and the rest that is taken over as it is."""
        labels = {key: str(value) for key, value in self.labels.items() if not _OWN_LABELS.fullmatch(key)}
        if labels:
            block["labels"] = labels
        taints = [dict(item) for item in listed(self.template.get("taints")) if not _is_gpu_taint(item)]
        for key, items in (("taints", taints), ("startupTaints", listed(self.template.get("startupTaints")))):
            if items:
                block[key] = [dict(item) for item in items]
        if not any(get(item, "key") == _GPU for item in listed(self.template.get("taints"))):
            self.note("spec.template.spec.taints", f"{_GPU}:NoSchedule is missing: there now")
        if (weight := whole(self.spec.get("weight"))) is not None:
            block["weight"] = weight
        if shard := self.labels.get("kai.scheduler/node-pool"):
            block["shard"] = shard


def _is_gpu_taint(item: Any) -> bool:
    return get(item, "key") == _GPU and get(item, "effect") == "NoSchedule" and not get(item, "value")


def _text(value: dt.timedelta | str) -> str:
    return value if isinstance(value, str) else format_duration(value)
