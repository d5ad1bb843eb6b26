"""DynoSim 1.4.2 on public traces, request by request: its step times, limits and semantics in our kernel.

Inputs and outputs: tests/data/dynosim, from `dynamo.replay` of ai-dynamo-runtime 1.4.2 (Apache-2.0). DynoSim keeps
whole microseconds in these files, so half of one is its rounding.
"""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from triplane.simulation.kernel import EngineLimits, Serving, StepTimes, numba_available
from triplane.simulation.workload import read_trace

DATA = Path(__file__).parents[2] / "data"
CASES = ["tp4x1", "tp4x2", "tp4x4", "tp2x1", "tp2x2", "tp2x4", "tp4x1_no_prefix_cache", "tp2x1_no_prefix_cache"]
PERCENTILES = {"median": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99}


@cache
def trace(name):
    return read_trace(DATA / "traces" / name).requests


def replay(name, file):
    result = json.loads((DATA / "dynosim" / f"{name}.json").read_text())
    k, engine = result["table"]["coefficients"], result["engine_args"]
    times = StepTimes(
        prefill_base=k["p0"] / 1e3,
        prefill_token=k["p1"] / 1e3,
        prefill_square=k["p2"] / 1e3,
        decode_base=k["a"] / 1e3,
        decode_sequence=k["b"] / 1e3,
        decode_token=k["c"] / 1e3,
        semantics="dynosim",
    )
    limits = EngineLimits(
        times=times,
        kv_blocks=engine["num_gpu_blocks"],
        block_size=engine["block_size"],
        max_num_seqs=engine["max_num_seqs"],
        max_num_batched_tokens=engine["max_num_batched_tokens"],
        prefix_caching=engine["enable_prefix_caching"],
    )
    serving = Serving(trace(file), {"aggregated": limits}, compiled=numba_available())
    for _ in range(result["workers_at_start"]):
        serving.add("aggregated")
    return serving, serving.run(), result["report"]


@pytest.mark.parametrize("name", CASES)
def test_every_request_within_a_microsecond(name):
    serving, out, report = replay(name, "azure_llm_2023_conv.csv")
    expected = np.load(DATA / "dynosim" / f"{name}.requests.npz")
    assert np.abs(out.ttft * 1e6 - expected["ttft_us"]).max() < 1.0
    assert np.abs(out.e2e * 1e6 - expected["e2e_us"]).max() < 1.0
    gaps = serving.itl()
    assert gaps.mean * 1e3 == pytest.approx(report["mean_itl_ms"], rel=1e-9)
    for key, p in PERCENTILES.items():  # DynoSim keeps gaps in a sketch of 0.1 % relative accuracy
        assert gaps.percentile(p) * 1e3 == pytest.approx(report[f"{key}_itl_ms"], rel=1e-3), key


def test_cases_with_preemption_preempt():
    serving, _, _ = replay("tp2x1", "azure_llm_2023_conv.csv")
    assert serving.signals().preemptions.sum() == 1486


@pytest.mark.parametrize("name", ["mooncake_tp4x4_prefix_cache", "mooncake_tp4x8_prefix_cache"])
def test_shared_prefixes(name):
    serving, out, report = replay(name, "mooncake_synthetic.jsonl.gz")
    assert out.ttft.mean() * 1e3 == pytest.approx(report["mean_ttft_ms"], rel=1e-7)
    assert out.e2e.mean() * 1e3 == pytest.approx(report["mean_e2e_latency_ms"], rel=1e-7)
    assert serving.itl().mean * 1e3 == pytest.approx(report["mean_itl_ms"], rel=1e-7)
    reused = serving.signals().reused.sum() / serving.requests.input_tokens.sum()
    assert reused == pytest.approx(report["prefix_cache_reused_ratio"], rel=1e-12)
