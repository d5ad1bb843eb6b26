"""Results as plain figures: one summary a run, estimates over seeds, and everything as JSON. docs/simulation.md
describes every field."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from triplane.simulation.explanation import Episode
from triplane.simulation.kernel.state import DONE, RUNNING, TRANSFER, WAITING
from triplane.simulation.provenance import Coefficient
from triplane.simulation.requests import Floats
from triplane.simulation.workload import tally
from triplane.simulation.world import Event, RunResult

SCHEMA = 1
MINUTE = 60.0

Bools = npt.NDArray[np.bool_]

# Two-sided 95 % quantiles of Student's t by degrees of freedom; beyond, the normal's 1.96 is within 0.05.
_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


@dataclass(frozen=True)
class Objective:
    """Seconds; None: any time is good."""

    ttft: float | None
    itl: float | None


@dataclass(frozen=True)
class Percentiles:
    """Seconds. A percentile that falls on a request without that time is None: it was never reached."""

    mean: float | None
    p50: float | None
    p90: float | None
    p99: float | None


@dataclass(frozen=True)
class Summary:
    """One run. Percentiles of TTFT and E2E are over offered requests, those never served included as the slowest."""

    seed: int
    offered: int
    in_slo: int
    late: int
    dropped: int
    unfinished: int
    never_sent: int
    goodput: float
    ttft: Percentiles
    itl: Percentiles
    e2e: Percentiles
    good_tokens: int
    gpu_minutes: Mapping[str, float]
    paid_gpu_minutes: float
    dollars: float
    dollars_per_day: float
    dollars_per_million_good_tokens: float | None
    scalings: int
    evictions: Mapping[str, int]
    evicted_requests: int
    preemptions: int
    mean_replicas: Mapping[str, float]
    most_replicas: Mapping[str, int]
    mean_nodes: Mapping[str, float]
    most_nodes: Mapping[str, int]
    idle_share: float | None
    """Of the paid GPU time: neither in an engine's step nor a job's."""


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds with its 95 % confidence interval; None bounds with one seed."""

    mean: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Timeline:
    """One run in time: values at `times`, and requests by the minute of their arrival."""

    seed: int
    times: Sequence[float]
    series: Mapping[str, Sequence[float]]
    minutes: Mapping[str, Sequence[int]]
    events: Sequence[Event]


@dataclass(frozen=True)
class StrategyResult:
    """A strategy over all seeds. The timeline and the explanation are those of the first seed."""

    name: str
    line: str
    overlay: Mapping[str, str]
    runs: Sequence[Summary]
    estimates: Mapping[str, Estimate]
    score: float | None
    timeline: Timeline
    explanation: Sequence[Episode]


@dataclass(frozen=True)
class Comparison:
    """Everything a report needs. `partial`: interrupted, so that runs are missing."""

    schema: int
    stack: str
    model: str
    load: str
    horizon: float
    seeds: int
    objective: Objective
    partial: bool
    stability: Sequence[str]
    weights: Mapping[str, float]
    strategies: Sequence[StrategyResult]
    provenance: Sequence[Coefficient]


def percentiles(times: Floats) -> Percentiles:
    """Of times in seconds, NaN being never."""
    if not len(times):
        return Percentiles(None, None, None, None)
    ordered = np.sort(np.where(np.isnan(times), np.inf, times))

    def at(share: float) -> float | None:
        value = float(ordered[max(0, math.ceil(share * len(ordered)) - 1)])
        return value if math.isfinite(value) else None

    known = ordered[np.isfinite(ordered)]
    whole = len(known) == len(ordered)
    return Percentiles(float(known.mean()) if whole else None, at(0.5), at(0.9), at(0.99))


def summarize(
    run: RunResult, horizon: float, objective: Objective, roles: Sequence[str], pools: Sequence[str]
) -> Summary:
    """The figures of one run."""
    counts = tally(run.outcomes, run.output_tokens, horizon, ttft=objective.ttft, itl=objective.itl)
    offered = run.outcomes.arrival < horizon
    tokens = int(run.output_tokens[good(run, horizon, objective)].sum())
    per_day = run.dollars / horizon * 86400.0
    times = np.asarray(run.times)
    spans = np.diff(np.append(times, horizon))
    nodes = {
        pool: np.asarray(run.series[f"{pool}.nodes"]) + np.asarray(run.series[f"{pool}.booting"]) for pool in pools
    }
    paid = run.paid_gpu_seconds

    return Summary(
        seed=run.seed,
        offered=counts.offered,
        in_slo=counts.good,
        late=counts.late,
        dropped=counts.dropped,
        unfinished=counts.unfinished,
        never_sent=counts.never_sent,
        goodput=counts.goodput,
        ttft=percentiles(run.outcomes.ttft[offered]),
        itl=Percentiles(*(_known(v) for v in (run.gaps.mean, *(run.gaps.percentile(p) for p in (0.5, 0.9, 0.99))))),
        e2e=percentiles(run.outcomes.e2e[offered]),
        good_tokens=tokens,
        gpu_minutes={cause: seconds / MINUTE for cause, seconds in run.gpu_seconds.items()},
        paid_gpu_minutes=run.paid_gpu_seconds / MINUTE,
        dollars=run.dollars,
        dollars_per_day=per_day,
        dollars_per_million_good_tokens=run.dollars / tokens * 1e6 if tokens else None,
        scalings=run.scalings,
        evictions=dict(sorted(run.evictions.items())),
        evicted_requests=run.evicted_requests,
        preemptions=run.preemptions,
        mean_replicas={
            role: float((np.asarray(run.series[f"{role}.ready"]) * spans).sum() / spans.sum()) for role in roles
        },
        most_replicas={role: int(max(run.series[f"{role}.ready"])) for role in roles},
        mean_nodes={pool: float((nodes[pool] * spans).sum() / spans.sum()) for pool in pools},
        most_nodes={pool: int(nodes[pool].max()) for pool in pools},
        idle_share=1.0 - (run.gpu_seconds["busy"] + run.gpu_seconds["job"]) / paid if paid > 0 else None,
    )


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def good(run: RunResult, horizon: float, objective: Objective) -> Bools:
    """Which requests were served within the objectives, as `tally` counts them."""
    o = run.outcomes
    met = (o.arrival < horizon) & (o.status == DONE)
    if objective.ttft is not None:
        met &= np.nan_to_num(o.ttft, nan=np.inf) <= objective.ttft
    if objective.itl is not None:
        gaps = np.maximum(run.output_tokens - 1, 1)
        met &= np.nan_to_num((o.finish - o.first_token) / gaps, nan=np.inf) <= objective.itl
    return np.asarray(met)


def timeline(run: RunResult, horizon: float, objective: Objective) -> Timeline:
    """One run in time."""
    minutes = max(1, math.ceil(horizon / MINUTE))
    offered = run.outcomes.arrival < horizon
    minute = (run.outcomes.arrival[offered] // MINUTE).astype(int)
    met = good(run, horizon, objective)[offered]

    def per_minute(which: Bools) -> list[int]:
        return [int(n) for n in np.bincount(minute[which], minlength=minutes)]

    served = run.outcomes.status[offered] == DONE
    # What the horizon cut off while it was still in time is neither good nor bad.
    limit = math.inf if objective.ttft is None else objective.ttft
    waited = np.where(np.isnan(run.outcomes.ttft), horizon - run.outcomes.arrival, run.outcomes.ttft)[offered]
    cut_off = np.isin(run.outcomes.status[offered], (WAITING, RUNNING, TRANSFER)) & (waited <= limit)
    counts = {
        "offered": per_minute(np.ones(len(minute), bool)),
        "inSlo": per_minute(met),
        "late": per_minute(served & ~met),
        "unserved": per_minute(~served & ~cut_off),
        "cutOff": per_minute(cut_off),
    }
    return Timeline(run.seed, list(run.times), {k: list(v) for k, v in run.series.items()}, counts, list(run.events))


ESTIMATED: dict[str, Callable[[Summary], float | None]] = {
    "inSlo": lambda s: s.in_slo,
    "late": lambda s: s.late,
    "dropped": lambda s: s.dropped,
    "unfinished": lambda s: s.unfinished,
    "goodput": lambda s: s.goodput,
    "ttftP50": lambda s: s.ttft.p50,
    "ttftP99": lambda s: s.ttft.p99,
    "itlP99": lambda s: s.itl.p99,
    "e2eP99": lambda s: s.e2e.p99,
    "dollarsPerDay": lambda s: s.dollars_per_day,
    "dollarsPerMillionGoodTokens": lambda s: s.dollars_per_million_good_tokens,
    "scalings": lambda s: s.scalings,
    "evictions": lambda s: sum(s.evictions.values()),
    "idleShare": lambda s: s.idle_share,
}
"""What is estimated over seeds, by its name in JSON."""


def estimate(values: Sequence[float | None]) -> Estimate:
    """Mean and 95 % confidence interval; None where a value is never reached."""
    if not values or any(value is None for value in values):
        return Estimate(None, None, None)
    sample = np.asarray(values, float)
    mean = float(sample.mean())
    if len(sample) == 1:
        return Estimate(mean, None, None)
    freedom = len(sample) - 1
    quantile = _T95[freedom - 1] if freedom <= len(_T95) else 1.96
    half = quantile * float(sample.std(ddof=1)) / math.sqrt(len(sample))
    return Estimate(mean, mean - half, mean + half)


def estimates(runs: Sequence[Summary]) -> dict[str, Estimate]:
    """Every figure in ESTIMATED over the runs."""
    return {name: estimate([value(run) for run in runs]) for name, value in ESTIMATED.items()}


def score(goodput: float, dollars: float, cheapest: float, weights: Mapping[str, float]) -> float:
    """0 to 100: weighted mean of goodput and of the cheapest strategy's cost over this one's."""
    whole = weights["goodput"] + weights["cost"]
    thrift = cheapest / dollars if dollars > 0 else 1.0
    return 100.0 * (weights["goodput"] * goodput + weights["cost"] * thrift) / whole


def to_json(value: Any) -> Any:
    """Dataclasses as mappings with camelCase keys; figures that are not finite as null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {camel(f.name): to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(inner) for key, inner in value.items()}
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, Sequence):
        return [to_json(inner) for inner in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def camel(name: str) -> str:
    """`ttft_p99` as `ttftP99`."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
