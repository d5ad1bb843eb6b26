"""Decode gaps (inter-token latency) as counts by size: no storage per token.

Every factor of two is cut into `GAP_CUTS` equal bins, so a bin is at most 1/4096 of its value wide. A run of steps
whose time grows evenly is spread over the bins it crosses.
"""

import math

from triplane.simulation.kernel.state import World

GAP_CUTS = 4096
GAP_LOWEST = -14  # 2**-15 s = 30 us; shorter gaps count in the first bin
GAP_OCTAVES = 36  # up to 2**21 s


def gap_bin(gap: float) -> int:
    """The bin of a gap in seconds."""
    if gap <= 0.0:
        return 0
    fraction, exponent = math.frexp(gap)
    at = (exponent - GAP_LOWEST) * GAP_CUTS + int((fraction - 0.5) * (2 * GAP_CUTS))
    return max(0, min(at, GAP_CUTS * GAP_OCTAVES - 1))


def gap_edge(at: int) -> float:
    """Lower edge of a bin, seconds."""
    octave = at // GAP_CUTS
    return math.ldexp(0.5 + (at - octave * GAP_CUTS) / (2.0 * GAP_CUTS), octave + GAP_LOWEST)


def add_gap(w: World, gap: float, count: int) -> None:
    """Count a gap that `count` tokens had."""
    c = w.client[0]
    w.itl[gap_bin(gap)] += count
    c.itl_count += count
    c.itl_sum += gap * count


def add_gaps(w: World, first: float, growth: float, steps: int, count: int, total: float) -> None:
    """Count the gaps of a run: first, first + growth, ... each for `count` tokens; `total` is their sum."""
    c = w.client[0]
    c.itl_count += steps * count
    c.itl_sum += total * count
    itl = w.itl
    low = gap_bin(first)
    high = gap_bin(first + growth * (steps - 1))
    if low == high:
        itl[low] += steps * count
        return
    octave = low - low % GAP_CUTS
    if steps < high - low and high < octave + GAP_CUTS:  # fewer steps than bins, in one octave: a step at a time
        edge = gap_edge(octave)
        scale = GAP_CUTS / edge
        for i in range(steps):
            itl[octave + int((first + growth * i - edge) * scale)] += count
        return
    done = 0
    while low < high:
        edge = gap_edge(low + 1)
        width = gap_edge(low + 2) - edge  # of every bin up to the next power of two
        for _ in range(min(high - low, GAP_CUTS - 1 - low % GAP_CUTS) or 1):
            upto = min(math.ceil((edge - first) / growth), steps)
            if upto > done:
                itl[low] += (upto - done) * count
                done = upto
            low += 1
            edge += width
    itl[high] += (steps - done) * count
