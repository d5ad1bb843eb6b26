"""Judgements on how fast autoscalers move, compared with how long a replica takes to answer."""

import math
from collections.abc import Iterator

from triplane.documents import Path
from triplane.inventory import Scaler, kinds
from triplane.inventory.fields import at, number, sequence, text
from triplane.inventory.roles import ServingRoles
from triplane.inventory.scaling import maximum, minimum
from triplane.rules.parameters import written_duration
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Verdicts, fail

# What an HPA does where nothing is written (kubernetes pkg/apis/autoscaling/v2/defaults.go).
DEFAULT_DOWN_WINDOW = 300
DEFAULT_UP_POLICIES = [
    {"type": "Percent", "value": 100, "periodSeconds": 15},
    {"type": "Pods", "value": 4, "periodSeconds": 15},
]
LARGEST_WINDOW = 3600  # the API refuses more
KEDA_COOLDOWN = 300
# So many replicas too many are no runaway.
FEW = 2


def _slow(scaler: Scaler, context: Context) -> bool:
    """Whether it moves GPU pods, by HPA or KEDA: those that take a cold start to answer."""
    if scaler.kind not in (kinds.HPA, kinds.SCALED_OBJECT) or scaler.made_by or minimum(scaler) == maximum(scaler):
        return False
    return context.inventory.relation(ServingRoles).uses_gpu(scaler) is True


@rule(
    "AS412",
    "scale-down-waits-a-cold-start",
    on=Scaler,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("cold_start",),
    fix="Set scaleDown.stabilizationWindowSeconds to at least a cold start.",
    sources=(
        "https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#stabilization-window",
        "https://docs.cartesia.ai/self-hosted/auto-scaling",
    ),
)
def scale_down_waits_a_cold_start(scaler: Scaler, context: Context) -> Verdicts:
    """A scaler of GPU pods must not take a replica away sooner than a new one can answer.

    The default window of 300 s is shorter than the time from an unschedulable pod to its first token. A dip in load
    then kills a replica that took minutes to load, the next burst orders it again, and each such swing costs a cold
    start of missing capacity. The API allows at most an hour.
    """
    if not _slow(scaler, context):
        return
    path: Path = (*scaler.behavior_path, "scaleDown", "stabilizationWindowSeconds")
    if text(at(scaler.resource.data, *path[:-1], "selectPolicy")) == "Disabled":
        return
    window = number(at(scaler.resource.data, *path))
    needed = min(context.parameters.cold_start, LARGEST_WINDOW)
    if (DEFAULT_DOWN_WINDOW if window is None else window) < needed:
        consequence = f"replicas go sooner than a new one answers ({written_duration(context.parameters.cold_start)})"
        yield fail(path, window, consequence, default="300", fix=f"Set it to {needed:g} or more.")


@rule(
    "AS413",
    "scale-up-does-not-overshoot-while-pods-load",
    on=Scaler,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("cold_start",),
    fix="Allow few pods a cold start, such as scaleUp.policies [{type: Pods, value: 1, periodSeconds: 300}].",
    sources=(
        "https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#configurable-scaling-behavior",
        "https://github.com/vllm-project/aibrix/issues/2670",
    ),
)
def scale_up_does_not_overshoot_while_pods_load(scaler: Scaler, context: Context) -> Verdicts:
    """A scaler of GPU pods must not run from its minimum to its maximum before the first new pod answers.

    A backlog grows while pods load, and the capacity already ordered is not counted against it, so every sync asks for
    more. The defaults double the count or add four pods every 15 s: with a cold start of minutes any burst ends at the
    maximum. A cap on pods a period prevents it, and so does a scale-up window of a cold start.

    A short window alone is no fault: with a cap it only answers sooner. What counts is how far the policies reach
    within one cold start.
    """
    cold = context.parameters.cold_start
    if cold <= 60 or not _slow(scaler, context):
        return
    path: Path = (*scaler.behavior_path, "scaleUp")
    written = at(scaler.resource.data, *path)
    if (number(at(written, "stabilizationWindowSeconds")) or 0) >= min(cold, LARGEST_WINDOW):
        return
    low, high = max(minimum(scaler), 1), maximum(scaler)
    if high is None or high <= low + FEW:
        return
    reached = _reached(written, low, cold)
    if reached >= high:
        yield fail(
            path if written is None else (*path, "policies"),
            at(written, "policies"),
            f"within a cold start ({written_duration(cold)}) a burst may go from {low} to the maximum of {high}",
            default="double, or 4 pods, every 15 s",
        )


def _reached(written: object, low: int, seconds: float) -> float:
    """The replicas that the policies let an HPA reach from `low` in so many seconds."""
    chosen = text(at(written, "selectPolicy")) or "Max"
    if chosen == "Disabled":
        return low
    policies = sequence(at(written, "policies")) or DEFAULT_UP_POLICIES
    reached = list(_each_reaches(policies, low, seconds))
    return (min if chosen == "Min" else max)(reached, default=math.inf)


def _each_reaches(policies: object, low: int, seconds: float) -> Iterator[float]:
    for policy in sequence(policies):
        value, period = number(at(policy, "value")), number(at(policy, "periodSeconds"))
        if not value or not period or value < 0 or period < 0:
            continue
        steps = max(1, math.floor(min(seconds / period, 10_000)))
        if at(policy, "type") == "Percent":
            # Each step rounds up to a whole pod; logarithms keep large values from overflowing.
            growth = steps * math.log1p(value / 100) + math.log(low)
            yield max(low + steps, math.exp(min(growth, 50.0)))
        else:
            yield low + value * steps


@rule(
    "AS418",
    "cooldown-outlasts-a-cold-start",
    on=Scaler,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("cold_start",),
    fix="Set cooldownPeriod to about three cold starts.",
    sources=(
        "https://keda.sh/docs/2.20/reference/scaledobject-spec/#cooldownperiod",
        "https://github.com/kedacore/keda/issues/7239",
    ),
)
def cooldown_outlasts_a_cold_start(scaler: Scaler, context: Context) -> Verdicts:
    """A scaler that may go to zero must stay up longer than it takes to come back.

    With cooldownPeriod (default 300 s) shorter than a cold start, the last replica goes in every pause between
    requests, and each next request waits for a node, an image and the weights. More time is spent loading than serving.
    """
    idle = number(scaler.spec.get("idleReplicaCount"))
    to_zero = scaler.kind == kinds.SCALED_OBJECT and (minimum(scaler) == 0 or idle == 0)
    if not to_zero or not _slow(scaler, context):
        return
    written = number(scaler.spec.get("cooldownPeriod"))
    if (KEDA_COOLDOWN if written is None else written) < context.parameters.cold_start:
        cold = written_duration(context.parameters.cold_start)
        consequence = f"the last replica goes sooner than a new one answers ({cold})"
        yield fail(("spec", "cooldownPeriod"), written, consequence, default="300")
