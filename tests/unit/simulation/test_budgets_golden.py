"""Disruption budgets against figures of Karpenter's own tests and functions (commit 2266468)."""

import datetime as dt
from typing import Any

import pytest

from tests.unit.simulation.golden import cases
from triplane.catalog import cron
from triplane.simulation.budgets import UNBOUNDED, Budget, NodeState, allowed, consolidatable, pool_allowance

NOON = dt.datetime(2025, 6, 15, 12, tzinfo=dt.UTC)


def budget(given: dict[str, Any]) -> Budget:
    reasons = None if given["reasons"] is None else frozenset(given["reasons"])
    minutes = given["duration_minutes"]
    duration = None if minutes is None else dt.timedelta(minutes=minutes)
    return Budget(given["nodes"], reasons, given["schedule"], duration)


@pytest.mark.parametrize("case", cases("karpenter_budgets", "allowed_by_reason", "allowed_by_reason_own_inputs"))
def test_lowest_of_the_budgets(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    now = dt.datetime.fromisoformat(given["now"])
    budgets = [budget(one) for one in given["budgets"]]
    found = allowed(budgets, given["reason"], given["nodes"], now)
    assert found == (UNBOUNDED if expected["unbounded"] else expected["allowed"])
    if "budgets_active" in expected:
        assert [one.active(now) for one in budgets] == expected["budgets_active"]


@pytest.mark.parametrize("case", cases("karpenter_budgets", "single_budget"))
def test_one_budget(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    one, now = budget(given["budget"]), dt.datetime.fromisoformat(given["now"])
    assert allowed([one], "Empty", given["nodes"], now) == expected["allowed"]
    if expected.get("error"):
        with pytest.raises(ValueError, match="five-field"):
            one.active(now)


@pytest.mark.parametrize("case", cases("karpenter_budgets", "schedule_active"))
def test_window(case: dict[str, Any]) -> None:
    given = case["input"]
    duration = dt.timedelta(minutes=given["duration_minutes"])
    found = cron.is_open(given["schedule"], duration, dt.datetime.fromisoformat(given["now"]))
    assert found == case["expected"]["active"]


@pytest.mark.parametrize("case", cases("karpenter_budgets", "pool_budget"))
def test_pool_with_nodes_on_their_way_out(case: dict[str, Any]) -> None:
    given = case["input"]
    names = {"managed", "initialized", "ready", "instance_terminating"}
    pool = [
        NodeState(**{name: group[name] for name in names}, disrupted=group["deleting"])
        for group in given["nodes"]
        for _ in range(group["count"])
    ]
    budgets = [budget(one) for one in given["budgets"]]
    for reason in given["reasons"]:
        assert pool_allowance(budgets, reason, pool, NOON) == case["expected"]["allowed_for_each_reason"]


@pytest.mark.parametrize("case", cases("karpenter_budgets", "empty_nodes_removed"))
def test_empty_nodes_that_go_in_one_step(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    empty = given["empty_nodes_per_pool"]
    removed = min(empty, pool_allowance([Budget(given["budget_nodes"])], "Empty", [NodeState()] * empty, NOON))
    assert removed == expected["removed_per_pool"]
    assert given["pools"] * (empty - removed) == expected["left_in_total"]


@pytest.mark.parametrize("case", cases("karpenter_budgets", "consolidatable"))
def test_consolidate_after(case: dict[str, Any]) -> None:
    given = case["input"]
    initialized = given["seconds_since_initialized"]
    if given["initialized"] == "true" and initialized is None:
        initialized = 0  # the table leaves out what the controller does not look at once a pod came or went
    found = consolidatable(given["consolidate_after_s"], initialized, given["seconds_since_last_pod_event"])
    assert found == case["expected"]["consolidatable"]


def test_every_kind_of_the_table_is_compared() -> None:
    compared = {
        "allowed_by_reason",
        "allowed_by_reason_own_inputs",
        "single_budget",
        "schedule_active",
        "pool_budget",
        "empty_nodes_removed",
        "consolidatable",
    }
    assert {param.values[0]["kind"] for param in cases("karpenter_budgets")} == compared


@pytest.mark.parametrize(
    ("line", "at", "hit"),
    [
        ("*/15 8-18 * * *", "2025-06-16T08:20", "2025-06-16T08:15"),
        ("5/20 * * * *", "2025-06-16T08:50", "2025-06-16T08:45"),
        ("0 0 13 * 5", "2025-06-20T09:00", "2025-06-20T00:00"),  # Friday, not the 13th: one of the two suffices
        ("0 0 */2 * 5", "2025-06-19T09:00", "2025-06-19T00:00"),  # so too when one is a star with a step
        ("0 0 */1 * 5", "2025-06-19T09:00", "2025-06-13T00:00"),  # a star alone says nothing: Fridays only
        ("0 9 * jan,JUN mon-fri", "2025-06-15T23:00", "2025-06-13T09:00"),
        ("0 0 29 2 *", "2025-06-15T00:00", "2024-02-29T00:00"),
    ],
)
def test_last_hit(line: str, at: str, hit: str) -> None:
    now = dt.datetime.fromisoformat(at).replace(tzinfo=dt.UTC)
    found = cron.parse(line).last_hit(now, now - dt.timedelta(days=800))
    assert found == dt.datetime.fromisoformat(hit).replace(tzinfo=dt.UTC)


@pytest.mark.parametrize(
    "line",
    ["", "@noon", "* * * *", "0 0 6 * * *", "60 * * * *", "* * 0 * *", "5-1 * * * *", "*/0 * * * *", "* * * * 7"],
)
def test_unreadable_lines(line: str) -> None:
    with pytest.raises(ValueError, match=r"no five-field|no number|not within"):
        cron.parse(line)
