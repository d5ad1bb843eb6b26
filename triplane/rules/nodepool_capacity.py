"""Judgements on what a pool may launch: capacity types, types and zones, and pools that compete."""

from triplane.inventory import NodePool
from triplane.inventory.capacity import instance_types_of
from triplane.inventory.nodepools import CAPACITY_TYPE, CAPACITY_TYPES, INSTANCE_TYPE, REQUIREMENTS
from triplane.inventory.overlaps import Overlaps
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.tenants import trains
from triplane.rules.verdicts import Verdicts, fail

_NODEPOOLS = "https://karpenter.sh/docs/concepts/nodepools/#capacity-type"


@rule(
    "NP112",
    "gpu-pool-states-its-capacity-type",
    on=NodePool,
    severity=Severity.ERROR,
    profile=Profile.CORE,
    fix="Write it: {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}; also reserved, if you can.",
    sources=(_NODEPOOLS, "https://github.com/aws/karpenter-provider-aws/issues/8255"),
)
def gpu_pool_states_its_capacity_type(pool: NodePool, context: Context) -> Verdicts:
    """A GPU pool must say which capacity it buys.

    Without a requirement on karpenter.sh/capacity-type everything is allowed, and Karpenter takes reserved first, then
    spot, then on-demand: the nodes that serve are spot, and end at two minutes' notice. A value that does not exist,
    such as capacity-block, is dropped without a word as long as another one does exist.
    """
    if not pool.gpu:
        return
    if pool.capacity_types is None:
        consequence = "spot is allowed and preferred to on-demand: nodes end at two minutes' notice"
        yield fail(REQUIREMENTS, f"without {CAPACITY_TYPE}", consequence)
    for requirement in pool.required(CAPACITY_TYPE):
        strange = [value for value in requirement.values if value not in CAPACITY_TYPES]
        if strange:
            consequence = f"there is no such capacity type; there are {', '.join(sorted(CAPACITY_TYPES))}"
            yield fail((*requirement.path, "values"), ", ".join(strange), consequence)


@rule(
    "NP113",
    "serving-and-gang-pools-do-not-use-spot",
    on=NodePool,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    parameters=("spot_allowed_label", "batch_label", "gangs"),
    fix="Use on-demand or reserved; or mark a pool whose work survives an interruption (spot_allowed_label).",
    sources=(
        "https://karpenter.sh/docs/concepts/disruption/#interruption",
        "https://github.com/aws/karpenter-provider-aws/issues/8276",
    ),
)
def serving_and_gang_pools_do_not_use_spot(pool: NodePool, context: Context) -> Verdicts:
    """A pool that serves under an SLO, or holds gangs, must not use spot.

    Spot nodes end two minutes after the notice, whatever budgets, PodDisruptionBudgets and do-not-disrupt say; a model
    takes longer than that to start elsewhere, and one lost node ends a whole gang. Judged where the label
    triplane.dev/purpose says serving or training, or where a gang can land. Pools whose work survives it, such as
    checkpointed training or batch, say so by label.
    """
    parameters = context.parameters
    if not pool.gpu or "spot" not in (pool.capacity_types or ()) or pool.waits(parameters.batch_label):
        return
    if pool.has_label(parameters.spot_allowed_label):
        return
    gang, related = trains(pool, context)
    if gang or pool.purpose == "serving":
        consequence = "one lost node ends the whole gang" if gang else "replicas end before others can start"
        found = ", ".join(sorted(pool.capacity_types or ()))
        yield fail(pool.capacity_type_path, found, f"two minutes' notice, and {consequence}", related=related)


@rule(
    "NP114",
    "gpu-pool-has-a-second-way-to-capacity",
    on=NodePool,
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("batch_label",),
    fix="Allow another zone or instance type, or use a reservation.",
    sources=(
        "https://github.com/aws/karpenter-provider-aws/issues/9554",
        "https://github.com/kubernetes-sigs/karpenter/issues/2275",
    ),
)
def gpu_pool_has_a_second_way_to_capacity(pool: NodePool, context: Context) -> Verdicts:
    """A serving GPU pool must have more than one instance type in one zone to buy.

    When EC2 has none of a type in a zone, Karpenter remembers that for three minutes and tries the next offering. With
    one type, one zone and no reservation there is no next one: replicas wait until somebody else gives a machine back.
    Training and batch, which can wait, are exempt (label triplane.dev/purpose, parameter `batch_label`).
    """
    if not pool.gpu or pool.static or pool.purpose == "training" or pool.waits(context.parameters.batch_label):
        return
    types = pool.capacity_types
    if types is None or "reserved" in types or len(pool.zones) != 1:
        return
    named = [set(r.values) for r in pool.required(INSTANCE_TYPE) if r.operator == "In"]
    count = len(set.intersection(*named)) if named else len(instance_types_of(pool)) if pool.on_aws else 0
    if count == 1:
        only = next(iter(named[0])) if named else instance_types_of(pool)[0].name
        consequence = "when that is sold out, new replicas wait: there is no other type, zone or reservation"
        yield fail(REQUIREMENTS, f"only {only} in {pool.zones[0]}", consequence)


@rule(
    "NP117",
    "gpu-pools-do-not-compete",
    on=NodePool,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    fix="Give one of them a higher weight, or tell them apart by a label or taint that pods select.",
    sources=(
        "https://karpenter.sh/docs/concepts/nodepools/",
        "https://github.com/kubernetes-sigs/karpenter/issues/2359",
    ),
)
def gpu_pools_do_not_compete(pool: NodePool, context: Context) -> Verdicts:
    """Two GPU pools that the same pods fit must differ in weight.

    Karpenter's documentation asks for pools that exclude one another. Where two have the same taints, labels and
    weight, and an instance type and a zone in common, it is chance which of them a pod gets: the reservation stays
    empty while on-demand grows, and limits count twice. A fallback is fine: the reserved pool with the higher weight.
    Judged for AWS, where the catalogue knows the instance types.
    """
    other = context.inventory.relation(Overlaps).earlier(pool)
    if other is not None:
        consequence = f"pods that fit {other.resource} fit this pool too, and chance decides"
        yield fail(("spec", "weight"), pool.spec.get("weight"), consequence, default="0", related=(other.resource,))
