"""Findings as GitLab's code quality report: what a merge request shows beside the changed lines."""

import json
from typing import Any

from triplane.reporting.outcome import Outcome, relative
from triplane.rules import Finding, Severity
from triplane.rules.baseline import fingerprint

_SEVERITIES = {Severity.ERROR: "critical", Severity.WARNING: "minor", Severity.INFO: "info"}


def code_quality(outcome: Outcome) -> str:
    """The whole report: a list. Fingerprints differ, as GitLab asks: the second of an identity gets a number."""
    seen: dict[str, int] = {}
    entries = [_entry(outcome, finding, seen) for finding in outcome.sorted_findings]
    for missed in outcome.not_read:
        where = f"{missed.position.file}:{missed.reason}"
        entries.append(
            _issue("not-read", f"not read: {missed.reason}", where, "major", missed.position.file, missed.position.line)
        )
    return json.dumps(entries, indent=2, ensure_ascii=False) + "\n"


def _entry(outcome: Outcome, finding: Finding, seen: dict[str, int]) -> dict[str, Any]:
    print_ = fingerprint(finding)
    seen[print_] = number = seen.get(print_, 0) + 1
    place = outcome.file_place(finding)
    about = f"{finding.resource}: " if finding.resource else ""
    severity = "info" if finding.kind == "unknown" else _SEVERITIES[finding.severity]
    said = f"{about}{finding.message}" + (f". {finding.fix}" if finding.kind == "fail" else "")
    identity = print_ if number == 1 else f"{print_}-{number}"
    return _issue(
        finding.rule.id, said, identity, severity, place.file if place else "<stdin>", place.line if place else 0
    )


def _issue(name: str, text: str, identity: str, severity: str, file: str, line: int) -> dict[str, Any]:
    return {
        "description": text,
        "check_name": name,
        "fingerprint": identity,
        "severity": severity,
        "location": {"path": relative(file), "lines": {"begin": line or 1}},
    }
