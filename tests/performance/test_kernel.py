"""How fast the serving kernel is: a day of a million requests, its growth, and beside DynoSim in the same run.

The limits are those of docs/performance.md. TRIPLANE_DYNOSIM names the Python of an environment with DynoSim 1.4.2
(dynosim_replay.py says how to make one); without it the comparison is skipped.
"""

import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from triplane.simulation.kernel import EngineLimits, Serving, StepTimes, numba_available
from triplane.simulation.profiles import profile
from triplane.simulation.requests import Requests
from triplane.simulation.workload import EmpiricalLengths, constant, diurnal, generate, read_trace

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
CONVERSATION = DATA / "traces" / "azure_llm_2023_conv.csv"
needs_numba = pytest.mark.skipif(not numba_available(), reason="numba is not installed")


def a_day(count: int) -> Requests:
    """So many requests (nearly) over a day's wave, with the lengths of the conversation trace."""
    trace = read_trace(CONVERSATION).requests
    return generate(diurnal(count / 86400.0, 0.7, 86400.0), EmpiricalLengths(trace), seed=1)


def steady(count: int) -> Requests:
    """So many requests at the mean rate of a million a day."""
    trace = read_trace(CONVERSATION).requests
    return generate(constant(1e6 / 86400.0, count * 0.0864), EmpiricalLengths(trace), seed=1)


def simulate(requests: Requests, replicas: int, compiled: bool) -> float:
    """Seconds for the whole trace with an autoscaler's look at every replica each 15 s."""
    started = time.perf_counter()
    engine = profile("llama-3.3-70b-fp8-h100-tp2").engine_limits()
    serving = Serving(requests, {"aggregated": engine}, routing="leastLoaded", compiled=compiled)
    for _ in range(replicas):
        serving.add("aggregated")
    for tick in np.arange(15.0, requests.arrival[-1] + 15.0, 15.0):
        serving.advance(float(tick))
        serving.signals()
    assert np.isfinite(serving.run().finish).all()
    return time.perf_counter() - started


DAY = """
import resource, sys
sys.path.insert(0, {root!r})
from tests.performance.test_kernel import a_day, simulate
requests = a_day(1_000_000)
times = [simulate(requests, 64, {compiled}) for _ in range({runs})]
print(len(requests), min(times), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


@pytest.mark.parametrize(
    ("compiled", "seconds"), [pytest.param(True, 1.0, marks=needs_numba), (False, 45.0)], ids=["numba", "plain"]
)
def test_a_day_of_a_million_requests(compiled, seconds):
    if compiled:
        simulate(a_day(1000), 2, True)  # the compiled code is in the cache, as after any first run
    script = DAY.format(root=str(ROOT), compiled=compiled, runs=3 if compiled else 1)
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    count, took, mebibytes = map(float, result.stdout.split())
    print(f"\n{count:,.0f} requests, 64 replicas: {took:.2f} s, {mebibytes:.0f} MiB")
    assert count == pytest.approx(1e6, rel=0.01)
    assert took <= seconds
    assert mebibytes <= 600


@needs_numba
def test_time_grows_with_requests_and_replicas():
    simulate(a_day(1000), 2, True)
    times = []
    for requests in (steady(100_000 * 2**k) for k in range(6)):
        times.append(min(simulate(requests, 64, True) for _ in range(3)))
        print(f"\n{len(requests):,} requests: {times[-1]:.3f} s", end="")
    assert all(b <= 2.1 * a for a, b in itertools.pairwise(times))
    requests, times = steady(400_000), []
    for replicas in (32, 64, 128, 256):
        times.append(min(simulate(requests, replicas, True) for _ in range(3)))
        print(f"\n{replicas} replicas: {times[-1]:.3f} s", end="")
    assert all(b <= 2.1 * a for a, b in itertools.pairwise(times))


@pytest.mark.skipif("TRIPLANE_DYNOSIM" not in os.environ, reason="TRIPLANE_DYNOSIM names no environment with DynoSim")
@pytest.mark.parametrize("name", ["tp4x1", "tp4x2", "tp4x4", "tp2x1", "tp2x2", "tp2x4"])
def test_beside_dynosim(name):
    """The same trace, table and machine, in turn: at least 100 times its rate compiled, twice without."""
    result = json.loads((DATA / "dynosim" / f"{name}.json").read_text())
    k, engine = result["table"]["coefficients"], result["engine_args"]
    names = ("prefill_base", "prefill_token", "prefill_square", "decode_base", "decode_sequence", "decode_token")
    coefficients = {name: k[key] / 1e3 for name, key in zip(names, ("p0", "p1", "p2", "a", "b", "c"), strict=True)}
    requests = read_trace(CONVERSATION).requests
    script = Path(__file__).with_name("dynosim_replay.py")
    command = [os.environ["TRIPLANE_DYNOSIM"], str(script), str(DATA / "dynosim" / f"{name}.json"), str(CONVERSATION)]

    def ours(semantics, compiled):
        times = StepTimes(semantics=semantics, **coefficients)
        limits = EngineLimits(times=times, kv_blocks=engine["num_gpu_blocks"], block_size=engine["block_size"])
        started = time.perf_counter()
        serving = Serving(requests, {"aggregated": limits}, compiled=compiled)
        for _ in range(result["workers_at_start"]):
            serving.add("aggregated")
        serving.run()
        return time.perf_counter() - started

    ways = [("fused", False), ("dynosim", False)]
    if numba_available():
        ours("fused", True), ours("dynosim", True)
        ways += [("fused", True), ("dynosim", True)]
    best = dict.fromkeys(ways, float("inf"))
    peer = float("inf")
    for _ in range(3):
        replay = subprocess.run(command, capture_output=True, text=True, check=True)
        peer = min(peer, float(replay.stdout.split()[-1]) / 1e3)
        for way in ways:
            best[way] = min(best[way], *(ours(*way) for _ in range(5 if way[1] else 1)))
    ratios = {way: peer / seconds for way, seconds in best.items()}
    print(f"\n{name}: DynoSim {peer:.2f} s")
    for (semantics, compiled), ratio in ratios.items():
        print(f"  {semantics}{', numba' if compiled else ''}: {ratio:.1f} times its rate")
    assert ratios["fused", False] >= 1.5
    if numba_available():
        assert ratios["fused", True] >= 100
