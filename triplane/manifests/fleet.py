"""The whole stack as Kubernetes objects, in an order in which they can be applied."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from triplane.manifests import nodes, patching, queues, replicas, workloads
from triplane.manifests.identity import Identity, ManifestError, identify
from triplane.settings.models import RoleName
from triplane.settings.stack import StackSettings

Manifest = dict[str, Any]

# What other objects need to exist before they can be created.
_FIRST_KINDS = ("Namespace", "CustomResourceDefinition", "PriorityClass")


@dataclass(frozen=True)
class FleetManifests:
    """A stack's objects by layer, patches applied. Treat as read-only."""

    pools: Mapping[str, list[Manifest]]
    """By pool: the NodeClass, then the NodePool."""
    queues: list[Manifest]
    """Parents before their children."""
    roles: Mapping[tuple[str, RoleName], list[Manifest]]
    """By model and role: the PodDisruptionBudget, the workload where the stack declares it, the autoscaler."""
    extra: list[Manifest]
    """What `manifests:` adds."""
    patched: frozenset[Identity]
    """Which generated objects a patch changed."""

    @property
    def objects(self) -> list[Manifest]:
        """All objects in the order to apply them."""
        return [*self.first, *_flat(self.pools.values()), *self.queues, *_flat(self.roles.values()), *self.last]

    @property
    def first(self) -> list[Manifest]:
        """Of `extra`, what other objects live in or are of: namespaces, definitions, priority classes."""
        return [manifest for manifest in self.extra if manifest["kind"] in _FIRST_KINDS]

    @property
    def last(self) -> list[Manifest]:
        """The rest of `extra`."""
        return [manifest for manifest in self.extra if manifest["kind"] not in _FIRST_KINDS]


def fleet_manifests(stack: StackSettings, extra: Sequence[Manifest] = ()) -> FleetManifests:
    """Every object of the stack, with its patches applied. `extra` holds the objects that `manifests:` names.

    The order is that of the stack file, and of `extra`: the same input gives the same output. Raises ManifestError for
    a patch without a target, for two manifests of one object, and for two owners of the external metrics API.
    """
    _refuse_two_metric_servers(stack)
    pools = {
        name: nodes.pool_manifests(name, pool, stack.cluster, stack.platform, frozen=stack.freeze is not None)
        for name, pool in stack.pools.items()
    }
    tree = queues.queue_manifests(stack.queues, stack.pools, stack.platform)
    roles = {
        (model_name, role_name): _role(stack, model_name, role_name)
        for model_name, model in stack.models.items()
        for role_name in model.roles
    }
    groups = [*pools.values(), tree, *roles.values()]
    patched_objects, patched = patching.apply_patches(_flat(groups), stack.patches)
    remaining = iter(patched_objects)
    pools = {name: [next(remaining) for _ in group] for name, group in pools.items()}
    tree = [next(remaining) for _ in tree]
    roles = {key: [next(remaining) for _ in group] for key, group in roles.items()}
    _refuse_duplicates(patched_objects, extra)
    return FleetManifests(pools, tree, roles, list(extra), patched)


def _role(stack: StackSettings, model_name: str, role_name: RoleName) -> list[Manifest]:
    model = stack.models[model_name]
    role = model.roles[role_name]
    return [
        *workloads.workload_manifests(
            model_name,
            model,
            role_name,
            pool_name=role.pool,
            pool=stack.pools[role.pool],
            platform=stack.platform,
            cluster=stack.cluster,
        ),
        *replicas.role_manifests(
            model_name,
            model,
            role_name,
            platform=stack.platform,
            cluster=stack.cluster,
            frozen=stack.freeze is not None,
            frozen_replicas=stack.freeze.replicas.get(f"{model_name}/{role_name}") if stack.freeze else None,
        ),
    ]


def _refuse_two_metric_servers(stack: StackSettings) -> None:
    """A cluster has one APIService external.metrics.k8s.io. KEDA's and an adapter's would take it from each other, and
    every autoscaler of the loser reads nothing (keda #470, prometheus-adapter #561)."""
    autoscalers = {
        f"models.{model_name}.roles.{role_name}": role.autoscaler
        for model_name, model in stack.models.items()
        for role_name, role in model.roles.items()
    }
    hpa = next((place for place, autoscaler in autoscalers.items() if autoscaler == "hpa"), None)
    keda = next((place for place, autoscaler in autoscalers.items() if autoscaler == "keda"), None)
    keda = "platform.keda.install" if stack.platform.keda.install else keda
    if hpa and keda:
        raise ManifestError(
            f"{hpa}.autoscaler: hpa reads external metrics from an adapter, and {keda} brings KEDA, which serves the "
            "same API. A cluster has one server of external metrics: use keda for every role, or for none"
        )


def _refuse_duplicates(generated: Sequence[Manifest], extra: Sequence[Manifest]) -> None:
    """Two declarations of one object would take turns at overwriting each other."""
    own = {identify(manifest).same_object for manifest in generated}
    counts = Counter(identify(manifest).same_object for manifest in (*generated, *extra))
    errors: list[str] = []
    for identity in dict.fromkeys(identify(manifest) for manifest in (*generated, *extra)):
        if counts.pop(identity.same_object, 0) > 1:
            remedy = "Change the generated one under patches:" if identity.same_object in own else "Declare it once"
            errors.append(f"manifests: {identity} ({identity.api_version}) is declared twice. {remedy}")
    if errors:
        raise ManifestError("\n".join(errors))


def _flat(groups: Iterable[Sequence[Manifest]]) -> list[Manifest]:
    return [manifest for group in groups for manifest in group]
