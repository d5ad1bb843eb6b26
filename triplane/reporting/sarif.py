"""Findings as SARIF 2.1.0, for GitHub code scanning and other viewers.

GitHub tells results apart by rule, path and fingerprint: paths are relative and ours is the fingerprint, so that a
finding stays one finding when lines move.
"""

import json
from typing import Any

from triplane import __version__
from triplane.documents import DocumentError, Position, render_path
from triplane.documents.editing import TextEdit
from triplane.inventory import Resource
from triplane.reporting.fixing import text_edits
from triplane.reporting.outcome import Outcome, object_path, uri
from triplane.reporting.rule_pages import page
from triplane.rules import Finding, Rule, Severity
from triplane.rules.baseline import fingerprint

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_PROBLEMS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "recommendation"}


def sarif(outcome: Outcome) -> str:
    """The whole log: one run."""
    report = outcome.report
    findings = [
        *((finding, None, "new") for finding in outcome.sorted_findings),
        *((suppressed.finding, suppressed.by, "new") for suppressed in report.suppressed),
        *((finding, None, "unchanged") for finding in report.baselined),
    ]
    rules = sorted({finding.rule for finding, _, _ in findings}, key=lambda rule: rule.id)
    index = {rule: number for number, rule in enumerate(rules)}
    results = []
    for finding, by, state in findings:
        result = _result(outcome, finding, index[finding.rule])
        if by is not None:
            kind = "inSource" if by.inline else "external"
            result["suppressions"] = [{"kind": kind, "status": "accepted", "justification": by.reason}]
        if report.baselined:
            result["baselineState"] = state
        results.append(result)
    run = {
        "tool": {
            "driver": {
                "name": "triplane",
                "semanticVersion": __version__,
                "rules": [_rule(rule) for rule in rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": results,
        "invocations": [
            {
                "executionSuccessful": not report.defects,
                "toolExecutionNotifications": [
                    *(
                        {
                            "level": "warning",
                            "message": {"text": f"not read: {missed.reason}"},
                            "locations": [_location(missed.position)],
                        }
                        for missed in outcome.not_read
                    ),
                    *(
                        {"level": "error", "message": {"text": f"{d.rule.id} failed on {d.resource}: {d.error}"}}
                        for d in report.defects
                    ),
                ],
            }
        ],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False) + "\n"


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in rule.slug.split("-")),
        "shortDescription": {"text": f"{rule.title}."},
        "fullDescription": {"text": " ".join(rule.why.split()) or rule.title},
        "help": {"text": rule.fix, "markdown": page(rule)},
        "helpUri": rule.sources[0],
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {
            "tags": [str(rule.profile), rule.layer.title],
            "precision": "high" if rule.scope == "object" else "medium",
            "problem.severity": _PROBLEMS[rule.severity],
        },
    }


def _result(outcome: Outcome, finding: Finding, index: int) -> dict[str, Any]:
    unknown = finding.kind == "unknown"
    text = f"{finding.message}." if unknown else f"{finding.message}.\n{finding.fix}"
    result: dict[str, Any] = {
        "ruleId": finding.rule.id,
        "ruleIndex": index,
        # A result of another kind than fail has the level none (SARIF 3.27.10).
        "kind": "open" if unknown else "fail",
        "level": "none" if unknown else _LEVELS[finding.severity],
        "message": {"text": text + (f"\n{finding.note}" if finding.note else "")},
        "locations": [_located(finding.resource, outcome.file_place(finding), render_path(finding.path))],
        "partialFingerprints": {"identity/v1": fingerprint(finding)},
    }
    if finding.verdict.related:
        result["relatedLocations"] = [
            {"id": number, **_located(other, outcome.place_of(other)), "message": {"text": str(other)}}
            for number, other in enumerate(finding.verdict.related, 1)
        ]
    if fix := _fix(outcome, finding):
        result["fixes"] = [fix]
    return result


def _located(resource: Resource | None, position: Position | None, path: str = "") -> dict[str, Any]:
    location = _location(position or Position("stdin"))
    if resource is not None:
        name = object_path(resource)
        location["logicalLocations"] = [
            {
                "name": path or resource.name,
                "fullyQualifiedName": f"{name}#{path}" if path else name,
                "kind": "resource",
            }
        ]
    return location


def _location(position: Position) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": uri(position.file)}}
    # GitHub shows a result without a region nowhere; the first line stands for the file as a whole.
    physical["region"] = {"startLine": position.line or 1, "startColumn": position.column or 1}
    physical["region"]["endLine"] = physical["region"]["startLine"]
    return {"physicalLocation": physical}


def _fix(outcome: Outcome, finding: Finding) -> dict[str, Any] | None:
    if not finding.edits or finding.resource is None or finding.resource.origin.line:
        return None
    file = finding.resource.origin.file
    try:
        text = outcome.sources.text(file)
    except (OSError, DocumentError):  # it has changed since it was judged: no fix is better than a wrong one
        return None
    edits = text_edits(finding, text)
    if not edits:
        return None
    replacements = [{"deletedRegion": _region(edit, text), "insertedContent": {"text": edit.text}} for edit in edits]
    change = {"artifactLocation": {"uri": uri(file)}, "replacements": replacements}
    return {"description": {"text": finding.fix}, "artifactChanges": [change]}


def _region(edit: TextEdit, text: str) -> dict[str, int]:
    def place(index: int) -> tuple[int, int]:
        return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)

    (line, column), (end_line, end_column) = place(edit.start), place(edit.end)
    return {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column}
