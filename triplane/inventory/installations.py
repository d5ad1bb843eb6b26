"""Karpenter's own installation: the Helm release of its chart, as Pulumi, Flux or Argo CD declare it.

Values and defaults: charts/karpenter of aws/karpenter-provider-aws (1.14.1).
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from triplane.documents import Path
from triplane.inventory import kinds
from triplane.inventory.fields import Unknown, at, known, mapping, sequence, text
from triplane.inventory.inventory import Inventory
from triplane.inventory.resource import Resource

# Where each kind writes the chart's name and the values.
_PLACES: dict[str, tuple[Path, Path]] = {
    kinds.HELM_RELEASE: (("spec", "chart"), ("spec", "values")),
    kinds.FLUX_HELM_RELEASE: (("spec", "chart", "spec", "chart"), ("spec", "values")),
    kinds.ARGO_APPLICATION: (("spec", "source", "chart"), ("spec", "source", "helm", "valuesObject")),
}


class HelmRelease:
    """A Helm release of any chart. `values_path` says where its values stand."""

    KINDS: ClassVar[tuple[str, ...]] = tuple(_PLACES)

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self._chart_path, self.values_path = _PLACES[resource.kind]

    @property
    def chart(self) -> str:
        """The chart's name without repository: `karpenter` of oci://public.ecr.aws/karpenter/karpenter."""
        return (text(at(self.resource.data, *self._chart_path)) or "").rstrip("/").rpartition("/")[2]

    @property
    def values(self) -> Mapping[str, Any]:
        return mapping(at(self.resource.data, *self.values_path))

    @property
    def installs_karpenter(self) -> bool:
        return self.chart == "karpenter"


class Karpenter(HelmRelease):
    """A Helm release of Karpenter; ask `installs_karpenter` first."""

    @property
    def has_interruption_queue(self) -> bool:
        """Whether a queue is named, be its name known already or not."""
        settings = mapping(self.values.get("settings"))
        written = settings.get("interruptionQueue")
        return written.__class__ is Unknown or bool(text(written))

    @property
    def queue_name(self) -> str | None:
        """The queue's name; None where there is none or it is not known yet."""
        written = mapping(self.values.get("settings")).get("interruptionQueue")
        return None if written.__class__ is Unknown else text(written)

    @property
    def gates(self) -> frozenset[str]:
        """The feature gates its values switch on, as the controller spells them: `NodeRepair`."""
        written = mapping(at(self.values, "settings", "featureGates"))
        return frozenset(gate[:1].upper() + gate[1:] for gate, on in written.items() if known(on) in (True, "true"))

    @property
    def pod_spec(self) -> Mapping[str, Any] | None:
        """What its values say about where the controller runs; None where the chart's own affinity holds."""
        affinity = self.values.get("affinity")
        if affinity is None:
            return None
        tolerations = self.values.get("tolerations")
        selector = {"kubernetes.io/os": "linux", **mapping(self.values.get("nodeSelector"))}
        own = [{"key": "CriticalAddonsOnly", "operator": "Exists"}]
        return {
            "affinity": mapping(affinity),
            "nodeSelector": selector,
            "tolerations": own if tolerations is None else list(sequence(tolerations)),
        }


def karpenters(inventory: Inventory) -> Iterator[Karpenter]:
    """The releases of Karpenter in the input."""
    return (release for release in inventory.views(Karpenter) if release.installs_karpenter)


class Gates:
    """Feature gates that releases of the input switch on. Use `inventory.relation(Gates)`."""

    def __init__(self, inventory: Inventory) -> None:
        self.on = frozenset(gate for release in karpenters(inventory) for gate in release.gates)
