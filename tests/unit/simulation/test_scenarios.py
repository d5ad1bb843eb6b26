"""Scenarios, loads, engines and strategies: what is accepted, what is refused and in which words."""

import ast
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.simulation.worlds import MODEL, arrivals, role, setup, stack
from triplane.manifests.replicas import role_manifests
from triplane.simulation import loads
from triplane.simulation.comparison import compare, stability
from triplane.simulation.engines import EngineError, role_engine
from triplane.simulation.errors import SimulationError
from triplane.simulation.requests import Requests
from triplane.simulation.results import estimate, percentiles, score, to_json
from triplane.simulation.scenarios import ScenarioError, scenario_of
from triplane.simulation.signals import SignalError, autoscaler
from triplane.simulation.strategies import STRATEGIES, UnknownStrategy, strategy
from triplane.simulation.workload import LognormalLengths, TraceError, read_trace

ROOT = Path(__file__).parents[3]
TRACE = ROOT / "tests" / "data" / "traces" / "azure_llm_2023_conv.csv"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"horizon": "0s"}, "horizon"),
        ({"horizon": "soon"}, "horizon"),
        ({"speed": -1}, "speed"),
        ({"seeds": 0}, "seeds"),
        ({"trace": "a.csv", "arrivals": {"shape": "constant", "rate": 1}}, "two loads"),
        ({"arrivals": {"shape": "burst", "rate": 1}}, "needs peak, at, duration"),
        ({"strategies": ["tripelLayer"]}, "Did you mean tripleLayer"),
        ({"skew": 1.0}, "skew"),
        ({"weights": {"goodput": 0, "cost": 0}}, "at least one"),
        ({"rate": 3}, "rate"),
    ],
)
def test_a_wrong_scenario_is_refused_with_its_place(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        scenario_of(values, "test")


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        ({"model": "chatt"}, "no model chatt"),
        ({"startReplicas": {"prefill": 9}}, "not within 1 to 8"),
        ({"startReplicas": {"aggregated": 1}}, "there is no aggregated"),
        ({"reservedNodes": {"training": 1}}, "there is no training"),
        ({"longPrompt": {"at": "1h"}}, "after the horizon"),
        ({"arrivals": arrivals("step", peak=3, at="20m")}, "not over before the horizon"),
        ({"arrivals": arrivals(rate=1e-9)}, "no request arrives"),
    ],
)
def test_a_scenario_must_fit_its_stack(scenario: dict[str, Any], words: str) -> None:
    with pytest.raises(SimulationError, match=words):
        setup(**scenario)


def test_a_missing_trace_names_the_file() -> None:
    with pytest.raises(TraceError, match=r"nowhere\.csv"):
        setup(trace="nowhere.csv")


def test_more_than_the_most_replicas_can_serve_is_not_stable() -> None:
    calm, flooded = setup(), setup(arrivals=arrivals(rate=400.0), horizon="2m")
    assert stability(calm, 0) == []
    (line, *_) = stability(flooded, 0)
    share = flooded.capacity.load(flooded.load.requests(0), 120.0)["prefill"]
    assert share > 1
    assert line.startswith(
        f"not stable: prefill is offered {share:.2f} times what 8 replicas can serve (exceeds capacity"
    )


def test_shared_prefixes_count_once_towards_the_offered_work() -> None:
    alike, apart = (
        Requests(np.zeros(2), np.full(2, 1024), np.full(2, 8), np.array([0, 2, 4]), np.array([0, 1, *second]), 512)
        for second in ((0, 1), (2, 3))
    )
    capacity = setup().capacity
    token = capacity.engines["prefill"].limits.times.prefill_token
    saved = (capacity.load(apart, 1.0)["prefill"] - capacity.load(alike, 1.0)["prefill"]) * 8
    assert saved >= 1023 * token


def test_the_capacity_is_an_upper_bound_that_a_full_run_comes_near() -> None:
    from tests.unit.simulation.worlds import run

    made = setup(arrivals=arrivals(rate=400.0), horizon="3m", startReplicas={"prefill": 8, "decode": 6})
    _, summary = run(made)
    share = max(made.capacity.load(made.load.requests(0), 180.0).values())
    served = (summary.in_slo + summary.late) / summary.offered
    assert served <= 1 / share
    assert served >= 0.75 / share


def test_the_shipped_lengths_are_the_fit_to_the_trace() -> None:
    fit = LognormalLengths.fit(read_trace(TRACE).requests)
    for name in ("input_mu", "input_sigma", "output_mu", "output_sigma", "correlation"):
        assert getattr(loads.CHAT, name) == pytest.approx(getattr(fit, name), abs=5e-5)
    assert (loads.CHAT.longest_input, loads.CHAT.longest_output) == (fit.longest_input, fit.longest_output)


def test_a_trace_is_replayed_faster_and_repeated() -> None:
    once = setup(trace=str(TRACE), horizon=None)
    twice = setup(trace=str(TRACE), horizon=None, speed=2.0)
    assert len(once.load.requests(0)) == len(twice.load.requests(0)) == 19_366
    assert once.load.horizon == pytest.approx(2 * twice.load.horizon, abs=180)
    day = setup(trace=str(TRACE), horizon="3h")
    assert len(day.load.requests(0)) == pytest.approx(3 * 3600 * 5.53, rel=0.01)


def test_measured_engines_are_taken_as_they_are_and_others_scaled_and_marked() -> None:
    settings = stack()
    model, pool = settings.models["chat"], settings.pools["serving"]
    found = role_engine(model, "prefill", model.roles["prefill"], pool)
    assert found.measured and {row.kind for row in found.coefficients} == {"measured", "published"}
    small = model.model_copy(update={"model": "meta-llama/Llama-3.1-8B-Instruct"})
    l4 = pool.model_copy(update={"accelerator": "L4", "gpus_per_node": 1, "efa": False})
    one = model.roles["decode"].model_copy(update={"gpus": 1})
    scaled = role_engine(small, "decode", one, l4)
    assert not scaled.measured
    # Reading 15 GiB of weights at 0.8 of 300 GB/s takes 67 ms.
    assert 0.060 < scaled.limits.times.decode_base < 0.080
    assert 20_000 < scaled.limits.kv_blocks * 16 < 45_000
    with pytest.raises(EngineError, match="no room for a KV cache"):
        role_engine(model, "decode", one, l4)
    with pytest.raises(EngineError, match="the shape of nobody/knows is not known"):
        role_engine(model.model_copy(update={"model": "nobody/knows"}), "decode", one, pool)


@pytest.mark.parametrize("kubernetes", ["1.34", "1.35"])
@pytest.mark.parametrize("kind", ["keda", "hpa"])
def test_the_declared_behaviour_is_that_of_the_manifests(kubernetes: str, kind: str) -> None:
    settings = stack()
    cluster = settings.cluster.model_copy(update={"kubernetes": kubernetes})
    settings = settings.model_copy(update={"cluster": cluster})
    model = settings.models["chat"]
    model = model.model_copy(
        update={"roles": {n: r.model_copy(update={"autoscaler": kind}) for n, r in model.roles.items()}}
    )
    for name in model.roles:
        made = role_manifests("chat", model, name, platform=settings.platform, cluster=cluster)[0]["spec"]
        behavior = made["behavior"] if kind == "hpa" else made["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
        ours = autoscaler(settings, model, name, strategy("asDeclared")).bounds
        for key, rules in (("scaleUp", ours.scale_up), ("scaleDown", ours.scale_down)):
            assert rules is not None
            (policy,) = behavior[key]["policies"]
            (own,) = rules.policies
            assert (own.type, own.value, own.period_s) == (policy["type"], policy["value"], policy["periodSeconds"])
            assert rules.window_s == behavior[key]["stabilizationWindowSeconds"]
            tolerance = behavior[key].get("tolerance")
            assert rules.tolerance == (None if tolerance is None else int(tolerance[:-1]) / 1000)


def test_a_signal_that_is_not_simulated_is_named() -> None:
    values = stack().models["chat"].model_dump(by_alias=True, exclude_unset=True, mode="json")
    values["roles"]["decode"] = role("chat-decode", 4, 1, 6, {"wva": {"variantCost": 1}})
    settings = stack(models={"chat": values})
    with pytest.raises(SignalError, match="wva"):
        autoscaler(settings, settings.models["chat"], "decode", strategy("asDeclared"))


def test_a_strategy_is_found_by_name_or_the_nearest_is_told() -> None:
    assert strategy("tripleLayer").scheduler == "kai"
    with pytest.raises(UnknownStrategy, match="Did you mean dutyCycleHpa"):
        strategy("dutycycle")


def test_nothing_outside_the_simulator_can_load_a_strategy() -> None:
    allowed = {ROOT / "triplane" / "commands" / "simulate.py"}
    folders = [ROOT / name for name in ("triplane", "components", "policies", "__main__.py")]
    files = [p for folder in folders for p in ([folder] if folder.is_file() else sorted(folder.rglob("*.py")))]
    for path in files:
        if path.is_relative_to(ROOT / "triplane" / "simulation") or path in allowed:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert "triplane.simulation.strategies" not in names, path
    assert not any(name in field for name in STRATEGIES for field in type(stack()).model_fields)


def test_percentiles_count_those_never_served() -> None:
    found = percentiles(np.array([1.0, 2.0, 3.0, np.nan]))
    assert (found.p50, found.p90, found.p99, found.mean) == (2.0, None, None, None)
    assert percentiles(np.array([0.1] * 99 + [9.0])).p99 == 0.1


def test_an_interval_is_students() -> None:
    one = estimate([1.0, 2.0, 3.0])
    assert one.mean == 2.0 and one.high == pytest.approx(2 + 4.303 / math.sqrt(3), abs=1e-3)
    assert estimate([4.0]).low is None
    assert estimate([4.0, None]).mean is None


def test_the_score_is_the_weighted_mean_that_is_printed() -> None:
    assert score(0.9, 200.0, 100.0, {"goodput": 0.7, "cost": 0.3}) == pytest.approx(100 * (0.63 + 0.15))
    assert score(1.0, 100.0, 100.0, {"goodput": 1.0, "cost": 1.0}) == 100.0


def test_a_comparison_is_plain_json_and_the_same_twice() -> None:
    import json

    made = setup(seeds=2, strategies=["dutyCycleHpa", "tripleLayer"], horizon="6m")
    first, again = (json.dumps(to_json(compare(made)), allow_nan=False) for _ in range(2))
    assert first == again
    data = json.loads(first)
    assert [one["name"] for one in data["strategies"]] == ["dutyCycleHpa", "tripleLayer"]
    assert len(data["strategies"][0]["runs"]) == 2
    assert data["model"] == "chat" and MODEL
    assert {row["kind"] for row in data["provenance"]} <= {
        "declared",
        "input",
        "measured",
        "published",
        "derived",
        "assumed",
    }


def test_an_interrupt_keeps_what_is_finished() -> None:
    made = setup(seeds=3, horizon="5m")

    def stop(done: int, of: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    found = compare(made, stop)
    assert found.partial and len(found.strategies[0].runs) == 2
