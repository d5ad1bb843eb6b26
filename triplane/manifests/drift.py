"""Which change makes Karpenter replace every node of a pool.

Karpenter hashes most of a NodePool's template and of an EC2NodeClass into each node; another hash means drift of all
of them, as fast as the budgets allow. (Hashes v3 and v6 of Karpenter 1.12 and later; kubernetes-sigs/karpenter
pkg/apis/v1/nodepool.go, aws/karpenter-provider-aws pkg/apis/v1/ec2nodeclass.go.)
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from triplane import catalog

_TEMPLATE_DEFAULTS: Final = {"expireAfter": "720h"}
_NODE_CLASS_DEFAULTS: Final = {
    "metadataOptions": {
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "disabled",
        "httpPutResponseHopLimit": 1,
        "httpTokens": "required",
    }
}
_RESOLVED: Final = frozenset(
    {
        "amiSelectorTerms",
        "subnetSelectorTerms",
        "securityGroupSelectorTerms",
        "capacityReservationSelectorTerms",
        "ipPrefixCount",
    }
)
"""Not hashed: what a selector finds decides, not how it is written."""


def rolls_every_node(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields whose change replaces every node, as paths with the reason; empty: none is known to.

    Two states of one NodePool, EC2NodeClass or Auto Mode NodeClass; any other kind gives none. A change that may
    replace some nodes (a narrower requirement, another subnet selector) is not reported. Raises ValueError for two
    different objects.
    """
    identity = [(o.get("apiVersion"), o.get("kind"), o.get("metadata", {}).get("name")) for o in (before, after)]
    if identity[0] != identity[1]:
        raise ValueError(f"two states of one object are needed, found {identity[0]} and {identity[1]}")
    old, new = before.get("spec", {}), after.get("spec", {})
    match after.get("kind"):
        case "NodePool":
            return _node_pool(old, new)
        case "EC2NodeClass" | "NodeClass":
            return _node_class(old, new)
        case _:
            return ()


def upgrade_rolls(before: str, after: str) -> tuple[str, ...]:
    """Why an upgrade (or the way back) of Karpenter alone replaces every node; empty: it does not. Versions as
    1.14.1."""
    low, high = sorted((catalog.release(before), catalog.release(after)))
    return tuple(roll.note for roll in catalog.rolling_upgrades("karpenter") if low < catalog.release(roll.at) <= high)


def _node_pool(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
    found = []
    if ("replicas" in old) != ("replicas" in new):
        found.append("spec.replicas: a pool cannot become static or dynamic in place; replacing it deletes its nodes")
    old_template, new_template = old.get("template", {}), new.get("template", {})
    for part in ("labels", "annotations"):
        found += _changed(
            f"spec.template.metadata.{part}",
            old_template.get("metadata", {}).get(part, {}),
            new_template.get("metadata", {}).get(part, {}),
        )
    old_spec = {**_TEMPLATE_DEFAULTS, **old_template.get("spec", {})}
    new_spec = {**_TEMPLATE_DEFAULTS, **new_template.get("spec", {})}
    found += _changed("spec.template.spec", old_spec, new_spec, leave_out={"requirements"})
    found += _disjoint_requirements(old_spec.get("requirements", ()), new_spec.get("requirements", ()))
    return tuple(found)


def _node_class(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
    found = _changed("spec", {**_NODE_CLASS_DEFAULTS, **old}, {**_NODE_CLASS_DEFAULTS, **new}, leave_out=_RESOLVED)
    images = [_pinned_images(spec.get("amiSelectorTerms", ())) for spec in (old, new)]
    if all(images) and images[0].isdisjoint(images[1]):
        found.append(f"spec.amiSelectorTerms: from {', '.join(sorted(images[0]))} to {', '.join(sorted(images[1]))}")
    return tuple(found)


def _changed(path: str, old: Mapping[str, Any], new: Mapping[str, Any], leave_out: Iterable[str] = ()) -> list[str]:
    keys = (old.keys() | new.keys()) - set(leave_out)
    return [
        f"{path}.{key}: hashed into every node"
        for key in sorted(keys)
        if _hashed(old.get(key)) != _hashed(new.get(key))
    ]


def _hashed(value: Any) -> str:
    """As the hash sees a value: lists are sets, and what is empty is as good as absent."""
    return json.dumps(_canonical(value), sort_keys=True)


def _canonical(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: part for key, item in value.items() if (part := _canonical(item)) not in (None, {}, [], "")
        } or None
    if isinstance(value, list | tuple):
        return sorted((_canonical(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True)) or None
    return value


def _disjoint_requirements(old: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]) -> list[str]:
    """Requirements are not hashed: a node drifts when its labels no longer fit. None fits where no old value is
    allowed."""

    def allowed(requirements: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
        return {r["key"]: set(r.get("values", ())) for r in requirements if r.get("operator") == "In"}

    before = allowed(old)
    return [
        f"spec.template.spec.requirements: {key} allows none of the values that nodes have now"
        for key, values in allowed(new).items()
        if key in before and before[key].isdisjoint(values)
    ]


def _pinned_images(terms: Iterable[Mapping[str, Any]]) -> set[str]:
    """AMIs that the terms name outright; empty where a term finds its AMI by tag, name or parameter."""
    images = [term.get("alias") or term.get("id") for term in terms]
    return set(filter(None, images)) if all(images) else set()
