"""How many nodes of a pool Karpenter may disrupt at once: budgets by count, percentage, reason and schedule.

Source: karpenter pkg/apis/v1/nodepool.go, pkg/controllers/disruption/helpers.go and nodeclaim/disruption/
consolidation.go (commit 2266468).
"""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from triplane.catalog import cron

Reason = Literal["Empty", "Underutilized", "Drifted"]

UNBOUNDED = 2**31 - 1
"""Nodes allowed where no active budget covers a reason: the controller's own figure."""


@dataclass(frozen=True, slots=True)
class Budget:
    """One entry of spec.disruption.budgets. reasons None covers all; schedule None is always active."""

    nodes: str = "10%"
    reasons: frozenset[Reason] | None = None
    schedule: str | None = None
    duration: dt.timedelta | None = None

    def active(self, now: dt.datetime) -> bool:
        """Whether its window is open, or it has none. Raises ValueError for a schedule that cannot be read."""
        if self.schedule is None or self.duration is None:
            return True
        return cron.is_open(self.schedule, self.duration, now)

    def covers(self, reason: Reason) -> bool:
        """Whether it limits that reason."""
        return self.reasons is None or reason in self.reasons

    def allowance(self, nodes: int) -> int:
        """Nodes of `nodes` that it lets go; a percentage is rounded up. Raises ValueError for an unreadable amount."""
        if self.nodes.endswith("%"):
            return -(-nodes * int(self.nodes[:-1]) // 100)
        return int(self.nodes)


def allowed(budgets: Iterable[Budget], reason: Reason, nodes: int, now: dt.datetime) -> int:
    """Nodes that may be disrupted at once for a reason: the lowest active budget, UNBOUNDED without one. A budget that
    cannot be read allows none."""
    lowest = UNBOUNDED
    for budget in budgets:
        if not budget.covers(reason):
            continue
        try:
            if budget.active(now):
                lowest = min(lowest, budget.allowance(nodes))
        except ValueError:
            return 0
    return lowest


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node as far as budgets look at it. disrupted: marked for deletion."""

    managed: bool = True
    initialized: bool = True
    ready: bool = True
    disrupted: bool = False
    instance_terminating: bool = False


def pool_allowance(budgets: Iterable[Budget], reason: Reason, pool: Sequence[NodeState], now: dt.datetime) -> int:
    """Further nodes of the pool that may be disrupted now: those that are not ready or already going are taken off."""
    counted = [node for node in pool if node.managed and node.initialized and not node.instance_terminating]
    going = sum(node.disrupted or not node.ready for node in counted)
    return max(0, allowed(budgets, reason, len(counted), now) - going)


def consolidatable(
    consolidate_after_s: float | None, since_initialized_s: float | None, since_pod_event_s: float | None
) -> bool:
    """Whether a node may be considered for consolidation yet. None: never (consolidate_after), not initialized, or no
    pod came or went. The waiting time runs from the last pod event, else from initialization."""
    if consolidate_after_s is None or since_initialized_s is None:
        return False
    since = since_initialized_s if since_pod_event_s is None else since_pod_event_s
    return since >= consolidate_after_s
