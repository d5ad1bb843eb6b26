"""Which release of a controller can do what, and which releases have a known fault."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from triplane.catalog.data import UnknownName, load, nearest_names, release


@dataclass(frozen=True, slots=True)
class Feature:
    """Something a controller can do from one release on."""

    controller: str
    name: str
    since: str
    until: str | None
    """First release without it; None: still there."""
    gate: str | None
    """Feature gate that must be on besides."""
    note: str


@dataclass(frozen=True, slots=True)
class KnownIssue:
    """A fault that releases from `since` up to, not including, `until` have."""

    controller: str
    topic: str
    since: str
    until: str
    note: str


@dataclass(frozen=True, slots=True)
class RollingUpgrade:
    """A release whose installation by itself replaces every node."""

    at: str
    note: str


def _controller(name: str) -> dict[str, Any]:
    data = load("controllers")
    known = tuple(key for key, value in data.items() if isinstance(value, dict))
    if name not in known:
        raise UnknownName("controller", name, nearest_names(name, known))
    section: dict[str, Any] = data[name]
    return section


def features(controller: str) -> tuple[str, ...]:
    """The features known of a controller. Raises UnknownName."""
    return tuple(_controller(controller)["features"])


def feature(controller: str, name: str) -> Feature:
    """One feature: since when, until when, behind which gate. Raises UnknownName."""
    rows = _controller(controller)["features"]
    if name not in rows:
        raise UnknownName(f"{controller} feature", name, nearest_names(name, tuple(rows)))
    row = rows[name]
    return Feature(controller, name, row["since"], row.get("until"), row.get("gate"), row["note"])


@cache
def supports(controller: str, version: str, name: str) -> bool:
    """Whether this release has the feature; the gate, where it has one, is the caller's to check.

    False for a feature that is known of other controllers but not of this one: engines share feature names.
    Raises UnknownName for a controller or a feature that nobody has.
    """
    if name not in _controller(controller)["features"]:
        everywhere = [rows["features"] for rows in load("controllers").values() if isinstance(rows, dict)]
        if not any(name in rows for rows in everywhere):
            feature(controller, name)
        return False
    found = feature(controller, name)
    at = release(version)
    return release(found.since) <= at and (found.until is None or at < release(found.until))


def known_issues(controller: str, version: str) -> tuple[KnownIssue, ...]:
    """The known faults of this release. Raises UnknownName for an unknown controller."""
    rows = (KnownIssue(controller=controller, **row) for row in _controller(controller)["issues"])
    return tuple(row for row in rows if release(row.since) <= release(version) < release(row.until))


def rolling_upgrades(controller: str) -> tuple[RollingUpgrade, ...]:
    """The releases that replace every node when one upgrades across them. Raises UnknownName."""
    return tuple(RollingUpgrade(**row) for row in _controller(controller).get("rolls", ()))


def supported_releases(controller: str) -> tuple[str, str] | None:
    """First and last minor release whose objects are known here; None: no such list. Raises UnknownName."""
    span = _controller(controller)["supported"]
    return (span[0], span[1]) if span else None


def oldest_for_kubernetes(controller: str, kubernetes: str) -> str | None:
    """The oldest release of a controller that runs on this Kubernetes minor; None: not known. Raises UnknownName."""
    minor = ".".join(kubernetes.split(".")[:2])
    oldest: str | None = _controller(controller)["kubernetes"].get(minor)
    return oldest
