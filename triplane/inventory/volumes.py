"""Where a pod's volumes are: the zones that its claims tie it to."""

from collections.abc import Iterator
from typing import Any

from triplane.documents import Path
from triplane.inventory.fields import at, sequence, text
from triplane.inventory.inventory import Inventory
from triplane.inventory.resource import Resource
from triplane.inventory.workloads import PodTemplate, Workload

CLAIM, VOLUME, STORAGE_CLASS = "PersistentVolumeClaim", "PersistentVolume", "StorageClass.storage.k8s.io"
# The well-known label, and those of the EBS drivers (self-managed and EKS Auto Mode).
ZONE_KEYS = (
    "topology.kubernetes.io/zone",
    "topology.ebs.csi.aws.com/zone",
    "topology.ebs.csi.eks.amazonaws.com/zone",
    "failure-domain.beta.kubernetes.io/zone",
)


def zones_of_volumes(
    workload: Workload, template: PodTemplate, inventory: Inventory
) -> Iterator[tuple[Path, frozenset[str], Resource]]:
    """Each claim of a template that ties its pods to zones: where it stands, the zones, and the object that says so."""
    for index, volume in enumerate(sequence(template.spec.get("volumes"))):
        name = text(at(volume, "persistentVolumeClaim", "claimName"))
        claim = inventory.find(CLAIM, name, workload.resource.namespace) if name else None
        if claim is not None:
            path: Path = (*template.path, "volumes", index, "persistentVolumeClaim", "claimName")
            yield from _tied(path, claim.data, inventory)
    for index, written in enumerate(sequence(workload.spec.get("volumeClaimTemplates"))):
        yield from _tied(("spec", "volumeClaimTemplates", index), written, inventory)


def _tied(path: Path, claim: Any, inventory: Inventory) -> Iterator[tuple[Path, frozenset[str], Resource]]:
    volume = inventory.find(VOLUME, text(at(claim, "spec", "volumeName")) or "")
    storage = inventory.find(STORAGE_CLASS, text(at(claim, "spec", "storageClassName")) or "")
    if volume is not None:
        terms = sequence(at(volume.data, "spec", "nodeAffinity", "required", "nodeSelectorTerms"))
        zones = frozenset(_zones(terms, "matchExpressions"))
        label = text(at(volume.data, "metadata", "labels", ZONE_KEYS[0]))
        if zones or label:
            yield path, zones or frozenset((label or "",)), volume
    elif storage is not None:
        terms = sequence(storage.data.get("allowedTopologies"))
        if zones := frozenset(_zones(terms, "matchLabelExpressions")):
            yield path, zones, storage


def _zones(terms: Any, expressions: str) -> Iterator[str]:
    for term in terms:
        for expression in sequence(at(term, expressions)):
            if text(at(expression, "key")) in ZONE_KEYS and (text(at(expression, "operator")) or "In") == "In":
                yield from (zone for zone in sequence(at(expression, "values")) if isinstance(zone, str))
