"""Judgements on disruption budgets. Of a reason's active budgets the smallest counts; without one it is unlimited."""

import math
from collections.abc import Iterator

from triplane.catalog import cron
from triplane.documents import Path
from triplane.inventory import NodePool
from triplane.inventory.capacity import room
from triplane.inventory.nodepools import BUDGETS, Budget
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Verdict, Verdicts, fail

_DISRUPTION = "https://karpenter.sh/docs/concepts/disruption/#nodepool-disruption-budgets"
# Below ten nodes ten percent, rounded up, is one whole node, whatever the pool's size.
_SMALL = 10


@rule(
    "NP104",
    "small-gpu-pool-budgets-whole-nodes",
    on=NodePool,
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("instance_table",),
    fix='Write whole nodes: nodes: "0" for Underutilized, nodes: "1" for Empty and Drifted.',
    sources=(_DISRUPTION, "https://github.com/aws/karpenter-provider-aws/issues/6911"),
)
def small_gpu_pool_budgets_whole_nodes(pool: NodePool, context: Context) -> Verdicts:
    """A small GPU pool must count its budget in nodes, not in percent.

    A percentage is rounded up: 10 % of one to ten nodes is a whole node, half of the capacity of a pool of two. The
    default, without any budget, is 10 % for every reason. Judged where the limits say that there are fewer than ten
    nodes. A budget in whole nodes that is always active for the same reasons makes the percentage harmless.
    """
    nodes = _most_nodes(pool, context)
    if not pool.gpu or not nodes < _SMALL:
        return
    whole = f"rounds up: of {nodes:g} nodes at most"
    if pool.budgets is None:
        yield fail(BUDGETS, None, f"10 % {whole}, one may be drained at any time", default="10 % for every reason")
    for budget in pool.budgets or ():
        percent = budget.percent
        if percent is not None and 0 < percent < 100 and not _bounded_in_nodes(pool, budget):
            at_once = math.ceil(nodes * percent / 100)
            yield fail((*budget.path, "nodes"), budget.nodes, f"{whole}, {at_once} may be drained at once")


def _most_nodes(pool: NodePool, context: Context) -> float:
    space = room(pool, context.parameters.instance_table)
    return min(space.nodes, space.gpus // space.sizes[0]) if space.sizes else space.nodes


def _bounded_in_nodes(pool: NodePool, budget: Budget) -> bool:
    in_nodes = [b for b in pool.budgets or () if b.always_active and (b.percent is None or b.zero)]
    reasons = budget.reasons
    if reasons is None:
        return any(other.reasons is None for other in in_nodes)
    return all(any(other.covers(reason) for other in in_nodes) for reason in reasons)


@rule(
    "NP105",
    "drift-of-a-gpu-pool-has-closed-hours",
    on=NodePool,
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("consolidation_allowed_label", "batch_label"),
    fix='Add {nodes: "0", reasons: [Drifted]}, always or with the schedule and duration of your busy hours (UTC).',
    sources=(_DISRUPTION, "https://github.com/aws/karpenter-provider-aws/issues/7708"),
)
def drift_of_a_gpu_pool_has_closed_hours(pool: NodePool, context: Context) -> Verdicts:
    """A GPU pool must have hours in which drift may not replace its nodes.

    A new AMI, a changed label, a Karpenter upgrade: each drifts every node of a pool, and Karpenter begins at once to
    replace them, in the middle of the day. Neither WhenEmpty nor consolidateAfter Never stops drift; only a budget of
    zero for Drifted does. Pools whose work may be moved at any time, by label, need none.
    """
    parameters = context.parameters
    if not pool.gpu or pool.waits(parameters.batch_label) or pool.has_label(parameters.consolidation_allowed_label):
        return
    budgets = pool.budgets
    closed = any(budget.zero and budget.covers("Drifted") for budget in budgets or ())
    # What no budget covers at all is NP125's finding.
    if not closed and (budgets is None or any(budget.covers("Drifted") for budget in budgets)):
        consequence = "a new AMI or an edited node class replaces serving nodes at any hour"
        yield fail(BUDGETS, budgets if budgets is None else list(budgets), consequence, default="10 % for every reason")


@rule(
    "NP122",
    "scheduled-budget-stands-beside-one-that-is-always-on",
    on=NodePool,
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    fix='Add a budget without a schedule for the same reasons: nodes: "0" closes the hours outside the window.',
    sources=(
        _DISRUPTION,
        "https://github.com/kubernetes-sigs/karpenter/issues/1719",
        "https://github.com/kubernetes-sigs/karpenter/issues/2329",
    ),
)
def scheduled_budget_stands_beside_one_that_is_always_on(pool: NodePool, context: Context) -> Verdicts:
    """A budget with a schedule must not be taken for a maintenance window.

    A budget only restricts, and only while it is active. "20 % on Saturday nights" alone means: 20 % on Saturday
    nights, and without any limit at all other times, since a written list also removes the default of 10 %. A window
    is the opposite: zero at all times but those, or zero without a schedule and no window at all.
    """
    open_reasons = {reason for budget in pool.budgets or () if _looks_like_a_window(budget) for reason in _of(budget)}
    unlimited = sorted(reason for reason in open_reasons if _matters(pool, reason) and not pool.always_bounded(reason))
    if unlimited:
        consequence = f"outside its hours nothing limits {' and '.join(unlimited)}"
        yield fail(BUDGETS, "only with a schedule", consequence)


def _looks_like_a_window(budget: Budget) -> bool:
    return not budget.always_active and not budget.zero


def _of(budget: Budget) -> tuple[str, ...]:
    return _REASONS if budget.reasons is None else budget.reasons


_REASONS = ("Underutilized", "Empty", "Drifted")


def _matters(pool: NodePool, reason: str) -> bool:
    """Whether the pool can lose nodes in use for the reason. Removing empty ones harms nobody."""
    if reason == "Underutilized":
        return not pool.static and pool.consolidation_policy != "WhenEmpty" and pool.consolidate_after != "Never"
    return reason == "Drifted"


@rule(
    "NP125",
    "every-reason-of-a-gpu-pool-has-a-budget-in-force",
    on=NodePool,
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    fix='Give every reason a budget without schedule, such as {nodes: "1"}, and the closed hours in further entries.',
    sources=(_DISRUPTION, "https://github.com/aws/karpenter-provider-aws/issues/7026"),
)
def every_reason_of_a_gpu_pool_has_a_budget_in_force(pool: NodePool, context: Context) -> Verdicts:
    """Every reason to disrupt a GPU pool must have a budget that is always active and can be read.

    Once a list is written, the default of 10 % is gone and a reason that no active budget names is unlimited: a list
    with only `reasons: [Empty]` lets every node drift at once. An empty list of reasons names none. A schedule that
    the controller cannot parse (six fields, an unknown word) does the opposite for the whole pool: no node is disrupted
    for any reason, so that no update arrives; and a schedule without a duration, or the reverse, is refused.
    """
    if not pool.gpu or pool.budgets is None:
        return
    yield from (verdict for budget in pool.budgets for verdict in _unreadable(budget))
    for reason in ("Drifted", "Underutilized"):
        windows = any(_looks_like_a_window(budget) and budget.covers(reason) for budget in pool.budgets)
        if _matters(pool, reason) and not pool.always_bounded(reason) and not windows:
            closed = any(budget.covers(reason) for budget in pool.budgets)
            when = "outside the scheduled hours " if closed else ""
            yield fail(
                BUDGETS, f"without one for {reason}", f"{when}all nodes may be disrupted at once for this reason"
            )


def _unreadable(budget: Budget) -> Iterator[Verdict]:
    path: Path = budget.path
    if budget.reasons == ():
        yield fail((*path, "reasons"), "an empty list", "it names no reason, so this budget limits nothing")
    if (budget.schedule is None) != (budget.duration is None):
        missing = "duration" if budget.duration is None else "schedule"
        yield fail((*path, missing), None, "schedule and duration go together; the API server refuses one alone")
    if budget.schedule is not None and not cron.is_schedule(budget.schedule):
        consequence = "Karpenter cannot read this schedule and then disrupts nothing, for any reason: no update arrives"
        yield fail((*path, "schedule"), budget.schedule, consequence)
