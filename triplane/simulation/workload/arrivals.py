"""Generated arrivals: a rate that changes in time, and how unevenly requests come at that rate. All from one seed.

Arrivals are those of a renewal process of rate 1 in stretched time: between two requests the integral of the rate
grows by a Gamma-distributed amount of mean 1 and coefficient of variation `cv`. cv = 1 is a Poisson process; above 1,
bursts. (Azure's 2023 traces: conversation 1.09, code 13.)
"""

import math
from dataclasses import dataclass

import numpy as np

from triplane.simulation.requests import Floats, Requests
from triplane.simulation.workload.lengths import Lengths


@dataclass(frozen=True)
class RateCurve:
    """Requests per second over time, straight between its knots; two knots at one time are a jump."""

    times: Floats
    rates: Floats

    def __post_init__(self) -> None:
        """Raise ValueError for a curve that is not one."""
        times, rates = self.times, self.rates
        if len(times) < 2 or len(times) != len(rates) or times[0] != 0 or not np.isfinite(times).all():
            raise ValueError("a rate curve needs at least two knots, the first at 0 s")
        if (np.diff(times) < 0).any() or not np.isfinite(rates).all() or rates.min() < 0:
            raise ValueError("times must ascend, and rates be finite and not negative")
        if times[-1] <= 0:
            raise ValueError("the horizon must be longer than 0 s")

    @property
    def horizon(self) -> float:
        """Where the curve ends, seconds."""
        return float(self.times[-1])

    def cumulative(self) -> Floats:
        """Requests expected up to each knot."""
        area = np.diff(self.times) * (self.rates[1:] + self.rates[:-1]) / 2
        return np.concatenate([[0.0], np.cumsum(area)])

    def when(self, amounts: Floats) -> Floats:
        """Times at which so many requests are expected: the inverse of `cumulative`, exact between knots."""
        upto = self.cumulative()
        at = np.clip(np.searchsorted(upto, amounts, side="right") - 1, 0, len(upto) - 2)
        rest, rate = amounts - upto[at], self.rates[at]
        span = self.times[at + 1] - self.times[at]
        slope = np.divide(self.rates[at + 1] - rate, span, out=np.zeros_like(span), where=span > 0)
        root = np.sqrt(np.maximum(rate * rate + 2.0 * slope * rest, 0.0))
        total = rate + root
        return np.asarray(self.times[at] + np.divide(2.0 * rest, total, out=np.zeros_like(total), where=total > 0))


def constant(rate: float, horizon: float) -> RateCurve:
    """The same rate all the time."""
    return RateCurve(np.array([0.0, horizon]), np.array([rate, rate]))


def step(before: float, after: float, at: float, horizon: float) -> RateCurve:
    """One rate up to `at`, another one from there."""
    return RateCurve(np.array([0.0, at, at, horizon]), np.array([before, before, after, after]))


def ramp(before: float, after: float, start: float, end: float, horizon: float) -> RateCurve:
    """From one rate to another, evenly between `start` and `end`."""
    return RateCurve(np.array([0.0, start, end, horizon]), np.array([before, before, after, after]))


def burst(base: float, peak: float, at: float, duration: float, horizon: float) -> RateCurve:
    """`peak` for `duration` seconds from `at`, `base` before and after."""
    end = min(at + duration, horizon)
    return RateCurve(np.array([0.0, at, at, end, end, horizon]), np.array([base, base, peak, peak, base, base]))


def diurnal(
    mean: float, swing: float, horizon: float, *, peak_at: float = 14 * 3600.0, day: float = 86400.0
) -> RateCurve:
    """A day's wave: mean (1 + swing cos(...)), highest at `peak_at`; 0 <= swing <= 1. A knot each 1/1440 of a day."""
    if not 0 <= swing <= 1:
        raise ValueError("swing must be between 0 and 1")
    times = np.linspace(0.0, horizon, max(2, math.ceil(horizon / day * 1440) + 1))
    return RateCurve(times, mean * (1.0 + swing * np.cos(2 * np.pi * (times - peak_at) / day)))


def arrivals(curve: RateCurve, rng: np.random.Generator, *, cv: float = 1.0) -> Floats:
    """Arrival times from 0 to the curve's end, ascending; cv 0 spaces them evenly."""
    if not (math.isfinite(cv) and cv >= 0):
        raise ValueError("cv must be finite and not negative")
    expected = float(curve.cumulative()[-1])
    chunks: list[Floats] = []
    reached = 0.0
    while reached < expected:
        count = int(expected - reached + 4 * (1 + cv) * math.sqrt(expected)) + 16
        if cv == 0:
            gaps = np.ones(count)
        else:
            gaps = rng.exponential(1.0, count) if cv == 1.0 else rng.gamma(1 / cv**2, cv**2, count)
        marks = reached + np.cumsum(gaps)
        chunks.append(marks)
        reached = float(marks[-1])
    marks = np.concatenate(chunks) if chunks else np.zeros(0)
    return curve.when(marks[marks < expected])


def generate(curve: RateCurve, lengths: Lengths, seed: int, *, cv: float = 1.0) -> Requests:
    """Requests of a rate curve; the same seed gives the same bytes. Arrivals and lengths have streams of their own."""
    times, sizes = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2))
    when = np.maximum.accumulate(arrivals(curve, times, cv=cv))
    return Requests(when, *lengths.draw(len(when), sizes))


def repeat(requests: Requests, horizon: float, *, speed: float = 1.0) -> Requests:
    """A trace end to end, its times divided by `speed`, until `horizon`. Its period is its length plus one mean gap."""
    n = len(requests)
    if n < 2 or requests.arrival[-1] <= 0 or not speed > 0 or not horizon > 0:
        raise ValueError("repeating needs at least 2 requests over some time, a speed and a horizon above 0")
    period = float(requests.arrival[-1]) * n / (n - 1)
    rounds = math.ceil(horizon * speed / period)
    times = (np.arange(rounds)[:, None] * period + requests.arrival[None, :]).ravel() / speed
    keep = times < horizon
    at = np.tile(np.arange(n), rounds)[keep]
    return Requests(times[keep], requests.input_tokens[at], requests.output_tokens[at])


def with_long_prompt(
    requests: Requests, *, at: float = 2 * 3600.0, tokens: int = 1_000_000, output: int = 500
) -> Requests:
    """The same requests and one very long prompt: the million tokens that arrive at 2 a.m."""
    if requests.has_prefixes:
        raise ValueError("a long prompt can be added only to requests without prefix ids")
    place = int(np.searchsorted(requests.arrival, at, side="right"))
    return Requests(
        np.insert(requests.arrival, place, at),
        np.insert(requests.input_tokens, place, tokens),
        np.insert(requests.output_tokens, place, output),
    )
