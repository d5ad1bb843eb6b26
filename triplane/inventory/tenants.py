"""Who lives on a pool: the GPU pods that can land there."""

from collections.abc import Callable, Hashable
from typing import Any

from triplane.inventory.capacity import Destination, Landing
from triplane.inventory.inventory import Inventory
from triplane.inventory.nodepools import NodePool
from triplane.inventory.workloads import PodTemplate, Workload

Tenant = tuple[Workload, PodTemplate]


class Tenants:
    """Answers questions about the pods that can land on a pool. Use `inventory.relation(Tenants)`.

    Many pools share their pods, so each question is asked once for each set of pods.
    """

    def __init__(self, inventory: Inventory) -> None:
        self._places: dict[NodePool, list[Destination]] = {}
        for destination in inventory.relation(Landing).destinations:
            for pool in destination.pools:
                self._places.setdefault(pool, []).append(destination)
        self._answers: dict[tuple[int, Any, Hashable], Tenant | None] = {}

    def first(self, pool: NodePool, question: Callable[..., bool], *about: Hashable) -> Tenant | None:
        """The first tenant for whom `question(workload, template, *about)` holds; None: there is none."""
        for destination in self._places.get(pool, ()):
            if (found := self._answer(destination, question, about)) is not None:
                return found
        return None

    def _answer(self, destination: Destination, question: Callable[..., bool], about: Hashable) -> Tenant | None:
        key = (id(destination), question, about)
        if key not in self._answers:
            asked = (tenant for tenant in destination.templates if question(*tenant, *about))  # type: ignore[misc]
            self._answers[key] = next(asked, None)
        return self._answers[key]
