"""The planner of NVIDIA Dynamo: replicas of prefill and decode from predicted traffic, and one up or down from load.

Source: ai-dynamo/dynamo components/src/dynamo/planner/core (commit 0c9050c for throughput_scaling.py, 0c6da1e for
load_scaling.py, 15a72ce for budget.py, 4d3f672 and 439d645 for perf_model), of 2026, after 1.5.0. The original learns
step times by regression; here they are given. With both loops on, throughput (every 180 s) sets a floor and load (every
5 s) moves above it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

Target = Literal["throughput", "latency", "sla"]


@dataclass(frozen=True)
class Engine:
    """A worker's step times, seconds, and its limits. prefill: of a step by its prompt tokens; decode: by requests in
    the batch and tokens in their caches."""

    prefill: Callable[[float], float]
    decode: Callable[[float, float], float]
    max_batched_tokens: int
    max_kv_tokens: int
    max_sequences: int
    context_length: int


@dataclass(frozen=True, slots=True)
class Goals:
    """Settings of the planner with its defaults. Budgets are GPUs, negative for none; the ceiling is never exceeded."""

    ttft_ms: float = 500
    itl_ms: float = 50
    target: Target = "throughput"
    sensitivity: float = 0.8
    min_endpoint: int = 1
    min_gpus: int = -1
    max_gpus: int = 8


# From traffic


def time_to_first_token(engine: Engine, tokens: float) -> float:
    """Seconds to work off so many prompt tokens, in steps no longer than the engine's."""
    if tokens <= 0:
        return 0.0
    full = math.ceil(tokens / engine.max_batched_tokens) - 1
    rest = tokens - full * engine.max_batched_tokens
    return full * engine.prefill(engine.max_batched_tokens) + engine.prefill(rest)


def prefill_replicas(engine: Engine, goals: Goals, rate: float, input_tokens: float, hit_rate: float = 0.0) -> int:
    """Prefill workers for `rate` requests a second; where one prompt alone takes n times the target, at least n. Prefix
    hits shorten the prompts."""
    seconds = time_to_first_token(engine, input_tokens * (1 - min(1.0, max(0.0, hit_rate))))
    late = math.ceil(seconds * 1000 / goals.ttft_ms) if seconds * 1000 > goals.ttft_ms else 1
    return max(math.ceil(rate * seconds), late, goals.min_endpoint)


def decode_rate(engine: Engine, goals: Goals, input_tokens: float, output_tokens: float) -> float:
    """Requests a second of one decode worker: the largest batch within the ITL target, by Little's law; of a single
    request where even that is too slow."""
    context = input_tokens + output_tokens / 2
    largest = max(1, min(int(engine.max_kv_tokens / context), engine.max_sequences))
    low, high = 1, largest
    while low < high:
        middle = (low + high + 1) // 2
        if engine.decode(middle, middle * context) * 1000 <= goals.itl_ms:
            low = middle
        else:
            high = middle - 1
    return low / (output_tokens * engine.decode(low, low * context))


def decode_replicas(engine: Engine, goals: Goals, rate: float, input_tokens: float, output_tokens: float) -> int:
    """Decode workers for `rate` requests a second."""
    each = decode_rate(engine, goals, input_tokens, output_tokens)
    return max(math.ceil(rate / each), goals.min_endpoint)


# From load


@dataclass(frozen=True, slots=True)
class Load:
    """What one worker reports: prompt tokens that wait, cache tokens of running and of waiting decodes."""

    queued_prompt: int = 0
    running_kv: int = 0
    queued_kv: int = 0


@dataclass(frozen=True, slots=True)
class Means:
    """Recent means that an estimate for the next request uses: prompt tokens, cache tokens a decode, decodes a step."""

    input_tokens: float
    context: float
    running: float


# Scale-up and scale-down bounds without an SLA: waiting prompt over context length, cache in use over cache.
_PREFILL = {"throughput": (1.0, 0.1), "latency": (0.1, 0.0)}
_DECODE = {"throughput": (1.0, 0.6), "latency": (0.4, 0.1)}


def prefill_by_load(engine: Engine, goals: Goals, workers: Sequence[Load], means: Means, hit_rate: float = 0.0) -> int:
    """Prefill workers wanted: one more, one less, or as many as report."""
    count = len(workers)
    if not workers:
        return count
    if goals.target != "sla":
        up, down = _PREFILL[goals.target]
        ratios = [one.queued_prompt / engine.context_length for one in workers]
        calm = all(ratio < down or ratio == down == 0 for ratio in ratios)
        return _moved(count, goals, up=any(ratio >= up for ratio in ratios), down=calm)

    def ttft(queued: float) -> float:
        return time_to_first_token(engine, (queued + means.input_tokens) * (1 - hit_rate)) * 1000

    own = ttft(0)
    budget = (goals.ttft_ms - own) * goals.sensitivity
    safe = count > 1 and budget > 0
    if safe:
        # Its own prefill stays with a request however many workers there are: only the wait counts against the target.
        safe = all(ttft(int(one.queued_prompt * count / (count - 1))) - own < budget for one in workers)
    return _moved(count, goals, up=all(ttft(one.queued_prompt) > goals.ttft_ms for one in workers), down=safe)


def decode_by_load(engine: Engine, goals: Goals, workers: Sequence[Load], means: Means) -> int:
    """Decode workers wanted: one more, one less, or as many as report."""
    count = len(workers)
    if not workers:
        return count
    if goals.target != "sla":
        up, down = _DECODE[goals.target]
        used = [(one.running_kv + one.queued_kv) / engine.max_kv_tokens for one in workers]
        return _moved(count, goals, up=any(u > up for u in used), down=all(u < down for u in used))

    def itl(tokens: float) -> float:
        return engine.decode(means.running + 1, tokens + means.context) * 1000

    held = [one.running_kv + one.queued_kv for one in workers]
    safe = count > 1
    if safe:
        after = [int(tokens * count / (count - 1)) for tokens in held]
        safe = all(t < engine.max_kv_tokens and itl(t) < goals.itl_ms * goals.sensitivity for t in after)
    return _moved(count, goals, up=all(itl(tokens) > goals.itl_ms for tokens in held), down=safe)


def _moved(count: int, goals: Goals, *, up: bool, down: bool) -> int:
    if up:
        return count + 1
    return max(count - 1, goals.min_endpoint) if down and count > 1 else count


@dataclass(frozen=True, slots=True)
class Plan:
    """Workers wanted and why nothing moved, if so."""

    prefill: int
    decode: int
    held: str | None = None


def step(
    engine: Engine,
    goals: Goals,
    current: tuple[int, int],
    loads: tuple[Sequence[Load], Sequence[Load]],
    means: Means,
    gpus: tuple[int, int],
    floors: tuple[int, int] = (0, 0),
    hit_rate: float = 0.0,
) -> Plan:
    """One run of the load loop over both roles. current: prefill and decode workers that exist; loads: what the ready
    ones report; gpus: of one worker each; floors: what traffic asked for. A worker that exists and does not report,
    such as a pending or a loading one, stops both roles."""
    for workers, number, role in zip(loads, current, ("prefill", "decode"), strict=True):
        if workers and len(workers) != number:
            return Plan(*current, held=f"{role} has {number} workers, {len(workers)} report")
    if not any(loads):
        return Plan(*current, held="no worker reports")
    prefill = prefill_by_load(engine, goals, loads[0], means, hit_rate) if loads[0] else current[0]
    decode = decode_by_load(engine, goals, loads[1], means) if loads[1] else current[1]
    wanted = (max(prefill, floors[0], goals.min_endpoint), max(decode, floors[1], goals.min_endpoint))
    return Plan(*fit_budget(wanted, gpus, goals))


def fit_budget(wanted: tuple[int, int], gpus: tuple[int, int], goals: Goals) -> tuple[int, int]:
    """Workers brought within the GPU budget in proportion. (0, 0) where the least of both does not fit: the planner
    then takes the deployment down."""
    (prefill, decode), (each_p, each_d), least = wanted, gpus, goals.min_endpoint
    total = prefill * each_p + decode * each_d
    if 0 <= goals.max_gpus < total:
        if goals.max_gpus < least * (each_p + each_d):
            return 0, 0
        most = (goals.max_gpus - least * each_d) // each_p
        prefill = max(least, min(most, math.floor(prefill * (goals.max_gpus / total))))
        return prefill, max(least, (goals.max_gpus - prefill * each_p) // each_d)
    # Steps of different width cannot meet both bounds exactly, so with a ceiling the floor may be missed by one step.
    slack = max(each_p, each_d) if goals.max_gpus >= 0 else 0
    if goals.min_gpus < 0 or total >= goals.min_gpus - slack:
        return prefill, decode
    grown = math.ceil(prefill * (goals.min_gpus / total)) if total > 0 else math.ceil(goals.min_gpus / 2 / each_p)
    grown = max(least, grown)
    other = max(least, math.ceil(max(0, goals.min_gpus - grown * each_p) / each_d))
    if 0 <= goals.max_gpus < grown * each_p + other * each_d:
        return prefill, decode
    return grown, other
