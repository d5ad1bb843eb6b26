"""Findings as JSON: a schema with a version, for programs. docs/findings.schema.json describes it."""

import json
from typing import Any

from triplane import __version__
from triplane.documents import Position, render_path
from triplane.inventory import Resource
from triplane.reporting.outcome import Outcome
from triplane.rules import Finding
from triplane.rules.baseline import fingerprint

SCHEMA = 1
"""Grows when a field goes or changes its meaning. New fields do not change it."""


def json_report(outcome: Outcome) -> str:
    """The whole report, one object."""
    report = outcome.report
    value = {
        "schema": SCHEMA,
        "tool": {"name": "triplane", "version": __version__},
        "summary": outcome.counts,
        "findings": [_finding(outcome, finding) for finding in outcome.sorted_findings],
        "suppressed": [
            _finding(outcome, suppressed.finding)
            | {
                "suppression": {
                    "source": suppressed.by.source,
                    "reason": suppressed.by.reason,
                    "until": suppressed.by.until.isoformat() if suppressed.by.until else None,
                }
            }
            for suppressed in report.suppressed
        ],
        "baselined": [_finding(outcome, finding) for finding in report.baselined],
        "notRead": [_position(missed.position) | {"reason": missed.reason} for missed in outcome.not_read],
        "defects": [{"rule": d.rule.id, "object": _object(d.resource), "error": d.error} for d in report.defects],
    }
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _finding(outcome: Outcome, finding: Finding) -> dict[str, Any]:
    resource = finding.resource
    return {
        "rule": finding.rule.id,
        "slug": finding.rule.slug,
        "severity": str(finding.severity),
        "verdict": finding.kind,
        "level": finding.level.value,
        "object": _object(resource),
        "path": render_path(finding.path),
        "message": finding.message,
        "note": finding.note,
        "fix": finding.fix,
        "fixable": bool(finding.edits),
        **_position(outcome.place(finding)),
        "urn": resource.origin.urn if resource and resource.origin.urn else None,
        "related": [
            {"object": _object(other), **_position(outcome.place_of(other))} for other in finding.verdict.related
        ],
        "page": finding.rule.page,
        "fingerprint": fingerprint(finding),
    }


def _object(resource: Resource | None) -> dict[str, str] | None:
    if resource is None:
        return None
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind_name,
        "namespace": resource.namespace,
        "name": resource.name,
    }


def _position(position: Position | None) -> dict[str, Any]:
    if position is None:
        return {"file": None, "line": None, "column": None}
    return {"file": position.file, "line": position.line or None, "column": position.column or None}


def json_schema() -> dict[str, Any]:
    """The schema of the report (draft 2020-12)."""
    text, number = {"type": "string"}, {"type": "integer", "minimum": 0}
    place = {
        "file": {"type": ["string", "null"], "description": "As it was named on the command line; null: no text."},
        "line": {"type": ["integer", "null"], "minimum": 1, "description": "From 1; null: the file as a whole."},
        "column": {"type": ["integer", "null"], "minimum": 1},
    }
    one = {
        "type": ["object", "null"],
        "description": "The Kubernetes object, or null for the input as a whole.",
        "properties": dict.fromkeys(("apiVersion", "kind", "namespace", "name"), text),
        "required": ["apiVersion", "kind", "namespace", "name"],
    }
    finding_fields: dict[str, Any] = {
        "rule": {"type": "string", "pattern": "^[A-Z]{2}[0-9]{3}$"},
        "slug": {"type": "string", "description": "The safe state, in words."},
        "severity": {"enum": ["error", "warning", "info"], "description": "With the configured level."},
        "verdict": {"enum": ["fail", "unknown"]},
        "level": {"enum": ["mandatory", "remediate", "advisory"]},
        "object": one,
        "path": {"type": "string", "description": 'spec.limits["nvidia.com/gpu"], spec.triggers[0].type'},
        "message": {"type": "string", "description": "Path, value found and consequence; never a secret value."},
        "note": {"type": "string", "description": "Why a suppression does not count; else empty."},
        "fix": text,
        "fixable": {"type": "boolean", "description": "Whether --fix can do it."},
        **place,
        "urn": {"type": ["string", "null"], "description": "Of a Pulumi resource."},
        "related": {
            "type": "array",
            "items": {"type": "object", "properties": {"object": one, **place}, "required": ["object", *place]},
        },
        "page": {"type": "string", "description": "The rule's page in the repository."},
        "fingerprint": {"type": "string", "description": "The same in every commit: rule, object and fields."},
    }
    finding = {"type": "object", "properties": finding_fields, "required": list(finding_fields)}
    suppression = {
        "type": "object",
        "properties": {
            "source": {"enum": ["annotation", "comment", "config"]},
            "reason": text,
            "until": {"type": ["string", "null"], "format": "date"},
        },
        "required": ["source", "reason", "until"],
    }
    counts = (
        "objects",
        "errors",
        "warnings",
        "info",
        "unknown",
        "suppressed",
        "baselined",
        "fixed",
        "defects",
        "notRead",
    )
    properties: dict[str, Any] = {
        "schema": {"const": SCHEMA},
        "tool": {"type": "object", "properties": {"name": text, "version": text}, "required": ["name", "version"]},
        "summary": {"type": "object", "properties": dict.fromkeys(counts, number), "required": list(counts)},
        "findings": {"type": "array", "items": finding},
        "suppressed": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {**finding_fields, "suppression": suppression},
                "required": [*finding_fields, "suppression"],
            },
        },
        "baselined": {"type": "array", "items": finding},
        "notRead": {
            "type": "array",
            "description": "What of the input could not be judged: a run with entries here has not seen everything.",
            "items": {"type": "object", "properties": {**place, "reason": text}, "required": [*place, "reason"]},
        },
        "defects": {
            "type": "array",
            "description": "Rules that failed to run: faults of Triplane.",
            "items": {
                "type": "object",
                "properties": {"rule": text, "object": one, "error": text},
                "required": ["rule", "object", "error"],
            },
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Report of triplane check --format json",
        "type": "object",
        "properties": properties,
        "required": list(properties),
    }
