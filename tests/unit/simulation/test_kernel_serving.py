"""The kernel's face: small worlds worked out by hand."""

import math

import numpy as np
import pytest

from triplane.simulation.kernel import ClientModel, EngineLimits, Serving, StepTimes, state
from triplane.simulation.requests import Requests

# One second for a prompt however long, a tenth for each decode step.
TIMES = StepTimes(
    prefill_base=1.0,
    prefill_token=0.0,
    prefill_square=0.0,
    decode_base=0.1,
    decode_sequence=0.0,
    decode_token=0.0,
)
ENGINE = EngineLimits(times=TIMES, kv_blocks=100)


def requests(*rows):
    arrival, prompt, output = zip(*rows, strict=True)
    return Requests(np.array(arrival, float), np.array(prompt), np.array(output))


def serve(rows, engine=ENGINE, replicas=1, until=None, **options):
    serving = Serving(requests(*rows), {"aggregated": engine}, **options)
    for _ in range(replicas):
        serving.add("aggregated")
    serving.advance(1e6 if until is None else until)
    return serving


def test_alone():
    out = serve([(2.0, 10, 5)]).outcomes()
    assert out.first_token.tolist() == pytest.approx([3.0]) and out.finish.tolist() == pytest.approx([3.4])


def test_a_prompt_stalls_the_decodes_beside_it():
    serving = serve([(0.0, 10, 11), (1.55, 10, 1)])
    out = serving.outcomes()
    # The second joins at the border 1.6; the first's token of that step waits for the whole prompt.
    assert out.first_token.tolist() == pytest.approx([1.0, 2.6])
    assert out.finish.tolist() == pytest.approx([1.0 + 9 * 0.1 + 1.0, 2.6])
    assert serving.itl().total == 10 and serving.itl().percentile(1.0) == pytest.approx(1.0, rel=1e-3)


def test_a_full_batch_makes_the_next_wait():
    engine = EngineLimits(times=TIMES, kv_blocks=100, max_num_seqs=1)
    assert serve([(0.0, 10, 11), (0.5, 10, 1)], engine).outcomes().first_token.tolist() == pytest.approx([1.0, 3.0])


def test_a_long_prompt_is_chunked():
    engine = EngineLimits(times=TIMES, kv_blocks=100, max_num_batched_tokens=256)
    assert serve([(0.0, 600, 1)], engine).outcomes().first_token.tolist() == pytest.approx([3.0])


def test_too_long_is_refused_at_once():
    out = serve([(0.0, 1601, 1), (0.0, 1600, 1)]).outcomes()
    assert out.status.tolist() == [state.REJECTED, state.DONE]


def test_preemption_puts_the_last_back():
    engine = EngineLimits(times=TIMES, kv_blocks=4, block_size=4, prefix_caching=False)
    serving = serve([(0.0, 7, 9), (0.0, 8, 2)], engine)
    assert serving.signals().preemptions.tolist() == [1]
    assert (serving.outcomes().status == state.DONE).all()


def test_kv_transfer_between_roles():
    prefill = EngineLimits(times=TIMES, kv_blocks=100, transfer_seconds=0.25, transfer_seconds_per_token=0.001)
    serving = Serving(requests((0.0, 100, 3)), {"prefill": prefill, "decode": ENGINE})
    serving.add("prefill"), serving.add("decode")
    out = serving.run()
    # Prompt 1 s, transfer 0.25 + 0.1 s; the decode engine emits every token, the first after one step.
    assert out.first_token.tolist() == pytest.approx([1.45]) and out.finish.tolist() == pytest.approx([1.65])


@pytest.mark.parametrize(
    ("routing", "expected"),
    [("roundRobin", [0, 1, 0, 1]), ("leastLoaded", [0, 1, 1, 1]), ("queueAndKv", [0, 1, 1, 1])],
)
def test_routing(routing, expected):
    rows = [(0.0, 10, 1000), (0.1, 10, 1), (20.0, 10, 1), (30.0, 10, 1)]
    serving = Serving(requests(*rows), {"aggregated": ENGINE}, routing=routing)
    slots = [serving.add("aggregated"), serving.add("aggregated")]
    seen = []
    for when, *_ in rows:
        serving.advance(when + 0.01)
        r = len(seen)
        seen.append(slots.index(serving.world.replica[r]))
    assert seen == expected


def test_skew_sends_a_share_to_one_replica():
    rows = [(i * 0.01, 10, 1) for i in range(2000)]
    serving = serve(rows, replicas=2, skew=0.7, seed=3, until=20.0)
    load = serving.signals().load + [serving.world.replicas[s].served for s in serving.signals().slots]
    assert load[0] / load.sum() == pytest.approx(0.85, abs=0.03)


def test_replicas_come_and_go():
    serving = Serving(requests((0.0, 10, 1), (5.0, 10, 100), (6.0, 10, 1)), {"aggregated": ENGINE})
    first = serving.add("aggregated", ready_at=3.0)
    serving.advance(1.0)
    assert serving.held == 1 and serving.in_flight == 1 and len(serving.signals().slots) == 0
    serving.advance(5.5)
    assert serving.held == 0 and serving.outcomes().first_token[0] == pytest.approx(4.0)
    second = serving.add("aggregated", ready_at=5.8)
    serving.drain(first)
    serving.advance(6.5)
    assert not serving.removable(first)
    assert serving.signals().load.tolist() == [1, 1]
    serving.advance(20.0)
    assert serving.removable(first) and not serving.removable(second)
    serving.kill(first)
    assert serving.signals().slots.tolist() == [second]


def test_killed_work_is_lost_or_tried_again():
    rows = [(0.0, 10, 100)]
    for retries, status in ((0, state.LOST), (1, state.DONE)):
        serving = Serving(requests(*rows), {"aggregated": ENGINE}, client=ClientModel(retries=retries, backoff=2.0))
        slot = serving.add("aggregated")
        serving.add("aggregated")
        serving.advance(3.0)
        serving.kill(slot)
        out = serving.run()
        assert out.status.tolist() == [status]
        if retries:
            assert out.sent.tolist() == [5.0] and out.ttft.tolist() == pytest.approx([6.0])


def test_duty_cycle_says_nothing_about_the_queue():
    """One request and a hundred look the same to a signal that asks whether the GPU is busy."""
    duty = []
    for n in (1, 100):
        serving = serve([(0.0, 10, 10_000)] * n, EngineLimits(times=TIMES, kv_blocks=10_000), until=30.0)
        before = serving.signals()
        serving.advance(45.0)
        after = serving.signals()
        duty.append((after.busy - before.busy)[0] / 15.0)
    assert duty == pytest.approx([1.0, 1.0], abs=1e-9)


def test_the_client_gives_up_and_the_engine_is_freed():
    serving = serve([(0.0, 10, 1000), (0.2, 10, 1)], client=ClientModel(timeout=5.0))
    out = serving.outcomes()
    assert out.status.tolist() == [state.TIMED_OUT, state.DONE]
    assert out.finish[0] == pytest.approx(5.0)
    assert serving.signals().kv_usage.tolist() == [0.0]


def test_a_cap_holds_requests_back():
    serving = serve([(0.0, 10, 1)] * 5, until=2.5, client=ClientModel(concurrency=1))
    out = serving.outcomes()
    assert out.sent.tolist()[:3] == pytest.approx([0.0, 1.0, 2.0])
    assert out.status.tolist() == [state.DONE, state.DONE, state.RUNNING, state.NEVER_SENT, state.NEVER_SENT]


def test_long_prompts_block_those_behind_them():
    """A million tokens at 2 a.m.: everyone on that replica waits."""
    times = StepTimes(prefill_base=0.02, prefill_token=8e-5, prefill_square=2e-9, decode_base=0.015,
                      decode_sequence=5e-5, decode_token=1.7e-7)  # fmt: skip
    engine = EngineLimits(times=times, kv_blocks=80_000)
    calm = serve([(i * 0.5, 1000, 50) for i in range(200)], engine, replicas=2)
    rows = sorted([(i * 0.5, 1000, 50) for i in range(200)] + [(30.1, 1_000_000, 10)])
    struck = serve(rows, engine, replicas=2)
    assert np.nanpercentile(struck.outcomes().ttft, 90) > 20 * np.nanpercentile(calm.outcomes().ttft, 90)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: EngineLimits(times=TIMES, kv_blocks=0), "at least 1"),
        (
            lambda: EngineLimits(times=TIMES, kv_blocks=9, max_num_seqs=99, max_num_batched_tokens=50),
            "at least max_num",
        ),
        (lambda: ClientModel(concurrency=0), "concurrency"),
        (lambda: ClientModel(timeout=0.0), "timeout"),
        (lambda: ClientModel(timeout=math.nan), "timeout"),
        (lambda: ClientModel(retries=201), "retries"),
        (lambda: Serving(requests((0, 1, 1)), {"prefill": ENGINE}), "prefill and decode"),
        (lambda: Serving(requests((0, 1, 1)), {"aggregated": ENGINE}, skew=1.0), "skew"),
        (lambda: Serving(requests((0, 1, 1)), {"aggregated": ENGINE}).add("decode"), "no engine for role"),
        (lambda: serve([(0, 1, 1)], until=5.0).advance(4.0), "time runs forward"),
    ],
)
def test_what_cannot_be_is_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()
