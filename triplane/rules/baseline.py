"""A baseline: the findings that are there already, so that a run fails on new ones only.

A file of JSON without line numbers, so that moving an object or a file changes nothing: a finding is known by its rule,
its object (kind, namespace, name) and the fields of its path. `count` says how often, for objects of one name in
several files.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

from triplane.documents import DocumentError, Position, decode, read_documents
from triplane.rules.config import Level
from triplane.rules.doors import BASELINE_IS_NEEDED
from triplane.rules.engine import Finding, Report
from triplane.rules.verdicts import fail

SCHEMA = 1

Identity = tuple[str, str, str, str, str]
"""Rule, kind, namespace, name, path without positions in lists."""


def identity(finding: Finding) -> Identity:
    """What makes a finding the same finding in another commit."""
    resource = finding.resource
    path = ".".join(part for part in finding.path if isinstance(part, str))
    if resource is None:
        return finding.rule.id, "", "", "", path
    return finding.rule.id, resource.kind, resource.namespace, resource.name, path


def fingerprint(finding: Finding) -> str:
    """The identity as 32 hexadecimal digits."""
    return _digest(identity(finding))


def _digest(key: Identity) -> str:
    return hashlib.sha256("\0".join(key).encode()).hexdigest()[:32]


class Baseline:
    """Counts of findings by identity."""

    def __init__(self, counts: Counter[Identity]) -> None:
        self.counts = counts

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> "Baseline":
        return cls(Counter(identity(finding) for finding in findings if finding.kind == "fail"))

    @classmethod
    def read(cls, path: str) -> "Baseline":
        """The baseline of a file. Raises DocumentError, OSError."""
        document = next(read_documents(decode(FilePath(path).read_bytes(), path), path), None)
        value = document.value if document else None
        entries = value.get("findings") if isinstance(value, dict) else None
        if not isinstance(entries, list) or not isinstance(value, dict) or value.get("schema") != SCHEMA:
            raise DocumentError(Position(path, 1, 1), "this is no baseline: write one with --write-baseline")
        return cls(Counter({_key(entry): int(entry.get("count", 1)) for entry in entries if isinstance(entry, dict)}))

    def text(self) -> str:
        """The file: sorted, so that its differences are small."""
        entries = [_entry(key, count) for key, count in sorted(self.counts.items())]
        return json.dumps({"schema": SCHEMA, "findings": entries}, indent=2) + "\n"

    def write(self, path: str) -> None:
        """Writes the file, whole or not at all. Raises OSError."""
        target = FilePath(path)
        unfinished = target.with_name(f".{target.name}.unfinished")
        unfinished.write_text(self.text(), encoding="utf-8")
        unfinished.replace(target)

    def applied(self, report: Report, path: str) -> Report:
        """The report without what is in the baseline, and with PH804 for entries of its rules that match nothing."""
        left = Counter(self.counts)
        kept: list[Finding] = []
        known: list[Finding] = []
        for finding in report.findings:
            key = identity(finding)
            if finding.kind == "fail" and left[key] > 0:
                left[key] -= 1
                known.append(finding)
            else:
                kept.append(finding)
        ran = {rule.id for rule in report.rules}
        kept += [_not_needed(key, count, path) for key, count in sorted(left.items()) if count > 0 and key[0] in ran]
        return replace(report, findings=tuple(kept), baselined=tuple(known))

    def pruned(self, report: Report) -> "Baseline":
        """What of it still matches the report of a run without it; entries of rules that did not run stay."""
        found, ran = Baseline.of(report.findings).counts, {rule.id for rule in report.rules}
        left = {key: count if key[0] not in ran else min(count, found[key]) for key, count in self.counts.items()}
        return Baseline(Counter({key: count for key, count in left.items() if count > 0}))


def _key(entry: dict[str, Any]) -> Identity:
    return tuple(str(entry.get(name, "")) for name in _NAMES)  # type: ignore[return-value]


_NAMES = ("rule", "kind", "namespace", "name", "path")


def _entry(key: Identity, count: int) -> dict[str, Any]:
    entry: dict[str, Any] = {name: part for name, part in zip(_NAMES, key, strict=True) if part}
    return entry | {"fingerprint": _digest(key)} | ({"count": count} if count > 1 else {})


def _not_needed(key: Identity, count: int, path: str) -> Finding:
    rule, kind, namespace, name, field = key
    about = "/".join(part for part in (kind.partition(".")[0], namespace, name) if part) or "the input"
    times = f" {count} times" if count > 1 else ""
    said = f"the baseline holds {rule} at {field or 'the object'} of {about}{times}, which is not found any more"
    return Finding(BASELINE_IS_NEEDED, Level.ADVISORY, None, fail((), None, said, place=Position(path)))
