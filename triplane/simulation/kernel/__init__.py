"""The serving kernel: continuous batching on many replicas, exact to the step, without doing every step.

`serving` is its face. `steps`, `events` and what they use are written so that plain Python and numba run the same
source to the same bits: only + - * / sqrt, comparisons and exact `math` functions, and no random numbers.
"""

from triplane.simulation.kernel.compile import COMPILE_FROM, numba_available
from triplane.simulation.kernel.gapcounts import GapCounts
from triplane.simulation.kernel.serving import (
    ClientModel,
    EngineLimits,
    Outcomes,
    ReplicaSignals,
    Role,
    Routing,
    Serving,
    StepTimes,
)

__all__ = [
    "COMPILE_FROM",
    "ClientModel",
    "EngineLimits",
    "GapCounts",
    "Outcomes",
    "ReplicaSignals",
    "Role",
    "Routing",
    "Serving",
    "StepTimes",
    "numba_available",
]
