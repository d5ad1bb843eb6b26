"""What a stack's owner should know and no rule says: known faults of the declared releases, what is not done here."""

from collections.abc import Callable, Iterator, Mapping

from triplane import catalog
from triplane.manifests.fleet import FleetManifests
from triplane.settings.stack import StackSettings

EXISTING_NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})


def notices(stack: StackSettings, fleet: FleetManifests) -> Iterator[str]:
    """Whole sentences, most urgent first."""
    if stack.freeze:
        since = f"{stack.freeze.since:%Y-%m-%d %H:%M} UTC"
        yield f"frozen since {since}: {stack.freeze.reason}. Replicas and nodes hold still."
    yield from _known_issues(stack)
    if missing := _namespaces(fleet):
        yield f"namespaces that must exist before: {', '.join(missing)}."
    chosen = [name for name in ("dashboards", "alerts") if getattr(stack.observability, name)]
    if chosen:
        keys = " and ".join(f"observability.{name}" for name in chosen)
        yield f"{keys}: accepted, but this version generates none."
    if any(model.slo for model in stack.models.values()):
        yield "slo.itlP99: no autoscaler follows it; it is the bound that `triplane simulate` judges requests by."


def _has_training(stack: StackSettings) -> bool:
    return any(pool.purpose == "training" for pool in stack.pools.values())


def _has_reservation(stack: StackSettings) -> bool:
    return any(pool.capacity.reserved for pool in stack.pools.values())


def _has_fallback(stack: StackSettings) -> bool:
    return any(pool.capacity.reserved and pool.capacity.fallback for pool in stack.pools.values())


def _uses_keda(stack: StackSettings) -> bool:
    return any(role.autoscaler == "keda" for model in stack.models.values() for role in model.roles.values())


def _always(_: StackSettings) -> bool:
    return True


# Which stacks a known fault concerns, by its topic in the catalogue. One of no known topic concerns all.
_CONCERNS: Mapping[str, Callable[[StackSettings], bool]] = {
    "completing-gang": _has_training,
    "drift": _has_reservation,
    "reservation": _has_fallback,
    "fallback-race": _uses_keda,
}


def _known_issues(stack: StackSettings) -> Iterator[str]:
    platform = stack.platform
    names = {"karpenter": "Karpenter", "kai": "KAI", "keda": "KEDA"}
    for controller, name in names.items():
        version = getattr(platform, controller).version
        for issue in catalog.known_issues(controller, version):
            if _CONCERNS.get(issue.topic, _always)(stack):
                yield f"{name} {version}: {issue.note}."


def _namespaces(fleet: FleetManifests) -> list[str]:
    declared = {manifest["metadata"]["name"] for manifest in fleet.extra if manifest["kind"] == "Namespace"}
    used = {manifest["metadata"].get("namespace", "default") for manifest in fleet.objects}
    return sorted(used - declared - EXISTING_NAMESPACES)
