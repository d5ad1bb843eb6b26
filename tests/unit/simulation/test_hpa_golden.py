"""The autoscaler's arithmetic against figures taken from the controller's own tests (kubernetes v1.36.1)."""

from typing import Any

import pytest

from tests.unit.simulation.golden import cases
from triplane.simulation.hpa import (
    AverageValue,
    Hpa,
    HpaState,
    Metric,
    MetricError,
    Pod,
    PodsAverage,
    ScalingPolicy,
    ScalingRules,
    Tolerance,
    Unavailable,
    Utilization,
    Value,
    limit,
    limit_growth,
    policy_limit,
    propose,
    stabilize,
    stabilize_down,
    sync,
)

NOW = 1e6
SINGLE = (
    "resource_utilization",
    "pods_average",
    "object_value",
    "object_average",
    "external_value",
    "external_average",
)


def pods(given: list[dict[str, Any]]) -> list[Pod]:
    return [Pod(**pod) for pod in given]


def metric(kind: str, given: dict[str, Any]) -> Metric:
    match kind:
        case "resource_utilization":
            strangers = given["samples_of_unknown_pods"]
            return Utilization(given["target_percent"], pods(given["pods"]), given["resource"] == "cpu", strangers)
        case "pods_average":
            cpu = given.get("resource") == "cpu"
            return PodsAverage(given["target"], pods(given["pods"]), cpu, given["samples_of_unknown_pods"])
        case "object_value" | "external_value":
            return Value(given["target"], given["samples"], pods(given.get("pods", [])))
        case "object_average" | "external_average":
            return AverageValue(given["target"], given["samples"])
    assert kind == "unavailable"
    return Unavailable()


def rules(given: dict[str, Any] | None) -> ScalingRules | None:
    if given is None:
        return None
    policies = tuple(ScalingPolicy(p["type"], p["value"], p["period_s"]) for p in given["policies"])
    return ScalingRules(policies, given["select_policy"], given["stabilization_window_s"], given.get("tolerance"))


def timed(given: list[dict[str, Any]], what: str) -> tuple[tuple[float, int], ...]:
    return tuple((NOW - entry["age_s"], entry[what]) for entry in given)


def bounds(given: dict[str, Any], **more: Any) -> Hpa:
    if "scale_up_limit_factor" in given:
        more |= {"growth_factor": given["scale_up_limit_factor"], "growth_minimum": given["scale_up_limit_minimum"]}
    return Hpa(given["min_replicas"], given["max_replicas"], **more)


@pytest.mark.parametrize("case", cases("hpa_replicas", *SINGLE))
def test_one_metric(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    tolerance = Tolerance(**given["tolerance"])
    measured = metric(case["kind"], given)
    if expected.get("error"):
        with pytest.raises(MetricError):
            propose(measured, given["current_replicas"], given["current_replicas"], tolerance)
        return
    found = propose(measured, given["current_replicas"], given["current_replicas"], tolerance)
    assert found.replicas == expected["replicas"]
    assert found.percent == expected.get("utilization_percent")
    assert found.usage == expected.get("usage", expected.get("average_usage"))


@pytest.mark.parametrize("case", cases("hpa_replicas", "behaviour_rate"))
def test_rate(case: dict[str, Any]) -> None:
    given = case["input"]
    hpa = bounds(given, scale_up=rules(given["scale_up"]), scale_down=rules(given["scale_down"]))
    state = HpaState((), timed(given["scale_up_events"], "change"), timed(given["scale_down_events"], "change"))
    found = limit(hpa, state, NOW, given["current_replicas"], given["desired_replicas"])
    assert found == (case["expected"]["replicas"], case["expected"]["limited_by"])


@pytest.mark.parametrize("case", cases("hpa_replicas", "policy_limit"))
def test_limit_of_one_direction(case: dict[str, Any]) -> None:
    given = case["input"]
    ups, downs = timed(given["scale_up_events"], "change"), timed(given["scale_down_events"], "change")
    one = rules(given["rules"])
    assert one is not None
    found = policy_limit(given["direction"], one, ups, downs, NOW, given["current_replicas"])
    assert found == case["expected"]["replicas"]


@pytest.mark.parametrize("case", cases("hpa_replicas", "limit_without_behaviour"))
def test_growth_limit(case: dict[str, Any]) -> None:
    given = case["input"]
    found = limit_growth(bounds(given), given["current_replicas"], given["desired_replicas"])
    assert found == (case["expected"]["replicas"], case["expected"]["limited_by"])


@pytest.mark.parametrize("case", cases("hpa_replicas", "behaviour_stabilization", "default_stabilization"))
def test_windows(case: dict[str, Any]) -> None:
    given = case["input"]
    known, desired = timed(given["recommendations"], "replicas"), given["desired_replicas"]
    if case["kind"] == "default_stabilization":
        found = stabilize_down(known, NOW, desired, given["window_s"])
    else:
        up, down = given["scale_up_window_s"], given["scale_down_window_s"]
        found = stabilize(known, NOW, given["current_replicas"], desired, up, down)
    assert found == case["expected"]["replicas"]


@pytest.mark.parametrize("case", cases("hpa_replicas", "controller_sync"))
def test_whole_step(case: dict[str, Any]) -> None:
    given = case["input"]
    hpa = bounds(
        given,
        scale_up=rules(given["scale_up"]),
        scale_down=rules(given["scale_down"]),
        tolerance=given["tolerance"],
        downscale_stabilization_s=given["downscale_stabilization_s"],
        scale_to_zero=given["scale_to_zero_enabled"],
    )
    known = None if given["first_sync"] else timed(given["recommendations"], "replicas")
    state = HpaState(known, scaled_to_zero=given["scaled_to_zero_condition"])
    metrics = [metric(one["type"], one) for one in given["metrics"]]
    found = sync(hpa, state, NOW, given["spec_replicas"], given["status_replicas"], metrics)
    assert found.replicas == case["expected"]["replicas"]


def test_every_kind_of_the_table_is_compared() -> None:
    compared = {
        *SINGLE,
        "behaviour_rate",
        "policy_limit",
        "limit_without_behaviour",
        "behaviour_stabilization",
        "default_stabilization",
        "controller_sync",
    }
    assert {param.values[0]["kind"] for param in cases("hpa_replicas")} == compared
