"""Where a coefficient of a simulation comes from: every number in a result has a line here."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["declared", "input", "measured", "published", "derived", "assumed"]
"""declared: the stack file says so. input: the scenario or the command says so. measured: fitted to a published
measurement. published: a vendor's or project's own figure. derived: computed from the others. assumed: nobody has
published it, so that it should be tried with other values."""


@dataclass(frozen=True, slots=True)
class Coefficient:
    """One number with its origin."""

    name: str
    value: float | str
    unit: str
    kind: Kind
    source: str
