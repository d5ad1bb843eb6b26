"""Reading fields of objects that anyone may have written: any value may be missing, of the wrong type or not yet known.

A field of the wrong type reads as absent, since the API server refuses or prunes it. A value the Pulumi engine does not
know yet is an `Unknown`; reading it raises `UnknownValue`, which the rule engine turns into the verdict "unknown".
"""

import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from triplane.documents import Path, render_path

NOTHING: Final[Mapping[str, Any]] = {}


class Unknown:
    """Stands where a value will be known only after an update. Carries its own path inside the object."""

    __slots__ = ("path",)

    def __init__(self, path: Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"<unknown {render_path(self.path)}>"


class UnknownValue(Exception):
    """A judgement needed a value that is not known yet."""

    def __init__(self, path: Path) -> None:
        super().__init__(render_path(path))
        self.path = path


def known(value: Any) -> Any:
    """`value` itself; raises UnknownValue when it is not known yet."""
    if value.__class__ is Unknown:
        raise UnknownValue(value.path)
    return value


def mapping(value: Any) -> Mapping[str, Any]:
    """`value` if it is a mapping, else an empty one."""
    if value.__class__ is dict:
        return value
    known(value)
    return NOTHING


def sequence(value: Any) -> Sequence[Any]:
    """`value` if it is a list, else an empty one."""
    if value.__class__ is list:
        return value
    known(value)
    return ()


def text(value: Any) -> str | None:
    """`value` if it is text, else None."""
    if value.__class__ is str:
        return value
    known(value)
    return None


def at(value: Any, *path: str | int) -> Any:
    """The value at `path` below `value`, or None. `at(pool, "spec", "limits")`."""
    for part in path:
        if value.__class__ is dict:
            value = value.get(part)
        elif value.__class__ is list and part.__class__ is int:
            value = value[part] if 0 <= part < len(value) else None
        else:
            known(value)
            return None
    return known(value)


def number(value: Any) -> float | None:
    """A finite JSON number as a float; None for anything else, booleans too."""
    if value.__class__ is int or value.__class__ is float:
        return float(value) if abs(value) < 1e300 else None
    known(value)
    return None


_SUFFIXES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    **{letter: Decimal(1000**power) for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": Decimal(1024**power) for power, letter in enumerate("KMGTPE", 1)},
}
_QUANTITY = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:([eE][+-]?[0-9]{1,3})|([numkMGTPE]|[KMGTPE]i)?)")


def quantity(value: Any) -> float | None:
    """A Kubernetes quantity in its base unit: `"500m"` -> 0.5, `"16Gi"` -> 17179869184.0, `8` -> 8.0. None: not one."""
    if value.__class__ is not str:
        return number(value)
    match = _QUANTITY.fullmatch(value)
    if match is None:
        return None
    digits, exponent, suffix = match.groups()
    try:
        amount = float(Decimal(digits + (exponent or "")) * _SUFFIXES[suffix or ""])
    except InvalidOperation:
        return None
    return amount if math.isfinite(amount) else None


_DURATION_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")


def duration(value: Any) -> float | None:
    """Go's duration text in seconds: `"1h30m"` -> 5400.0, `"0"` -> 0.0. None: not one (`"1d"`, `"Never"`, `30`)."""
    written = text(value)
    if written is None:
        return None
    if written == "0":
        return 0.0
    sign, rest = (-1.0, written[1:]) if written[:1] == "-" else (1.0, written.removeprefix("+"))
    total, end = 0.0, 0
    for part in _DURATION_PART.finditer(rest):
        if part.start() != end:
            return None
        total += float(part[1]) * _DURATION_UNITS[part[2]]
        end = part.end()
    return sign * total if end and end == len(rest) else None
