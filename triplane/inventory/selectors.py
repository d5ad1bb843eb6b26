"""Label selectors, and the pods they select."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar

from triplane.documents import Path
from triplane.inventory import kinds
from triplane.inventory.fields import at, mapping, number, sequence, text
from triplane.inventory.inventory import Inventory
from triplane.inventory.placement import satisfies
from triplane.inventory.resource import Resource
from triplane.inventory.scaling import DEFAULT_NAMESPACE
from triplane.inventory.workloads import PodTemplate, Workload

INFERENCE_POOLS = ("InferencePool.inference.networking.k8s.io", "InferencePool.inference.networking.x-k8s.io")

Selected = tuple[Workload, PodTemplate]


class Selector:
    """A label selector: labels that must be there, and expressions over labels. An empty one selects everything."""

    def __init__(self, labels: Any, expressions: Any = None) -> None:
        self.labels = {key: value for key, value in mapping(labels).items() if isinstance(value, str)}
        self._expressions = [
            (key, operator, tuple(value for value in sequence(at(entry, "values")) if isinstance(value, str)))
            for entry in sequence(expressions)
            if (key := text(at(entry, "key"))) and (operator := text(at(entry, "operator")))
        ]

    def __bool__(self) -> bool:
        return bool(self.labels or self._expressions)

    def matches(self, labels: Mapping[str, Any]) -> bool:
        """Whether an object with these labels is selected."""
        return all(labels.get(key) == value for key, value in self.labels.items()) and all(
            _holds(text(labels.get(key)), operator, values) for key, operator, values in self._expressions
        )


def _holds(value: str | None, operator: str, values: tuple[str, ...]) -> bool:
    if value is None:
        return operator in ("NotIn", "DoesNotExist")
    return satisfies(value, operator, values)


class PodSelector:
    """An object that selects the pods requests go to: a Service, or an InferencePool of either API group."""

    KINDS: ClassVar[tuple[str, ...]] = (kinds.SERVICE, *INFERENCE_POOLS)

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.spec = mapping(resource.data.get("spec"))
        self.pool = resource.kind in INFERENCE_POOLS

    @cached_property
    def _wrapped(self) -> bool:
        """Whether the labels stand under matchLabels, as since inference.networking.k8s.io/v1."""
        return isinstance(at(self.spec, "selector", "matchLabels"), dict)

    @property
    def path(self) -> Path:
        return ("spec", "selector", "matchLabels") if self.pool and self._wrapped else ("spec", "selector")

    @cached_property
    def selector(self) -> Selector:
        return Selector(at(self.resource.data, *self.path))

    @cached_property
    def ports(self) -> frozenset[int]:
        """The ports of the pods that an InferencePool sends requests to."""
        listed = [at(entry, "number") for entry in sequence(self.spec.get("targetPorts"))]
        found = (number(port) for port in (*listed, self.spec.get("targetPortNumber")))
        return frozenset(int(port) for port in found if port is not None)


class DisruptionBudget:
    """A PodDisruptionBudget (policy/v1)."""

    KINDS: ClassVar[tuple[str, ...]] = (kinds.POD_DISRUPTION_BUDGET,)

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.spec = mapping(resource.data.get("spec"))

    @cached_property
    def selector(self) -> Selector:
        return Selector(at(self.spec, "selector", "matchLabels"), at(self.spec, "selector", "matchExpressions"))

    def spare(self, pods: int) -> tuple[int, str] | None:
        """How many of so many pods it lets go at a time, and the field that says so; None: it says neither.

        Both percentages round up (pkg/controller/disruption, Kubernetes 1.34).
        """
        for field in ("maxUnavailable", "minAvailable"):
            amount = scaled(self.spec.get(field), pods, up=True)
            if amount is not None:
                return (amount if field == "maxUnavailable" else pods - amount), field
        return None


def scaled(written: Any, of: int, *, up: bool) -> int | None:
    """An IntOrString of so many pods: 2 -> 2, "25%" -> rounded up or down. None: neither a number nor a percentage."""
    amount = number(written)
    if amount is not None:
        return int(amount)
    digits = (text(written) or "").removesuffix("%")
    if not (digits != written and digits.isascii() and digits.isdigit() and len(digits) <= 6):
        return None
    exact = int(digits) * of
    return -(-exact // 100) if up else exact // 100


class SelectedPods:
    """The pod templates of an inventory by their labels. Use `inventory.relation(SelectedPods)`."""

    def __init__(self, inventory: Inventory) -> None:
        self._all: dict[str, list[Selected]] = {}
        self._labelled: dict[tuple[str, str, str], list[Selected]] = {}
        self._budgets: dict[Workload, list[DisruptionBudget]] | None = None
        self._inventory = inventory
        for workload in inventory.views(Workload):
            space = workload.resource.namespace or DEFAULT_NAMESPACE
            for template in workload.templates:
                # Pods whose labels an operator writes cannot be told from here.
                if template.metadata_path == ("metadata",) and workload.kind != "Pod":
                    continue
                self._all.setdefault(space, []).append((workload, template))
                for key, value in template.labels.items():
                    if isinstance(value, str):
                        self._labelled.setdefault((space, key, value), []).append((workload, template))

    def of(self, namespace: str, selector: Selector) -> Iterator[Selected]:
        """The pod templates a selector selects in a namespace."""
        space = namespace or DEFAULT_NAMESPACE
        candidates = (self._labelled.get((space, *pair), []) for pair in selector.labels.items())
        fewest = min(candidates, key=len, default=self._all.get(space, []))
        return (found for found in fewest if selector.matches(found[1].labels))

    def budgets(self, workload: Workload) -> list[DisruptionBudget]:
        """The disruption budgets that some pods of a workload are under."""
        if self._budgets is None:
            self._budgets = {}
            for budget in self._inventory.views(DisruptionBudget):
                for selected in dict.fromkeys(w for w, _ in self.of(budget.resource.namespace, budget.selector)):
                    self._budgets.setdefault(selected, []).append(budget)
        return self._budgets.get(workload, [])
