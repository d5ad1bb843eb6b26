"""Reading Kubernetes objects that somebody else wrote."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Inexpressible:
    """Something an object says that the stack file does not."""

    owner: str
    """`NodePool serving`, or `ScaledObject chat/decode` where it is namespaced."""
    field: str
    """The field, such as spec.disruption.consolidationPolicy; empty: the object as a whole."""
    message: str

    def __str__(self) -> str:
        return f"{self.owner}{' ' + self.field if self.field else ''}: {self.message}"


def of_kind(objects: Iterable[Object], kind: str, group: str) -> list[Object]:
    """The objects of one kind, of any version of the group."""
    return [
        item
        for item in objects
        if item.get("kind") == kind and str(item.get("apiVersion", "")).partition("/")[0] == group and name_of(item)
    ]


def name_of(item: Object) -> str:
    return str(get(item, "metadata", "name") or "")


def namespace_of(item: Object) -> str:
    return str(get(item, "metadata", "namespace") or "default")


def label_of(item: Object, key: str) -> Any:
    return mapping(get(item, "metadata", "labels")).get(key)


def title(item: Object) -> str:
    """`NodePool serving`, `HorizontalPodAutoscaler chat/decode`."""
    namespace = get(item, "metadata", "namespace")
    return f"{item.get('kind')} {namespace + '/' if namespace else ''}{name_of(item)}"


def get(value: Any, *keys: str) -> Any:
    """The value at a path of keys; None where a part is missing or no mapping."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def whole(value: Any) -> int | None:
    """A whole number, also where it is written as text; None where it is none."""
    try:
        number = float(value) if not isinstance(value, bool) else None
    except (TypeError, ValueError):
        return None
    return int(number) if number is not None and number.is_integer() else None
