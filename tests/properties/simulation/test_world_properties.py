"""What holds for any load, cold start, strategy and seed: nothing is lost, and every paid GPU-second has a cause."""

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.simulation.worlds import run, setup, stack
from triplane.simulation.strategies import STRATEGIES

QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def scenarios(draw: st.DrawFn) -> dict[str, Any]:
    shape = draw(st.sampled_from(["constant", "step", "burst"]))
    load: dict[str, Any] = {
        "shape": shape,
        "rate": draw(st.sampled_from([0.2, 1.0, 3.0])),
        "burstiness": draw(st.sampled_from([0.0, 1.0, 4.0])),
        "lengths": {
            "inputTokens": draw(st.sampled_from([1, 700, 6000])),
            "outputTokens": draw(st.sampled_from([1, 40, 300])),
        },
    }
    if shape != "constant":
        load |= {"peak": draw(st.sampled_from([2.0, 12.0])), "at": "4m"}
    if shape == "burst":
        load["duration"] = "3m"
    made: dict[str, Any] = {
        "arrivals": load,
        "horizon": "14m",
        "coldStart": draw(st.sampled_from(["15s", "90s", "7m"])),
        "refusals": draw(st.sampled_from([0.0, 0.5])),
        "reservedNodes": {"serving": draw(st.sampled_from([0, 2]))},
    }
    if draw(st.booleans()):
        made["client"] = {"timeout": draw(st.sampled_from(["2s", "30s"])), "retries": draw(st.sampled_from([0, 2]))}
    if draw(st.booleans()):
        made["outages"] = [{"at": "5m", "duration": "3m"}]
    if draw(st.booleans()):
        made["startReplicas"] = {"prefill": 3, "decode": 2}
    return made


@QUICK
@given(scenarios(), st.sampled_from(sorted(STRATEGIES)), st.integers(0, 50))
def test_nothing_is_lost(scenario: dict[str, Any], name: str, seed: int) -> None:
    made = setup(**scenario)
    result, summary = run(made, name, seed)
    parts = summary.in_slo + summary.late + summary.dropped + summary.unfinished + summary.never_sent
    assert parts == summary.offered
    assert math.fsum(result.gpu_seconds.values()) == pytest.approx(result.paid_gpu_seconds, rel=1e-9, abs=1e-6)
    assert min(result.gpu_seconds.values()) >= -1e-6
    assert result.dollars == pytest.approx(result.paid_gpu_seconds / 8 * 55.04 / 3600, rel=1e-9)
    assert result.gpu_seconds["partialGang"] == 0
    for at in range(len(result.times)):
        nodes = result.series["serving.nodes"][at] + result.series["serving.booting"][at]
        assert nodes <= 6
        held = 2 * result.series["prefill.ready"][at] + 4 * result.series["decode.ready"][at]
        assert held <= 8 * result.series["serving.nodes"][at]
    assert [event.at for event in result.events] == sorted(event.at for event in result.events)


@QUICK
@given(st.integers(2, 12), st.integers(1, 4), st.integers(0, 20))
def test_kai_never_holds_part_of_a_gang(pods: int, gpus: int, seed: int) -> None:
    queues = {
        "all": {
            "gpus": {"quota": 48},
            "children": {
                "chat-prefill": {"gpus": {"quota": 16}},
                "chat-decode": {"gpus": {"quota": 24}},
                "train": {"gpus": {"quota": 8, "limit": 48}},
            },
        }
    }
    job = {"queue": "train", "pool": "serving", "pods": pods, "gpus": gpus, "at": "1m", "duration": "2m"}
    made = setup(stack(queues=queues), jobs={"a": job, "b": job}, horizon="12m", coldStart="60s")
    result, _ = run(made, "tripleLayer", seed)
    assert result.gpu_seconds["partialGang"] == 0
    assert math.fsum(result.gpu_seconds.values()) == pytest.approx(result.paid_gpu_seconds, rel=1e-9)


@QUICK
@given(st.sampled_from(sorted(STRATEGIES)), st.integers(0, 50))
def test_looking_more_often_changes_nothing(name: str, seed: int) -> None:
    from triplane.simulation.comparison import run_once
    from triplane.simulation.strategies import strategy
    from triplane.simulation.world import World

    made = setup(horizon="8m")
    one = strategy(name)
    plain = run_once(made, one, seed, compiled=False)
    world = World(
        made.stack, made.model_name, made.load.requests(seed), made.scenario, one, made.plans(one), made.engines, seed,
        compiled=False,
    )  # fmt: skip
    often = world.run(made.load.horizon, samples=30)
    assert plain.events == often.events
    assert plain.outcomes.finish.tobytes() == often.outcomes.finish.tobytes()
