"""The Dynamo planner's formulas, against hand calculation, and their bounds."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triplane.simulation.dynamo import (
    Engine,
    Goals,
    Load,
    Means,
    Plan,
    decode_by_load,
    decode_rate,
    decode_replicas,
    fit_budget,
    prefill_by_load,
    prefill_replicas,
    step,
    time_to_first_token,
)

# 10 ms and 0.1 ms a prompt token; 10 ms, 0.1 ms a sequence and 0.1 microseconds a cached token.
ENGINE = Engine(
    prefill=lambda tokens: 0.010 + 1e-4 * tokens,
    decode=lambda batch, kv: 0.010 + 1e-4 * batch + 1e-7 * kv,
    max_batched_tokens=2048,
    max_kv_tokens=200_000,
    max_sequences=128,
    context_length=8192,
)
MEANS = Means(input_tokens=1000, context=1100, running=10)


def test_long_prompts_take_several_steps() -> None:
    assert time_to_first_token(ENGINE, 1000) == pytest.approx(0.110)
    assert time_to_first_token(ENGINE, 5000) == pytest.approx(2 * (0.010 + 0.2048) + 0.010 + 0.0904)
    assert time_to_first_token(ENGINE, 0) == 0


def test_prefill_from_traffic() -> None:
    assert prefill_replicas(ENGINE, Goals(), 20, 1000) == math.ceil(20 * 0.110)
    assert prefill_replicas(ENGINE, Goals(), 20, 1000, hit_rate=0.9) == 1
    assert prefill_replicas(ENGINE, Goals(ttft_ms=50), 1, 1000) == 3  # 110 ms against 50: a floor of three
    assert prefill_replicas(ENGINE, Goals(min_endpoint=2), 0.1, 1000) == 2


def test_decode_from_traffic_takes_the_largest_batch_within_the_target() -> None:
    # 1,100 tokens a request: 10 + 0.21 n ms <= 25 gives n = 71; the cache holds 181, sequences 128.
    rate = decode_rate(ENGINE, Goals(itl_ms=25), 1000, 200)
    assert rate == pytest.approx(71 / (200 * (0.010 + 71 * 2.1e-4)))
    assert decode_replicas(ENGINE, Goals(itl_ms=25), 10 * rate, 1000, 200) in (10, 11)
    free = decode_rate(ENGINE, Goals(itl_ms=1000), 1000, 200)
    assert free == pytest.approx(128 / (200 * (0.010 + 128 * 2.1e-4)))
    alone = decode_rate(ENGINE, Goals(itl_ms=1), 1000, 200)
    assert alone == pytest.approx(1 / (200 * (0.010 + 2.1e-4)))


@pytest.mark.parametrize(
    ("target", "queued", "wanted"),
    [
        ("throughput", (8192, 0), 3),  # any at the context length
        ("throughput", (8191, 0), 2),
        ("throughput", (819, 819), 1),  # all below a tenth
        ("throughput", (820, 0), 2),
        ("latency", (820, 0), 3),
        ("latency", (0, 0), 1),
        ("latency", (1, 0), 2),
        ("sla", (6000, 6000), 3),  # all above 500 ms
        ("sla", (6000, 0), 2),
        ("sla", (500, 500), 1),  # 1,000 more a worker would wait 100 ms of (500 - 110) x 0.8
        ("sla", (1600, 0), 2),  # after consolidation 3,200: over 312 ms of wait
    ],
)
def test_prefill_from_load(target: str, queued: tuple[int, int], wanted: int) -> None:
    goals = Goals(target=target)  # type: ignore[arg-type]
    assert prefill_by_load(ENGINE, goals, [Load(queued_prompt=q) for q in queued], MEANS) == wanted


@pytest.mark.parametrize(
    ("target", "kv", "wanted"),
    [
        ("throughput", (200_001, 0), 3),
        ("throughput", (200_000, 0), 2),
        ("throughput", (119_999, 119_999), 1),
        ("throughput", (120_000, 0), 2),
        ("latency", (80_001, 0), 3),
        ("latency", (19_999, 19_999), 1),
        ("latency", (20_000, 0), 2),
        ("sla", (150_000, 150_000), 3),  # 11.1 + 15.1 ms against 25
        ("sla", (150_000, 0), 2),
        ("sla", (20_000, 20_000), 1),
        ("sla", (45_000, 0), 2),  # 90,000 after consolidation: 20.2 ms against 25 x 0.8
    ],
)
def test_decode_from_load(target: str, kv: tuple[int, int], wanted: int) -> None:
    goals = Goals(target=target, itl_ms=25)  # type: ignore[arg-type]
    assert decode_by_load(ENGINE, goals, [Load(running_kv=tokens) for tokens in kv], MEANS) == wanted


def test_one_worker_is_never_removed() -> None:
    for target in ("throughput", "latency", "sla"):
        goals = Goals(target=target)  # type: ignore[arg-type]
        assert prefill_by_load(ENGINE, goals, [Load()], MEANS) == 1
        assert decode_by_load(ENGINE, goals, [Load()], MEANS) == 1


def test_a_worker_that_does_not_report_stops_both_roles() -> None:
    busy = [Load(queued_prompt=9000)]
    plan = step(ENGINE, Goals(), (1, 2), (busy, [Load()]), MEANS, (1, 1))
    assert plan == Plan(1, 2, held="decode has 2 workers, 1 report")
    plan = step(ENGINE, Goals(), (1, 2), (busy, [Load(), Load()]), MEANS, (1, 1))
    assert plan == Plan(2, 1)
    assert step(ENGINE, Goals(), (1, 1), ([], []), MEANS, (1, 1)).held == "no worker reports"


def test_traffic_sets_the_floor_of_load() -> None:
    calm = ([Load(), Load(), Load()], [Load(), Load(), Load()])
    assert step(ENGINE, Goals(), (3, 3), calm, MEANS, (1, 1)) == Plan(2, 2)
    assert step(ENGINE, Goals(), (3, 3), calm, MEANS, (1, 1), floors=(3, 4)) == Plan(3, 4)


@pytest.mark.parametrize(
    ("wanted", "gpus", "goals", "expected"),
    [
        ((2, 2), (1, 1), Goals(max_gpus=8), (2, 2)),
        ((8, 8), (1, 1), Goals(max_gpus=8), (4, 4)),
        ((2, 9), (4, 1), Goals(max_gpus=8), (1, 4)),
        ((1, 1), (8, 8), Goals(max_gpus=8), (0, 0)),  # the least of both does not fit: nothing runs at all
        ((1, 1), (1, 1), Goals(min_gpus=6, max_gpus=-1), (3, 3)),
        ((1, 1), (2, 2), Goals(min_gpus=5, max_gpus=5), (1, 1)),  # within one step of the floor
    ],
)
def test_budget(wanted: tuple[int, int], gpus: tuple[int, int], goals: Goals, expected: tuple[int, int]) -> None:
    assert fit_budget(wanted, gpus, goals) == expected


@given(
    st.tuples(st.integers(1, 50), st.integers(1, 50)),
    st.tuples(st.integers(1, 8), st.integers(1, 8)),
    st.integers(0, 100),
    st.integers(-1, 100),
)
def test_the_ceiling_holds(wanted: tuple[int, int], gpus: tuple[int, int], ceiling: int, floor: int) -> None:
    found = fit_budget(wanted, gpus, Goals(min_gpus=floor, max_gpus=ceiling))
    assert found[0] * gpus[0] + found[1] * gpus[1] <= ceiling
    assert found == (0, 0) or min(found) >= 1
