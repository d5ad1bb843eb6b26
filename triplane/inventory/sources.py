"""Any source of objects -> resources with their origin."""

from collections.abc import Iterator, Mapping
from typing import Any

from triplane.documents import Path
from triplane.inventory.fields import text
from triplane.inventory.resource import Origin, Resource


def resources_of(value: Any, file: str, document: int = 0) -> Iterator[Resource]:
    """The objects of one YAML or JSON document: the document itself, or the items of a `List`."""
    yield from _objects(value, file, document, ())


def _objects(value: Any, file: str, document: int, within: Path) -> Iterator[Resource]:
    if not isinstance(value, dict):
        return
    kind, items = value.get("kind"), value.get("items")
    # `kubectl get -o yaml` prints `List`; the API itself answers with `NodePoolList` and the like.
    if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
        for index, item in enumerate(items):
            yield from _objects(_typed(item, value), file, document, (*within, "items", index))
        return
    yield Resource(value, Origin(file=file, document=document, within=within))


def _typed(item: Any, parent: dict[str, Any]) -> Any:
    """The items of a typed list carry no apiVersion and kind of their own."""
    if isinstance(item, dict) and "kind" not in item and parent.get("kind") != "List":
        return {"apiVersion": parent.get("apiVersion"), "kind": str(parent["kind"]).removesuffix("List"), **item}
    return item


def pulumi_resource(type_token: str, properties: Mapping[str, Any], origin: Origin) -> Resource:
    """A resource of a Pulumi program or state.

    A `kubernetes:` resource is the object it creates. Any other has its properties under `spec`, its package and module
    as API group and its logical name as metadata.name: `aws:ec2/capacityReservation:CapacityReservation` is
    {apiVersion: ec2.aws/pulumi, kind: CapacityReservation, spec: {...}}.
    """
    package, _, rest = type_token.partition(":")
    module, _, kind = rest.rpartition(":")
    data = {key: value for key, value in properties.items() if not key.startswith("__")}
    if package == "kubernetes" and not module.startswith("helm.sh"):
        api_version = module.removeprefix("core/")
        return Resource({"apiVersion": api_version, "kind": kind, **data}, origin)
    group = module.partition("/")[0]
    name = text(properties.get("name")) or origin.urn.rpartition("::")[2]
    # kubernetes:helm.sh/v3:Release keeps its own API group.
    api_version = module if package == "kubernetes" else f"{group}.{package}/pulumi"
    return Resource({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": data}, origin)
