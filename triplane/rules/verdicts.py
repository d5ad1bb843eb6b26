"""What a judgement says: fail or unknown, with place, value found, consequence and fix. Silence is pass."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from triplane.documents import Path, Position, render_path
from triplane.inventory import Resource, Unknown

Kind = Literal["fail", "unknown"]

# A value shown in a message: long enough for a query, short enough for a terminal and an annotation.
SHOWN_CHARACTERS = 120


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of an object: set the value at `path`, adding it where it is missing, or remove it (`remove`)."""

    path: Path
    value: Any = None
    remove: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """One verdict on one object. `resource` is set where the finding belongs to another object than the one judged,
    `place` where it belongs to a place that no path of an object leads to."""

    kind: Kind
    path: Path
    found: str
    consequence: str
    fix: str = ""
    edits: tuple[Edit, ...] = ()
    related: tuple[Resource, ...] = ()
    resource: Resource | None = None
    place: Position | None = None

    @property
    def message(self) -> str:
        """`spec.a.b is x: what follows from it`; for unknown, `spec.a.b: what is missing`."""
        said = f" {self.found}" if self.found and self.path else ""
        about = f"{render_path(self.path)}{said}"
        return f"{about}: {self.consequence}" if about else self.consequence


Verdicts = Iterator[Verdict]


def fail(
    path: Path,
    found: Any,
    consequence: str,
    *,
    default: str = "",
    fix: str = "",
    edits: tuple[Edit, ...] = (),
    related: tuple[Resource, ...] = (),
    on: Resource | None = None,
    place: Position | None = None,
) -> Verdict:
    """The object is wrong at `path`, where `found` stands (None: nothing does, so `default` holds).

    `consequence` is one line of what will happen. `fix` replaces the rule's general fix where this object allows a more
    exact one; `edits` are given only where exactly one value is safe.
    """
    return Verdict("fail", path, described(found, default), consequence, fix, edits, related, on, place)


def unknown(path: Path, why: str, *, related: tuple[Resource, ...] = ()) -> Verdict:
    """It cannot be told whether the object is wrong; `why` says what is missing."""
    return Verdict("unknown", path, "", why, related=related)


def described(found: Any, default: str = "") -> str:
    """A found value in words: `is WhenEmpty`, `is not set (default 0s)`."""
    if found is None:
        return f"is not set (default {default})" if default else "is not set"
    if isinstance(found, bool):
        return "is true" if found else "is false"
    if isinstance(found, float) and found.is_integer():
        found = int(found)
    if isinstance(found, dict | list | Unknown):
        return "is set" if found else "is empty"
    shown = " ".join(str(found).split())
    if not shown:
        return "is empty"
    return f"is {shown if len(shown) <= SHOWN_CHARACTERS else shown[: SHOWN_CHARACTERS - 3] + '...'}"
