"""Findings as GitHub Actions annotations, and a table for the job's summary.

GitHub shows ten errors and ten warnings of a step; all are in the summary.
"""

from collections.abc import Iterator

from triplane.reporting.findings import counted
from triplane.reporting.outcome import Outcome, relative
from triplane.rules import Finding, Severity

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
MAX_ROWS = 500
"""A step's summary may have 1 MiB."""


def annotations(outcome: Outcome) -> Iterator[str]:
    """One line a finding, the gravest first; what was not read; and the summary."""
    for finding in outcome.sorted_findings:
        command = "notice" if finding.kind == "unknown" else _COMMANDS[finding.severity]
        text = finding.message if finding.kind == "unknown" else f"{finding.message}\nFix: {finding.fix}"
        if finding.note:
            text += f"\n{finding.note}"
        about = f"{finding.resource}: " if finding.resource else ""
        yield f"::{command} {_properties(outcome, finding)}::{_data(about + text)}"
    for missed in outcome.not_read:
        place = missed.position
        line = f",line={place.line}" if place.line else ""
        yield f"::error file={_property(relative(place.file))}{line},title=not read::{_data(missed.reason)}"
    for defect in outcome.report.defects:
        yield f"::error title={defect.rule.id}::{_data(f'the rule failed to run: {defect.error}')}"
    yield counted(outcome.counts)


def job_summary(outcome: Outcome) -> str:
    """Markdown for the file that $GITHUB_STEP_SUMMARY names."""
    lines = ["## Triplane", "", counted(outcome.counts), ""]
    findings = outcome.sorted_findings
    if findings:
        lines += ["| rule | object | place | what | fix |", "|---|---|---|---|---|"]
        lines += [_row(outcome, finding) for finding in findings[:MAX_ROWS]]
        if len(findings) > MAX_ROWS:
            lines += ["", f"and {len(findings) - MAX_ROWS} more"]
    if outcome.not_read:
        lines += ["", "Not read:", "", *(f"- {_cell(str(missed))}" for missed in outcome.not_read[:MAX_ROWS])]
    return "\n".join(lines) + "\n"


def _row(outcome: Outcome, finding: Finding) -> str:
    place = outcome.file_place(finding)
    word = "unknown" if finding.kind == "unknown" else str(finding.severity)
    cells = (
        f"{word} {finding.rule.id}",
        str(finding.resource or ""),
        str(place or ""),
        finding.message,
        finding.fix if finding.kind == "fail" else "",
    )
    return f"| {' | '.join(map(_cell, cells))} |"


def _properties(outcome: Outcome, finding: Finding) -> str:
    place = outcome.file_place(finding)
    parts = [f"title={finding.rule.id} {finding.rule.slug}"]
    if place:
        parts = [f"file={_property(relative(place.file))}", *parts]
        if place.line:
            parts[1:1] = [f"line={place.line}", f"endLine={place.line}", f"col={place.column or 1}"]
    return ",".join(parts)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
