"""Saturation rules of the Workload Variant Autoscaler, at their boundaries. The first two tables take over the figures
of its own unit tests (Apache-2.0)."""

import pytest

from triplane.simulation.wva import (
    NO_HISTORY,
    Queued,
    Replica,
    Thresholds,
    Variant,
    by_spare_capacity,
    by_tokens,
    spare_capacity,
)


def replicas(variant: str, *figures: tuple[float, int]) -> list[Replica]:
    return [Replica(variant, kv, waiting) for kv, waiting in figures]


@pytest.mark.parametrize(
    ("figures", "up", "down"),
    [
        ([(0.75, 2), (0.76, 2)], True, False),
        ([(0.5, 3), (0.5, 3)], True, False),
        ([(0.5, 1), (0.5, 1)], False, False),
        ([(0.2, 1), (0.3, 1), (0.25, 1)], False, True),
        ([(0.7, 2), (0.75, 2)], True, False),
        ([(0.5, 2)], False, False),
        ([(0.85, 2), (0.5, 6), (0.9, 7)], True, False),
        ([(0.8, 0), (0.5, 1)], False, False),  # 0.8 is saturated: one open replica, too few to shrink
        ([(0.71, 0)], True, False),
        ([], False, False),
    ],
)
def test_spare_capacity(figures: list[tuple[float, int]], up: bool, down: bool) -> None:
    spare = spare_capacity(replicas("v", *figures), Thresholds())
    assert (spare.scale_up, spare.scale_down_safe) == (up, down)


BUSY, CALM = (0.79, 1), (0.1, 0)


@pytest.mark.parametrize(
    ("load", "change", "expected"),
    [
        (BUSY, {}, {"dear": 2, "cheap": 3, "middle": 2}),
        (CALM, {}, {"dear": 1, "cheap": 2, "middle": 2}),
        (BUSY, {"dear": {"desired": 4}}, {"dear": 4, "cheap": 2, "middle": 2}),  # on its way: the model stands still
        (BUSY, {"dear": {"current": 3}}, {"dear": 3, "cheap": 2, "middle": 2}),  # one does not report yet
        (BUSY, {"cheap": {"pending": 1}}, {"dear": 2, "cheap": 2, "middle": 3}),
        (BUSY, {"cheap": {"max_replicas": 2}}, {"dear": 2, "cheap": 2, "middle": 2}),
        (CALM, {"dear": {"min_replicas": 2}}, {"dear": 2, "cheap": 2, "middle": 1}),
    ],
)
def test_one_step_by_spare_capacity(
    load: tuple[float, int], change: dict[str, dict[str, int]], expected: dict[str, int]
) -> None:
    costs = {"dear": 20, "cheap": 5, "middle": 15}
    variants = [Variant(name, **({"current": 2, "cost": cost} | change.get(name, {}))) for name, cost in costs.items()]
    reporting = [replica for name in costs for replica in replicas(name, load, load)]
    assert by_spare_capacity(variants, reporting) == expected


def test_without_reports_nothing_changes() -> None:
    assert by_spare_capacity([Variant("v", 3)], []) == {"v": 3}


def token_replica(kv_usage: float, waiting: int = 0, variant: str = "v") -> Replica:
    return Replica(variant, kv_usage, waiting, kv_tokens=100_000, input_tokens=1000, output_tokens=200)


def test_demand_over_the_threshold_asks_for_whole_replicas() -> None:
    # 80,000 tokens each by memory; 2 x 75,000 in use: 150,000 / 0.85 - 160,000 = 16,471 tokens short.
    decision = by_tokens([Variant("v", 2)], [token_replica(0.75), token_replica(0.75)])
    assert decision.capacity == {"v": 80_000}
    assert decision.required["both"] == pytest.approx(150_000 / 0.85 - 160_000)
    assert decision.replicas == {"v": 3}


def test_what_is_starting_is_counted_as_supply() -> None:
    """The difference to a plain HPA, which asks again while pods load."""
    decision = by_tokens([Variant("v", 3, pending=1)], [token_replica(0.75), token_replica(0.75)])
    assert decision.required["both"] == 0
    assert decision.replicas == {"v": 3}


def test_spare_replicas_go_whole_and_one_stays() -> None:
    few = by_tokens([Variant("v", 4)], [token_replica(0.1)] * 4)  # 320,000 - 40,000 / 0.7 = 262,857 spare
    assert few.replicas == {"v": 1}
    assert by_tokens([Variant("v", 2)], [token_replica(0.0)] * 2).replicas == {"v": 1}
    assert by_tokens([Variant("v", 4, min_replicas=3)], [token_replica(0.1)] * 4).replicas == {"v": 3}


def test_waiting_requests_count_with_their_prompts() -> None:
    calm = by_tokens([Variant("v", 1)], [token_replica(0.6)])
    queued = by_tokens([Variant("v", 1)], [token_replica(0.6)], Queued(requests=50))
    assert calm.replicas == {"v": 1}
    assert queued.required["both"] == pytest.approx((60_000 + 50 * 1200) / 0.85 - 80_000)
    assert queued.replicas == {"v": 2}
    by_bytes = by_tokens([Variant("v", 1)], [token_replica(0.6)], Queued(requests=50, bytes=400_000))
    assert by_bytes.required["both"] == pytest.approx((60_000 + 100_000 + 50 * 200) / 0.85 - 80_000)


def test_roles_are_judged_apart() -> None:
    variants = [Variant("p", 1, role="prefill"), Variant("d", 1, role="decode")]
    reports = [token_replica(0.1, variant="p"), token_replica(0.75, variant="d")]
    assert by_tokens(variants, reports).replicas == {"p": 1, "d": 2}


def test_saturated_replicas_teach_what_compute_sustains() -> None:
    first = by_tokens([Variant("v", 1)], [token_replica(0.3, waiting=5)])
    assert first.capacity == {"v": 30_000}
    later = by_tokens([Variant("v", 1)], [token_replica(0.2)], history=first.history)
    assert later.capacity == {"v": 30_000}, "remembered, though no queue stands now"
    assert by_tokens([Variant("v", 1)], [token_replica(0.2)], history=NO_HISTORY).capacity == {"v": 80_000}


def test_engine_limits_bound_what_was_never_seen_saturated() -> None:
    variant = Variant("v", 1, batched_tokens=8192, sequences=32)
    decision = by_tokens([variant], [token_replica(0.1)])
    assert decision.capacity == {"v": 32 * (1000 + 100)}  # min(8192 x 200 / 1200, 32) requests of 1,100 tokens


def test_cheapest_token_grows_and_dearest_replica_shrinks() -> None:
    variants = [Variant("small", 1, cost=1), Variant("big", 1, cost=3)]
    heavy = [token_replica(0.79, variant="small"), Replica("big", 0.79, 0, 400_000, 1000, 200)]
    decision = by_tokens(variants, heavy, Queued(requests=200))
    assert decision.replicas["small"] == 1
    assert decision.replicas["big"] > 1  # 3 / 320,000 a token is less than 1 / 80,000
    full = [Variant("small", 1, cost=1), Variant("big", 1, cost=3, max_replicas=1)]
    assert by_tokens(full, heavy, Queued(requests=200)).replicas["small"] > 1
    calm = [token_replica(0.01, variant="small"), Replica("big", 0.01, 0, 400_000, 1000, 200)]
    assert by_tokens(variants, calm).replicas == {"small": 1, "big": 0}
