"""The kernel against queueing theory, where theory has an answer.

A decode replica whose step takes a fixed time d whatever the batch is a queue with max_num_seqs servers: a request of
o tokens occupies one for o steps. With geometric o of large mean that is M/M/c up to the length of a step.
"""

import math

import numpy as np
import pytest

from triplane.simulation.kernel import EngineLimits, Serving, StepTimes, numba_available
from triplane.simulation.requests import Requests
from triplane.simulation.workload import arrivals, constant

STEP = 0.001
NO_PREFILL = StepTimes(
    prefill_base=0.0, prefill_token=0.0, prefill_square=0.0, decode_base=STEP, decode_sequence=0.0, decode_token=0.0
)


def decode_only(requests, servers, times=NO_PREFILL):
    """Prompts cost nothing and one decode replica serves."""
    limits = EngineLimits(times=times, kv_blocks=10**6, max_num_seqs=servers)
    prompts = EngineLimits(times=NO_PREFILL, kv_blocks=10**6, max_num_seqs=256)
    serving = Serving(requests, {"prefill": prompts, "decode": limits}, compiled=numba_available())
    serving.add("prefill")
    serving.add("decode")
    return serving


def erlang_c(servers, load):
    """Probability that an arrival waits in M/M/c with `load` Erlang."""
    blocked = 1.0
    for k in range(1, servers + 1):
        blocked = load * blocked / (k + load * blocked)
    return blocked / (1 - load / servers * (1 - blocked))


@pytest.mark.parametrize("utilisation", [0.5, 0.7, 0.8, 0.9, 0.95])
def test_waiting_in_a_multi_server_queue(utilisation):
    servers, mean = 4, 1000
    count = 200_000 if numba_available() else 40_000
    rng = np.random.default_rng(11)
    rate = utilisation * servers / (mean * STEP)
    times = arrivals(constant(rate, count / rate), rng)
    output = rng.geometric(1 / mean, len(times))
    requests = Requests(times, np.ones(len(times), np.int64), output)
    out = decode_only(requests, servers).run()
    # A request joins at a step border, on average half a step after it came, and its first token takes one step.
    wait = out.first_token - out.sent - 1.5 * STEP
    wait = wait[len(wait) // 10 :]
    batches = np.array([part.mean() for part in np.array_split(wait, 25)])
    error = 2.8 * batches.std(ddof=1) / math.sqrt(len(batches))  # Student's t, 24 degrees of freedom, 99 %
    load = utilisation * servers
    expected = erlang_c(servers, load) * mean * STEP / (servers - load)
    assert abs(wait.mean() - expected) < error + 0.5 * STEP
    assert error < 0.35 * expected, "the interval must be narrow enough to mean something"


def test_little():
    """Requests on the replica, seen at evenly spaced moments, are arrival rate times time there."""
    rng = np.random.default_rng(4)
    times = arrivals(constant(3.0, 4000.0), rng)
    requests = Requests(times, np.ones(len(times), np.int64), rng.geometric(1 / 1000, len(times)))
    serving = decode_only(requests, 8)
    seen = []
    for t in np.arange(1.0, 4000.0, 1.0):
        serving.advance(t)
        seen.append(serving.signals().load.sum())
    out = serving.run()
    during = np.minimum(np.nan_to_num(out.finish, nan=4000.0), 4000.0) - out.sent
    assert np.mean(seen) == pytest.approx(during.sum() / 4000.0, rel=0.01)


def test_no_load_no_waiting():
    times = StepTimes(
        prefill_base=0.0244, prefill_token=8.05e-5, prefill_square=2.3e-9, decode_base=0.0146, decode_sequence=5.6e-5,
        decode_token=1.7e-7)  # fmt: skip
    prompt = np.array([1, 100, 1000, 8192])
    requests = Requests(np.array([0.0, 100.0, 200.0, 300.0]), prompt, np.full(4, 50))
    serving = Serving(requests, {"aggregated": EngineLimits(times=times, kv_blocks=1000)})
    serving.add("aggregated")
    out = serving.run()
    assert out.ttft == pytest.approx(0.0244 + 8.05e-5 * prompt + 2.3e-9 * prompt**2, rel=1e-9)
    steps = sum(0.0146 + 5.6e-5 + 1.7e-7 * (prompt + k) for k in range(1, 50))
    assert out.e2e - out.ttft == pytest.approx(steps, rel=1e-9)


def test_full_load_serves_at_the_rate_of_a_full_batch():
    batch, output = 32, 200
    times = StepTimes(
        prefill_base=0.0,
        prefill_token=0.0,
        prefill_square=0.0,
        decode_base=0.01,
        decode_sequence=2e-4,
        decode_token=0.0,
    )
    n = 20_000
    requests = Requests(np.zeros(n), np.ones(n, np.int64), np.full(n, output))
    serving = decode_only(requests, batch, times)
    out = serving.run()
    assert n / out.finish.max() == pytest.approx(batch / (output * (0.01 + 2e-4 * batch)), rel=0.01)
    busy = serving.signals().busy[-1]
    assert busy == pytest.approx(out.finish.max(), rel=1e-9), "work is conserved: it is never idle"
