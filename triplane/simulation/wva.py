"""The saturation rules of llm-d's Workload Variant Autoscaler: by spare capacity (V1), and by tokens (V2).

A variant is one way to serve a model: hardware, parallelism and role, with its own number of replicas. Source:
workload-variant-autoscaler internal/saturation (commit 36587f8) for V1; internal/engines/analyzers/saturation_v2
(commit 01bfe94), internal/engines/pipeline/cost_aware_optimizer.go (commit 1bdff50) for V2. One call is one run of its
loop.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

Role = Literal["prefill", "decode", "both"]

_BYTES_PER_TOKEN = 4
_HISTORY = 10
"""Observations of one kind that are kept."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Defaults of the product. kv: part of the KV cache; queue: requests waiting at one replica. The spare ones start a
    scale-up in V1; scale_up and scale_down bound demand over supply in V2."""

    kv: float = 0.8
    queue: float = 5
    spare_kv: float = 0.1
    spare_queue: float = 3
    scale_up: float = 0.85
    scale_down: float = 0.70


@dataclass(frozen=True, slots=True)
class Replica:
    """What one ready replica reports. kv_usage: part of the cache in use; lengths: mean tokens of recent requests."""

    variant: str
    kv_usage: float
    waiting: int
    kv_tokens: int = 0
    input_tokens: float = 0
    output_tokens: float = 0
    hit_rate: float = 0

    @property
    def tokens_in_use(self) -> int:
        """Tokens in its cache."""
        return int(self.kv_usage * self.kv_tokens)


@dataclass(frozen=True, slots=True)
class Variant:
    """A variant and its replicas: `current` exist, `desired` were asked for last (0: nothing was), `pending` are not
    ready. cost is that of a replica in any unit. batched_tokens and sequences are the engine's max_num_batched_tokens
    and max_num_seqs, 0 if unknown."""

    name: str
    current: int
    desired: int = 0
    pending: int = 0
    cost: float = 1
    role: Role = "both"
    min_replicas: int = 0
    max_replicas: int | None = None
    batched_tokens: int = 0
    sequences: int = 0


# V1


@dataclass(frozen=True, slots=True)
class Spare:
    """V1's view of a model: replicas that are not saturated, their mean spare capacity, and what follows."""

    unsaturated: int
    kv: float
    queue: float
    scale_up: bool
    scale_down_safe: bool


def spare_capacity(replicas: Sequence[Replica], limits: Thresholds) -> Spare:
    """Spare capacity over all variants. With every replica saturated it is 0, which asks for more."""
    if not replicas:
        return Spare(0, 0, 0, False, False)
    open_ones = [one for one in replicas if one.kv_usage < limits.kv and one.waiting < limits.queue]
    count = len(open_ones)
    kv = sum(limits.kv - one.kv_usage for one in open_ones) / count if count else 0.0
    queue = sum(limits.queue - one.waiting for one in open_ones) / count if count else 0.0
    safe = False
    if count >= 2:
        # Would the load of the open replicas, on one fewer, still leave the spare that starts a scale-up?
        factor = count / (count - 1)
        kv_left = limits.kv - (limits.kv - kv) * factor
        queue_left = limits.queue - (limits.queue - queue) * factor
        safe = kv_left >= limits.spare_kv and queue_left >= limits.spare_queue
    return Spare(count, kv, queue, kv < limits.spare_kv or queue < limits.spare_queue, safe)


def by_spare_capacity(
    variants: Sequence[Variant], replicas: Sequence[Replica], limits: Thresholds | None = None
) -> dict[str, int]:
    """V1: replicas per variant, at most one up or down a step. While any variant is on its way to its replicas, the
    whole model stands still: so a slow start also holds back every other decision."""
    limits = limits or Thresholds()
    reporting = {variant.name: sum(one.variant == variant.name for one in replicas) for variant in variants}
    seen = [variant for variant in variants if reporting[variant.name]]
    targets = {variant.name: variant.current for variant in variants}
    if not seen:
        return targets
    moving = {v.name: v.desired for v in seen if v.desired not in (0, v.current)}
    if moving or any(reporting[variant.name] != variant.current for variant in seen):
        return targets | moving
    spare = spare_capacity(replicas, limits)
    if spare.scale_up:
        able = [variant for variant in seen if variant.pending == 0]
        if able:
            targets[min(able, key=lambda variant: (variant.cost, variant.name)).name] += 1
    elif spare.scale_down_safe:
        # The dearest, and of equal ones the last by name, so that what grows first shrinks last.
        able = [variant for variant in seen if variant.current > max(1, variant.min_replicas)]
        if able:
            targets[max(able, key=lambda variant: (variant.cost, variant.name)).name] -= 1
    return _bounded(variants, targets)


def _bounded(variants: Sequence[Variant], targets: Mapping[str, int]) -> dict[str, int]:
    bounded = {}
    for variant in variants:
        most = targets[variant.name] if variant.max_replicas is None else variant.max_replicas
        bounded[variant.name] = max(variant.min_replicas, min(most, targets[variant.name]))
    return bounded


# V2


@dataclass(frozen=True)
class TokenHistory:
    """What V2 remembers: tokens seen in saturated replicas per variant and class of output length, and the last
    capacity of each variant."""

    saturated: Mapping[tuple[str, str], tuple[float, ...]]
    capacity: Mapping[str, float]


NO_HISTORY = TokenHistory({}, {})


@dataclass(frozen=True, slots=True)
class Queued:
    """Requests that wait before any replica: how many, and the bytes of their prompts."""

    requests: int = 0
    bytes: int = 0


NOTHING_QUEUED = Queued()


@dataclass(frozen=True)
class TokenDecision:
    """V2's outcome. required and spare are tokens per role; replicas per variant; history for the next step."""

    replicas: dict[str, int]
    required: dict[Role, float]
    spare: dict[Role, float]
    capacity: dict[str, float]
    history: TokenHistory


def by_tokens(
    variants: Sequence[Variant],
    replicas: Sequence[Replica],
    queued: Queued = NOTHING_QUEUED,
    history: TokenHistory = NO_HISTORY,
    limits: Thresholds | None = None,
) -> TokenDecision:
    """V2: demand in tokens against the capacity of what is ready and, for growth, also of what is still starting."""
    limits = limits or Thresholds()
    by_name = {variant.name: variant for variant in variants}
    seen: dict[tuple[str, str], tuple[float, ...]] = dict(history.saturated)
    known: dict[str, list[int]] = {}
    demand: dict[str, float] = {}
    for one in replicas:
        capacity = _replica_capacity(one, by_name[one.variant], seen, limits)
        known.setdefault(one.variant, []).append(capacity)
        used = one.tokens_in_use + one.waiting * int(one.input_tokens)
        demand[one.variant] = demand.get(one.variant, 0.0) + used
    each = dict(history.capacity)
    for name, capacities in known.items():
        each[name] = float(int(median(capacities)))

    waiting = _queued_tokens(replicas, queued)
    targets = {variant.name: variant.current for variant in variants}
    required: dict[Role, float] = {}
    spare: dict[Role, float] = {}
    for role in sorted({variant.role for variant in variants}):
        own = [variant for variant in variants if variant.role == role]
        total = sum(demand.get(variant.name, 0.0) for variant in own) + waiting[role]
        ready = sum(max(0, v.current - v.pending) * each.get(v.name, 0.0) for v in own)
        coming = sum(v.current * each.get(v.name, 0.0) for v in own)
        required[role] = max(0.0, total / limits.scale_up - coming)
        spare[role] = max(0.0, ready - total / limits.scale_down)
        if required[role] > 0:
            _grow(own, each, required[role], targets)
        elif spare[role] > 0:
            _shrink(own, each, spare[role], targets)
    return TokenDecision(_bounded(variants, targets), required, spare, each, TokenHistory(seen, each))


def output_class(tokens: float) -> str:
    """Class of output length under which what was seen is remembered."""
    return "short" if tokens < 100 else "medium" if tokens < 500 else "long"


def _replica_capacity(
    one: Replica, variant: Variant, seen: dict[tuple[str, str], tuple[float, ...]], limits: Thresholds
) -> int:
    """Lower of what the memory holds and what the compute sustains: seen while a queue stood, else remembered from such
    times, else derived from the engine's limits, else the memory's."""
    memory = int(one.kv_tokens * limits.kv)
    key = (variant.name, output_class(one.output_tokens))
    if one.waiting >= int(limits.queue) and one.tokens_in_use > 0:
        seen[key] = (*seen.get(key, ()), float(one.tokens_in_use))[-_HISTORY:]
        return min(memory, one.tokens_in_use)
    if remembered := seen.get(key):
        return min(memory, int(sum(remembered) / len(remembered)))
    if variant.batched_tokens > 0 and one.output_tokens > 0:
        i, o = one.input_tokens, one.output_tokens
        running = min(variant.batched_tokens * o / (i + o), variant.sequences)
        derived = int(running * (i + o / 2))
        if derived > 0:
            return min(memory, derived)
    return memory


def _queued_tokens(replicas: Sequence[Replica], queued: Queued) -> dict[Role, float]:
    measured = [one for one in replicas if one.input_tokens > 0 or one.output_tokens > 0]
    count = len(measured) or 1
    into = sum(one.input_tokens for one in measured) / count
    out = sum(one.output_tokens for one in measured) / count
    hits = sum(one.hit_rate for one in measured) / count
    prompts = max(queued.bytes / _BYTES_PER_TOKEN, queued.requests * into) * (1 - hits)
    answers = queued.requests * out
    return {"prefill": prompts, "decode": prompts + answers, "both": prompts + answers}


def _grow(variants: Sequence[Variant], each: Mapping[str, float], required: float, targets: dict[str, int]) -> None:
    """Replicas of the variant with the lowest cost of a token, then of the next where one is at its maximum."""
    able = [variant for variant in variants if each.get(variant.name, 0.0) > 0]
    for variant in sorted(able, key=lambda variant: (variant.cost / each[variant.name], variant.name)):
        if required <= 0:
            return
        room = math.inf if variant.max_replicas is None else variant.max_replicas - targets[variant.name]
        added = int(min(math.ceil(required / each[variant.name]), max(0, room)))
        targets[variant.name] += added
        required -= added * each[variant.name]


def _shrink(variants: Sequence[Variant], each: Mapping[str, float], spare: float, targets: dict[str, int]) -> None:
    """Whole replicas off the dearest variants first; the cheapest keeps one if no other has any."""
    able = [variant for variant in variants if each.get(variant.name, 0.0) > 0]
    ordered = sorted(able, key=lambda variant: (-variant.cost, each[variant.name], variant.name))
    for index, variant in enumerate(ordered):
        least = variant.min_replicas
        if index == len(ordered) - 1 and not any(targets[other.name] > 0 for other in ordered[:index]):
            least = max(1, least)
        removed = min(int(spare / each[variant.name]), targets[variant.name] - least)
        if removed > 0:
            targets[variant.name] -= removed
            spare -= removed * each[variant.name]
