"""One replica as a queue whose service slows down with its batch: a rate's latency, and a latency's rate.

A birth-death chain: at most `max_batch` requests run, up to `max_queue` more wait, the rest are turned away. This is
the queue model of llm-d's Workload Variant Autoscaler. Source: llm-inferno/queue-analysis (commit cfadd1c) for the
newer analysis, workload-variant-autoscaler pkg/analyzer (commit b08b1c7) for the older; times in milliseconds.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

_STABLE = 0.999
"""Part of the highest service rate up to which the model is asked."""
_SAFE_THROUGHPUT = 0.9
"""Part of the highest rate that a throughput target may use."""


@dataclass(frozen=True)
class QueueModel:
    """Iteration time alpha + n * work with n requests in the batch, for mean lengths in tokens.

    alpha: fixed time of an iteration, ms. beta: time a token of compute, ms. gamma: time a token of attention read, ms.
    analysis: the older formulas count the first decoded token twice; chunks (of a prompt) exist in the newer only.
    """

    alpha: float
    beta: float
    gamma: float
    input_tokens: float
    output_tokens: float
    max_batch: int = 256
    max_queue: int = 100
    chunks: int = 1
    analysis: Literal["new", "old"] = "new"

    def __post_init__(self) -> None:
        """Raise ValueError for figures that describe no queue."""
        if min(self.alpha, self.beta, self.gamma, self.input_tokens) < 0 or self.output_tokens < 1:
            raise ValueError("times and lengths must not be negative, and at least one token comes out")
        if self.max_batch < 1 or self.max_queue < 0 or self.chunks < 1:
            raise ValueError("a batch of at least one, a queue of at least none, at least one chunk")

    @cached_property
    def _prefill_work(self) -> float:
        i, c = self.input_tokens, self.chunks
        return (self.beta + self.gamma * (c + 1) / 2) * i

    @cached_property
    def _decode_work(self) -> float:
        i, o = self.input_tokens, self.output_tokens
        return self.beta * o + self.gamma * o * (i + (o + 1) / 2)

    @cached_property
    def _slope(self) -> float:
        """What one more request adds to an iteration, ms."""
        i, o = self.input_tokens, self.output_tokens
        if self.analysis == "old":
            return self.beta * (i + o) / (o + 1) + self.gamma * (i + o / 2)
        return (self._prefill_work + self._decode_work) / (self.chunks + o)

    def prefill(self, batch: float) -> float:
        """Time to the end of the prefill with so many requests in the batch, ms."""
        if self.analysis == "old":
            return self.alpha + batch * self._slope + (self.beta + self.gamma) * self.input_tokens
        return self.chunks * max(0.0, self.alpha + (batch - 1) * self._slope) + self._prefill_work

    def service(self, batch: float) -> float:
        """Time a request is served with so many in the batch, ms."""
        i, o = self.input_tokens, self.output_tokens
        if self.analysis == "old":
            decode = self.alpha + batch * self._slope + self.beta + self.gamma * (i + o / 2)
            return self.prefill(batch) + o * decode
        return (self.chunks + o) * (self.alpha + batch * self._slope)

    @cached_property
    def _rates(self) -> NDArray[np.float64]:
        """Requests served a millisecond with 1 to max_batch in the batch."""
        return np.array([n / self.service(n) for n in range(1, self.max_batch + 1)])

    @property
    def highest_rate(self) -> float:
        """Greatest arrival rate that is looked at, requests a second."""
        return float(self._rates[-1]) * _STABLE * 1000

    def solve(self, rate: float) -> "QueueState":
        """Steady state at `rate` requests a second. Raises ValueError for a rate that is not positive."""
        if not rate > 0 or not math.isfinite(rate):
            raise ValueError("the rate must be positive")
        arrivals = rate / 1000
        size = self.max_batch + self.max_queue
        served = np.concatenate([self._rates, np.full(self.max_queue, self._rates[-1])])
        # In logarithms: with hundreds of places the products leave the range of a float.
        logs = np.concatenate([[0.0], np.cumsum(np.log(arrivals / served))])
        weights = np.exp(logs - logs.max())
        p = weights / weights.sum()
        n = np.arange(size + 1)
        throughput = arrivals * (1 - p[-1])
        response = float((n * p).sum() / throughput)
        busy = float((np.minimum(n, self.max_batch) * p).sum())
        service = busy / float(throughput)
        prefill = self.prefill(busy)
        token = (service - prefill) / self.output_tokens
        wait = max(0.0, response - service)
        return QueueState(
            throughput=float(throughput) * 1000,
            lost=float(p[-1]),
            response=response,
            wait=wait,
            batch=busy,
            itl=token,
            ttft=wait + prefill + token,
        )

    def rate_for(
        self, *, ttft: float | None = None, itl: float | None = None, tokens_a_second: float | None = None
    ) -> float:
        """Greatest rate, requests a second, at which every given target (ms; tokens a second in all) is met; 0 if none
        can be. A throughput target asks for room above it instead."""
        rate = self.highest_rate
        if tokens_a_second is not None:
            rate = min(rate, self.highest_rate * _SAFE_THROUGHPUT)
        if ttft is not None:
            rate = min(rate, self._search(lambda state: state.ttft, ttft))
        if itl is not None:
            rate = min(rate, self._search(lambda state: state.itl, itl))
        return rate

    def _search(self, of: Callable[["QueueState"], float], target: float) -> float:
        low, high = self.highest_rate * 1e-6, self.highest_rate
        if of(self.solve(low)) > target:
            return 0.0
        if of(self.solve(high)) <= target:
            return high
        while high - low > 1e-9 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if of(self.solve(middle)) <= target else (low, middle)
        return low

    def replicas(self, demand: float, *, ttft: float | None = None, itl: float | None = None) -> int | None:
        """Replicas that serve `demand` requests a second within the targets, at least 1; None if none could."""
        rate = self.rate_for(ttft=ttft, itl=itl)
        return None if rate <= 0 else max(1, math.ceil(demand / rate))


@dataclass(frozen=True, slots=True)
class QueueState:
    """Steady state of one replica: rates in requests a second, times in milliseconds, batch in requests running."""

    throughput: float
    lost: float
    response: float
    wait: float
    batch: float
    itl: float
    ttft: float
