"""Budgets over a whole week, minute by minute, against a plain reading of cron."""

import datetime as dt
import re
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triplane.manifests.disruption import DAYS, WEEK_MINUTES, budgets, closed_times, disruption, lifetime
from triplane.manifests.identity import ManifestError
from triplane.settings.pools import KEEP_EMPTY_NODE, MaintenanceWindow, PoolSettings

REASONS = ("Underutilized", "Empty", "Drifted", "Unhealthy")
UNBOUNDED = 2**31 - 1  # what Karpenter takes for a reason that no active budget covers


def pool(purpose: str = "serving", **overrides: Any) -> PoolSettings:
    return PoolSettings.model_validate(
        {"purpose": purpose, "accelerator": "H100-SXM5", "gpusPerNode": 8, "nodes": {"max": 4}, **overrides}
    )


def active_minutes(budget: dict[str, Any]) -> Iterable[int]:
    """Minutes of the week, from Monday 00:00 UTC, in which a budget acts: from each hit of its cron on."""
    if "schedule" not in budget:
        return range(WEEK_MINUTES)
    minute, hour, day_of_month, month, weekdays = budget["schedule"].split(" ")
    assert (day_of_month, month) == ("*", "*")
    days = range(7) if weekdays == "*" else [DAYS.index(day) for day in weekdays.split(",")]
    match = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?", budget["duration"])
    assert match is not None
    length = int(match[1] or 0) * 60 + int(match[2] or 0)
    assert 0 < length <= WEEK_MINUTES
    starts = [day * 1440 + int(hour) * 60 + int(minute) for day in days]
    return (at % WEEK_MINUTES for start in starts for at in range(start, start + length))


def allowed(budget_list: list[dict[str, Any]], reason: str) -> list[int]:
    """Nodes that may go for a reason in each minute of the week: the least of all active budgets, or UNBOUNDED."""
    least = [UNBOUNDED] * WEEK_MINUTES
    for budget in budget_list:
        if reason in budget.get("reasons", REASONS):
            nodes = int(budget["nodes"])
            for minute in active_minutes(budget):
                if nodes < least[minute]:
                    least[minute] = nodes
    return least


def open_minutes(window: MaintenanceWindow) -> set[int]:
    start = window.start.hour * 60 + window.start.minute
    end = window.end.hour * 60 + window.end.minute
    length = end - start if end > start else end - start + 1440
    return {(DAYS.index(day) * 1440 + start + offset) % WEEK_MINUTES for day in window.days for offset in range(length)}


windows = st.builds(
    lambda days, start, end: MaintenanceWindow.model_validate({"days": days, "from": start, "to": end}),
    st.lists(st.sampled_from(DAYS), min_size=1, max_size=7),
    st.times().map(lambda t: f"{t:%H:%M}"),
    st.times().map(lambda t: f"{t:%H:%M}"),
)


@settings(max_examples=60)
@given(windows, st.sampled_from(["serving", "training", "batch"]))
def test_drift_acts_in_the_window_and_at_no_other_minute(window: MaintenanceWindow, purpose: str) -> None:
    windowed = pool(purpose).model_copy(update={"maintenance": window})
    drifted = allowed(budgets(windowed, frozen=False, repair_has_budget=False), "Drifted")
    opened = open_minutes(window)
    assert [minute for minute, nodes in enumerate(drifted) if nodes != (1 if minute in opened else 0)] == []


@pytest.mark.parametrize(
    ("window", "closed"),
    [
        (
            {"days": ["sat", "sun"], "from": "02:00", "to": "06:00"},
            [
                {"schedule": "0 6 * * sat", "duration": "20h"},
                {"schedule": "0 6 * * sun", "duration": "140h"},
            ],
        ),
        # Every night, over midnight: one entry for all days.
        ({"days": list(DAYS), "from": "22:30", "to": "04:00"}, [{"schedule": "0 4 * * *", "duration": "18h30m"}]),
        # Once a week; its end is on the next day, and the week wraps.
        ({"days": ["sun"], "from": "23:00", "to": "01:00"}, [{"schedule": "0 1 * * mon", "duration": "166h"}]),
        # The whole day.
        ({"days": ["wed"], "from": "00:00", "to": "00:00"}, [{"schedule": "0 0 * * thu", "duration": "144h"}]),
        ({"days": list(DAYS), "from": "05:00", "to": "05:00"}, []),
    ],
)
def test_closed_times(window: dict[str, Any], closed: list[dict[str, str]]) -> None:
    assert closed_times(MaintenanceWindow.model_validate(window)) == closed


@pytest.mark.parametrize("purpose", list(KEEP_EMPTY_NODE))
def test_without_a_window_nothing_ever_drifts(purpose: str) -> None:
    assert set(allowed(budgets(pool(purpose), frozen=False, repair_has_budget=False), "Drifted")) == {0}


@pytest.mark.parametrize(("purpose", "repairs"), [("serving", {1}), ("training", {0}), ("batch", {1})])
def test_repair_has_a_budget_where_the_release_knows_it(purpose: str, repairs: set[int]) -> None:
    assert set(allowed(budgets(pool(purpose), frozen=False, repair_has_budget=True), "Unhealthy")) == repairs
    without = budgets(pool(purpose), frozen=False, repair_has_budget=False)
    assert all("Unhealthy" not in budget["reasons"] for budget in without)


@settings(max_examples=30)
@given(st.none() | windows, st.sampled_from(list(KEEP_EMPTY_NODE)), st.booleans(), st.booleans())
def test_every_reason_is_bounded_in_every_minute(
    window: MaintenanceWindow | None, purpose: str, frozen: bool, repair: bool
) -> None:
    written = budgets(pool(purpose).model_copy(update={"maintenance": window}), frozen=frozen, repair_has_budget=repair)
    assert len(written) <= 50
    for reason in REASONS if repair else REASONS[:3]:
        assert UNBOUNDED not in allowed(written, reason), reason
    assert set(allowed(written, "Underutilized")) == {0}
    assert set(allowed(written, "Empty")) == ({0} if frozen else {1})
    if frozen:
        assert set(allowed(written, "Drifted")) == {0}
        assert written == [{"nodes": "0"}]


@pytest.mark.parametrize(("purpose", "after"), [("serving", "1h"), ("training", "30m"), ("batch", "15m")])
def test_an_empty_node_waits_as_long_as_its_purpose_asks(purpose: str, after: str) -> None:
    written = disruption("p", pool(purpose), frozen=False, repair_has_budget=False)
    assert (written["consolidationPolicy"], written["consolidateAfter"]) == ("WhenEmpty", after)


@pytest.mark.parametrize(("chosen", "written"), [("90m", "1h30m"), ("2d", "48h"), ("Never", "Never"), ("1h", "1h")])
def test_longer_is_accepted(chosen: str, written: str) -> None:
    longer = pool(disruption={"consolidateAfter": chosen})
    assert disruption("p", longer, frozen=False, repair_has_budget=False)["consolidateAfter"] == written


def test_shorter_is_refused() -> None:
    with pytest.raises(ManifestError, match=r"pools\.p\.disruption.consolidateAfter: 30s is less than the 1h"):
        disruption("p", pool(disruption={"consolidateAfter": "30s"}), frozen=False, repair_has_budget=False)


@pytest.mark.parametrize(
    ("purpose", "chosen", "written"),
    [
        ("serving", {}, {"expireAfter": "Never"}),
        ("training", {}, {"expireAfter": "Never"}),
        ("training", {"expireAfter": "Never"}, {"expireAfter": "Never"}),
        (
            "batch",
            {"expireAfter": "14d", "terminationGracePeriod": "2h"},
            {"expireAfter": "336h", "terminationGracePeriod": "2h"},
        ),
        ("serving", {"terminationGracePeriod": "30m"}, {"expireAfter": "Never", "terminationGracePeriod": "30m"}),
    ],
)
def test_lifetime(purpose: str, chosen: dict[str, str], written: dict[str, str]) -> None:
    assert lifetime("p", pool(purpose, disruption=chosen)) == written


@pytest.mark.parametrize(
    ("purpose", "chosen", "sentence"),
    [
        ("batch", {"expireAfter": "14d"}, "set terminationGracePeriod as well"),
        ("training", {"expireAfter": "14d", "terminationGracePeriod": "1h"}, "a training pool has neither"),
        ("training", {"terminationGracePeriod": "1h"}, "a training pool has neither"),
    ],
)
def test_lifetime_refuses(purpose: str, chosen: dict[str, str], sentence: str) -> None:
    with pytest.raises(ManifestError, match=sentence):
        lifetime("p", pool(purpose, disruption=chosen))


def test_each_purpose_waits_at_least_as_long_as_a_gang_needs() -> None:
    assert min(KEEP_EMPTY_NODE.values()) >= dt.timedelta(minutes=10)
