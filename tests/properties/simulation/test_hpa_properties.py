"""What the HPA keeps to, whatever it is told."""

import math

from hypothesis import given
from hypothesis import strategies as st

from triplane.simulation.hpa import (
    AverageValue,
    Hpa,
    HpaState,
    Metric,
    Pod,
    PodsAverage,
    ScalingPolicy,
    ScalingRules,
    Tolerance,
    Unavailable,
    Value,
    propose,
    sync,
)

FIGURE = st.integers(0, 200_000)


@st.composite
def pods(draw: st.DrawFn) -> list[Pod]:
    return [
        Pod(
            draw(st.sampled_from(["running", "running", "pending"])),
            draw(st.booleans()),
            sample=draw(st.none() | FIGURE),
        )
        for _ in range(draw(st.integers(0, 8)))
    ]


@st.composite
def metrics(draw: st.DrawFn) -> list[Metric]:
    target = draw(st.integers(1, 50_000))
    return draw(
        st.lists(
            st.sampled_from(
                [
                    AverageValue(target, [draw(FIGURE)]),
                    Value(target, [draw(FIGURE)], draw(pods())),
                    PodsAverage(target, draw(pods())),
                    Unavailable(),
                ]
            ),
            min_size=1,
            max_size=3,
        )
    )


@st.composite
def rules(draw: st.DrawFn) -> ScalingRules | None:
    policies = st.builds(
        ScalingPolicy,
        st.sampled_from(["Pods", "Percent"]),
        st.integers(1, 200),
        st.sampled_from([15.0, 60.0, 180.0]),
    )
    return draw(
        st.none()
        | st.builds(
            ScalingRules,
            st.lists(policies, max_size=2).map(tuple),
            st.sampled_from(["Max", "Min", "Disabled", None]),
            st.sampled_from([0.0, 60.0, 300.0, None]),
        )
    )


@given(st.lists(metrics(), min_size=1, max_size=12), rules(), rules(), st.integers(1, 5), st.integers(0, 20))
def test_replicas_stay_within_bounds_and_policies(
    told: list[list[Metric]], up: ScalingRules | None, down: ScalingRules | None, least: int, more: int
) -> None:
    hpa = Hpa(least, least + more, up, down)
    state, replicas = HpaState(), least
    for tick, figures in enumerate(told):
        decision = sync(hpa, state, 15.0 * tick, replicas, replicas, figures)
        assert hpa.min_replicas <= decision.replicas <= hpa.max_replicas
        if all(isinstance(one, Unavailable) for one in figures):
            assert decision.replicas == replicas, "nothing to go by: held"
        if any(isinstance(one, Unavailable) for one in figures):
            assert decision.replicas >= replicas, "never down on a part of the metrics"
        for direction, given_rules in (("up", up), ("down", down)):
            if given_rules is not None and given_rules.select == "Disabled":
                moved = decision.replicas - replicas
                assert moved <= 0 if direction == "up" else moved >= 0
        state, replicas = decision.state, decision.replicas


@given(st.integers(1, 50_000), FIGURE, FIGURE, st.integers(1, 50))
def test_more_load_never_asks_for_less(target: int, load: int, more: int, replicas: int) -> None:
    """Of a single total metric. Of a mean over pods it does not hold: the tolerance keeps replicas that a little more
    load would change."""
    exact = Tolerance(0, 0)
    calm = propose(AverageValue(target, [load]), replicas, replicas, exact).replicas
    busy = propose(AverageValue(target, [load + more]), replicas, replicas, exact).replicas
    assert busy >= calm
    ready = [Pod()] * replicas
    calm = propose(Value(target, [load], ready), replicas, replicas, exact).replicas
    assert propose(Value(target, [load + more], ready), replicas, replicas, exact).replicas >= calm


@given(st.integers(1, 50_000), FIGURE, st.integers(1, 50))
def test_within_the_tolerance_nothing_changes(target: int, load: int, replicas: int) -> None:
    found = propose(AverageValue(target, [load]), replicas, replicas, Tolerance()).replicas
    ratio = load / (target * replicas)
    assert found == (replicas if 0.9 <= ratio <= 1.1 else math.ceil(load / target))


def test_a_signal_of_loading_pods_shrinks_what_it_should_grow() -> None:
    """Every pod loads: a Value metric proposes none, however high it stands (kubernetes#130130)."""
    loading = [Pod(ready=False)] * 5
    assert propose(Value(1000, [9_000_000], loading), 5, 5, Tolerance()).replicas == 0


def test_a_backlog_is_ordered_again_while_pods_load() -> None:
    """The total grows while what was ordered loads: with the default policies the fleet doubles every 15 s."""
    hpa = Hpa(1, 64, ScalingRules(), ScalingRules())
    state, replicas, seen = HpaState(), 1, []
    for tick in range(5):
        decision = sync(hpa, state, 15.0 * tick, replicas, replicas, [AverageValue(1000, [100_000 * (tick + 1)])])
        state, replicas = decision.state, decision.replicas
        seen.append(replicas)
    assert seen == [5, 10, 20, 40, 64]
