"""What differs between two sets of Kubernetes objects, and which of it replaces running nodes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final, Literal

from triplane.documents import Path
from triplane.manifests.drift import rolls_every_node, upgrade_rolls
from triplane.manifests.identity import Identity, identify

Manifest = Mapping[str, Any]

ABSENT: Final = object()
"""Stands where one of two states has no value."""


@dataclass(frozen=True)
class FieldChange:
    """One value that differs. `old` or `new` is ABSENT where that state has none."""

    path: Path
    old: Any
    new: Any


@dataclass(frozen=True)
class ObjectChange:
    """One object that differs."""

    identity: Identity
    kind: Literal["added", "removed", "changed"]
    fields: tuple[FieldChange, ...] = ()
    """Of a changed object."""


def changes(before: Iterable[Manifest], after: Iterable[Manifest]) -> list[ObjectChange]:
    """Added, removed and changed objects, by kind, namespace and name. Raises ManifestError for what is no object."""
    old, new = ({identify(manifest).same_object: manifest for manifest in objects} for objects in (before, after))
    found: list[ObjectChange] = []
    for key in sorted(old.keys() | new.keys(), key=lambda key: key[1:]):
        if key not in old:
            found.append(ObjectChange(identify(new[key]), "added"))
        elif key not in new:
            found.append(ObjectChange(identify(old[key]), "removed"))
        elif fields := tuple(_fields(old[key], new[key], ())):
            found.append(ObjectChange(identify(new[key]), "changed", fields))
    return found


def _fields(old: Any, new: Any, path: Path) -> Iterator[FieldChange]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted(old.keys() | new.keys()):
            yield from _fields(old.get(key, ABSENT), new.get(key, ABSENT), (*path, key))
    elif (
        isinstance(old, list) and isinstance(new, list) and any(isinstance(item, Mapping | list) for item in old + new)
    ):
        for index, (one, other) in enumerate(zip_longest(old, new, fillvalue=ABSENT)):
            yield from _fields(one, other, (*path, index))
    elif old != new or isinstance(old, bool) != isinstance(new, bool):
        yield FieldChange(path, old, new)


def replaced_pools(
    before: Iterable[Manifest], after: Iterable[Manifest], karpenter: tuple[str, str] | None = None
) -> dict[str, tuple[str, ...]]:
    """The NodePools of which Karpenter would replace every node, each with the reasons.

    A pool that is new or gone is not among them. `karpenter` is the release before and after.
    """
    old, new = ({identify(manifest).same_object: manifest for manifest in objects} for objects in (before, after))
    upgrade = upgrade_rolls(*karpenter) if karpenter and karpenter[0] != karpenter[1] else ()
    found: dict[str, tuple[str, ...]] = {}
    for key, pool in sorted(new.items()):
        if pool["kind"] != "NodePool" or key not in old:
            continue
        reasons = [*rolls_every_node(_of_one_version(old[key], pool), pool), *upgrade]
        reference = pool.get("spec", {}).get("template", {}).get("spec", {}).get("nodeClassRef", {})
        for other, node_class in new.items():
            if other[:2] == (reference.get("group"), reference.get("kind")) and other[3] == reference.get("name"):
                rolled = rolls_every_node(_of_one_version(old[other], node_class), node_class) if other in old else ()
                reasons += [f"{node_class['kind']} {other[3]}: {reason}" for reason in rolled]
        if reasons:
            found[pool["metadata"]["name"]] = tuple(reasons)
    return found


def _of_one_version(manifest: Manifest, other: Manifest) -> Manifest:
    """A group's versions are views of one object."""
    return {**manifest, "apiVersion": other["apiVersion"]}
