"""KAI Queues as the tree of a stack file: units turned back, -1 as unlimited."""

from collections.abc import Iterable
from typing import Any

from triplane.settings.adoption.objects import Inexpressible, Object, get, label_of, mapping, name_of, title
from triplane.settings.values import format_duration, parse_duration

_SHARD = "kai.scheduler/node-pool"


def adopt_queues(queues: Iterable[Object], notes: list[Inexpressible]) -> dict[str, Any]:
    """The tree. A queue whose parent is missing becomes a top-level one; queues in a cycle are left out. Both noted."""
    by_name = {name_of(queue): queue for queue in queues}
    parents = {name: str(get(queue, "spec", "parentQueue") or "") for name, queue in by_name.items()}
    blocks: dict[str, dict[str, Any]] = {}
    for name, queue in by_name.items():
        if _in_cycle(name, parents):
            notes.append(Inexpressible(title(queue), "spec.parentQueue", "is its own ancestor: left out"))
            continue
        blocks[name] = _block(queue, notes)
    tree: dict[str, Any] = {}
    for name, block in blocks.items():
        parent = parents[name]
        if parent in blocks:
            blocks[parent].setdefault("children", {})[name] = block
            continue
        if parent:
            notes.append(Inexpressible(title(by_name[name]), "spec.parentQueue", f"{parent} is missing: top-level now"))
        tree[name] = block
    return tree


def _in_cycle(name: str, parents: dict[str, str]) -> bool:
    seen: set[str] = set()
    while name in parents:
        if name in seen:
            return True
        seen.add(name)
        name = parents[name]
    return False


def _block(queue: Object, notes: list[Inexpressible]) -> dict[str, Any]:
    spec, resources = mapping(get(queue, "spec")), mapping(get(queue, "spec", "resources"))
    block: dict[str, Any] = {"gpus": _gpus(queue, mapping(resources.get("gpu")), notes)}
    for key, unit in (("cpu", "m"), ("memory", "M")):  # KAI counts millicores, and megabytes of 10^6 bytes
        share = _share(mapping(resources.get(key)), unit)
        if share != {"quota": "unlimited", "limit": "unlimited", "weight": 1}:
            block[key] = share
    if spec.get("priority") not in (None, 100):
        block["priority"] = spec["priority"]
    if spec.get("displayName"):
        block["displayName"] = spec["displayName"]
    runtimes = {
        key: text
        for key, field in (("preempt", "preemptMinRuntime"), ("reclaim", "reclaimMinRuntime"))
        if (text := _duration(queue, field, spec.get(field), notes))
    }
    if runtimes:
        block["minRuntime"] = runtimes
    if shard := label_of(queue, _SHARD):
        block["shard"] = shard
    return block


def _gpus(queue: Object, share: Any, notes: list[Inexpressible]) -> dict[str, Any]:
    gpus: dict[str, Any] = {}
    for key in ("quota", "limit"):
        amount = share.get(key, 0)
        if amount == -1:
            gpus[key] = "unlimited"
        elif isinstance(amount, int | float) and amount >= 0 and float(amount).is_integer():
            gpus[key] = int(amount)
        else:
            gpus[key] = max(int(amount), 0) if isinstance(amount, int | float) else 0
            message = f"{amount} is no whole number of GPUs: {gpus[key]} now"
            notes.append(Inexpressible(title(queue), f"spec.resources.gpu.{key}", message))
    if gpus["limit"] == 0 and gpus["quota"] != 0:
        # Absent or 0 blocks every pod that asks for a GPU, so nobody runs by it.
        notes.append(Inexpressible(title(queue), "spec.resources.gpu.limit", "0 blocks every GPU pod: the quota now"))
        gpus["limit"] = gpus["quota"]
    if gpus["limit"] == gpus["quota"]:
        del gpus["limit"]
    weight = share.get("overQuotaWeight", 0)
    if weight != 1:
        gpus["weight"] = int(weight) if isinstance(weight, int | float) and weight >= 0 else 0
    if isinstance(weight, float) and not weight.is_integer():
        message = f"{weight} is no whole number: {gpus['weight']} now"
        notes.append(Inexpressible(title(queue), "spec.resources.gpu.overQuotaWeight", message))
    return gpus


def _share(share: Any, unit: str) -> dict[str, Any]:
    def amount(value: Any) -> Any:
        if not isinstance(value, int | float) or value == 0:
            return 0
        return "unlimited" if value < 0 else f"{round(value)}{unit}"

    weight = share.get("overQuotaWeight", 0)
    return {"quota": amount(share.get("quota")), "limit": amount(share.get("limit")), "weight": int(weight)}


def _duration(queue: Object, field: str, value: Any, notes: list[Inexpressible]) -> str | None:
    if value is None:
        return None
    try:
        return format_duration(parse_duration(value))
    except ValueError as error:
        notes.append(Inexpressible(title(queue), f"spec.{field}", f"{value!r}: {error}"))
        return None
