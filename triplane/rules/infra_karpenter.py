"""Judgements on Karpenter's own installation: interruption queue, permissions, where it runs, node repair."""

import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from triplane import catalog
from triplane.inventory import Inventory, NodePool, Resource, kinds
from triplane.inventory.fields import at, mapping, sequence
from triplane.inventory.installations import Karpenter, karpenters
from triplane.inventory.nodepools import BUDGETS
from triplane.inventory.placement import Placement
from triplane.inventory.workloads import PodTemplate, Workload
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.tenants import gang_on
from triplane.rules.verdicts import Verdicts, fail

_GATE = "NodeRepair"


@rule(
    "IN701",
    "karpenter-hears-of-interruptions",
    on=Karpenter,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    fix="Create the SQS queue with its EventBridge rules and name it in settings.interruptionQueue.",
    sources=(
        "https://karpenter.sh/docs/concepts/disruption/#interruption",
        "https://github.com/aws/karpenter-provider-aws/issues/6623",
    ),
)
def karpenter_hears_of_interruptions(release: Karpenter, context: Context) -> Verdicts:
    """Where pools use spot or reservations that end, Karpenter must have its interruption queue.

    Without settings.interruptionQueue, which is empty by default, no spot warning, scheduled change or reservation's
    end reaches it: nodes die under their pods, with nothing drained and no replacement under way. A queue that no
    EventBridge rule of the same program feeds stays silent as well.
    """
    if not release.installs_karpenter:
        return
    pool = next((pool for pool in context.inventory.views(NodePool) if _ends_early(pool)), None)
    if pool is None:
        return
    related = (pool.resource,)
    if not release.has_interruption_queue:
        path = (*release.values_path, "settings", "interruptionQueue")
        consequence = f"the nodes of {pool.resource} end without a warning"
        yield fail(path, None, consequence, default="empty: no interruption handling", related=related)
    elif (queue := _queue_of(release, context.inventory)) and not list(context.inventory.of_kind(kinds.EVENT_RULE)):
        consequence = "no EventBridge rule of this program sends it anything"
        yield fail(("spec", "name"), release.queue_name, consequence, related=related, on=queue)


def _ends_early(pool: NodePool) -> bool:
    return pool.on_aws and bool({"spot", "reserved"} & (pool.capacity_types or frozenset()))


def _queue_of(release: Karpenter, inventory: Inventory) -> Resource | None:
    name = release.queue_name
    return inventory.find(kinds.SQS_QUEUE, name) if name else None


@rule(
    "IN702",
    "karpenter-may-read-what-its-version-reads",
    on=Inventory,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("karpenter",),
    fix="Take the controller policy of the Karpenter release you run, in its split form.",
    versions="Each release asks for more: 1.6 reservations, 1.7 instance profiles, 1.12 instance status.",
    sources=(
        "https://karpenter.sh/docs/reference/cloudformation/",
        "https://github.com/terraform-aws-modules/terraform-aws-eks/issues/3510",
    ),
)
def karpenter_may_read_what_its_version_reads(inventory: Inventory, context: Context) -> Verdicts:
    """The controller's IAM policies must allow what its version calls.

    Policies lag behind upgrades. Without ec2:DescribeCapacityReservations Karpenter sees no reservation, without
    ec2:DescribeInstanceStatus it does not notice a broken machine; both only show in its log. Judged over all policies
    of the program together, if one of them lets somebody create fleets; AWS-managed policies cannot be read here.
    """
    policies = list(inventory.of_kind(kinds.IAM_POLICY, kinds.IAM_ROLE_POLICY))
    allowed = {policy: frozenset(_allowed(policy)) for policy in policies}
    controller = next((policy for policy, actions in allowed.items() if _permits(actions, "ec2:CreateFleet")), None)
    if controller is None:
        return
    together = frozenset(action for actions in allowed.values() for action in actions)
    for feature, action in _CALLS.items():
        called = catalog.supports("karpenter", context.parameters.karpenter, feature)
        if called and not _permits(together, action):
            consequence = f"Karpenter {context.parameters.karpenter} calls it and is refused"
            yield fail(("spec", "policy"), f"without {action}", consequence, on=controller)


# A feature of the catalogue, and what the controller calls since then.
_CALLS = {
    "reserved-capacity": "ec2:DescribeCapacityReservations",
    "list-instance-profiles": "iam:ListInstanceProfiles",
    "describe-instance-status": "ec2:DescribeInstanceStatus",
}


def _allowed(policy: Resource) -> Iterator[str]:
    """Actions that a policy document allows, in lower case, with their wildcards."""
    document = at(policy.data, "spec", "policy")
    if isinstance(document, str):
        try:
            document = json.loads(document)
        except (ValueError, RecursionError):  # the API refuses it; it allows nothing
            return
    statements = at(document, "Statement")
    for statement in statements if isinstance(statements, list) else [statements]:
        if at(statement, "Effect") == "Allow":
            for action in _listed(at(statement, "Action")):
                yield action.lower()


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [entry for entry in sequence(value) if isinstance(entry, str)]


def _permits(actions: frozenset[str], action: str) -> bool:
    wanted = action.lower()
    return wanted in actions or any(fnmatchcase(wanted, pattern) for pattern in actions if "*" in pattern)


@rule(
    "IN705",
    "karpenter-does-not-run-on-its-own-nodes",
    on=Inventory,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    fix="Keep the chart's affinity: karpenter.sh/nodepool DoesNotExist; run it on a managed node group or Fargate.",
    sources=(
        "https://docs.aws.amazon.com/eks/latest/best-practices/karpenter.html",
        "https://github.com/aws/karpenter-provider-aws/blob/main/charts/karpenter/values.yaml",
    ),
)
def karpenter_does_not_run_on_its_own_nodes(inventory: Inventory, context: Context) -> Verdicts:
    """The Karpenter controller must not be able to land on a node that it manages.

    It may disrupt the node it runs on, and once it is gone nothing launches another. The chart keeps it away by a node
    affinity; values that write an affinity of their own lose it.
    """
    for release in karpenters(inventory):
        if (spec := release.pod_spec) is not None:
            template = PodTemplate("", spec, {}, (), ())
            if (pool := _first_pool(inventory, template)) is not None:
                path = (*release.values_path, "affinity")
                found = "without karpenter.sh/nodepool DoesNotExist"
                yield fail(path, found, _OWN_NODE.format(pool), related=(pool,), on=release.resource)
    for workload in map(_workload, inventory.of_kind("Deployment.apps")):
        for template in workload.templates:
            controls = any("karpenter/controller" in container.image for container in template.containers)
            if controls and (pool := _first_pool(inventory, template)) is not None:
                path = (*template.path, "affinity")
                written = template.spec.get("affinity")
                yield fail(path, written, _OWN_NODE.format(pool), related=(pool,), on=workload.resource)


def _workload(resource: Resource) -> Workload:
    return resource.view(Workload)


_OWN_NODE = "it may run on a node of {} and disrupt itself"


def _first_pool(inventory: Inventory, template: PodTemplate) -> Resource | None:
    fits = inventory.relation(Placement).fits(template)
    return next((fit.pools[0].resource for fit in fits if fit.possible), None)


@rule(
    "IN706",
    "node-repair-does-not-end-gangs",
    on=Inventory,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("karpenter", "karpenter_gates", "gangs"),
    fix='Leave the gate NodeRepair off, or from 1.15 on add {nodes: "0", reasons: [Unhealthy]} to the pools of gangs.',
    versions="Up to Karpenter 1.14 repair is forceful and knows no budget; 1.15 brings the reason Unhealthy.",
    sources=(
        "https://karpenter.sh/docs/concepts/disruption/#node-auto-repair",
        "https://github.com/kubernetes-sigs/karpenter/issues/2424",
        "https://github.com/kubernetes-sigs/karpenter/issues/2833",
    ),
)
def node_repair_does_not_end_gangs(inventory: Inventory, context: Context) -> Verdicts:
    """Where node repair is on, pools of gangs must be kept out of it.

    Ten minutes after a GPU health condition turns false Karpenter takes the node away; do-not-disrupt and
    PodDisruptionBudgets do not hold it, and one node ends the whole gang. Conditions that flap, or a false alarm, cost
    a job of days. Up to 1.14 there is no budget for it, so the gate has to stay off where gangs run; from 1.15 on a
    budget of zero for Unhealthy keeps a pool out.
    """
    release = next((release for release in karpenters(inventory) if _GATE in release.gates), None)
    if release is None and _GATE not in context.parameters.karpenter_gates:
        return
    budgets = catalog.supports("karpenter", context.parameters.karpenter, "unhealthy-budget")
    for pool in inventory.views(NodePool):
        gang = gang_on(pool, context)
        if (gang is None and pool.purpose != "training") or (budgets and pool.always_zero("Unhealthy")):
            continue
        related = (gang,) if gang else ()
        if budgets or release is None:
            consequence = "node repair takes nodes of a gang, whatever its pods say"
            yield fail(BUDGETS, "without a zero for Unhealthy", consequence, related=related, on=pool.resource)
        else:
            path = (*release.values_path, "settings", "featureGates", "nodeRepair")
            written = at(mapping(at(release.values, "settings")), "featureGates", "nodeRepair")
            consequence = f"repair is forceful before 1.15 and takes nodes of {pool.resource}"
            yield fail(path, written, consequence, related=(pool.resource, *related), on=release.resource)
            return
