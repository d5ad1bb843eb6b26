"""KEDA's rules: nulls, activation, cool-down, failures and fallback, with the HPA behind them."""

import math

import pytest

from triplane.simulation.hpa import AverageValue, HpaState, MetricError, Pod, Unavailable, Value, sync
from triplane.simulation.keda import Fallback, KedaState, Reading, ScaledObject, Trigger, ask, poll, value_of

LOST = MetricError("the server does not answer")
QUEUE = Trigger("queue", target=4)


@pytest.mark.parametrize(("reading", "value"), [(3.5, 3.5), (None, 0.0), (math.nan, 0.0), (math.inf, 0.0)])
def test_empty_results_read_as_no_load(reading: Reading, value: float) -> None:
    assert value_of(QUEUE, reading) == value


@pytest.mark.parametrize("reading", [None, math.nan, -math.inf, LOST])
def test_without_ignoring_nulls_they_are_errors(reading: Reading) -> None:
    with pytest.raises(MetricError):
        value_of(Trigger("queue", 4, ignore_null=False), reading)


def test_an_outage_shrinks_the_fleet_unless_nulls_are_errors() -> None:
    """The same empty result at peak: with the default the HPA walks to the minimum, otherwise it holds."""
    for ignore, expected in ((True, 1), (False, 8)):
        scaled = ScaledObject((Trigger("queue", 4, ignore_null=ignore),), min_replicas=1)
        reports, _ = ask(scaled, KedaState(), {"queue": None}, 8, ())
        decision = sync(scaled.hpa(), HpaState(recommendations=()), 1000.0, 8, 8, [report.metric for report in reports])
        assert decision.replicas == expected


def test_metrics_reach_the_hpa_in_thousandths_and_never_negative() -> None:
    pods = [Pod(), Pod()]
    scaled = ScaledObject((QUEUE, Trigger("latency", 0.5, "Value")))
    reports, _ = ask(scaled, KedaState(), {"queue": 8.0, "latency": -1.0}, 2, pods)
    assert reports[0].metric == AverageValue(4000, [8000])
    assert reports[1].metric == Value(500, [0], pods)
    assert [report.active for report in reports] == [True, False]


@pytest.mark.parametrize(
    ("reading", "replicas", "least", "expected"),
    [
        (0.1, 0, 0, 1),  # above the activation: wakes to one, however much waits
        (100.0, 0, 0, 1),
        (100.0, 0, 3, 3),
        (0.0, 0, 0, None),
        (0.1, 2, 0, None),  # the HPA's affair
        (0.0, 1, 2, 2),  # set from outside below the minimum
    ],
)
def test_waking(reading: float, replicas: int, least: int, expected: int | None) -> None:
    scaled = ScaledObject((QUEUE,), min_replicas=least)
    assert poll(scaled, KedaState(), 0.0, {"queue": reading}, replicas).replicas == expected


def test_activation_is_a_bound_of_its_own() -> None:
    scaled = ScaledObject((Trigger("queue", 4, activation=10),))
    assert poll(scaled, KedaState(), 0.0, {"queue": 10.0}, 0).replicas is None
    assert poll(scaled, KedaState(), 0.0, {"queue": 10.1}, 0).replicas == 1


def test_a_target_is_emptied_after_the_cooldown() -> None:
    scaled = ScaledObject((QUEUE,), cooldown_s=300)
    busy = poll(scaled, KedaState(), 100.0, {"queue": 5.0}, 3)
    assert busy.state.last_active == 100.0
    assert poll(scaled, busy.state, 400.0, {"queue": 0.0}, 3).reason == "cooling down"
    assert poll(scaled, busy.state, 400.1, {"queue": 0.0}, 3).replicas == 0
    # One that KEDA never saw active goes at once, the cool-down notwithstanding.
    assert poll(scaled, KedaState(created=100.0), 100.1, {"queue": 0.0}, 3).replicas == 0
    slow = ScaledObject((QUEUE,), initial_cooldown_s=60)
    assert poll(slow, KedaState(created=100.0), 160.0, {"queue": 0.0}, 3).replicas is None
    assert poll(ScaledObject((QUEUE,), min_replicas=1), busy.state, 999.0, {"queue": 0.0}, 3).replicas is None


def test_idle_replicas() -> None:
    scaled = ScaledObject((QUEUE,), min_replicas=3, idle_replicas=0)
    state = KedaState(last_active=0.0)
    assert poll(scaled, state, 1000.0, {"queue": 0.0}, 5).replicas == 0
    assert poll(scaled, state, 1000.0, {"queue": 1.0}, 0).replicas == 3
    assert poll(scaled, state, 1000.0, {"queue": 1.0}, 2).replicas == 3


def test_failures_hold_everything_without_a_fallback() -> None:
    scaled = ScaledObject((QUEUE,))
    found = poll(scaled, KedaState(last_active=0.0), 1000.0, {"queue": LOST}, 3)
    assert (found.replicas, found.reason) == (None, "a trigger fails")
    assert found.state.failures == {}


@pytest.mark.parametrize(
    ("behaviour", "current", "wanted"),
    [
        ("static", 10, 6),
        ("static", 2, 6),
        ("currentReplicas", 10, 10),
        ("currentReplicasIfHigher", 10, 10),
        ("currentReplicasIfHigher", 2, 6),
        ("currentReplicasIfLower", 10, 6),
        ("currentReplicasIfLower", 2, 2),
    ],
)
def test_fallback_after_more_failures_than_the_threshold(behaviour: str, current: int, wanted: int) -> None:
    scaled = ScaledObject((QUEUE,), min_replicas=1, fallback=Fallback(2, 6, behaviour))  # type: ignore[arg-type]
    state = KedaState()
    for _ in range(2):
        reports, state = ask(scaled, state, {"queue": LOST}, current, ())
        assert isinstance(reports[0].metric, Unavailable)
    reports, state = ask(scaled, state, {"queue": LOST}, current, ())
    assert reports[0].metric == AverageValue(4000, [4000 * wanted])
    assert reports[0].active
    decision = sync(scaled.hpa(), HpaState(recommendations=()), 0.0, current, current, [reports[0].metric])
    assert decision.proposed == wanted
    _, state = ask(scaled, state, {"queue": 1.0}, current, ())
    assert state.failures == {"queue": 0}


def test_fallback_of_a_value_is_divided_by_ready_pods() -> None:
    scaled = ScaledObject((Trigger("latency", 0.5, "Value"),), fallback=Fallback(0, 6))
    pods = [Pod(), Pod(), Pod(ready=False)]
    reports, _ = ask(scaled, KedaState(), {"latency": LOST}, 3, pods)
    assert reports[0].metric == Value(500, [1500], pods)
    loading = [Pod(ready=False)]
    reports, _ = ask(scaled, KedaState(), {"latency": LOST}, 1, loading)
    assert isinstance(reports[0].metric, Unavailable)


def test_the_fallback_wakes_a_target_at_zero() -> None:
    scaled = ScaledObject((QUEUE,), fallback=Fallback(0, 6))
    assert poll(scaled, KedaState(), 0.0, {"queue": LOST}, 0).replicas == 1
