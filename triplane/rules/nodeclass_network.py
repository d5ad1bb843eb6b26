"""Judgements on the network of gangs that span nodes: EFA, placement groups, zones."""

from triplane import catalog
from triplane.documents import Path
from triplane.inventory import NodePool
from triplane.inventory.capacity import Landing, node_sizes
from triplane.inventory.fabric import EFA, Fabric, names_its_zone, stays_close, stays_in_one_domain
from triplane.inventory.kinds import EC2_NODE_CLASS
from triplane.inventory.nodeclasses import NodeClass, NodeClasses
from triplane.inventory.nodepools import REQUIREMENTS, ZONE
from triplane.inventory.tenants import Tenants
from triplane.inventory.workloads import PodTemplate, Workload
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.tenants import efa_user_on, spans_nodes
from triplane.rules.verdicts import Verdicts, fail

_EFA_GUIDE = "https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html"


@rule(
    "NC207",
    "pods-of-a-gang-across-nodes-get-efa",
    on=Workload,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    parameters=("gangs",),
    fix="Request vpc.amazonaws.com/efa on the GPU container, as many as the instance type has for each pod.",
    versions="networkInterfaces of an EC2NodeClass exist since Karpenter 1.11.",
    sources=(_EFA_GUIDE, "https://github.com/aws/karpenter-provider-aws/issues/3127"),
)
def pods_of_a_gang_across_nodes_get_efa(workload: Workload, context: Context) -> Verdicts:
    """Pods that talk across EFA-capable nodes must ask for EFA.

    A pod sees the adapters only if it requests vpc.amazonaws.com/efa. Without, NCCL falls back to TCP without an error,
    and collectives run at a small part of the speed that is paid for. Judged where one gang has more GPUs than a node,
    on pools all of whose instance types have EFA. A node class that writes networkInterfaces without an efa-only one
    offers no adapter at all, and pods that ask for one never fit.
    """
    landing, fabric = context.inventory.relation(Landing), context.inventory.relation(Fabric)
    for template in workload.templates:
        place = landing.of(template) if template.gpus else None
        if place is None or not fabric.efa(place):
            continue
        if not spans_nodes(workload, template, fabric.sizes(place), context.parameters.gangs):
            continue
        container = next(container for container in template.containers if container.gpus)
        path: Path = (*container.path, "resources")
        if not template.requested(EFA):
            pool = place.pools[0].resource
            yield fail(path, f"without {EFA}", f"NCCL falls back to TCP between the nodes of {pool}", related=(pool,))
        elif (closed := _without_adapters(place.pools, context)) is not None:
            consequence = f"{closed.resource} writes networkInterfaces without efa-only: no node ever has one"
            yield fail(path, f"with {EFA}", consequence, related=(closed.resource,))


def _without_adapters(pools: tuple[NodePool, ...], context: Context) -> NodeClass | None:
    """A class of one of a few pools that describes its interfaces and has no EFA among them."""
    classes = context.inventory.relation(NodeClasses)
    found = (classes.of(pool) for pool in pools[:5])
    return next((c for c in found if c is not None and c.network_interfaces and not c.attaches_efa), None)


@rule(
    "NC208",
    "gang-across-nodes-is-kept-close",
    on=NodeClass,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("gangs", "karpenter"),
    fix="Name a cluster placement group in placementGroupSelector, or give the gang a topology that KAI must keep.",
    versions="placementGroupSelector exists since Karpenter 1.11.",
    sources=(
        "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html",
        "https://github.com/aws/karpenter-provider-aws/blob/main/designs/placement-groups-support.md",
    ),
)
def gang_across_nodes_is_kept_close(node_class: NodeClass, context: Context) -> Verdicts:
    """Nodes of one gang must be placed close to one another.

    Left to itself EC2 puts the nodes of a gang anywhere in the zone, and every collective crosses the spine. A cluster
    placement group, a required topology of the scheduler or pod affinity keep them together. Pools that launch only
    into reservations are left alone: Capacity Blocks are placed together, and a reservation can be made in a group.
    """
    if node_class.kind != EC2_NODE_CLASS or node_class.spec.get("placementGroupSelector") is not None:
        return
    if not catalog.supports("karpenter", context.parameters.karpenter, "placement-group"):
        return
    tenants = context.inventory.relation(Tenants)
    for pool in context.inventory.relation(NodeClasses).pools(node_class):
        sizes = node_sizes(pool, {})
        scattered = tenants.first(pool, _scattered, sizes, context.parameters.gangs) if not pool.only_reserved else None
        if scattered is not None:
            workload = scattered[0].resource
            consequence = f"nodes of {workload} may stand anywhere in the zone, and its traffic crosses the spine"
            yield fail(("spec", "placementGroupSelector"), None, consequence, related=(workload, pool.resource))
            return


def _scattered(workload: Workload, template: PodTemplate, sizes: tuple[int, ...], listed: tuple[str, ...]) -> bool:
    return spans_nodes(workload, template, sizes, listed) and not stays_close(workload, template)


@rule(
    "NC212",
    "pool-with-efa-has-one-zone",
    on=NodePool,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    parameters=("gangs",),
    fix="Require exactly one value of topology.kubernetes.io/zone.",
    sources=(
        _EFA_GUIDE,
        "https://github.com/aws/karpenter-provider-aws/issues/3109",
        "https://github.com/skypilot-org/skypilot/issues/10056",
    ),
)
def pool_with_efa_has_one_zone(pool: NodePool, context: Context) -> Verdicts:
    """A pool whose nodes use EFA together must lie in one zone.

    EFA does not cross zones or subnets, nor does a cluster placement group. A pool open to several splits a gang when a
    zone runs out, and NCCL hangs in its first collective. Judged where the node class attaches EFA, or where a gang
    larger than a node asks for it without naming a zone itself; a pool of reservations alone is bound by them. A static
    pool besides never looks at pods: only networkInterfaces of its class give it adapters.
    """
    node_class = context.inventory.relation(NodeClasses).of(pool)
    attaches = node_class is not None and node_class.attaches_efa
    about = (node_sizes(pool, {}), context.parameters.gangs)
    tenants = context.inventory.relation(Tenants)
    if len(pool.zones) != 1 and not pool.only_reserved and pool.gpu:
        tenant = tenants.first(pool, _needs_one_zone, *about)
        if attaches or tenant is not None:
            path = (*pool.required(ZONE)[0].path, "values") if pool.required(ZONE) else REQUIREMENTS
            found = ", ".join(pool.zones) or f"without {ZONE}"
            related = (tenant[0].resource,) if tenant else (node_class.resource,) if node_class else ()
            yield fail(path, found, "EFA does not cross zones: a gang that is split hangs", related=related)
    if pool.static and node_class is not None and not attaches and node_class.kind == EC2_NODE_CLASS:
        yield from _adapters_of_static_pool(pool, node_class, context)


def _adapters_of_static_pool(pool: NodePool, node_class: NodeClass, context: Context) -> Verdicts:
    if (workload := efa_user_on(pool, context)) is not None:
        consequence = f"a static pool never looks at pods, so {workload} gets no adapters"
        related = (pool.resource, workload)
        path: Path = ("spec", "networkInterfaces")
        yield fail(path, None, consequence, fix="Write networkInterfaces.", related=related, on=node_class.resource)


def _needs_one_zone(workload: Workload, template: PodTemplate, sizes: tuple[int, ...], listed: tuple[str, ...]) -> bool:
    return (
        bool(template.requested(EFA))
        and spans_nodes(workload, template, sizes, listed)
        and not stays_in_one_domain(workload, template)
        and not names_its_zone(template)
    )
