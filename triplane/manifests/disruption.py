"""How a pool's nodes may be disrupted, written out in full: every default of Karpenter's is unsafe for GPUs.

Budgets act by the smallest active one for a reason, and a reason that no active budget covers is unlimited. So every
reason has a budget that is always active, and times in which nothing may happen are further budgets of zero.
"""

import datetime as dt
from collections.abc import Sequence
from typing import Any, Final

from triplane.manifests.identity import ManifestError
from triplane.settings.pools import KEEP_EMPTY_NODE, Day, MaintenanceWindow, PoolSettings, Purpose
from triplane.settings.values import format_duration

DAYS: Final[tuple[Day, ...]] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_MINUTES: Final = 24 * 60
WEEK_MINUTES: Final = 7 * DAY_MINUTES

NEVER: Final = "Never"


REPAIRED: Final[frozenset[Purpose]] = frozenset({"serving", "batch"})
"""Purposes whose nodes may be repaired one at a time (Karpenter 1.15, gate NodeRepair). Repair ignores do-not-disrupt,
and one node ends a whole training gang."""


def disruption(name: str, pool: PoolSettings, *, frozen: bool, repair_has_budget: bool) -> dict[str, Any]:
    """`spec.disruption` of a NodePool, with `consolidateAfter` always written: before 1.15 the schema demands it.

    `repair_has_budget`: the budget reason Unhealthy exists (Karpenter 1.15). Raises ManifestError.
    """
    floor = KEEP_EMPTY_NODE[pool.purpose]
    chosen = pool.disruption.consolidate_after
    if isinstance(chosen, dt.timedelta) and chosen < floor:
        raise ManifestError(
            f"pools.{name}.disruption.consolidateAfter: {format_duration(chosen)} is less than the "
            f"{format_duration(floor)} that purpose {pool.purpose} keeps an empty node"
        )
    return {
        "consolidationPolicy": "WhenEmpty",
        "consolidateAfter": _text(chosen or floor),
        "budgets": budgets(pool, frozen=frozen, repair_has_budget=repair_has_budget),
    }


def lifetime(name: str, pool: PoolSettings) -> dict[str, str]:
    """`expireAfter`, always written, and `terminationGracePeriod` where the pool sets it. Raises ManifestError.

    Expiry acts outside every budget and brings no replacement first. A grace period overrides do-not-disrupt and
    PodDisruptionBudgets, and thereby lets drift act on nodes they protect.
    """
    place = f"pools.{name}.disruption"
    expires, grace = pool.disruption.expire_after, pool.disruption.termination_grace_period
    finite = isinstance(expires, dt.timedelta)
    if pool.purpose == "training" and (finite or grace is not None):
        raise ManifestError(
            f"{place}: a training pool has neither expireAfter nor terminationGracePeriod: both end running "
            "jobs, and the nodes of one gang, being of one age, all at once"
        )
    if finite and grace is None:
        raise ManifestError(
            f"{place}.expireAfter: set terminationGracePeriod as well; without it one protected pod keeps an "
            "expired node, tainted and empty, for ever"
        )
    written = {"expireAfter": _text(expires or NEVER)}
    if grace is not None:
        written["terminationGracePeriod"] = _text(grace)
    return written


def budgets(pool: PoolSettings, *, frozen: bool, repair_has_budget: bool) -> list[dict[str, Any]]:
    """The pool's budgets: whole nodes, since a percentage rounds up to all of a small pool.

    Frozen: none, for any reason. Otherwise none for Underutilized, one for Empty, one for Drifted inside the
    maintenance window, and from 1.15 on one for Unhealthy unless the pool trains. What no budget covers in any
    release: expiry, spot interruption, failed status checks, a Capacity Block's end, and deletion of the pool itself.
    """
    if frozen:
        return [{"nodes": "0"}]
    if pool.maintenance is None:
        drifted: list[dict[str, Any]] = [{"nodes": "0", "reasons": ["Drifted"]}]
    else:
        closed = closed_times(pool.maintenance)
        drifted = [
            {"nodes": "1", "reasons": ["Drifted"]},
            *({"nodes": "0", "reasons": ["Drifted"], **time} for time in closed),
        ]
    repair = (
        [{"nodes": "1" if pool.purpose in REPAIRED else "0", "reasons": ["Unhealthy"]}] if repair_has_budget else []
    )
    return [
        {"nodes": "0", "reasons": ["Underutilized"]},
        {"nodes": "1", "reasons": ["Empty"]},
        *drifted,
        *repair,
    ]


def closed_times(window: MaintenanceWindow) -> list[dict[str, str]]:
    """The week outside a maintenance window, to the minute, as Karpenter's `schedule` (cron in UTC) and `duration`.

    Windows start at one time of day and last a day at most, so they never overlap, and the closed times are the gaps
    between one's end and the next one's start. Gaps of one length and time of day share an entry. A window around the
    clock on every day leaves none.
    """
    opens = window.start.hour * 60 + window.start.minute
    closes = window.end.hour * 60 + window.end.minute
    length = (closes - opens) % DAY_MINUTES or DAY_MINUTES
    days = sorted({DAYS.index(day) for day in window.days})
    gaps: dict[tuple[int, int], list[int]] = {}
    for this, following in zip(days, (*days[1:], days[0] + 7), strict=True):
        gap = (following - this) * DAY_MINUTES - length
        if gap:
            day, minute = divmod((this * DAY_MINUTES + opens + length) % WEEK_MINUTES, DAY_MINUTES)
            gaps.setdefault((minute, gap), []).append(day)
    return [
        {"schedule": _cron(minute, starts), "duration": format_duration(dt.timedelta(minutes=gap))}
        for (minute, gap), starts in gaps.items()
    ]


def _cron(minute: int, days: Sequence[int]) -> str:
    weekdays = "*" if len(days) == 7 else ",".join(DAYS[day] for day in sorted(days))
    return f"{minute % 60} {minute // 60} * * {weekdays}"


def _text(value: dt.timedelta | str) -> str:
    return value if isinstance(value, str) else format_duration(value)
