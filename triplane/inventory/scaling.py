"""Which scaler scales which object, and how many replicas that may become."""

from triplane.inventory import kinds
from triplane.inventory.inventory import Inventory
from triplane.inventory.resource import Resource
from triplane.inventory.scalers import Scaler, Target
from triplane.inventory.workloads import Workload, count

KEDA_DEFAULT_MAXIMUM = 100  # keda apis/keda/v1alpha1/scaledobject_types.go
DEFAULT_NAMESPACE = "default"


class Scaling:
    """Scalers and their targets. Use `inventory.relation(Scaling)`."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._by_target: dict[tuple[str, str, str], list[Scaler]] = {}
        self._positions: dict[Scaler, int] = {}
        for scaler in inventory.views(Scaler):
            self._positions[scaler] = len(self._positions)
            if scaler.target is not None:
                self._by_target.setdefault(_key(scaler.target), []).append(scaler)

    def target(self, scaler: Scaler) -> Resource | None:
        """The object a scaler scales, if it is in the inventory."""
        found = scaler.target
        return self._inventory.find(found.kind, found.name, found.namespace) if found else None

    def target_workload(self, scaler: Scaler) -> Workload | None:
        """The same as a workload, or the scaler itself where its kind makes pods (KServe, Grove, ScaledJob).

        None where it is not here, or makes no pods itself.
        """
        found = scaler.resource if scaler.kind in Workload.KINDS else self.target(scaler)
        return found.view(Workload) if found is not None and found.kind in Workload.KINDS else None

    def scalers_of(self, resource: Resource) -> list[Scaler]:
        """The scalers of one object."""
        return self._by_target.get((resource.kind, resource.namespace or DEFAULT_NAMESPACE, resource.name), [])

    def rivals(self, scaler: Scaler) -> list[Scaler]:
        """The other scalers of the same target."""
        same = self._by_target.get(_key(scaler.target), []) if scaler.target else []
        return [other for other in same if other is not scaler]

    def position(self, scaler: Scaler) -> int:
        """Where it comes among the scalers of the input."""
        return self._positions[scaler]

    def maximum(self, workload: Workload) -> tuple[int, Scaler | None]:
        """The most replicas a workload may have, and the scaler that says so (None: its own replicas)."""
        bounds = [
            (bound, scaler) for scaler in self.scalers_of(workload.resource) if (bound := maximum(scaler)) is not None
        ]
        return max(bounds, key=lambda bound: bound[0]) if bounds else (workload.replicas, None)

    def minimum(self, workload: Workload) -> tuple[int, Scaler | None]:
        """The fewest replicas a workload may have, and the scaler that says so."""
        bounds = [(minimum(scaler), scaler) for scaler in self.scalers_of(workload.resource)]
        return min(bounds, key=lambda bound: bound[0]) if bounds else (workload.replicas, None)


def maximum(scaler: Scaler) -> int | None:
    """A scaler's upper bound with its kind's default; None where it has none (HPA requires one)."""
    if scaler.maximum is not None:
        return scaler.maximum
    return KEDA_DEFAULT_MAXIMUM if scaler.keda else None


def minimum(scaler: Scaler) -> int:
    """A scaler's lower bound with its kind's default: 0 for KEDA, 1 for HPA."""
    return count(scaler.minimum, 0 if scaler.kind == kinds.SCALED_OBJECT else 1)


def _key(target: Target) -> tuple[str, str, str]:
    return target.kind, target.namespace or DEFAULT_NAMESPACE, target.name
