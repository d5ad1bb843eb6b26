"""The load: real traces, generated arrivals and lengths, and what became of what was offered."""

from triplane.simulation.workload.arrivals import (
    RateCurve,
    arrivals,
    burst,
    constant,
    diurnal,
    generate,
    ramp,
    repeat,
    step,
    with_long_prompt,
)
from triplane.simulation.workload.lengths import EmpiricalLengths, FixedLengths, Lengths, LognormalLengths
from triplane.simulation.workload.tally import Tally, tally
from triplane.simulation.workload.traces import Trace, TraceError, read_trace

__all__ = [
    "EmpiricalLengths",
    "FixedLengths",
    "Lengths",
    "LognormalLengths",
    "RateCurve",
    "Tally",
    "Trace",
    "TraceError",
    "arrivals",
    "burst",
    "constant",
    "diurnal",
    "generate",
    "ramp",
    "read_trace",
    "repeat",
    "step",
    "tally",
    "with_long_prompt",
]
