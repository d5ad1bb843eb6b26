"""What must hold for every workload: conservation, limits, invariance, and the same bits plain and compiled."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.properties.simulation.test_kernel_oracle import HORIZON, by_kernel, cases
from triplane.simulation.kernel import ClientModel, EngineLimits, Serving, StepTimes, numba_available
from triplane.simulation.kernel.state import DONE
from triplane.simulation.requests import Requests
from triplane.simulation.workload import tally

TIMES = StepTimes(
    prefill_base=0.012,
    prefill_token=1e-4,
    prefill_square=2e-8,
    decode_base=0.01,
    decode_sequence=1e-4,
    decode_token=2e-7,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases())
@pytest.mark.skipif(not numba_available(), reason="numba is not installed")
def test_compiled_equals_plain_bit_for_bit(case):
    plain, compiled = by_kernel(case), by_kernel(case, compiled=True)
    for name in ("sent", "first", "finish", "status", "attempts", "itl", "firsts"):
        assert plain._arrays[name].tobytes() == compiled._arrays[name].tobytes(), name
    for field in dataclasses.fields(plain.signals()):
        a, b = getattr(plain.signals(), field.name), getattr(compiled.signals(), field.name)
        assert a.tobytes() == b.tobytes(), field.name
    assert plain.itl().seconds == compiled.itl().seconds


@settings(max_examples=60, deadline=None)
@given(cases(), st.lists(st.floats(0.0, 5.0), max_size=8))
def test_looking_changes_nothing(case, ticks):
    undisturbed, watched = by_kernel(case), by_kernel(case, ticks=ticks)
    for name in ("sent", "first", "finish", "status"):
        assert undisturbed._arrays[name].tobytes() == watched._arrays[name].tobytes(), name


@settings(max_examples=80, deadline=None)
@given(cases(), st.lists(st.floats(0.0, 6.0), min_size=1, max_size=6))
def test_every_offered_request_is_counted_once_and_limits_hold(case, ticks):
    arrival, prompt, output, _, _, engines, client, plan, routing = case
    requests = Requests(arrival, np.array(prompt), np.array(output))
    serving = Serving(requests, engines, routing=routing, client=client)
    for _, _, role in (p for p in plan if p[1] == "add"):
        serving.add(role)
    limit = max(e.max_num_seqs for e in engines.values())
    for t in sorted(ticks):
        serving.advance(t)
        seen = serving.signals()
        assert (seen.kv_usage >= 0).all() and (seen.kv_usage <= 1).all()
        assert (seen.running <= limit).all()
        assert (seen.load == seen.waiting + seen.running).all()
        assert (seen.busy <= t + 1e-9).all()
        count = tally(serving.outcomes(), requests.output_tokens, t, ttft=0.5)
        parts = (count.good, count.late, count.dropped, count.unfinished, count.never_sent)
        assert min(parts) >= 0 and sum(parts) == count.offered == int((arrival < t).sum())
    serving.advance(HORIZON)
    seen, out = serving.signals(), serving.outcomes()
    assert not seen.load.any() and not seen.prompt_tokens.any(), "all is done: nothing may be left on a replica"
    assert not seen.kv_usage.any(), "all is done: no block may still be in use"
    done = out.status == DONE
    assert (out.first_token[done] <= out.finish[done]).all()
    assert serving.in_flight == int((np.isnan(out.finish) & ~np.isnan(out.sent)).sum())


@settings(max_examples=40, deadline=None, derandomize=True)
@given(cases(), st.sampled_from([0.25, 2.0, 8.0]))
def test_time_has_no_scale(case, scale):
    """All times twice as long, everything happens twice as late. Powers of two scale every sum exactly."""
    moments = np.sort([*case[0], *(t for t, _, _ in case[7])])
    assume(not ((np.diff(moments) > 0) & (np.diff(moments) < 1e-6)).any())  # the width of a tie does not scale
    engines = {}
    for role, engine in case[5].items():
        if engine.times.semantics == "dynosim":
            return  # nanoseconds and 1 ms at least are a scale
        numbers = {f.name: getattr(engine.times, f.name) for f in dataclasses.fields(engine.times)}
        times = StepTimes(**{k: v * scale if isinstance(v, float) else v for k, v in numbers.items()})
        engines[role] = dataclasses.replace(
            engine,
            times=times,
            transfer_seconds=engine.transfer_seconds * scale,
            transfer_seconds_per_token=engine.transfer_seconds_per_token * scale,
        )
    client = dataclasses.replace(case[6], timeout=case[6].timeout * scale, backoff=case[6].backoff * scale)
    plan = [(t * scale, what, which) for t, what, which in case[7]]
    slow = by_kernel((case[0] * scale, *case[1:5], engines, client, plan, case[8])).outcomes()
    fast = by_kernel(case).outcomes()
    assert (slow.status == fast.status).all()
    # The nanosecond by which a retry keeps clear of the step it was dropped from does not scale.
    np.testing.assert_allclose(slow.finish, fast.finish * scale, rtol=1e-9, atol=1e-7)
    np.testing.assert_allclose(slow.first_token, fast.first_token * scale, rtol=1e-9, atol=1e-7)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 4))
def test_first_token_takes_at_least_the_prefill_and_gaps_at_least_a_step(seed, replicas):
    rng = np.random.default_rng(seed)
    n = 40
    requests = Requests(np.sort(rng.uniform(0, 3, n)), rng.integers(1, 3000, n), rng.integers(1, 60, n))
    serving = Serving(requests, {"aggregated": EngineLimits(times=TIMES, kv_blocks=1000)})
    for _ in range(replicas):
        serving.add("aggregated")
    out = serving.run()
    prompt = requests.input_tokens
    least = TIMES.prefill_base + TIMES.prefill_token * prompt + TIMES.prefill_square * prompt * prompt
    assert (out.ttft >= least * (1 - 1e-9)).all()
    assert (out.e2e - out.ttft >= (requests.output_tokens - 1) * TIMES.decode_base * (1 - 1e-9)).all()
    gaps = serving.itl()
    assert gaps.total == (requests.output_tokens - 1).sum()
    assert gaps.seconds == pytest.approx((out.e2e - out.ttft).sum(), rel=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_more_replicas_serve_no_less(seed):
    """Over many requests and by a margin: a single request may be unlucky."""
    rng = np.random.default_rng(seed)
    n = 300
    requests = Requests(np.sort(rng.uniform(0, 20, n)), rng.integers(100, 3000, n), rng.integers(10, 200, n))
    good = []
    for replicas in (1, 2, 4):
        serving = Serving(requests, {"aggregated": EngineLimits(times=TIMES, kv_blocks=4000)}, routing="leastLoaded")
        for _ in range(replicas):
            serving.add("aggregated")
        good.append(tally(serving.run(), requests.output_tokens, 1e9, ttft=1.0).good)
    assert good[0] <= good[1] + 3 and good[1] <= good[2] + 3


def test_three_clients_see_three_latencies_of_one_world():
    """An overloaded engine under an open loop, a capped client and one that gives up: P99 is a choice of the client."""
    rng = np.random.default_rng(5)
    n = 3000
    requests = Requests(np.cumsum(rng.exponential(0.2, n)), np.full(n, 2000), np.full(n, 100))
    engine = EngineLimits(times=TIMES, kv_blocks=1000)
    p99, counts = [], []
    for client in (ClientModel(), ClientModel(concurrency=64), ClientModel(timeout=60.0)):
        serving = Serving(requests, {"aggregated": engine}, client=client)
        serving.add("aggregated")
        out = serving.run(600.0)
        since_sent = out.first_token - out.sent
        p99.append(np.nanpercentile(since_sent, 99))
        counts.append(tally(out, requests.output_tokens, 600.0, ttft=10.0))
    assert p99[0] > 1.5 * p99[2] > 1.5 * p99[1] or math.isclose(p99[0], p99[2])
    assert len({c.offered for c in counts}) == 1
    assert counts[1].never_sent > 0 and counts[0].never_sent == counts[2].never_sent == 0
    assert counts[2].dropped > 0 and counts[0].dropped == counts[1].dropped == 0
