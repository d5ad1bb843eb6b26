"""Settings of KAI Scheduler that change its decisions."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Settings:
    """Scheduler settings with the product's defaults (v0.17). None for max_consolidation_victims is no bound.

    skip_no_easier: after a failed search, jobs of the same shape that are not easier to place are not tried in that
    cycle.
    """

    placement: Literal["binpack", "spread"] = "binpack"
    k_value: float = 1.0
    saturation_multiplier: float = 1.0
    consolidating_reclaim: bool = True
    max_consolidation_victims: int | None = 16
    skip_no_easier: bool = True
    staleness_grace_s: float = 60
    preempt_min_runtime_s: float = 0
    reclaim_min_runtime_s: float = 0
    reclaim_resolve: Literal["lca", "queue"] = "lca"
