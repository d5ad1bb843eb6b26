"""Inter-token latencies as the kernel counted them."""

import math
from dataclasses import dataclass

import numpy as np

from triplane.simulation.kernel.gaps import gap_edge
from triplane.simulation.requests import Ints


@dataclass(frozen=True)
class GapCounts:
    """Inter-token latencies as counts by size; subtract two for a window."""

    counts: Ints
    total: int
    seconds: float
    """Sum of all gaps."""

    def __sub__(self, earlier: "GapCounts") -> "GapCounts":
        return GapCounts(self.counts - earlier.counts, self.total - earlier.total, self.seconds - earlier.seconds)

    @property
    def mean(self) -> float:
        """Mean gap in seconds, exact; NaN without any."""
        return self.seconds / self.total if self.total else math.nan

    def percentile(self, p: float) -> float:
        """The gap of rank round((n - 1) p), to 1/4096: gaps lie evenly within a bin. NaN without any."""
        if not self.total:
            return math.nan
        rank = math.floor((self.total - 1) * p + 0.5)
        upto = np.cumsum(self.counts)
        at = int(np.searchsorted(upto, rank, side="right"))
        low, high = gap_edge(at), gap_edge(at + 1)
        inside = (rank - (int(upto[at]) - int(self.counts[at])) + 0.5) / int(self.counts[at])
        return low + (high - low) * inside
