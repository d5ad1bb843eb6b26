"""How long a step takes, and how a run of decode steps is counted in closed form.

Fused: one pass over prompt and decode tokens. A prompt chunk from token s to e costs p1 (e - s) + p2 (e^2 - s^2), so
its attention to earlier chunks is paid for and a prompt costs the same in one piece or in chunks; decodes add b a
sequence and c a KV token; the base is paid once. Pure decode of B sequences with K KV tokens: a + b B + c K, which
grows by c B a step: k steps take k d0 + c B k (k - 1) / 2.

DynoSim: prefill and decode one after the other, KV counted in whole blocks, B implied by K over a rounded mean length,
at least 1 ms, each rounded to a nanosecond. Not linear, so its runs are gone through step by step.
"""

import math

from triplane.simulation.kernel.state import TIE, World


def blocks_needed(w: World, slot: int, steps: int) -> int:
    """Blocks that the decodes need for so many further steps, from their next block borders."""
    rep = w.replicas[slot]
    size = w.engines[rep.role].block_size
    base = slot * size
    whole = steps // size
    need = whole * rep.decoding
    at = -rep.step % size
    for _ in range(steps - whole * size):
        need += w.phases[base + at]
        at = at - 1 if at > 0 else size - 1
    return need


def steps_that_fit(w: World, slot: int, available: int, limit: int) -> int:
    """How many steps, at most `limit`, the decodes can take before one finds no block."""
    rep = w.replicas[slot]
    size = w.engines[rep.role].block_size
    if available >= rep.decoding * (limit // size + 1):
        return limit
    base = slot * size
    cycles = available // rep.decoding
    left = available - cycles * rep.decoding
    steps = cycles * size
    at = -rep.step % size
    while steps < limit:
        left -= w.phases[base + at]
        if left < 0:
            break
        steps += 1
        at = at - 1 if at > 0 else size - 1
    return min(steps, limit)


def nanoseconds(seconds: float) -> float:
    """Rounded to a nanosecond, as DynoSim keeps its durations."""
    return math.floor(seconds * 1e9 + 0.5) / 1e9


def dynosim_decode(w: World, slot: int, sequences: int, lengths: int, used: int) -> float:
    """DynoSim's decode step: `sequences` of `lengths` tokens in sum, with `used` blocks in use."""
    e = w.engines[w.replicas[slot].role]
    tokens = used * e.block_size
    mean = max(lengths // sequences, 1)
    seconds = e.decode_base + e.decode_sequence * tokens / mean + e.decode_token * tokens
    return nanoseconds(max(seconds, 0.001))


def decode_time(w: World, slot: int, sequences: int, lengths: int) -> float:
    """One fused decode step. Beyond the captured CUDA graphs each step pays the eager base on top."""
    e = w.engines[w.replicas[slot].role]
    seconds = e.decode_base + e.decode_sequence * sequences + e.decode_token * lengths
    if sequences > e.graph_batch:
        seconds += e.eager_base
    return seconds


def run_end(w: World, slot: int, steps: int) -> float:
    """When a run of so many decode steps from `start` ends."""
    rep = w.replicas[slot]
    e = w.engines[rep.role]
    k = float(steps)
    growth = e.decode_token * rep.decoding
    return rep.start + (k * rep.first_step + growth * (k * (k - 1.0) / 2.0))


def steps_until(w: World, slot: int, t: float, limit: int) -> int:
    """Steps of the present run up to its first border that a request arriving at t can join; at most `limit`."""
    rep = w.replicas[slot]
    e = w.engines[rep.role]
    if limit == 1:
        return 1
    growth = e.decode_token * rep.decoding
    half = growth * 0.5
    linear = rep.first_step - half
    gap = t - rep.start
    if gap <= 0.0:
        return 1
    k = int(2.0 * gap / (linear + math.sqrt(linear * linear + 4.0 * half * gap)))
    k = max(1, min(k, limit))
    while k < limit and run_end(w, slot, k) + TIE < t:
        k += 1
    while k > 1 and run_end(w, slot, k - 1) + TIE >= t:
        k -= 1
    return k
