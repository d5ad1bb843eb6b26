"""The requests of one simulation, as columns."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def _no_ids() -> Ints:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class Requests:
    """n requests in order of arrival. Arrays are not copied: leave them alone afterwards."""

    arrival: Floats
    """Seconds from the start of the simulation, ascending, shape (n,)."""
    input_tokens: Ints
    """Prompt tokens, at least 1, shape (n,)."""
    output_tokens: Ints
    """Tokens generated, at least 1, shape (n,)."""
    prefix_start: Ints = field(default_factory=_no_ids)
    """Where each request's prefix ids begin, shape (n + 1,); empty where the trace knows none."""
    prefix_ids: Ints = field(default_factory=_no_ids)
    """Names of the prompts' blocks: two prompts share their first blocks as far as their ids agree."""
    prefix_block: int = 0
    """Tokens that one prefix id stands for."""

    def __post_init__(self) -> None:
        """Raise ValueError where the columns contradict each other."""
        n = len(self.arrival)
        if len(self.input_tokens) != n or len(self.output_tokens) != n:
            raise ValueError("arrival, input_tokens and output_tokens must have the same length")
        if n and not (np.isfinite(self.arrival).all() and self.arrival[0] >= 0 and (np.diff(self.arrival) >= 0).all()):
            raise ValueError("arrival must be finite, not negative and ascending")
        if n and (self.input_tokens.min() < 1 or self.output_tokens.min() < 1):
            raise ValueError("every request needs at least 1 prompt token and 1 output token")
        if self.has_prefixes and (len(self.prefix_start) != n + 1 or self.prefix_block < 1):
            raise ValueError("prefix_start needs one entry more than there are requests, and prefix_block a size")

    def __len__(self) -> int:
        return len(self.arrival)

    @property
    def has_prefixes(self) -> bool:
        """Whether prompts say which blocks they share."""
        return len(self.prefix_start) > 0
