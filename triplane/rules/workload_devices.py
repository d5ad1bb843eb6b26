"""Judgements on GPUs that Karpenter cannot see from a pod: slices, shared GPUs, claims."""

from triplane import catalog
from triplane.documents import Path
from triplane.inventory import Inventory, NodePool, kinds
from triplane.inventory.fields import at, mapping, sequence, text
from triplane.inventory.installations import karpenters
from triplane.inventory.nodepools import is_gpu_resource
from triplane.inventory.placement import NODE_POOL_LABEL, Placement
from triplane.inventory.workloads import PodTemplate, Workload
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Verdicts, fail, unknown

# Extended resources Karpenter's AWS provider knows from the instance type.
_KNOWN = ("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi")
AUTO_MODE = "eks.amazonaws.com"


def _dynamic(template: PodTemplate, context: Context) -> tuple[NodePool, ...]:
    """The pools that would have to buy a node for the pods of a template; none where a static one takes them."""
    pools = tuple(pool for fit in context.inventory.relation(Placement).possible(template) for pool in fit.pools)
    return () if any(pool.static for pool in pools) else pools


@rule(
    "WL520",
    "slices-of-gpus-are-announced-to-karpenter",
    on=Workload,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    fix="Add a NodeOverlay whose capacity names the resource and whose requirements match the pool.",
    versions="NodeOverlay since Karpenter 1.7, behind the feature gate NodeOverlay.",
    sources=(
        "https://karpenter.sh/docs/concepts/nodeoverlays/",
        "https://github.com/aws/karpenter-provider-aws/pull/8710",
        "https://github.com/kubernetes-sigs/karpenter/issues/729",
    ),
)
def slices_of_gpus_are_announced_to_karpenter(workload: Workload, context: Context) -> Verdicts:
    """Pods that ask for a slice of a GPU need a NodeOverlay that announces slices.

    Karpenter knows from an instance type that it has GPUs, not that a device plugin will cut them into
    nvidia.com/mig-1g.20gb or share them as nvidia.com/gpu.shared. It finds no instance type with such a resource, and
    the pods stay pending from the first one on. A NodeOverlay says what a node will offer. A static pool has its nodes
    already.
    """
    announced = context.inventory.relation(_announced)
    for template in workload.templates:
        for container in template.containers:
            for name in dict.fromkeys((*container.limits, *container.requests)):
                if not is_gpu_resource(name) or name in _KNOWN or not container.requested(name):
                    continue
                pools = _dynamic(template, context)
                for_any = announced.get(name, {})
                if pools and not any(pool.resource.name in for_any or "" in for_any for pool in pools):
                    where = "limits" if name in container.limits else "requests"
                    yield fail(
                        (*container.path, "resources", where, name),
                        mapping(at(container.data, "resources", where)).get(name),
                        "no instance type has this resource, so Karpenter buys no node for it",
                        related=tuple(pool.resource for pool in pools),
                    )


def _announced(inventory: Inventory) -> dict[str, dict[str, None]]:
    """Resource names that NodeOverlays announce, each with the pools they are for; "" is any pool."""
    found: dict[str, dict[str, None]] = {}
    for overlay in inventory.of_kind(kinds.NODE_OVERLAY):
        named = [
            value
            for requirement in sequence(at(overlay.data, "spec", "requirements"))
            if text(at(requirement, "key")) == NODE_POOL_LABEL and text(at(requirement, "operator")) == "In"
            for value in sequence(at(requirement, "values"))
            if isinstance(value, str)
        ]
        for name in mapping(at(overlay.data, "spec", "capacity")):
            found.setdefault(name, {}).update(dict.fromkeys(named or [""]))
    return found


@rule(
    "WL521",
    "claims-for-devices-can-buy-a-node",
    on=Workload,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    parameters=("karpenter", "kubernetes"),
    fix="Ask for nvidia.com/gpu, use a pool of static nodes, or run Karpenter 1.15 with settings.enableDRA.",
    versions="Karpenter 1.15 with settings.enableDRA on Kubernetes 1.34; EKS Auto Mode on Kubernetes 1.36.",
    sources=(
        "https://karpenter.sh/docs/tasks/dra/",
        "https://github.com/aws/karpenter-provider-aws/issues/9519",
        "https://github.com/kubernetes-sigs/karpenter/issues/1231",
    ),
)
def claims_for_devices_can_buy_a_node(workload: Workload, context: Context) -> Verdicts:
    """Pods with ResourceClaims must not depend on nodes that Karpenter cannot buy for them.

    Before 1.15 Karpenter ignores claims, and its AWS provider publishes no devices for types without a node: a pod that
    claims its GPUs never brings up the first one. Since 1.15 settings.enableDRA switches it on; whether it is on is
    only known where the input installs Karpenter. Judged where every GPU pool the pods can land on is dynamic; a pod
    that asks for nvidia.com/gpu too is no claim for Karpenter.
    """
    for template in workload.templates:
        if template.gpus or not sequence(template.spec.get("resourceClaims")):
            continue
        pools = [pool for pool in _dynamic(template, context) if pool.gpu]
        if not pools:
            continue
        path: Path = (*template.path, "resourceClaims")
        answers = [_claims_count(pool, context) for pool in pools]
        if not any(answer is not False for answer in answers):
            yield fail(
                path,
                template.spec.get("resourceClaims"),
                "Karpenter does not see the claims, so it buys no node and the pods stay pending",
                related=tuple(pool.resource for pool in pools),
            )
        elif True not in answers:
            yield unknown(path, "whether Karpenter runs with settings.enableDRA is not in the input")


def _claims_count(pool: NodePool, context: Context) -> bool | None:
    """Whether a claim makes Karpenter buy a node of the pool; None: it depends on how Karpenter is installed."""
    parameters = context.parameters
    if pool.node_class_group == AUTO_MODE:
        return catalog.supports("kubernetes", parameters.kubernetes, "auto-mode-dra")
    if not catalog.supports("karpenter", parameters.karpenter, "dra"):
        return False
    said = [at(release.values, "settings", "enableDRA") for release in karpenters(context.inventory)]
    return None if not said else any(value in (True, "true") for value in said)
