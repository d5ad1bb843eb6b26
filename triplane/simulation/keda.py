"""KEDA around the HPA: what its triggers report, when it wakes or empties a target, what it says while queries fail.

Source: kedacore/keda (commit 8b4f083, 2026-08-20, after v2.20): pkg/scaling/executor/scale_scaledobjects.go,
pkg/scaling/scale_handler.go, pkg/fallback/fallback.go, pkg/scalers/prometheus_scaler.go. Formulas over triggers
(scalingModifiers) are not modelled.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from triplane.simulation.hpa import AverageValue, Hpa, Metric, MetricError, Pod, ScalingRules, Unavailable, Value, milli

Behaviour = Literal["static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower"]


@dataclass(frozen=True, slots=True)
class Trigger:
    """A query with its target. It is active while its value is above `activation`."""

    name: str
    target: float
    kind: Literal["AverageValue", "Value"] = "AverageValue"
    activation: float = 0
    ignore_null: bool = True


@dataclass(frozen=True, slots=True)
class Fallback:
    """What is reported once a trigger has failed more than `threshold` times in a row: the metric that asks for so many
    replicas."""

    threshold: int
    replicas: int
    behaviour: Behaviour = "static"

    def wanted(self, current: int) -> int:
        """Replicas to ask for."""
        match self.behaviour:
            case "currentReplicas":
                return current
            case "currentReplicasIfHigher":
                return max(current, self.replicas)
            case "currentReplicasIfLower":
                return min(current, self.replicas)
            case _:
                return self.replicas


@dataclass(frozen=True)
class ScaledObject:
    """A ScaledObject with the product's defaults. idle_replicas, below the minimum, hold while no trigger is active.

    polling_s matters to waking and emptying alone: the HPA queries on its own every sync.
    """

    triggers: tuple[Trigger, ...]
    min_replicas: int = 0
    max_replicas: int = 100
    idle_replicas: int | None = None
    polling_s: float = 30
    cooldown_s: float = 300
    initial_cooldown_s: float = 0
    fallback: Fallback | None = None
    scale_up: ScalingRules | None = None
    scale_down: ScalingRules | None = None

    def hpa(self) -> Hpa:
        """The HPA that KEDA makes: its minimum is at least 1, so that it never empties a target itself."""
        least = max(1, self.min_replicas)
        return Hpa(least, self.max_replicas, self.scale_up, self.scale_down, scale_to_zero=False)


Reading = float | None | MetricError
"""What a query gives: a number; None, or a number that is none, for an empty result; or that it failed."""


def value_of(trigger: Trigger, reading: Reading) -> float:
    """The trigger's value. Raises MetricError. With ignore_null an empty result counts as 0: an outage of the metric
    looks like no load."""
    if isinstance(reading, MetricError):
        raise reading
    if reading is None or not math.isfinite(reading):
        if trigger.ignore_null:
            return 0.0
        raise MetricError(f"{trigger.name}: the query gives no value")
    return reading


@dataclass(frozen=True, slots=True)
class KedaState:
    """What KEDA remembers: failures in a row per trigger (only with a fallback), and when one was last active."""

    failures: Mapping[str, int] = field(default_factory=dict)
    last_active: float | None = None
    created: float = 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """One trigger's answer: what the HPA gets, and whether it counts as active."""

    metric: Metric
    active: bool
    failed: bool


def ask(
    scaled: ScaledObject, state: KedaState, readings: Mapping[str, Reading], replicas: int, pods: Sequence[Pod]
) -> tuple[list[Report], KedaState]:
    """Query every trigger, as both the poll and the HPA's sync do. Failures count in both."""
    reports = []
    failures = dict(state.failures)
    for trigger in scaled.triggers:
        try:
            value = value_of(trigger, readings.get(trigger.name))
        except MetricError as error:
            if scaled.fallback is not None:
                failures[trigger.name] = failures.get(trigger.name, 0) + 1
            reports.append(_failed(scaled, trigger, failures.get(trigger.name, 0), replicas, pods, error))
            continue
        if scaled.fallback is not None:
            failures[trigger.name] = 0
        # Since 2.20.2 a negative value is reported as 0.
        reports.append(Report(_metric(trigger, milli(max(0.0, value)), pods), value > trigger.activation, failed=False))
    return reports, replace(state, failures=failures)


def _metric(trigger: Trigger, thousandths: int, pods: Sequence[Pod]) -> Metric:
    if trigger.kind == "Value":
        return Value(milli(trigger.target), [thousandths], pods)
    return AverageValue(milli(trigger.target), [thousandths])


def _failed(
    scaled: ScaledObject, trigger: Trigger, failures: int, replicas: int, pods: Sequence[Pod], error: MetricError
) -> Report:
    fallback = scaled.fallback
    unavailable = Report(Unavailable(str(error), wakes=True), active=False, failed=True)
    if fallback is None or failures <= fallback.threshold:
        return unavailable
    wanted = float(fallback.wanted(replicas))
    if trigger.kind == "Value":
        # The HPA multiplies by ready pods; with none of them there is no figure that asks for anything.
        ready = sum(pod.phase == "running" and pod.ready for pod in pods)
        if ready == 0:
            return unavailable
        wanted /= ready
    return Report(_metric(trigger, int(trigger.target * 1000 * wanted), pods), active=True, failed=False)


@dataclass(frozen=True, slots=True)
class Poll:
    """Outcome of a poll: replicas to set, None to leave them, and why."""

    replicas: int | None
    state: KedaState
    reason: str


def poll(
    scaled: ScaledObject,
    state: KedaState,
    now: float,
    readings: Mapping[str, Reading],
    replicas: int,
    pods: Sequence[Pod] = (),
) -> Poll:
    """One pass of KEDA's own loop, every polling_s: it wakes a target at 0, and empties one that was not active for the
    cool-down. Between 1 and the maximum it leaves the replicas to the HPA."""
    reports, state = ask(scaled, state, readings, replicas, pods)
    failed = any(report.failed for report in reports)
    least, idle = scaled.min_replicas, scaled.idle_replicas
    if any(report.active for report in reports):
        if replicas == 0 or (idle is not None and replicas < least):
            return Poll(max(1, least), replace(state, last_active=now), "activated")
        # While a trigger fails, the others' activity is not noted.
        return Poll(None, state if failed else replace(state, last_active=now), "active")
    if failed and (scaled.fallback is None or scaled.fallback.replicas != 0):
        return Poll(None, state, "a trigger fails")
    if (idle is not None and replicas > idle) or (replicas > 0 and least == 0):
        if state.last_active is None:
            cooled = state.created + scaled.initial_cooldown_s < now
        else:
            cooled = state.last_active + scaled.cooldown_s < now
        if not cooled:
            return Poll(None, state, "cooling down")
        return Poll(least if idle is None else idle, state, "deactivated")
    if idle is None and replicas < least:
        return Poll(least, state, "below the minimum")
    return Poll(None, state, "inactive")
