"""What became of the requests that were offered: every one of them is counted, in exactly one place."""

from dataclasses import dataclass

import numpy as np

from triplane.simulation.kernel import Outcomes
from triplane.simulation.kernel.state import DONE, LOST, NEVER_SENT, REJECTED, TIMED_OUT
from triplane.simulation.requests import Ints


@dataclass(frozen=True)
class Tally:
    """Counts of requests; they add up to `offered`."""

    offered: int
    """Requests whose time came before the horizon, sent or not."""
    good: int
    """Served, and within the objectives."""
    late: int
    """Served, but too slowly."""
    dropped: int
    """Given up by the client, lost with a replica, or refused as too long."""
    unfinished: int
    """Sent, and still on their way at the horizon."""
    never_sent: int
    """Held back by the client's concurrency limit up to the horizon."""

    @property
    def goodput(self) -> float:
        """Share of what was offered that was served well; NaN if nothing was offered."""
        return self.good / self.offered if self.offered else float("nan")


def tally(
    outcomes: Outcomes, output_tokens: Ints, horizon: float, *, ttft: float | None = None, itl: float | None = None
) -> Tally:
    """Count outcomes at a horizon (seconds) against objectives: time to first token, and mean gap between tokens.

    Both run from the moment the request was offered, so waiting in the client or a failed attempt makes it late.
    """
    offered = outcomes.arrival < horizon
    served = offered & (outcomes.status == DONE)
    good = served.copy()
    if ttft is not None:
        good &= np.nan_to_num(outcomes.ttft, nan=np.inf) <= ttft
    if itl is not None:
        gaps = np.maximum(output_tokens - 1, 1)
        good &= np.nan_to_num((outcomes.finish - outcomes.first_token) / gaps, nan=np.inf) <= itl
    dropped = offered & np.isin(outcomes.status, (TIMED_OUT, LOST, REJECTED))
    # A retry that waits for its turn has been sent; its last attempt failed without an outcome yet.
    waiting_to_retry = dropped & np.isnan(outcomes.finish)
    never = offered & (outcomes.status == NEVER_SENT)
    total = int(offered.sum())
    lost = int(dropped.sum() - waiting_to_retry.sum())
    return Tally(
        offered=total,
        good=int(good.sum()),
        late=int(served.sum() - good.sum()),
        dropped=lost,
        unfinished=total - int(served.sum()) - lost - int(never.sum()),
        never_sent=int(never.sum()),
    )
