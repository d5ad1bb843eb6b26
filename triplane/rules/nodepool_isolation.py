"""Judgements on who may use GPU nodes: taints, and pools that get GPUs by accident."""

import re
from collections import Counter

from triplane.documents import Path
from triplane.inventory import NodePool
from triplane.inventory.fields import text
from triplane.inventory.nodeclasses import NodeClasses
from triplane.inventory.nodepools import REQUIREMENTS, is_gpu_resource
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Verdicts, fail

TAINTS: Path = ("spec", "template", "spec", "taints")
STARTUP_TAINTS: Path = ("spec", "template", "spec", "startupTaints")
# PreferNoSchedule only prefers.
_ISOLATING = ("NoSchedule", "NoExecute")


@rule(
    "NP111",
    "gpu-pool-is-tainted",
    on=NodePool,
    severity=Severity.ERROR,
    profile=Profile.CORE,
    parameters=("gpu_taint_keys",),
    fix="Add {key: nvidia.com/gpu, effect: NoSchedule} to spec.template.spec.taints, and the toleration to GPU pods.",
    sources=(
        "https://github.com/aws/karpenter-provider-aws/issues/8447",
        "https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/",
    ),
)
def gpu_pool_is_tainted(pool: NodePool, context: Context) -> Verdicts:
    """A GPU pool must carry a taint that keeps pods without GPUs away.

    Any pod that fits otherwise lands on the GPU node: it takes cpu and memory that a model needs, and keeps the node
    from ever being empty, so that a 55 dollar an hour machine is held by a web server. The value of the taint does not
    matter; NoSchedule and NoExecute isolate, PreferNoSchedule does not. Houses with a taint key of their own list it in
    `gpu_taint_keys`.
    """
    if not pool.gpu:
        return
    keys = {key for taint in pool.taints if text(taint.get("effect")) in _ISOLATING and (key := text(taint.get("key")))}
    if keys.isdisjoint(context.parameters.gpu_taint_keys):
        found = f"without {context.parameters.gpu_taint_keys[0]}" if pool.taints else None
        yield fail(TAINTS, found, "pods without GPUs land on GPU nodes and keep them from becoming empty")


@rule(
    "NP115",
    "pool-without-taint-excludes-gpus",
    on=NodePool,
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    fix="Exclude them: {key: karpenter.k8s.aws/instance-category, operator: NotIn, values: [g, gr, p]}.",
    sources=("https://github.com/aws/karpenter-provider-aws/issues/2027",),
)
def pool_without_taint_excludes_gpus(pool: NodePool, context: Context) -> Verdicts:
    """A pool that is not meant for GPUs must exclude them.

    A pool that constrains neither category, family nor type may launch GPU nodes, and does so for any pod that asks for
    a GPU; with no taint on it, other pods move in beside. A limit of zero GPUs excludes them as well, and so does a
    taint that GPU pods do not tolerate. A static pool launches its cheapest type and is left alone.
    """
    if pool.gpu or pool.static or not pool.may_have_gpus:
        return
    none_allowed = any(is_gpu_resource(name) and amount == 0 for name, amount in pool.limits.items())
    if none_allowed or any(text(taint.get("effect")) in _ISOLATING for taint in pool.taints):
        return
    consequence = "a pod that asks for a GPU gets an untainted GPU node from this pool, and any other pod moves in"
    yield fail(REQUIREMENTS, "without a bound on GPUs", consequence)


# Taints that a cloud's own agents take away once they are ready; pods need not tolerate them.
_AGENT_TAINTS = frozenset(
    (
        "node.cilium.io/agent-not-ready",
        *(f"{driver}.csi.aws.com/agent-not-ready" for driver in ("ebs", "efs", "fsx", "s3")),
    )
)
# kubelet's flag, nodeadm's and Bottlerocket's settings all end in key=value:Effect.
_REGISTERED = re.compile(
    r"register-?with-?taints\W{1,8}([A-Za-z0-9./_-]+)(?:=[^\s:\"',]*)?:(?:NoSchedule|NoExecute)", re.I
)


@rule(
    "NP120",
    "startup-taints-are-declared-where-karpenter-sees-them",
    on=NodePool,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    fix="List it under startupTaints, once, with an agent that removes it.",
    sources=(
        "https://karpenter.sh/docs/concepts/nodepools/#cilium-startup-taint",
        "https://github.com/aws/karpenter-provider-aws/issues/6355",
        "https://github.com/kubernetes-sigs/karpenter/issues/1479",
    ),
)
def startup_taints_are_declared_where_karpenter_sees_them(pool: NodePool, context: Context) -> Verdicts:
    """A taint that an agent removes must stand under startupTaints, once, and not only in user data.

    Karpenter plans with what the pool says. A taint that only the kubelet's user data adds is a surprise: the pod does
    not fit the node that was bought for it, and another node is bought, again and again. An agent's taint under
    `taints` is taken for permanent, so that only pods that tolerate it get nodes. The same key and effect twice make
    the whole pool invalid, and it launches nothing.
    """
    listed = [(TAINTS, pool.taints), (STARTUP_TAINTS, pool.startup_taints)]
    seen: Counter[tuple[str | None, str | None]] = Counter()
    for path, taints in listed:
        for index, taint in enumerate(taints):
            key, effect = text(taint.get("key")), text(taint.get("effect"))
            seen[key, effect] += 1
            if seen[key, effect] == 2:
                yield fail((*path, index), f"{key}:{effect} again", "Karpenter refuses the pool and launches nothing")
            elif path is TAINTS and key in _AGENT_TAINTS:
                consequence = "taken for permanent: pods that do not tolerate it get no node"
                yield fail((*path, index, "key"), key, consequence, fix="Move it to startupTaints.")
    node_class = context.inventory.relation(NodeClasses).of(pool)
    user_data = text(node_class.spec.get("userData")) if node_class else None
    if node_class is not None and user_data:
        known_keys = {key for key, _ in seen}
        for match in _REGISTERED.finditer(user_data):
            if match[1] not in known_keys:
                consequence = "user data adds this taint, Karpenter does not know of it and buys node after node"
                yield fail(STARTUP_TAINTS, f"without {match[1]}", consequence, related=(node_class.resource,))
