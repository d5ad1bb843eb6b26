"""Judgements on how many nodes a GPU pool may have."""

import math
from collections.abc import Iterator
from functools import reduce

from triplane.documents import Path
from triplane.inventory import NodePool
from triplane.inventory.capacity import instance_types_of, node_sizes
from triplane.inventory.fields import at, mapping, number
from triplane.inventory.nodepools import is_gpu_resource
from triplane.rules.installations import gate_is_on
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Edit, Verdict, Verdicts, fail

LIMITS: Path = ("spec", "limits")
GPU = "nvidia.com/gpu"
# Karpenter takes this share off an instance type's memory before it has seen a node of it
# (setting vmMemoryOverheadPercent of the AWS provider, 0.075).
_MEMORY_LEFT = 0.925


@rule(
    "NP109",
    "gpu-pool-limits-its-gpus",
    on=NodePool,
    severity=Severity.ERROR,
    profile=Profile.CORE,
    fix="Limit GPUs and nodes: limits: {nvidia.com/gpu: 16, nodes: 2}.",
    sources=(
        "https://karpenter.sh/docs/concepts/nodepools/#speclimits",
        "https://github.com/aws/karpenter-provider-aws/issues/6328",
    ),
)
def gpu_pool_limits_its_gpus(pool: NodePool, context: Context) -> Verdicts:
    """A GPU pool must limit its GPUs or its nodes.

    There is no default: Karpenter buys a node for every pod that does not fit, and one scaler's wrong query asks for
    hundreds. A limit of cpu or memory is none in effect; the smallest GPU type has four vCPUs. A static pool has the
    nodes its `replicas` say. The limit is checked before each launch against counts that lag a little, so it may be
    passed by a node or two.
    """
    if not pool.gpu or pool.static or "nodes" in pool.limits or any(is_gpu_resource(name) for name in pool.limits):
        return
    written = mapping(pool.spec.get("limits"))
    found = f"without GPUs and nodes ({', '.join(written)} only)" if written else None
    yield fail(LIMITS, found, "nothing stops Karpenter from buying GPU nodes", default="no limit")


@rule(
    "NP110",
    "limits-hold-whole-gpu-nodes",
    on=NodePool,
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("instance_table",),
    fix="Make the GPU limit a multiple of a node's GPUs; leave cpu and memory out, or high enough for as many nodes.",
    sources=(
        "https://github.com/aws/karpenter-provider-aws/issues/6328",
        "https://github.com/aws/karpenter-provider-aws/issues/8068",
    ),
)
def limits_hold_whole_gpu_nodes(pool: NodePool, context: Context) -> Verdicts:
    """The limits of a GPU pool must allow whole nodes.

    Karpenter launches a node only if all of it fits under every limit. Twelve GPUs on nodes of eight are one node, and
    the other four do not exist; a cpu limit copied from elsewhere stops the second node although GPUs are left. Nothing
    but pending pods shows it. Pools with several node sizes are judged by what any mix of them can fill; cpu and memory
    by the smallest of the instance types, where the catalogue knows them.
    """
    limit, sizes = pool.limits.get(GPU), node_sizes(pool, context.parameters.instance_table)
    if not pool.gpu or pool.static or not sizes:
        return
    step, path = reduce(math.gcd, sizes), (*LIMITS, GPU)
    written = mapping(pool.spec.get("limits")).get(GPU)
    if limit is not None and 0 < limit < sizes[0]:
        yield fail(path, written, f"not even one node of {sizes[0]} GPUs fits")
    elif limit is not None and limit % step:
        lost = limit % step
        yield fail(path, written, f"nodes have {_or(sizes)} GPUs: {lost:g} of the limit can never be bought")
    nodes = min(limit // sizes[-1] if limit else math.inf, pool.limits.get("nodes", math.inf))
    if math.isfinite(nodes) and nodes:
        yield from _other_limits(pool, nodes)


def _other_limits(pool: NodePool, nodes: float) -> Iterator[Verdict]:
    types = instance_types_of(pool)
    if not types or not pool.on_aws:
        return
    needs = {
        "cpu": min(kind.vcpu for kind in types),
        "memory": min(kind.memory_mib for kind in types) * _MEMORY_LEFT * 1024**2,
    }
    for resource, each in needs.items():
        allowed = pool.limits.get(resource, math.inf)
        if allowed < nodes * each:
            written = mapping(pool.spec.get("limits")).get(resource)
            fitting = int(allowed // each)
            yield fail((*LIMITS, resource), written, f"binds first: {fitting} of the {nodes:g} nodes fit under it")


def _or(sizes: tuple[int, ...]) -> str:
    return " or ".join(map(str, sizes))


@rule(
    "NP116",
    "static-pool-has-only-what-static-pools-take",
    on=NodePool,
    severity=Severity.INFO,
    profile=Profile.RECOMMENDED,
    fix="Leave weight out, and limit only `nodes`.",
    autofix=True,
    versions="Static pools exist since Karpenter 1.8, behind the gate StaticCapacity.",
    sources=("https://karpenter.sh/docs/concepts/nodepools/#static-nodepool",),
)
def static_pool_has_only_what_static_pools_take(pool: NodePool, context: Context) -> Verdicts:
    """A static NodePool must have neither a weight nor a limit other than `nodes`.

    With `replicas` the pool launches that many nodes and never looks at pods, so a weight or a GPU limit has nothing to
    act on; the API server refuses the object, and the old one stays in force. The consolidation fields are merely
    ignored, and up to 1.14 a disruption block must even have them, so they are left alone.
    """
    if not pool.static:
        return
    if pool.spec.get("weight") is not None:
        path: Path = ("spec", "weight")
        yield fail(path, pool.spec["weight"], "refused: a static pool has no weight", edits=(Edit(path, remove=True),))
    for resource, amount in mapping(pool.spec.get("limits")).items():
        if resource != "nodes":
            path = (*LIMITS, resource)
            consequence = "refused: a static pool limits only nodes"
            yield fail(path, amount, consequence, edits=(Edit(path, remove=True),))


@rule(
    "NP126",
    "static-pool-has-room-to-drift",
    on=NodePool,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    parameters=("karpenter", "karpenter_gates"),
    fix="Raise limits.nodes above replicas, by one at least.",
    versions="From Karpenter 1.15 on the gate TerminateFirstDrift lets drift delete first.",
    sources=("https://github.com/aws/karpenter-provider-aws/issues/8873",),
)
def static_pool_has_room_to_drift(pool: NodePool, context: Context) -> Verdicts:
    """A static pool's limit of nodes must leave room for one more than its replicas.

    Drift launches the replacement before it removes a node. Where the limit equals the replicas there is no room, and
    the pool never takes another AMI: it waits without a word. A limit below the replicas keeps nodes from starting.
    """
    replicas, limit = number(pool.spec.get("replicas")), pool.limits.get("nodes")
    if replicas is None or limit is None or limit > replicas:
        return
    if limit == replicas and (not replicas or gate_is_on("TerminateFirstDrift", "terminate-first-drift", context)):
        return
    consequence = "drifted nodes are never replaced" if limit == replicas else "not all replicas can start"
    yield fail((*LIMITS, "nodes"), at(pool.spec, "limits", "nodes"), f"with replicas {replicas:g}, {consequence}")
