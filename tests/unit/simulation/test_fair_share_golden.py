"""Fair share against figures of KAI's own tests, and of its division functions on further inputs (commit d5bc503)."""

from typing import Any

import pytest

from tests.unit.simulation.golden import cases
from triplane.simulation.fair_share import RESOURCES, Claim, Queue, Triple, divide, divide_surplus, fair_shares

EXACT = {"rel": 1e-9, "abs": 1e-9}
TREES = (
    "plain",
    "priority",
    "fraction",
    "usage",
    "unlimited",
    "tie",
    "three_resources",
    "hierarchy_2",
    "hierarchy_3",
    "hierarchy_usage",
)


def triple(queue: dict[str, Any], field: str) -> Triple:
    gpu, cpu, memory = (queue[resource][field] for resource in RESOURCES)
    return (gpu, cpu, memory)


def claims(queues: list[dict[str, Any]]) -> list[Claim]:
    return [
        Claim(
            q["name"],
            q["quota"],
            q["limit"],
            q["over_quota_weight"],
            q["request"],
            q["priority"],
            q["created"],
            q["usage"],
        )
        for q in queues
    ]


@pytest.mark.parametrize("case", cases("kai_fair_share", "one_resource", "over_quota_phase"))
def test_one_resource(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    if case["kind"] == "one_resource":
        shares, left = divide(given["total"], claims(given["queues"]), given["k_value"])
    else:
        before = {queue["name"]: queue["fair_share_before"] for queue in given["queues"]}
        shares, left = divide_surplus(given["total"], claims(given["queues"]), before, given["k_value"])
    assert shares == pytest.approx(expected["fair_share"], **EXACT)
    assert left == pytest.approx(expected["remaining"], **EXACT)


@pytest.mark.parametrize(
    "case", cases("kai_fair_share", "three_resources", "hierarchy") + cases("kai_fair_share_more", *TREES)
)
def test_tree(case: dict[str, Any]) -> None:
    given = case["input"]
    queues = [
        Queue(
            q["name"],
            q.get("parent"),
            triple(q, "quota"),
            triple(q, "limit"),
            triple(q, "over_quota_weight"),
            q["priority"],
            q["created"],
        )
        for q in given["queues"]
    ]
    requests = {q["name"]: triple(q, "request") for q in given["queues"]}
    usage = {q["name"]: triple(q, "usage") for q in given["queues"]}
    gpu, cpu, memory = (given["totals"][resource] for resource in RESOURCES)
    found = fair_shares(queues, requests, (gpu, cpu, memory), given["k_value"], usage)
    for name, expected in case["expected"]["fair_share"].items():
        assert dict(zip(RESOURCES, found[name], strict=True)) == pytest.approx(expected, **EXACT), name
    assert fair_shares(reversed(queues), requests, (gpu, cpu, memory), given["k_value"], usage) == found


def test_every_kind_of_the_tables_is_compared() -> None:
    assert {p.values[0]["kind"] for p in cases("kai_fair_share")} == {
        "one_resource",
        "over_quota_phase",
        "three_resources",
        "hierarchy",
    }
    assert {p.values[0]["kind"] for p in cases("kai_fair_share_more")} == set(TREES)
