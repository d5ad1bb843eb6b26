"""Karpenter's NodePool, read as Karpenter would: with its defaults, in every cloud's dialect.

Facts: karpenter.sh/v1 (core 1.9-1.15), pkg/apis/v1/nodepool.go; the AWS, EKS Auto Mode, Azure and GCP label domains.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from triplane.documents import Path
from triplane.inventory import kinds
from triplane.inventory.fields import at, duration, known, mapping, number, quantity, sequence, text
from triplane.inventory.resource import Resource

REQUIREMENTS: Path = ("spec", "template", "spec", "requirements")
BUDGETS: Path = ("spec", "disruption", "budgets")
EXPIRE_AFTER: Path = ("spec", "template", "spec", "expireAfter")
GRACE_PERIOD: Path = ("spec", "template", "spec", "terminationGracePeriod")

PURPOSE = "triplane.dev/purpose"
AWS_DOMAINS = ("karpenter.k8s.aws", "eks.amazonaws.com")
CAPACITY_TYPES = frozenset(("reserved", "spot", "on-demand"))

CAPACITY_TYPE = "karpenter.sh/capacity-type"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"
ARCH = "kubernetes.io/arch"

# AWS, EKS Auto Mode and GCP name the same properties after one domain each; Azure has words of its own.
_GPU_PROPERTY = re.compile(
    r"(karpenter\.k8s\.aws|eks\.amazonaws\.com|karpenter\.k8s\.gcp)/instance-gpu-[a-z-]+|karpenter\.azure\.com/sku-gpu-[a-z-]+"
)
_GPU_COUNT = re.compile(
    r"(karpenter\.k8s\.aws|eks\.amazonaws\.com|karpenter\.k8s\.gcp)/instance-gpu-count|karpenter\.azure\.com/sku-gpu-count"
)
_GPU_TYPES = re.compile(r"(g|gr|p)[0-9][0-9a-z-]*\..+|Standard_N[CDGV].*|(a[2-9]|g[2-9])-.+")
_GPU_VALUES: dict[str, re.Pattern[str]] = {
    "karpenter.k8s.aws/instance-category": re.compile(r"g|gr|p"),
    "eks.amazonaws.com/instance-category": re.compile(r"g|gr|p"),
    "karpenter.k8s.aws/instance-family": re.compile(r"(g|gr|p)[0-9].*"),
    "eks.amazonaws.com/instance-family": re.compile(r"(g|gr|p)[0-9].*"),
    "karpenter.k8s.gcp/instance-family": re.compile(r"(a[2-9]|g[2-9]).*"),
    "karpenter.azure.com/sku-family": re.compile(r"[Nn].*"),
    "karpenter.azure.com/sku-name": re.compile(r"Standard_N[CDGV].*"),
    INSTANCE_TYPE: _GPU_TYPES,
    "beta.kubernetes.io/instance-type": _GPU_TYPES,  # the old name, which Karpenter still reads
    "cloud.google.com/gke-accelerator": re.compile(r".+"),
}
_GPU_RESOURCE = re.compile(r"nvidia\.com/(gpu(\.shared)?|mig-.+)|amd\.com/gpu.*|gpu\.intel\.com/.+|habana\.ai/gaudi")
_THIRTY_DAYS = 720 * 3600.0
_GPU_TAINT = re.compile(r"(nvidia|amd)\.com/gpu")


def is_gpu_resource(name: str) -> bool:
    """Whether a resource is a GPU or a slice of one: `nvidia.com/gpu`, `nvidia.com/mig-1g.20gb`, `amd.com/gpu`."""
    return "/" in name and _GPU_RESOURCE.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Requirement:
    """One node selector requirement of a pool, with its index in the list."""

    index: int
    key: str
    operator: str
    values: tuple[str, ...]

    @property
    def path(self) -> Path:
        return (*REQUIREMENTS, self.index)

    def admits_any(self, pattern: re.Pattern[str]) -> bool:
        """Whether it names (`In`) at least one value that fits `pattern`."""
        return self.operator == "In" and any(pattern.fullmatch(value) for value in self.values)


@dataclass(frozen=True, slots=True)
class Budget:
    """One disruption budget. `nodes` as written ("10%", "0"); `reasons` None covers every reason."""

    index: int
    nodes: str
    reasons: tuple[str, ...] | None
    schedule: str | None
    duration: str | None

    @property
    def path(self) -> Path:
        return (*BUDGETS, self.index)

    @property
    def zero(self) -> bool:
        return self.nodes in ("0", "0%")

    @property
    def percent(self) -> int | None:
        """10 of "10%"; None for a number of nodes."""
        digits = self.nodes.removesuffix("%")
        return int(digits) if digits != self.nodes and digits.isascii() and digits.isdigit() else None

    @property
    def always_active(self) -> bool:
        # Without a schedule a budget is always active; with one, only for its duration from each hit of the schedule.
        return self.schedule is None

    def covers(self, reason: str) -> bool:
        # An empty list is not nil in Karpenter's check, so it covers nothing.
        return self.reasons is None or reason in self.reasons


class NodePool:
    """A `karpenter.sh` NodePool (v1, or the v1beta1 that is no longer served)."""

    KINDS: ClassVar[tuple[str, ...]] = (kinds.NODE_POOL,)

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.data = resource.data
        self.spec = mapping(resource.data.get("spec"))

    @cached_property
    def requirements(self) -> tuple[Requirement, ...]:
        return tuple(_requirements(at(self.spec, "template", "spec", "requirements")))

    def required(self, key: str) -> tuple[Requirement, ...]:
        """The requirements on one label key."""
        return tuple(requirement for requirement in self.requirements if requirement.key == key)

    @cached_property
    def taints(self) -> tuple[dict[str, Any], ...]:
        return tuple(t for t in sequence(at(self.spec, "template", "spec", "taints")) if isinstance(known(t), dict))

    @cached_property
    def labels(self) -> dict[str, str]:
        """The labels its nodes get from the template."""
        labels = mapping(at(self.spec, "template", "metadata", "labels"))
        return {key: value for key, value in labels.items() if isinstance(value, str)}

    def has_label(self, pair: str) -> bool:
        """Whether its nodes carry the label written `key=value`; an empty pair is carried by none."""
        key, _, value = pair.partition("=")
        return bool(key) and self.labels.get(key) == value

    @cached_property
    def limits(self) -> dict[str, float]:
        """Resource name to amount in its base unit; entries that are no quantity are left out."""
        limits = mapping(self.spec.get("limits"))
        return {name: amount for name, value in limits.items() if (amount := quantity(value)) is not None}

    @cached_property
    def gpu(self) -> bool:
        """Whether this pool is meant to launch GPU nodes: it names GPU hardware, limits GPUs, or carries a GPU taint.

        A pool that merely does not exclude GPU types is no GPU pool.
        """
        if any(_excludes_gpus(requirement) for requirement in self.requirements):
            return False
        return (
            any(is_gpu_resource(name) and amount > 0 for name, amount in self.limits.items())
            or any(_GPU_TAINT.fullmatch(text(taint.get("key")) or "") for taint in self.taints)
            or any(_names_gpus(requirement) for requirement in self.requirements)
        )

    @cached_property
    def may_have_gpus(self) -> bool:
        """Whether nothing keeps GPU types out: a GPU pool, or a pool that says nothing of families and GPUs."""
        if any(_excludes_gpus(requirement) for requirement in self.requirements):
            return False
        listed = [r for r in self.requirements if r.key in _GPU_VALUES]
        return self.gpu or all(_leaves_gpus(requirement) for requirement in listed)

    @property
    def purpose(self) -> str:
        """What its nodes are for, where their label triplane.dev/purpose says it: serving, training or batch."""
        return self.labels.get(PURPOSE, "")

    def waits(self, batch_label: str) -> bool:
        """Whether it is declared for work that may wait and be repeated: by purpose, or by the label `key=value`."""
        return self.purpose == "batch" or self.has_label(batch_label)

    @cached_property
    def capacity_types(self) -> frozenset[str] | None:
        """The capacity types it states: of reserved, spot and on-demand; None where it leaves all of them open."""
        stated = [r for r in self.required(CAPACITY_TYPE) if r.operator in ("In", "NotIn")]
        if label := self.labels.get(CAPACITY_TYPE):
            return frozenset((label,))
        if not stated:
            return None
        allowed = CAPACITY_TYPES
        for requirement in stated:
            values = frozenset(requirement.values)
            allowed = allowed & values if requirement.operator == "In" else allowed - values
        return allowed

    @property
    def only_reserved(self) -> bool:
        """Whether it launches into reservations and nothing else."""
        return self.capacity_types == frozenset(("reserved",))

    @property
    def capacity_type_path(self) -> Path:
        """Where its capacity types stand, or should stand."""
        stated = self.required(CAPACITY_TYPE)
        return (*stated[0].path, "values") if stated else REQUIREMENTS

    @cached_property
    def zones(self) -> tuple[str, ...]:
        """The zones it lists; empty where it leaves them open."""
        listed = [r.values for r in self.required(ZONE) if r.operator == "In"]
        return tuple(dict.fromkeys(zone for values in listed for zone in values))

    @cached_property
    def node_class_group(self) -> str:
        """API group of its node class: karpenter.k8s.aws, eks.amazonaws.com, karpenter.azure.com ..."""
        return text(at(self.spec, "template", "spec", "nodeClassRef", "group")) or ""

    @property
    def on_aws(self) -> bool:
        """Whether its nodes are EC2's, through Karpenter's AWS provider or EKS Auto Mode, as class or keys say."""
        domains = {key.partition("/")[0] for key in (requirement.key for requirement in self.requirements)}
        return self.node_class_group in AWS_DOMAINS or not domains.isdisjoint(AWS_DOMAINS)

    @cached_property
    def expires(self) -> float:
        """Seconds after which a node expires, infinite for Never. 720h where nothing is written (since 0.32)."""
        written = text(at(self.resource.data, *EXPIRE_AFTER))
        if written == "Never":
            return math.inf
        seconds = duration(written)
        return _THIRTY_DAYS if seconds is None else seconds

    @cached_property
    def grace_period(self) -> float | None:
        """Seconds of terminationGracePeriod; None: not written, so a drain may take for ever."""
        return duration(text(at(self.resource.data, *GRACE_PERIOD)))

    @cached_property
    def startup_taints(self) -> tuple[dict[str, Any], ...]:
        written = sequence(at(self.spec, "template", "spec", "startupTaints"))
        return tuple(taint for taint in written if isinstance(known(taint), dict))

    @property
    def static(self) -> bool:
        """`spec.replicas` is set: Karpenter ignores the consolidation fields (1.8, gate StaticCapacity)."""
        return known(self.spec.get("replicas")) is not None

    @property
    def v1beta1(self) -> bool:
        return self.resource.version == "v1beta1"

    @property
    def default_policy(self) -> str:
        return "WhenUnderutilized" if self.v1beta1 else "WhenEmptyOrUnderutilized"

    @cached_property
    def consolidation_policy(self) -> str | None:
        """As written; None when it is absent and the default holds."""
        return text(at(self.spec, "disruption", "consolidationPolicy"))

    @cached_property
    def consolidate_after(self) -> str | None:
        """As written; None when it is absent (then 0s holds)."""
        return text(at(self.spec, "disruption", "consolidateAfter"))

    @cached_property
    def budgets(self) -> tuple[Budget, ...] | None:
        """The written budgets; None when there are none and Karpenter's default of 10 % for every reason holds."""
        written = at(self.spec, "disruption", "budgets")
        if not isinstance(written, list):
            return None
        return tuple(_budgets(written))

    def always_zero(self, reason: str) -> bool:
        """Whether an always active budget forbids every disruption for `reason`."""
        return any(b.zero and b.always_active and b.covers(reason) for b in self.budgets or ())

    def always_bounded(self, reason: str) -> bool:
        """Whether some budget for `reason` is always active; where none is active, a reason is unlimited."""
        return self.budgets is None or any(b.always_active and b.covers(reason) for b in self.budgets)


def _requirements(written: Any) -> Iterator[Requirement]:
    for index, entry in enumerate(sequence(written)):
        fields = mapping(entry)
        key, operator = text(fields.get("key")), text(fields.get("operator"))
        if key is not None and operator is not None:
            values = sequence(fields.get("values"))
            yield Requirement(index, key, operator, tuple(str(known(value)) for value in values))


def _budgets(written: list[Any]) -> Iterator[Budget]:
    for index, entry in enumerate(written):
        fields = mapping(entry)
        nodes, reasons = known(fields.get("nodes")), known(fields.get("reasons"))
        yield Budget(
            index,
            str(int(nodes)) if number(nodes) is not None else text(nodes) or "10%",
            tuple(str(known(reason)) for reason in reasons) if isinstance(reasons, list) else None,
            text(fields.get("schedule")),
            text(fields.get("duration")),
        )


def _names_gpus(requirement: Requirement) -> bool:
    if _GPU_PROPERTY.fullmatch(requirement.key):
        return requirement.operator in ("In", "Exists", "Gt", "Gte")
    pattern = _GPU_VALUES.get(requirement.key)
    return pattern is not None and requirement.admits_any(pattern)


# What every GPU type of a key is called, so that a NotIn can leave none over. Families are too many to list out.
_ALL_GPU_CATEGORIES = frozenset(("g", "gr", "p"))


def _leaves_gpus(requirement: Requirement) -> bool:
    """Whether a requirement on category, family or type still admits a GPU type."""
    if requirement.operator == "In":
        return _names_gpus(requirement)
    if requirement.operator == "NotIn" and requirement.key.endswith("/instance-category"):
        return not set(requirement.values) >= _ALL_GPU_CATEGORIES
    return requirement.operator != "DoesNotExist"


def _excludes_gpus(requirement: Requirement) -> bool:
    if not _GPU_PROPERTY.fullmatch(requirement.key):
        return False
    if requirement.operator == "DoesNotExist":
        return True
    if not _GPU_COUNT.fullmatch(requirement.key):
        return False
    values = [quantity(value) for value in requirement.values]
    return bool(values) and (
        (requirement.operator == "In" and all(value == 0 for value in values))
        or (requirement.operator == "Lt" and values[0] is not None and values[0] <= 1)
        or (requirement.operator == "Lte" and values[0] == 0)
    )
