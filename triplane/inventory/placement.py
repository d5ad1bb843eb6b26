"""Which pools the pods of a template can land on: taints, labels, architecture and GPUs, as Karpenter matches them.

Rules of matching: kubernetes-sigs/karpenter pkg/scheduling/{requirements,taints}.go. A label key that Karpenter knows
is unconstrained until somebody constrains it; any other key must be on the pool, or no node will have it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from triplane.documents import Path
from triplane.inventory.fields import at, known, mapping, sequence, text
from triplane.inventory.inventory import Inventory
from triplane.inventory.nodepools import NodePool
from triplane.inventory.workloads import PodTemplate

# Keys whose values Karpenter or the cloud fills in on every node: a pool that says nothing of them admits any value.
_FILLED_DOMAINS = (
    "karpenter.k8s.aws",
    "eks.amazonaws.com",
    "karpenter.azure.com",
    "karpenter.k8s.gcp",
    "topology.k8s.aws",
)
_FILLED_KEYS = frozenset(
    (
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "kubernetes.io/hostname",
        "node.kubernetes.io/instance-type",
        "node.kubernetes.io/windows-build",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "topology.ebs.csi.aws.com/zone",
        "karpenter.sh/capacity-type",
        "failure-domain.beta.kubernetes.io/zone",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/instance-type",
    )
)
# In such a domain, yet only on nodes of managed node groups.
_OTHER_NODES_KEYS = frozenset(("eks.amazonaws.com/nodegroup", "eks.amazonaws.com/nodegroup-image"))
# Keys that agents on the node write after it has joined (GPU feature discovery and the like). Karpenter cannot match
# them before the node exists; a node that is there for another reason may have them.
_AGENT_DOMAINS = ("nvidia.com", "feature.node.kubernetes.io", "amd.com")

NODE_POOL_LABEL = "karpenter.sh/nodepool"

Misfit = Literal["taint", "label", "gpu"]


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a pod can land on some pools that are alike; `misfits` says what is against it, empty: it can."""

    pools: tuple[NodePool, ...]
    misfits: tuple[tuple[Misfit, str], ...]

    @property
    def possible(self) -> bool:
        return not self.misfits


class Placement:
    """Where the pods of each template can land. Use `inventory.relation(Placement)`.

    Pools that are alike, and templates that ask alike, are matched once: thousands of both stay cheap.
    """

    def __init__(self, inventory: Inventory) -> None:
        groups: dict[str, list[NodePool]] = {}
        for pool in inventory.views(NodePool):
            template = mapping(pool.spec.get("template"))
            metadata = mapping(template.get("metadata")).get("labels")
            spec = mapping(template.get("spec"))
            alike = repr((spec.get("requirements"), spec.get("taints"), metadata, pool.gpu, pool.may_have_gpus))
            groups.setdefault(alike, []).append(pool)
        self._groups = [tuple(pools) for pools in groups.values()]
        self._fits: dict[str, tuple[Fit, ...]] = {}
        self._possible: dict[str, tuple[Fit, ...]] = {}
        # Groups by a label of their template, by a label key they require, and by the names of their pools: what a
        # pod that asks for a label of somebody's own can land on at all.
        self._labelled: dict[tuple[str, str], set[int]] = {}
        self._requiring: dict[str, set[int]] = {}
        for index, pools in enumerate(self._groups):
            for label in pools[0].labels.items():
                self._labelled.setdefault(label, set()).add(index)
            for requirement in pools[0].requirements:
                self._requiring.setdefault(requirement.key, set()).add(index)
            for pool in pools:
                self._labelled.setdefault((NODE_POOL_LABEL, pool.resource.name), set()).add(index)

    def fits(self, template: PodTemplate) -> tuple[Fit, ...]:
        """A Fit for every group of like pools, also of those it does not fit. Sizes are not compared here.

        For saying what stands in the way; `possible` is far cheaper where there are many pools.
        """
        alike = _alike(template)
        found = self._fits.get(alike)
        if found is None:
            found = self._fits[alike] = tuple(self._match(template, self._groups))
        return found

    def possible(self, template: PodTemplate) -> tuple[Fit, ...]:
        """The groups of like pools on which pods of the template can land. Templates that ask alike get one object."""
        alike = _alike(template)
        found = self._possible.get(alike)
        if found is None:
            groups = [self._groups[index] for index in self._candidates(template)]
            found = self._possible[alike] = tuple(fit for fit in self._match(template, groups) if fit.possible)
        return found

    def pools(self, template: PodTemplate) -> list[NodePool]:
        """The pools on which pods of the template can land."""
        return [pool for fit in self.possible(template) for pool in fit.pools]

    def _candidates(self, template: PodTemplate) -> Iterable[int]:
        """The groups that labels of somebody's own do not rule out, in order; all, where none is asked for."""
        found: set[int] = set()
        for terms in node_requirements(template):
            asked = [
                self._requiring.get(key, set()).union(*(self._labelled.get((key, value), ()) for value in values))
                for key, operator, values in terms
                if operator == "In" and not _filled(key)
            ]
            if not asked:
                return range(len(self._groups))
            found |= min(asked, key=len)
        return sorted(found)

    def _match(self, template: PodTemplate, groups: list[tuple[NodePool, ...]]) -> Iterator[Fit]:
        names_pool = any(key == NODE_POOL_LABEL for terms in node_requirements(template) for key, _, _ in terms)
        for group in groups:
            # Only a pod that asks for a pool by name can tell like pools apart.
            for pools in ((pool,) for pool in group) if names_pool else (group,):
                yield Fit(pools, misfits(template, pools[0]))


def _alike(template: PodTemplate) -> str:
    """The same text for templates that can land on the same pools."""
    spec = template.spec
    affinity = at(spec, "affinity", "nodeAffinity")
    return repr((spec.get("tolerations"), spec.get("nodeSelector"), affinity, bool(template.gpus)))


def _filled(key: str) -> bool:
    """Whether a label is there on nodes whose pool says nothing of it."""
    return key in _FILLED_KEYS or key.partition("/")[0] in (*_FILLED_DOMAINS, *_AGENT_DOMAINS)


def tolerates(tolerations: tuple[Mapping[str, Any], ...], taint: Mapping[str, Any]) -> bool:
    """Whether one of the tolerations covers a taint (k8s.io/api Toleration.ToleratesTaint)."""
    key, value, effect = (text(taint.get(field)) or "" for field in ("key", "value", "effect"))
    for toleration in tolerations:
        if (wanted := text(toleration.get("effect"))) and wanted != effect:
            continue
        of_key, operator = text(toleration.get("key")) or "", text(toleration.get("operator")) or "Equal"
        if of_key and of_key != key:
            continue
        if operator == "Exists" or (operator == "Equal" and of_key and (text(toleration.get("value")) or "") == value):
            return True
    return False


def misfits(template: PodTemplate, pool: NodePool) -> tuple[tuple[Misfit, str], ...]:
    """What keeps the pods of a template off the nodes of a pool; empty: nothing."""
    found: list[tuple[Misfit, str]] = []
    for taint in pool.taints:
        # PreferNoSchedule only prefers.
        if text(taint.get("effect")) in ("NoSchedule", "NoExecute") and not tolerates(template.tolerations, taint):
            found.append(("taint", f"{text(taint.get('key'))}:{text(taint.get('effect'))}"))
    if template.gpus and not pool.may_have_gpus:
        found.append(("gpu", "the pool has no GPUs"))
    alternatives = list(node_requirements(template))
    against = [[key for key, op, values in terms if not admits(pool, key, op, values)] for terms in alternatives]
    if all(against):
        found.extend(("label", key) for key in min(against, key=len))
    return tuple(found)


def node_requirements(template: PodTemplate) -> Iterator[list[tuple[str, str, tuple[str, ...]]]]:
    """Each way in which the pod may be placed, as (key, operator, values) that must all hold.

    One for each term of the required node affinity, each joined with the node selector; one if there is no affinity.
    """
    selector = [(key, "In", (str(known(value)),)) for key, value in mapping(template.spec.get("nodeSelector")).items()]
    required: Path = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    terms = sequence(at(template.spec, *required))
    for term in terms or [{}]:
        expressions = []
        for entry in sequence(at(term, "matchExpressions")):
            key, operator = text(at(entry, "key")), text(at(entry, "operator"))
            if key and operator:
                expressions.append((key, operator, tuple(str(known(value)) for value in sequence(at(entry, "values")))))
        yield [*selector, *expressions]


def admits(pool: NodePool, key: str, operator: str, values: tuple[str, ...]) -> bool:
    """Whether the pool can have a node whose label `key` satisfies `operator` and `values`."""
    if key == NODE_POOL_LABEL:
        return satisfies(pool.resource.name, operator, values)
    if key in pool.labels:
        return satisfies(pool.labels[key], operator, values)
    constraints = pool.required(key)
    if not constraints and key in _OTHER_NODES_KEYS:
        return operator in ("NotIn", "DoesNotExist")
    if not constraints:
        if _filled(key):
            return operator != "DoesNotExist"
        return operator in ("NotIn", "DoesNotExist")
    return all(_overlap(c.operator, c.values, operator, values) for c in constraints)


def satisfies(value: str, operator: str, values: tuple[str, ...]) -> bool:
    """Whether a label's value satisfies one requirement."""
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return True
        case "DoesNotExist":
            return False
    return _in_bounds(value, operator, values)


def _in_bounds(value: str, operator: str, values: tuple[str, ...]) -> bool:
    try:
        number, bound = float(value), float(values[0])
    except (ValueError, IndexError):
        return False
    return {"Gt": number > bound, "Lt": number < bound, "Gte": number >= bound, "Lte": number <= bound}.get(
        operator, True
    )


def _overlap(of_pool: str, pool_values: tuple[str, ...], of_pod: str, pod_values: tuple[str, ...]) -> bool:
    """Whether some value satisfies both. Where neither side lists values, one can be found."""
    if of_pool == "DoesNotExist":
        return of_pod in ("NotIn", "DoesNotExist")
    if of_pod == "DoesNotExist":
        return False
    if of_pool == "In":
        return any(satisfies(value, of_pod, pod_values) for value in pool_values)
    if of_pod == "In":
        return any(satisfies(value, of_pool, pool_values) for value in pod_values)
    return True
