"""How long prompts and answers are: fixed, drawn from a trace, or lognormal fitted to one."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from triplane.simulation.requests import Ints, Requests


class Lengths(Protocol):
    """A distribution of (prompt tokens, output tokens)."""

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """So many independent pairs, as two arrays of whole numbers of at least 1."""


@dataclass(frozen=True)
class FixedLengths:
    """Every request alike."""

    input_tokens: int
    output_tokens: int

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """The same pair `count` times."""
        return np.full(count, self.input_tokens, np.int64), np.full(count, self.output_tokens, np.int64)


@dataclass(frozen=True)
class EmpiricalLengths:
    """Pairs drawn from a trace with replacement: keeps the shape and how prompt and answer go together."""

    requests: Requests

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Pairs of randomly chosen requests of the trace."""
        at = rng.integers(0, len(self.requests), count)
        return self.requests.input_tokens[at], self.requests.output_tokens[at]


@dataclass(frozen=True, kw_only=True)
class LognormalLengths:
    """Logarithms of prompt and output tokens, jointly normal. `longest_*` cuts what the model would not accept."""

    input_mu: float
    input_sigma: float
    output_mu: float
    output_sigma: float
    correlation: float = 0.0
    longest_input: int = 1_000_000
    longest_output: int = 1_000_000

    @classmethod
    def fit(cls, requests: Requests) -> "LognormalLengths":
        """Maximum likelihood from a trace of at least 2 requests; ValueError with fewer."""
        if len(requests) < 2:
            raise ValueError("a fit needs at least 2 requests")
        x, y = np.log(requests.input_tokens), np.log(requests.output_tokens)
        spread = float(x.std()) * float(y.std())
        return cls(
            input_mu=float(x.mean()),
            input_sigma=float(x.std()),
            output_mu=float(y.mean()),
            output_sigma=float(y.std()),
            correlation=float(((x - x.mean()) * (y - y.mean())).mean()) / spread if spread > 0 else 0.0,
            longest_input=int(requests.input_tokens.max()),
            longest_output=int(requests.output_tokens.max()),
        )

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Rounded, at least 1, at most the longest."""
        a, b = rng.standard_normal(count), rng.standard_normal(count)
        b = self.correlation * a + math.sqrt(max(0.0, 1.0 - self.correlation**2)) * b
        prompt = np.exp(self.input_mu + self.input_sigma * a)
        output = np.exp(self.output_mu + self.output_sigma * b)
        return (
            np.clip(np.rint(prompt), 1, self.longest_input).astype(np.int64),
            np.clip(np.rint(output), 1, self.longest_output).astype(np.int64),
        )
