"""The Horizontal Pod Autoscaler's arithmetic: metrics in, replicas out, one call a sync.

Source: kubernetes v1.36.1 and v1.37.2, pkg/controller/podautoscaler/{replica_calculator,horizontal}.go. Figures of
metrics, targets and requests are whole thousandths of their unit, as the controller has them; times are seconds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

INT64_MAX = 2**63 - 1
_INT32_MAX = 2**31 - 1


class MetricError(Exception):
    """A metric gives no proposal: it cannot be read, or no pod that counts has a sample."""


def milli(value: float) -> int:
    """Thousandths of a figure, rounded up as a Kubernetes quantity is."""
    return math.ceil(round(value * 1000, 6))


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod as one sync sees it. `starting` means within the CPU start-up period and matters to CPU metrics alone."""

    phase: Literal["pending", "running", "failed"] = "running"
    ready: bool = True
    deleting: bool = False
    starting: bool = False
    request: int | None = None
    sample: int | None = None


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Deviation of the ratio from 1 that changes nothing, bounds included."""

    up: float = 0.1
    down: float = 0.1

    def holds(self, ratio: float) -> bool:
        """Whether the ratio is close enough to 1."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


@dataclass(frozen=True, slots=True)
class Utilization:
    """Resource metric: usage as a percentage of the requests. Pods carry request and sample; `strangers` are samples
    of pods that the selector does not give."""

    target_percent: int
    pods: Sequence[Pod]
    cpu: bool = True
    strangers: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class PodsAverage:
    """Pods metric, or a resource metric with an average value: the mean over pods against a target. Of these, only CPU
    leaves starting pods out."""

    target: int
    pods: Sequence[Pod]
    cpu: bool = False
    strangers: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Value:
    """Object or external metric of target type Value: the ratio times the ready pods."""

    target: int
    samples: Sequence[int]
    pods: Sequence[Pod]


@dataclass(frozen=True, slots=True)
class AverageValue:
    """Object or external metric of target type AverageValue: the total over the target."""

    target: int
    samples: Sequence[int]


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A metric that cannot be read; whether it would be an object or external one decides about waking from zero."""

    reason: str = "the metric cannot be read"
    wakes: bool = False


Metric = Utilization | PodsAverage | Value | AverageValue | Unavailable


@dataclass(frozen=True, slots=True)
class Proposal:
    """What one metric asks for, and the figure the HPA's status shows: thousandths (Utilization: also percent)."""

    replicas: int
    usage: int
    percent: int | None = None


def propose(metric: Metric, spec: int, status: int, tolerance: Tolerance) -> Proposal:
    """Replicas one metric asks for, from the target's spec.replicas and status.replicas. Raises MetricError."""
    match metric:
        case Unavailable():
            raise MetricError(metric.reason)
        case Value():
            return _value(metric, spec, tolerance)
        case AverageValue():
            return _average_value(metric, status, tolerance)
        case Utilization() | PodsAverage():
            return _per_pod(metric, spec, tolerance)


def _total(samples: Sequence[int]) -> int:
    return min(sum(samples), INT64_MAX)


def _ceil(replicas: float) -> int:
    return math.ceil(replicas) if replicas <= _INT32_MAX else _INT32_MAX


def _value(metric: Value, spec: int, tolerance: Tolerance) -> Proposal:
    total = _total(metric.samples)
    ratio = total / metric.target
    if spec == 0:  # no pods to multiply by: the ratio is the answer
        return Proposal(_ceil(ratio), total)
    if tolerance.holds(ratio):
        return Proposal(spec, total)
    if not metric.pods:
        raise MetricError("the selector gives no pods")
    # Ready pods, not replicas: with every pod loading this asks for 0 (kubernetes#130130).
    return Proposal(_ceil(ratio * sum(pod.phase == "running" and pod.ready for pod in metric.pods)), total)


def _average_value(metric: AverageValue, status: int, tolerance: Tolerance) -> Proposal:
    total = _total(metric.samples)
    usage = min(math.ceil(total / status), INT64_MAX) if status else INT64_MAX
    # status.replicas, not spec (kubernetes#138505): pods that were asked for and do not exist yet are not counted.
    if status and tolerance.holds(total / (metric.target * status)):
        return Proposal(status, usage)
    return Proposal(_ceil(total / metric.target), usage)


@dataclass(slots=True)
class _Sum:
    """Samples taken into account so far: their sum, number and the sum of the requests of their pods."""

    used: int = 0
    count: int = 0
    requested: int = 0

    def add(self, used: int, requested: int) -> None:
        self.used += used
        self.count += 1
        self.requested += requested


def _ratio(metric: Utilization | PodsAverage, total: _Sum) -> tuple[float, Proposal]:
    """Usage over target, and the status figures that go with it; divisions drop the rest, as the controller's do."""
    if isinstance(metric, PodsAverage):
        usage = total.used // total.count
        return usage / metric.target, Proposal(0, usage)
    if total.requested == 0:
        raise MetricError("no sample belongs to a pod with a request")
    percent = total.used * 100 // total.requested
    return percent / metric.target_percent, Proposal(0, total.used // total.count, percent)


def _per_pod(metric: Utilization | PodsAverage, spec: int, tolerance: Tolerance) -> Proposal:
    if not metric.pods:
        raise MetricError("the selector gives no pods")
    by_request = isinstance(metric, Utilization)
    total, ready = _Sum(), 0
    missing: list[Pod] = []
    unready: list[Pod] = []
    for pod in metric.pods:
        if pod.deleting or pod.phase == "failed":
            continue
        if pod.phase == "pending":
            unready.append(pod)
        elif pod.sample is None:
            missing.append(pod)
        elif metric.cpu and (pod.starting or not pod.ready):
            unready.append(pod)
        else:
            ready += 1
            total.add(pod.sample, pod.request or 0)
    if ready == 0 and not metric.strangers:
        raise MetricError("no pod that counts has a sample")
    if by_request and any(pod.request is None for pod in metric.pods):
        raise MetricError("a pod has no request")
    # Samples of strangers belong to no request, so a utilization leaves them out of the sums but not of the count of
    # samples that the second pass multiplies by.
    extra = len(metric.strangers) if by_request else 0
    if not by_request:
        for sample in metric.strangers:
            total.add(sample, 0)

    ratio, shown = _ratio(metric, total)
    fill_unready = bool(unready) and ratio > 1
    if not missing and not fill_unready:
        return replace(shown, replicas=spec if tolerance.holds(ratio) else _ceil(ratio * ready))

    # Damped second pass: a pod without a sample is taken as using its target when that shrinks, nothing when it grows.
    for pod in missing:
        if ratio < 1:
            total.add(_taken_as_used(metric, pod), pod.request or 0)
        elif ratio > 1:
            total.add(0, pod.request or 0)
    if fill_unready:
        for pod in unready:
            total.add(0, pod.request or 0)
    again, _ = _ratio(metric, total)
    turned = (ratio < 1 < again) or (again < 1 < ratio)
    replicas = _ceil(again * (total.count + extra))
    if tolerance.holds(again) or turned or (again < 1 and replicas > spec) or (again > 1 and replicas < spec):
        return replace(shown, replicas=spec)
    return replace(shown, replicas=replicas)


def _taken_as_used(metric: Utilization | PodsAverage, pod: Pod) -> int:
    if isinstance(metric, PodsAverage):
        return metric.target
    return (pod.request or 0) * max(100, metric.target_percent) // 100


@dataclass(frozen=True, slots=True)
class ScalingPolicy:
    """At most `value` pods, or percent of the replicas at the start, in any `period_s` seconds."""

    type: Literal["Pods", "Percent"]
    value: int
    period_s: float


@dataclass(frozen=True, slots=True)
class ScalingRules:
    """One direction of `behavior`. None, and no policies, mean the default of the direction."""

    policies: tuple[ScalingPolicy, ...] = ()
    select: Literal["Max", "Min", "Disabled"] | None = None
    window_s: float | None = None
    tolerance: float | None = None


_UP_POLICIES = (ScalingPolicy("Pods", 4, 15), ScalingPolicy("Percent", 100, 15))
_DOWN_POLICIES = (ScalingPolicy("Percent", 100, 15),)


@dataclass(frozen=True)
class Hpa:
    """One autoscaler. Without rules the controller takes an older path: growth limited to a factor, and no policies.

    scale_to_zero is the feature HPAScaleToZero, on by default since Kubernetes 1.37.
    """

    min_replicas: int
    max_replicas: int
    scale_up: ScalingRules | None = None
    scale_down: ScalingRules | None = None
    tolerance: float = 0.1
    downscale_stabilization_s: float = 300
    growth_factor: float = 2
    growth_minimum: int = 4
    scale_to_zero: bool = True

    @cached_property
    def has_behaviour(self) -> bool:
        """Whether `behavior` was given."""
        return self.scale_up is not None or self.scale_down is not None

    @cached_property
    def tolerances(self) -> Tolerance:
        """Of each direction: the rule's own, or the cluster's."""
        up, down = (rules.tolerance if rules else None for rules in (self.scale_up, self.scale_down))
        return Tolerance(self.tolerance if up is None else up, self.tolerance if down is None else down)

    def rules(self, direction: Literal["up", "down"]) -> ScalingRules:
        """One direction with every default filled in."""
        return self._up if direction == "up" else self._down

    @cached_property
    def _up(self) -> ScalingRules:
        given = self.scale_up or ScalingRules()
        policies = given.policies or _UP_POLICIES
        return replace(given, policies=policies, select=given.select or "Max", window_s=self.window("up"))

    @cached_property
    def _down(self) -> ScalingRules:
        given = self.scale_down or ScalingRules()
        policies = given.policies or _DOWN_POLICIES
        return replace(given, policies=policies, select=given.select or "Max", window_s=self.window("down"))

    def window(self, direction: Literal["up", "down"]) -> float:
        """Stabilization window of one direction, seconds."""
        given = self.scale_up if direction == "up" else self.scale_down
        if given is not None and given.window_s is not None:
            return given.window_s
        return 0 if direction == "up" else self.downscale_stabilization_s


Timed = tuple[tuple[float, int], ...]
"""Times, and what was recommended or changed then, in replicas."""


@dataclass(frozen=True, slots=True)
class HpaState:
    """What the controller remembers between syncs. recommendations is None until the first."""

    recommendations: Timed | None = None
    ups: Timed = ()
    downs: Timed = ()
    scaled_to_zero: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """Outcome of one sync: the replicas to set and why.

    proposed: what the metrics ask for; stabilized: after the windows; both None where they were not looked at.
    reason: DesiredWithinRange, ScaleUpLimit, ScaleDownLimit, TooManyReplicas, TooFewReplicas, ScalingDisabled,
    AboveMax, BelowMin, or FailedComputeMetricsReplicas (held).
    """

    replicas: int
    state: HpaState
    reason: str
    proposed: int | None = None
    stabilized: int | None = None


def combine(metrics: Sequence[Metric], spec: int, status: int, tolerance: Tolerance) -> int:
    """Highest proposal; MetricError if none can be read, or if one cannot and the rest would scale down."""
    proposals: list[int] = []
    error: MetricError | None = None
    for metric in metrics:
        try:
            proposals.append(propose(metric, spec, status, tolerance).replicas)
        except MetricError as unread:
            error = error or unread
    if not proposals:
        raise error or MetricError("no metrics")
    if error is not None and max(proposals) < spec:
        raise error
    return max(proposals)


def sync(hpa: Hpa, state: HpaState, now: float, spec: int, status: int, metrics: Sequence[Metric]) -> Decision:
    """One pass of the controller over one target: spec.replicas and status.replicas of the target, metrics as read."""
    if state.recommendations is None:
        state = replace(state, recommendations=((now, spec),))
    minimum = hpa.min_replicas
    was_zeroed = hpa.scale_to_zero and state.scaled_to_zero
    if spec == 0:
        can_wake = any(isinstance(m, Value | AverageValue) or (isinstance(m, Unavailable) and m.wakes) for m in metrics)
        if not (was_zeroed and (minimum != 0 or can_wake)):
            return Decision(0, state, "ScalingDisabled")
    # Bounds that were crossed from outside apply at once, past windows and policies.
    elif spec > hpa.max_replicas:
        return _rescaled(hpa, Decision(hpa.max_replicas, state, "AboveMax"), now, spec, metrics)
    elif spec < minimum:
        return _rescaled(hpa, Decision(minimum, state, "BelowMin"), now, spec, metrics)

    try:
        proposed = combine(metrics, spec, status, hpa.tolerances)
    except MetricError:
        return Decision(spec, state, "FailedComputeMetricsReplicas")
    known = state.recommendations or ()
    if hpa.has_behaviour:
        window = max(hpa.window("up"), hpa.window("down"))
        stabilized = stabilize(known, now, spec, proposed, hpa.window("up"), hpa.window("down"))
        replicas, reason = limit(hpa, state, now, spec, stabilized)
    else:
        window = hpa.downscale_stabilization_s
        stabilized = stabilize_down(known, now, proposed, window)
        replicas, reason = limit_growth(hpa, spec, stabilized)
    if spec == 0 and was_zeroed and replicas < minimum:
        replicas = minimum
    kept = (*((at, n) for at, n in known if at >= now - window), (now, proposed))
    state = replace(state, recommendations=kept)
    return _rescaled(hpa, Decision(replicas, state, reason, proposed, stabilized), now, spec, metrics)


def _rescaled(hpa: Hpa, decision: Decision, now: float, spec: int, metrics: Sequence[Metric]) -> Decision:
    """The decision with the change remembered, if it is one."""
    replicas, state = decision.replicas, decision.state
    if replicas == spec:
        return decision
    if hpa.has_behaviour and replicas > spec:
        state = replace(state, ups=_recorded(state.ups, now, replicas - spec, hpa.rules("up")))
    elif hpa.has_behaviour:
        state = replace(state, downs=_recorded(state.downs, now, spec - replicas, hpa.rules("down")))
    by_object = any(isinstance(metric, Value | AverageValue) for metric in metrics)
    zeroed = hpa.scale_to_zero and replicas == 0 and hpa.min_replicas == 0 and by_object
    return replace(decision, state=replace(state, scaled_to_zero=zeroed))


def _recorded(events: Timed, now: float, change: int, rules: ScalingRules) -> Timed:
    # A new event takes the place of the last outdated one, where outdated goes by this direction's longest period even
    # though the other direction's policies count these events too.
    longest = max((policy.period_s for policy in rules.policies), default=0)
    outdated = [index for index, (at, _) in enumerate(events) if at < now - longest]
    if not outdated:
        return (*events, (now, change))
    return (*events[: outdated[-1]], (now, change), *events[outdated[-1] + 1 :])


def stabilize(known: Timed, now: float, spec: int, proposed: int, up_s: float, down_s: float) -> int:
    """With behaviour: the current replicas, brought between the lowest recommendation of the up window and the highest
    of the down window; both windows are open at their old end."""
    lowest = min((n for at, n in known if at > now - up_s), default=proposed)
    highest = max((n for at, n in known if at > now - down_s), default=proposed)
    return min(max(spec, min(lowest, proposed)), max(highest, proposed))


def stabilize_down(known: Timed, now: float, proposed: int, window_s: float) -> int:
    """Without behaviour: the highest recommendation of the window, whose old end belongs to it."""
    return max([proposed, *(n for at, n in known if at >= now - window_s)])


def limit(hpa: Hpa, state: HpaState, now: float, spec: int, desired: int) -> tuple[int, str]:
    """With behaviour: desired replicas within the policies and bounds, and which of them limited."""
    if desired > spec:
        allowed = max(policy_limit("up", hpa.rules("up"), state.ups, state.downs, now, spec), spec)
        if desired > min(allowed, hpa.max_replicas):
            return (allowed, "ScaleUpLimit") if allowed < hpa.max_replicas else (hpa.max_replicas, "TooManyReplicas")
    elif desired < spec:
        allowed = min(policy_limit("down", hpa.rules("down"), state.ups, state.downs, now, spec), spec)
        if desired < max(allowed, hpa.min_replicas):
            return (allowed, "ScaleDownLimit") if allowed > hpa.min_replicas else (hpa.min_replicas, "TooFewReplicas")
    return desired, "DesiredWithinRange"


def policy_limit(
    direction: Literal["up", "down"], rules: ScalingRules, ups: Timed, downs: Timed, now: float, spec: int
) -> int:
    """Furthest that the policies of a direction let the replicas go now. A policy counts from the replicas at the start
    of its period, so that changes of both directions within it matter."""
    if rules.select == "Disabled":
        return spec
    bounds = []
    for policy in rules.policies:
        since = now - policy.period_s
        start = spec - sum(n for at, n in ups if at > since) + sum(n for at, n in downs if at > since)
        if policy.type == "Pods":
            bounds.append(start + policy.value if direction == "up" else start - policy.value)
        elif direction == "up":  # rounded up, or one replica would never grow
            bounds.append(math.ceil(start * (1 + policy.value / 100)))
        else:
            bounds.append(int(start * (1 - policy.value / 100)))
    furthest, nearest = (max, min) if direction == "up" else (min, max)
    return nearest(bounds) if rules.select == "Min" else furthest(bounds)


def limit_growth(hpa: Hpa, spec: int, desired: int) -> tuple[int, str]:
    """Without behaviour: desired replicas within the growth limit and bounds, and which of them limited."""
    allowed = int(max(hpa.growth_factor * spec, hpa.growth_minimum))
    if desired < hpa.min_replicas:
        return hpa.min_replicas, "TooFewReplicas"
    if desired > min(allowed, hpa.max_replicas):
        return (allowed, "ScaleUpLimit") if allowed < hpa.max_replicas else (hpa.max_replicas, "TooManyReplicas")
    return desired, "DesiredWithinRange"
