"""How a pool's nodes may be disrupted, written out in full: every default of Karpenter's is unsafe for GPUs.

Budgets act by the smallest active one for a reason, and a reason that no active budget covers is unlimited. So every
reason has a budget that is always active, and times in which nothing may happen are further budgets of zero.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from triplane.manifests.identity import ManifestError
from triplane.settings.pools import Day, DisruptionSettings, MaintenanceWindow, PoolSettings, Purpose
from triplane.settings.values import format_duration

DAYS: Final[tuple[Day, ...]] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_MINUTES: Final = 24 * 60
WEEK_MINUTES: Final = 7 * DAY_MINUTES

NEVER: Final = "Never"


@dataclass(frozen=True, slots=True)
class PurposeDefaults:
    """What a purpose means for disruption, where the pool says nothing."""

    consolidate_after: dt.timedelta
    """How long a node stays empty before it goes. Each pod that comes or goes starts the time anew."""
    drifts_off_hours: bool
    """Without a maintenance window: whether drift may act outside working hours, or not at all."""
    repairs: bool
    """Whether node repair (Karpenter 1.15, gate NodeRepair) may take one node at a time."""


PURPOSES: Final[dict[Purpose, PurposeDefaults]] = {
    # Longer than a scaler's way down and up again (a 5 minute window, then a cold start of minutes), so that a dip in
    # traffic does not buy the node twice.
    "serving": PurposeDefaults(dt.timedelta(hours=1), drifts_off_hours=True, repairs=True),
    # The first nodes of a gang wait empty for its last one; and emptiness is validated once only, so that a node can
    # go just as its pods arrive (kubernetes-sigs/karpenter#3185). Repair ignores do-not-disrupt, and one node ends
    # the whole gang.
    "training": PurposeDefaults(dt.timedelta(minutes=30), drifts_off_hours=False, repairs=False),
    # A queue's next job usually binds within minutes.
    "batch": PurposeDefaults(dt.timedelta(minutes=15), drifts_off_hours=True, repairs=True),
}

WORKING_HOURS: Final = {"schedule": "0 6 * * mon,tue,wed,thu,fri", "duration": "16h"}
"""Monday to Friday, 06:00 to 22:00 UTC: no drift then, where a pool sets no maintenance window."""


def disruption(name: str, pool: PoolSettings, *, frozen: bool, repair_has_budget: bool) -> dict[str, Any]:
    """`spec.disruption` of a NodePool, with `consolidateAfter` always written: before 1.15 the schema demands it.

    `repair_has_budget`: the budget reason Unhealthy exists (Karpenter 1.15). Raises ManifestError.
    """
    floor = PURPOSES[pool.purpose].consolidate_after
    chosen = pool.disruption.consolidate_after
    if isinstance(chosen, dt.timedelta) and chosen < floor:
        raise ManifestError(
            f"pools.{name}.disruption.consolidateAfter: {format_duration(chosen)} is less than the "
            f"{format_duration(floor)} that purpose {pool.purpose} keeps an empty node"
        )
    return {
        "consolidationPolicy": "WhenEmpty",
        "consolidateAfter": _karpenter_duration(chosen or floor, f"pools.{name}.disruption.consolidateAfter"),
        "budgets": budgets(pool, frozen=frozen, repair_has_budget=repair_has_budget),
    }


def lifetime(name: str, pool: PoolSettings) -> dict[str, str]:
    """`expireAfter`, always written, and `terminationGracePeriod` where the pool sets it. Raises ManifestError.

    Expiry acts outside every budget and brings no replacement first. A grace period overrides do-not-disrupt and
    PodDisruptionBudgets, and thereby lets drift act on nodes they protect.
    """
    return _lifetime(name, pool.purpose, pool.disruption)


def _lifetime(name: str, purpose: Purpose, chosen: DisruptionSettings) -> dict[str, str]:
    place = f"pools.{name}.disruption"
    expires, grace = chosen.expire_after, chosen.termination_grace_period
    finite = isinstance(expires, dt.timedelta)
    if purpose == "training" and (finite or grace is not None):
        raise ManifestError(
            f"{place}: a training pool has neither expireAfter nor terminationGracePeriod: both end running "
            "jobs, and nodes of "
            "one gang, being of one age, all at once"
        )
    if finite and grace is None:
        raise ManifestError(
            f"{place}.expireAfter: set terminationGracePeriod as well; without it one protected pod keeps an "
            "expired node, "
            "tainted and empty, for ever"
        )
    written = {"expireAfter": _karpenter_duration(expires or NEVER, f"{place}.expireAfter")}
    if grace is not None:
        written["terminationGracePeriod"] = _karpenter_duration(grace, f"{place}.terminationGracePeriod")
    return written


def budgets(pool: PoolSettings, *, frozen: bool, repair_has_budget: bool) -> list[dict[str, Any]]:
    """The pool's budgets: whole nodes, since a percentage rounds up to all of a small pool.

    Frozen: none, for any reason. Otherwise none for Underutilized, one for Empty, one for Drifted inside the
    maintenance window, and from 1.15 on one for Unhealthy unless the pool trains. What no budget covers in any
    release: expiry, spot interruption, failed status checks, a Capacity Block's end, and deletion of the pool itself.
    """
    if frozen:
        return [{"nodes": "0"}]
    purpose = PURPOSES[pool.purpose]
    drifted: list[dict[str, Any]]
    if pool.maintenance is not None:
        drifted = [
            {"nodes": "1", "reasons": ["Drifted"]},
            *({"nodes": "0", "reasons": ["Drifted"], **closed} for closed in closed_times(pool.maintenance)),
        ]
    elif purpose.drifts_off_hours:
        drifted = [{"nodes": "1", "reasons": ["Drifted"]}, {"nodes": "0", "reasons": ["Drifted"], **WORKING_HOURS}]
    else:
        drifted = [{"nodes": "0", "reasons": ["Drifted"]}]
    repair = [{"nodes": "1" if purpose.repairs else "0", "reasons": ["Unhealthy"]}] if repair_has_budget else []
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


def _karpenter_duration(value: dt.timedelta | str, place: str) -> str:
    if isinstance(value, str):
        return value
    if value % dt.timedelta(seconds=1):
        raise ManifestError(f"{place}: Karpenter reads whole seconds, found {format_duration(value)}")
    return format_duration(value)
