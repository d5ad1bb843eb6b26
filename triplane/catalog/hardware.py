"""Accelerators and instance types: what a node has, what a cloud calls it, and what it costs."""

from dataclasses import dataclass
from functools import cache

from triplane.catalog.data import UnknownName, load, nearest_names


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One GPU model, under the name people use."""

    name: str
    memory_gib: float
    """Memory of one GPU in GiB."""
    memory_mib: int
    """The same as the cloud's label states it, which tells apart GPUs of one gpu_name."""
    arch: str
    """CPU architecture of its hosts, as Kubernetes names it."""
    vendor: str
    gpu_name: str
    """Value of the cloud's GPU name label, such as h100."""
    note: str | None


@dataclass(frozen=True, slots=True)
class InstanceType:
    """One instance type. Memory in MiB, CPU in millicores, NVMe in GB, price in US dollars an hour on demand."""

    name: str
    family: str
    gpu_name: str
    gpu_count: int
    gpu_memory_mib: int
    """Of one GPU."""
    vcpu: int
    memory_mib: int
    allocatable_cpu_millis: int
    """What pods may request, DaemonSets included."""
    allocatable_memory_mib: int
    nvme_gb: int
    """Local NVMe in all; 0: none."""
    efa: int
    """Elastic Fabric Adapters; 0: none."""
    network_cards: int
    """One more than `efa` where the first card carries no EFA."""
    pods: int
    arch: str
    price_usd_hour: float | None
    """None: not known. Never to be read as free."""
    price_date: str
    price_region: str
    source: str


@dataclass(frozen=True, slots=True)
class Dialect:
    """Where one Karpenter provider keeps the GPU labels, and which class its NodePools reference."""

    name: str
    gpu_name: str
    """Label key of the GPU's name."""
    gpu_count: str
    gpu_memory: str | None
    """Label key of a GPU's memory in MiB; None: this provider has none."""
    group: str
    kind: str
    source: str


@cache
def _accelerators() -> dict[str, Accelerator]:
    return {
        name: Accelerator(
            name=name,
            memory_gib=float(row["memory_gib"]),
            memory_mib=row["gpu_memory_mib"],
            arch="amd64",
            vendor="nvidia",
            gpu_name=row["gpu_name"],
            note=row.get("note"),
        )
        for name, row in load("accelerators")["accelerators"].items()
    }


@cache
def _spellings() -> dict[str, str]:
    rows = load("accelerators")["accelerators"]
    return {spelling.lower(): name for name, row in rows.items() for spelling in (name, *row.get("aliases", ()))}


def accelerators() -> tuple[str, ...]:
    """The names of all accelerators, in the catalogue's order."""
    return tuple(_accelerators())


def accelerator(name: str) -> Accelerator:
    """The accelerator of this name or alias, in any case. Raises UnknownName, with the reason where it is refused."""
    known = _spellings().get(name.lower())
    if known is not None:
        return _accelerators()[known]
    refused = {spelling.lower(): reason for spelling, reason in load("accelerators")["refused"].items()}
    reason = refused.get(name.lower())
    close = () if reason else nearest_names(name, tuple(_spellings()))
    raise UnknownName("accelerator", name, tuple(dict.fromkeys(_spellings()[spelling] for spelling in close)), reason)


@cache
def dialects() -> dict[str, Dialect]:
    """Karpenter's providers by name: aws, eks-auto, azure."""
    return {
        name: Dialect(
            name=name,
            gpu_name=row["gpu_name"],
            gpu_count=row["gpu_count"],
            gpu_memory=row.get("gpu_memory"),
            group=row["node_class"]["group"],
            kind=row["node_class"]["kind"],
            source=row["source"],
        )
        for name, row in load("accelerators")["dialects"].items()
    }


@cache
def _instance_types() -> tuple[InstanceType, ...]:
    data = load("instance_types")
    columns = data["columns"]
    shared = {"price_date": str(data["price_date"]), "price_region": data["price_region"], "source": data["source"]}
    return tuple(InstanceType(**dict(zip(columns, row, strict=True)), **shared) for row in data["rows"])


def instance_types(accelerator_name: str, gpus_per_node: int) -> tuple[InstanceType, ...]:
    """The instance types with exactly so many of these GPUs, cheapest first, those of unknown price last; may be empty.

    Raises UnknownName for an unknown accelerator.
    """
    gpu = accelerator(accelerator_name)
    fitting = (
        it
        for it in _instance_types()
        if it.gpu_name == gpu.gpu_name and it.gpu_memory_mib == gpu.memory_mib and it.gpu_count == gpus_per_node
    )
    return tuple(sorted(fitting, key=lambda it: (it.price_usd_hour is None, it.price_usd_hour or 0.0, it.name)))


def gpus_per_node(accelerator_name: str) -> tuple[int, ...]:
    """How many of these GPUs a node can have, ascending: for saying what is allowed. Raises UnknownName."""
    gpu = accelerator(accelerator_name)
    fitting = (it for it in _instance_types() if it.gpu_name == gpu.gpu_name and it.gpu_memory_mib == gpu.memory_mib)
    return tuple(sorted({it.gpu_count for it in fitting}))


def every_instance_type() -> tuple[InstanceType, ...]:
    """All instance types there are, in the catalogue's order."""
    return _instance_types()


@cache
def gpu_families() -> dict[str, str]:
    """Every GPU family of EC2 to its `instance-gpu-name`, those without instance types in the catalogue included."""
    return {kind.family: kind.gpu_name for kind in _instance_types()} | dict(load("instance_types")["other_families"])


def instance_type(name: str) -> InstanceType:
    """The instance type of this name. Raises UnknownName with the nearest spellings."""
    for it in _instance_types():
        if it.name == name:
            return it
    raise UnknownName("instance type", name, nearest_names(name, tuple(it.name for it in _instance_types())))
