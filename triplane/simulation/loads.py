"""The load of a scenario: a trace, repeated to the horizon, or arrivals from a seed; and how much a stack can take."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from triplane.settings.models import ModelSettings, RoleName
from triplane.simulation.engines import RoleEngine
from triplane.simulation.provenance import Coefficient
from triplane.simulation.requests import Floats, Requests
from triplane.simulation.scenarios import ArrivalSettings, LengthSettings, Scenario, ScenarioError
from triplane.simulation.workload import (
    EmpiricalLengths,
    FixedLengths,
    Lengths,
    LognormalLengths,
    RateCurve,
    burst,
    constant,
    diurnal,
    generate,
    ramp,
    read_trace,
    repeat,
    step,
    with_long_prompt,
)

HOUR = 3600.0

CHAT = LognormalLengths(
    input_mu=6.6333,
    input_sigma=0.9852,
    output_mu=5.0190,
    output_sigma=0.8590,
    correlation=0.0875,
    longest_input=14050,
    longest_output=1000,
)
"""Maximum likelihood for the Azure LLM inference trace 2023, conversation (CC-BY-4.0); a test fits it again."""
CHAT_SOURCE = "lognormal fit to the Azure LLM inference trace 2023, conversation (CC-BY-4.0)"


@dataclass(frozen=True)
class Load:
    """The requests of a seed, for how long, and where they come from."""

    requests: Callable[[int], Requests]
    horizon: float
    line: str
    fixed: bool
    """Every seed has the same requests."""
    coefficients: tuple[Coefficient, ...] = ()


def load_of(scenario: Scenario, model: ModelSettings, capacity: "Capacity", folder: Path) -> Load:
    """The scenario's load; without one, the model's traffic; without that, a burst within what the roles can serve.

    Raises ScenarioError, and TraceError with the line for a trace that makes no sense.
    """
    horizon = scenario.horizon.total_seconds() if scenario.horizon else None
    if scenario.trace:
        return _replayed(scenario, horizon, folder)
    rows: list[Coefficient] = []
    if scenario.arrivals:
        horizon = horizon or HOUR
        curve, burstiness = _curve(scenario.arrivals, horizon), scenario.arrivals.burstiness
        lengths = _lengths(scenario.arrivals.lengths, folder, rows)
        line = f"{scenario.arrivals.shape} arrivals from {scenario.arrivals.rate:g} requests a second"
        rows.append(Coefficient("load", line, "", "input", "scenario"))
    elif model.traffic:
        horizon, burstiness = horizon or HOUR, 1.0
        curve = constant(model.traffic.requests_per_second, horizon)
        lengths = _around(model.traffic.input_tokens, model.traffic.output_tokens)
        line = f"Poisson arrivals at {model.traffic.requests_per_second:g} requests a second"
        rows.append(Coefficient("load", line, "", "declared", "the model's traffic; spread of lengths: " + CHAT_SOURCE))
    else:
        horizon, burstiness = horizon or HOUR, 1.0
        lengths = CHAT
        low, high = capacity.rate(CHAT, least=True), capacity.rate(CHAT, least=False)
        base, peak = 0.5 * low, max(0.5 * low, 0.8 * high)
        curve = burst(base, peak, horizon / 4, horizon / 4, horizon)
        line = f"no load given: {base:.2f} requests a second, and {peak:.2f} in the second quarter"
        text = "half of what the fewest replicas can serve, then 80 % of what the most can"
        rows.append(Coefficient("load", line, "", "assumed", text))
        rows.append(Coefficient("lengths", "lognormal", "tokens", "published", CHAT_SOURCE))

    @lru_cache(maxsize=2)  # every strategy runs over the same requests, seed by seed
    def draw(seed: int) -> Requests:
        made = generate(curve, lengths, seed, cv=burstiness)
        if len(made) == 0:
            raise ScenarioError(f"no request arrives within {horizon:g} s: raise the rate or the horizon")
        return _with_long(made, scenario, horizon)

    return Load(draw, horizon, line, fixed=False, coefficients=tuple(rows))


def _replayed(scenario: Scenario, horizon: float | None, folder: Path) -> Load:
    path = folder / str(scenario.trace)
    speed = scenario.speed
    until = None if horizon is None else horizon * speed
    trace = read_trace(path, until=until)
    requests = trace.requests
    length = float(requests.arrival[-1])
    if horizon is None:
        if not length > 0:
            raise ScenarioError(f"{path}: all requests arrive at once: give a horizon")
        # Whole minutes, and a minute more for the last requests.
        horizon = math.ceil(length / speed / 60.0) * 60.0 + 60.0
    if speed != 1.0 or length / speed < horizon - 120.0:
        repeated = length / speed < horizon - 120.0
        if requests.has_prefixes:
            raise ScenarioError(
                f"{path}: a trace with prefix ids is replayed as it is: no speed, and no longer horizon"
            )
        requests = (
            repeat(requests, horizon, speed=speed)
            if repeated
            else Requests(requests.arrival / speed, requests.input_tokens, requests.output_tokens)
        )
    requests = _with_long(requests, scenario, horizon)
    line = f"{path.name}: {trace.rows:,} requests over {length:,.0f} s" + (
        f", {speed:g} x as fast" if speed != 1 else ""
    )
    row = Coefficient("load", line, "", "input", str(scenario.trace))
    return Load(lambda seed: requests, horizon, line, fixed=True, coefficients=(row,))


def _with_long(requests: Requests, scenario: Scenario, horizon: float) -> Requests:
    long = scenario.long_prompt
    if long is None:
        return requests
    if long.at.total_seconds() >= horizon:
        raise ScenarioError("longPrompt: arrives after the horizon")
    return with_long_prompt(requests, at=long.at.total_seconds(), tokens=long.input_tokens, output=long.output_tokens)


def _curve(arrivals: ArrivalSettings, horizon: float) -> RateCurve:
    at = arrivals.at.total_seconds() if arrivals.at else 0.0
    length = arrivals.duration.total_seconds() if arrivals.duration else 0.0
    if at + (length if arrivals.shape == "ramp" else 0.0) >= horizon and arrivals.shape in ("step", "ramp", "burst"):
        raise ScenarioError(f"arrivals: the {arrivals.shape} is not over before the horizon of {horizon:g} s")
    peak = arrivals.peak or arrivals.rate
    match arrivals.shape:
        case "constant":
            return constant(arrivals.rate, horizon)
        case "step":
            return step(arrivals.rate, peak, at, horizon)
        case "ramp":
            return ramp(arrivals.rate, peak, at, at + length, horizon)
        case "burst":
            return burst(arrivals.rate, peak, at, length, horizon)
        case "diurnal":
            return diurnal(arrivals.rate, arrivals.swing, horizon)


def _lengths(settings: LengthSettings, folder: Path, rows: list[Coefficient]) -> Lengths:
    if settings.like:
        rows.append(Coefficient("lengths", "drawn with replacement", "tokens", "input", settings.like))
        return EmpiricalLengths(read_trace(folder / settings.like).requests)
    if settings.input_tokens and settings.output_tokens:
        rows.append(
            Coefficient("lengths", f"{settings.input_tokens}/{settings.output_tokens}", "tokens", "input", "scenario")
        )
        return FixedLengths(settings.input_tokens, settings.output_tokens)
    if settings.input_tokens or settings.output_tokens:
        raise ScenarioError("arrivals.lengths: give inputTokens and outputTokens, or neither")
    rows.append(Coefficient("lengths", "lognormal", "tokens", "published", CHAT_SOURCE))
    return CHAT


def _around(input_tokens: int, output_tokens: int) -> Lengths:
    """The spread of the shipped fit around given means."""

    def mu(mean: int, sigma: float) -> float:
        return math.log(mean) - sigma * sigma / 2

    return LognormalLengths(
        input_mu=mu(input_tokens, CHAT.input_sigma),
        input_sigma=CHAT.input_sigma,
        output_mu=mu(output_tokens, CHAT.output_sigma),
        output_sigma=CHAT.output_sigma,
        correlation=CHAT.correlation,
    )


def _reused(requests: Requests) -> Floats:
    """Prompt tokens of each request that an endless cache shared by all would hold already."""
    if not requests.has_prefixes:
        return np.zeros(len(requests))
    fresh = np.zeros(len(requests.prefix_ids), bool)
    fresh[np.unique(requests.prefix_ids, return_index=True)[1]] = True
    known = np.concatenate([[0], np.cumsum(~fresh)])
    blocks = known[requests.prefix_start[1:]] - known[requests.prefix_start[:-1]]
    # The last block may be partial, and one token is always computed.
    return np.asarray(np.minimum(blocks * float(requests.prefix_block), requests.input_tokens - 1.0))


@dataclass(frozen=True)
class Capacity:
    """How much work a model's replicas can do: replica-seconds that requests need, against those there are.

    An upper bound: prompts in full steps, decodes in the largest batch that the KV cache holds, every prefix computed
    once and for all replicas. Queueing, lost prefixes, and answers of unequal length only make it less.
    """

    engines: Mapping[RoleName, RoleEngine]
    replicas: Mapping[RoleName, tuple[int, int]]
    """Fewest and most replicas of each role, as bounds and node limits allow."""

    def load(self, requests: Requests, horizon: float, *, least: bool = False) -> dict[RoleName, float]:
        """Each role's offered work over what its most (or fewest) replicas can do up to the horizon."""
        offered = requests.arrival < horizon
        prompts, answers = requests.input_tokens[offered].astype(float), requests.output_tokens[offered].astype(float)
        reused = _reused(requests)[offered]
        shares: dict[RoleName, float] = {}
        for role, engine in self.engines.items():
            work = self._work(role, engine, prompts, answers, reused)
            count = self.replicas[role][0 if least else 1]
            shares[role] = work / (count * horizon) if count else math.inf
        return shares

    @staticmethod
    def _work(role: str, engine: RoleEngine, prompts: Floats, answers: Floats, reused: Floats) -> float:
        limits, t = engine.limits, engine.limits.times
        work = 0.0
        if role != "decode":
            cached = reused if limits.prefix_caching else np.zeros(len(prompts))
            fresh = float((prompts - cached).sum())
            work += t.prefill_token * fresh + t.prefill_square * float((prompts**2 - cached**2).sum())
            work += t.prefill_base * fresh / limits.max_num_batched_tokens
        if role != "prefill":
            held = float((prompts + answers / 2).mean())
            batch = max(1.0, min(limits.max_num_seqs, limits.kv_blocks * limits.block_size / held))
            pause = t.decode_base + t.decode_sequence * batch + t.decode_token * batch * held
            work += float(answers.sum()) / batch * pause
        return float(work)

    def rate(self, lengths: Lengths, *, least: bool) -> float:
        """Requests a second at which the busiest role has as much work as it can do."""
        count = 2000
        drawn = lengths.draw(count, np.random.default_rng(0))
        shares = self.load(Requests(np.zeros(count), *drawn), 1.0, least=least)
        return count / max(shares.values()) if max(shares.values()) < math.inf else 0.0
