"""Suppressions: who says that a rule's finding on an object is accepted, why, and until when.

Three places, one grammar:

    metadata.annotations["triplane.dev/ignore"]: "NP101 until=2027-01-31 reason=load test, ticket 1"   a line each
    # triplane: ignore[NP101, NP102] until=2027-01-31 reason=load test, ticket 1      a comment in the document
    {"triplane": {"suppressions": [{"rules": ["NP101"], "object": "NodePool/batch-*", "reason": "..."}]}}

Without a reason, or after its day, a suppression counts for nothing.
"""

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from triplane.documents import Path, Position
from triplane.inventory import Inventory, Resource

ANNOTATION = "triplane.dev/ignore"

_COMMENT = re.compile(r"triplane:\s*ignore\[([^\]]*)\](.*)")
_WORDS = re.compile(r"[\s,]+")
_REASON = re.compile(r"(?:^|\s)reason=(.*)", re.DOTALL)
_UNTIL = re.compile(r"(?:^|\s)until=(\S*)")


@dataclass(frozen=True, slots=True, eq=False)
class Suppression:
    """One suppression. In a configuration `object`, `file` and `urn` are patterns with *, empty for anything."""

    source: Literal["annotation", "comment", "config"]
    rules: tuple[str, ...]
    """As written: ids, slugs or former names."""
    reason: str = ""
    until: dt.date | None = None
    bad_until: str = ""
    """A date that is none, as written."""
    path: Path = ()
    place: Position | None = None
    resource: Resource | None = None
    """Of an annotation."""
    document: tuple[str, int] | None = None
    """Of a comment: the file and the number of its document."""
    object: str = ""
    file: str = ""
    urn: str = ""

    @property
    def inline(self) -> bool:
        """Whether it stands beside the object, so that whoever writes the object wrote it."""
        return self.source != "config"

    def names(self, resource: Resource | None) -> bool:
        """Whether an entry of a configuration speaks of that object; None: of the input as a whole."""
        if resource is None:
            return not (self.object or self.file or self.urn)
        short = f"{resource.kind_name}/{resource.name}"
        full = f"{resource.kind_name}/{resource.namespace}/{resource.name}"
        return (
            (not self.object or fnmatchcase(short, self.object) or fnmatchcase(full, self.object))
            and (not self.file or fnmatchcase(resource.origin.file, self.file))
            and (not self.urn or fnmatchcase(resource.origin.urn, self.urn))
        )


class Ledger:
    """The suppressions of one run, and what each took."""

    def __init__(
        self,
        suppressions: Iterable[Suppression] = (),
        *,
        ids: Mapping[str, str] | None = None,
        active: frozenset[str] = frozenset(),
        today: dt.date | None = None,
        longest_days: int | None = None,
    ) -> None:
        """`ids` maps every name of a rule to its id; `active` are the ids of the rules that are on."""
        self.entries = tuple(suppressions)
        self.today = today or dt.datetime.now(dt.UTC).date()
        self.longest_days = longest_days
        self.active = active
        self._ids = ids or {}
        self._used: dict[Suppression, set[str]] = {entry: set() for entry in self.entries}
        self._of_resource: dict[int, list[Suppression]] = {}
        self._of_document: dict[tuple[str, int], list[Suppression]] = {}
        self._of_config: list[Suppression] = []
        for entry in self.entries:
            if entry.resource is not None:
                self._of_resource.setdefault(id(entry.resource), []).append(entry)
            elif entry.document is not None:
                self._of_document.setdefault(entry.document, []).append(entry)
            else:
                self._of_config.append(entry)

    def rule_ids(self, entry: Suppression) -> dict[str, str | None]:
        """Each name it writes, with the id of that rule; None: there is no such rule."""
        return {name: self._ids.get(name, self._ids.get(name.upper())) for name in entry.rules}

    def matching(self, rule_id: str, resource: Resource | None) -> Iterator[Suppression]:
        """What speaks of that rule on that object, those of the configuration first. Marks them as used."""
        candidates = [entry for entry in self._of_config if entry.names(resource)]
        if resource is not None:
            candidates += self._of_resource.get(id(resource), ())
            candidates += self._of_document.get((resource.origin.file, resource.origin.document), ())
        for entry in candidates:
            if rule_id in self.rule_ids(entry).values():
                self._used[entry].add(rule_id)
                yield entry

    def is_used(self, entry: Suppression, rule_id: str) -> bool:
        """Whether there was something for it to take."""
        return rule_id in self._used[entry]

    def expired(self, entry: Suppression) -> bool:
        """Its last day is over."""
        return entry.until is not None and entry.until < self.today

    def lasts_too_long(self, entry: Suppression) -> bool:
        """It ends later than allowed, or never although it must."""
        if self.longest_days is None:
            return False
        return entry.until is None or (entry.until - self.today).days > self.longest_days

    def in_force(self, entry: Suppression) -> bool:
        """Whether it counts."""
        return bool(entry.reason) and not (entry.bad_until or self.expired(entry) or self.lasts_too_long(entry))


def inline_suppressions(inventory: Inventory) -> tuple[Suppression, ...]:
    """Those of annotations and comments. Use `inventory.relation(inline_suppressions)`."""
    return tuple(_inline(inventory))


def _inline(inventory: Inventory) -> Iterator[Suppression]:
    for resource in inventory.resources:
        for line in _annotation(resource.data).splitlines():
            if line.strip():
                path: Path = ("metadata", "annotations", ANNOTATION)
                yield _parsed("annotation", *_split(line), path=path, resource=resource)
    for comment in inventory.comments:
        if match := _COMMENT.search(comment.text):
            yield _parsed("comment", match[1], match[2], place=comment.place, document=comment.document)


def _annotation(data: dict[str, Any]) -> str:
    metadata = data.get("metadata")
    annotations = metadata.get("annotations") if metadata.__class__ is dict else None
    written = annotations.get(ANNOTATION) if annotations.__class__ is dict else None
    return written if written.__class__ is str else ""


def _split(line: str) -> tuple[str, str]:
    """`NP101 NP102 until=... reason=...` -> the names, and the rest."""
    starts = [match.start() for match in (_UNTIL.search(line), _REASON.search(line)) if match]
    end = min(starts, default=len(line))
    return line[:end], line[end:]


def _parsed(source: Literal["annotation", "comment"], names: str, rest: str, **where: Any) -> Suppression:
    reason = _REASON.search(rest)
    until = _UNTIL.search(rest[: reason.start()] if reason else rest)
    day, bad = read_day(until[1]) if until else (None, "")
    said = " ".join(reason[1].split()) if reason else ""
    return Suppression(source, tuple(filter(None, _WORDS.split(names))), said, day, bad, **where)


def read_day(text: str) -> tuple[dt.date | None, str]:
    """`2027-01-31` as a date, or what was written instead of one."""
    try:
        return dt.date.fromisoformat(text), ""
    except ValueError:
        return None, text or "(empty)"
