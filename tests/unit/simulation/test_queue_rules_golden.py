"""The rules of KAI's queues against figures of KAI's own tests (commit d5bc503)."""

from typing import Any

import pytest

from tests.unit.simulation.golden import cases
from triplane.simulation.fair_share import RESOURCES, Queue, Triple
from triplane.simulation.kai.queue_rules import (
    Contender,
    QueueState,
    Refusal,
    admission,
    can_reclaim,
    compare,
    guarantees_quota,
    is_candidate,
    maintains_fair_share,
    over_limit,
    over_quota,
    reclaim_allowed,
)


def amounts(given: dict[str, float]) -> Triple:
    gpu, cpu, memory = (given[resource] for resource in RESOURCES)
    return (gpu, cpu, memory)


def field(given: dict[str, Any], name: str) -> Triple:
    return amounts({resource: given[resource][name] for resource in RESOURCES})


def state(given: dict[str, Any], created: int = 0) -> QueueState:
    queue = Queue(
        given.get("name", "queue"),
        given.get("parent"),
        field(given, "quota"),
        field(given, "limit"),
        priority=given.get("priority", 0),
        created=given.get("created", created),
    )
    return QueueState(
        queue, field(given, "fair_share"), field(given, "allocated"), field(given, "allocated_non_preemptible")
    )


def tree(given: dict[str, Any]) -> dict[str, QueueState]:
    return {queue["name"]: state(queue) for queue in given["queues"]}


@pytest.mark.parametrize("case", cases("kai_queue_rules", "admission"))
def test_admission(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    queues, request = tree(given), amounts(given["request"])
    match given["check"]:
        case "limit_and_quota":
            found = admission(queues, given["queue"], request, given["preemptible"])
        case "limit":
            found = over_limit(queues, given["queue"], request)
        case "quota":
            found = None if given["preemptible"] else over_quota(queues, given["queue"], request)
        case other:
            pytest.fail(f"unknown check {other}")
    if expected["admitted"]:
        assert found is None
    else:
        assert found == Refusal(expected["reason"], expected["at_queue"])


@pytest.mark.parametrize("case", cases("kai_queue_rules", "can_reclaim"))
def test_can_reclaim(case: dict[str, Any]) -> None:
    given = case["input"]
    found = can_reclaim(tree(given), given["queue"], amounts(given["request"]), given["preemptible"])
    assert found == case["expected"]["allowed"]


@pytest.mark.parametrize("case", cases("kai_queue_rules", "reclaim_allowed"))
def test_reclaim_allowed(case: dict[str, Any]) -> None:
    given = case["input"]
    victims = {queue: [amounts(chunk) for chunk in chunks] for queue, chunks in given["victims"].items()}
    found = reclaim_allowed(
        tree(given),
        given["queue"],
        amounts(given["request"]),
        given["preemptible"],
        victims,
        given["saturation_multiplier"],
    )
    assert found == case["expected"]["allowed"]


@pytest.mark.parametrize("case", cases("kai_queue_rules", "victim_filter"))
def test_victim_filter(case: dict[str, Any]) -> None:
    given = case["input"]
    found = is_candidate(tree(given), given["queue"], amounts(given["request"]), given["victim_queue"])
    assert found == case["expected"]["keep"]


@pytest.mark.parametrize("case", cases("kai_queue_rules", "maintain_fair_share", "guarantee_quota"))
def test_reasons_to_take(case: dict[str, Any]) -> None:
    given = case["input"]
    victim, remaining = state(given["victim"]), amounts(given["victim_remaining"])
    if case["kind"] == "maintain_fair_share":
        found = maintains_fair_share(victim, remaining)
    else:
        found = guarantees_quota(state(given["reclaimer"]), amounts(given["request"]), victim, remaining)
    assert found == case["expected"]["allowed"]


@pytest.mark.parametrize("case", cases("kai_queue_rules", "queue_order"))
def test_queue_order(case: dict[str, Any]) -> None:
    given = case["input"]
    sides = {
        side: Contender(
            state(given[side], given[f"{side}_created"]),
            amounts(given[f"{side}_job"]),
            tuple(map(amounts, given[f"{side}_victims"])),
        )
        for side in ("left", "right")
    }
    found = compare(sides["left"], sides["right"], amounts(given["totals"]))
    assert {-1: "left", 1: "right"}[found] == case["expected"]["first"]


def test_every_kind_of_the_table_is_compared() -> None:
    compared = {
        "admission",
        "can_reclaim",
        "reclaim_allowed",
        "victim_filter",
        "maintain_fair_share",
        "guarantee_quota",
        "queue_order",
    }
    assert {param.values[0]["kind"] for param in cases("kai_queue_rules")} == compared
