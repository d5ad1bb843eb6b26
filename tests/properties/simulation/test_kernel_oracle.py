"""The kernel does what a naive engine does: the same decisions, every time to 1e-9."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.simulation import oracle
from triplane.simulation.kernel import ClientModel, EngineLimits, Serving, StepTimes
from triplane.simulation.requests import Requests

STATUS = ("never sent", "waiting", "running", "transfer", "done", "timed out", "lost", "rejected")
HORIZON = 1e4


@st.composite
def step_times(draw, semantics):
    milli = st.integers(0, 40).map(lambda k: k / 1000) | st.floats(0.0, 0.04)
    small = st.integers(0, 40).map(lambda k: k / 100_000) | st.floats(0.0, 4e-4)
    return StepTimes(
        prefill_base=draw(milli) + 0.001,
        prefill_token=draw(small),
        prefill_square=draw(small) / 1000,
        decode_base=draw(milli) + 0.001,
        decode_sequence=draw(small),
        decode_token=draw(small) / 10,
        graph_batch=draw(st.sampled_from([2, 1 << 60])),
        eager_base=draw(milli),
        semantics=semantics,
    )


@st.composite
def cases(draw):
    split = draw(st.booleans())
    semantics = draw(st.sampled_from(["fused", "dynosim"]))
    size = draw(st.sampled_from([1, 2, 4, 16]))
    seqs = draw(st.integers(1, 6))
    engines = {}
    for role in ("prefill", "decode") if split else ("aggregated",):
        engines[role] = EngineLimits(
            times=draw(step_times(semantics)),
            kv_blocks=draw(st.integers(6, 30)),
            block_size=size,
            max_num_seqs=seqs,
            max_num_batched_tokens=draw(st.integers(seqs, 60)),
            prefix_caching=draw(st.booleans()),
            transfer_seconds=draw(st.sampled_from([0.0, 0.013])),
            transfer_seconds_per_token=draw(st.sampled_from([0.0, 1e-5])),
        )
    n = draw(st.integers(1, 25))
    gaps = st.integers(0, 20).map(lambda k: k / 100) | st.floats(0.0, 0.3)
    arrival = np.cumsum([draw(gaps) for _ in range(n)])
    prompt = [draw(st.integers(1, 60)) for _ in range(n)]
    output = [draw(st.integers(1, 40)) for _ in range(n)]
    ids, block = [[] for _ in range(n)], 0
    if draw(st.booleans()):
        block = size * draw(st.sampled_from([1, 2]))
        for i in range(n):
            family, shared, count = draw(st.integers(0, 2)), draw(st.integers(0, 6)), -(-prompt[i] // block)
            ids[i] = [family * 1000 + k if k < shared else 10_000 + 100 * i + k for k in range(count)]
    client = ClientModel(
        concurrency=draw(st.sampled_from([None, 1, 3, 8])),
        timeout=draw(st.sampled_from([math.inf, math.inf, 0.2, 1.0])),
        retries=draw(st.integers(0, 2)),
        backoff=draw(st.sampled_from([0.0, 0.05, 0.31])),
    )
    plan = [(0.0, "add", role) for role in engines]
    for _ in range(draw(st.integers(0, 3))):
        plan.append((draw(st.floats(0.0, 3.0)), "add", draw(st.sampled_from(sorted(engines)))))
    plan.sort(key=lambda p: p[0])
    if draw(st.booleans()):
        which = draw(st.integers(0, len(plan) - 1))
        plan.append((plan[which][0] + draw(st.floats(0.1, 3.0)), draw(st.sampled_from(["kill", "drain"])), which))
    routing = draw(st.sampled_from(["roundRobin", "leastLoaded", "queueAndKv"]))
    return arrival, prompt, output, ids, block, engines, client, plan, routing


def by_kernel(case, compiled=False, ticks=()):
    arrival, prompt, output, ids, block, engines, client, plan, routing = case
    prefixes = {}
    if block:
        start = np.cumsum([0, *map(len, ids)])
        flat = np.array([h for chain in ids for h in chain], np.int64)
        prefixes = {"prefix_start": start, "prefix_ids": flat, "prefix_block": block}
    requests = Requests(arrival, np.array(prompt), np.array(output), **prefixes)
    serving = Serving(requests, engines, routing=routing, client=client, compiled=compiled)
    slots = []
    for t, what, which in sorted([*plan, *((t, "tick", None) for t in ticks)], key=lambda p: p[0]):
        serving.advance(t)
        if what == "add":
            slots.append(serving.add(which))
        elif what == "tick":
            serving.signals()
        else:
            getattr(serving, what)(slots[which])
    serving.advance(HORIZON)
    return serving


def by_oracle(case):
    arrival, prompt, output, ids, block, engines, client, plan, routing = case
    requests = [
        oracle.Request(i, float(t), p, o, ids=h)
        for i, (t, p, o, h) in enumerate(zip(arrival, prompt, output, ids, strict=True))
    ]
    world = oracle.World(requests, engines, routing, client, plan, block)
    world.run(HORIZON)
    return world


def same(a, b):
    return (math.isnan(a) and math.isnan(b)) or abs(a - b) <= 1e-9 * max(1.0, abs(a))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(cases())
def test_kernel_equals_naive_engine(case):
    serving, world = by_kernel(case), by_oracle(case)
    out = serving.outcomes()
    for i, r in enumerate(world.requests):
        assert STATUS[out.status[i]] == r.status, i
        assert out.attempts[i] == r.attempts, i
        assert same(out.sent[i], r.sent), (i, out.sent[i], r.sent)
        assert same(out.first_token[i], r.first), (i, out.first_token[i], r.first)
        assert same(out.finish[i], r.finish), (i, out.finish[i], r.finish)
    assert serving.itl().total == len(world.gaps)
    assert serving.itl().seconds == pytest.approx(sum(world.gaps), rel=1e-9)
    if not any(what == "kill" for _, what, _ in case[7]):
        seen = serving.signals()
        assert list(seen.preemptions) == [x.preemptions for x in world.replicas]
        assert list(seen.busy) == pytest.approx([x.busy for x in world.replicas], rel=1e-9)
