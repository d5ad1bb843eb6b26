"""Measured step times of engines, each with its source, date, licence, error and the band to try results in."""

import difflib
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from triplane.simulation.kernel import EngineLimits, StepTimes

__all__ = ["Profile", "UnknownProfile", "find", "profile", "profiles"]


class UnknownProfile(ValueError):
    """No measured step times for what was asked; the message lists what there is."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One engine on some GPUs serving one model. Times in milliseconds, as published."""

    name: str
    model: str
    accelerator: str
    gpus: int
    """Tensor parallel GPUs of a replica."""
    engine: str
    engine_version: str
    table: str
    """The sweep it is fitted to."""
    prefill: dict[str, float]
    decode: dict[str, float]
    kv_tokens: int
    kv_source: str
    band: dict[str, tuple[float, float]]
    """Factors on prefill and decode times within which results should be tried."""
    outliers: tuple[int, ...]
    source: str
    date: str
    licence: str

    def times(self, *, prefill: float = 1.0, decode: float = 1.0) -> StepTimes:
        """The coefficients in seconds, multiplied by factors such as the ends of the band."""
        return StepTimes(
            prefill_base=self.prefill["base"] / 1e3 * prefill,
            prefill_token=self.prefill["token"] / 1e3 * prefill,
            prefill_square=self.prefill["square"] / 1e3 * prefill,
            decode_base=self.decode["base"] / 1e3 * decode,
            decode_sequence=self.decode["sequence"] / 1e3 * decode,
            decode_token=self.decode["token"] / 1e3 * decode,
            graph_batch=int(self.decode["graphBatch"]),
            eager_base=self.decode["eager"] / 1e3 * decode,
        )

    def engine_limits(self, *, block_size: int = 16, **changes: Any) -> EngineLimits:
        """An engine with this times and KV capacity, and vLLM's defaults. `changes` are EngineLimits' fields."""
        limits = EngineLimits(times=self.times(), kv_blocks=self.kv_tokens // block_size, block_size=block_size)
        return replace(limits, **changes)


@cache
def profiles() -> tuple[Profile, ...]:
    """Every profile there is, in the order of the file."""
    text = files(__package__).joinpath("profiles.yaml").read_text(encoding="utf-8")
    data = yaml.safe_load(text)
    return tuple(_read(row, data) for row in data["profiles"])


def _read(row: dict[str, Any], data: dict[str, Any]) -> Profile:
    return Profile(
        name=row["name"],
        model=row["model"],
        accelerator=row["accelerator"],
        gpus=row["gpus"],
        engine=row["engine"],
        engine_version=str(row["engineVersion"]),
        table=row["table"],
        prefill={key: float(value) for key, value in row["prefill"].items()},
        decode={key: float(value) for key, value in row["decode"].items()},
        kv_tokens=row["kvTokens"],
        kv_source=row["kvSource"],
        band={key: (float(low), float(high)) for key, (low, high) in row["band"].items()},
        outliers=tuple(row.get("outliers", ())),
        source=data["source"],
        date=str(data["date"]),
        licence=data["licence"],
    )


def profile(name: str) -> Profile:
    """A profile by name. Raises UnknownProfile with the nearest name."""
    for known in profiles():
        if known.name == name:
            return known
    names = [known.name for known in profiles()]
    near = difflib.get_close_matches(name, names, 1)
    hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(names)}"
    raise UnknownProfile(f"no step-time profile {name}{hint}")


def find(model: str, accelerator: str, gpus: int) -> Profile:
    """The profile measured for a model on so many GPUs of a kind. Raises UnknownProfile: nothing is guessed."""
    for known in profiles():
        if (known.model, known.accelerator, known.gpus) == (model, accelerator, gpus):
            return known
    there = "; ".join(f"{p.model} on {p.gpus} x {p.accelerator}" for p in profiles())
    raise UnknownProfile(f"no measured step times for {model} on {gpus} x {accelerator}; measured: {there}")
