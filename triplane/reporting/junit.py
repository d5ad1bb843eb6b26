"""Findings as JUnit XML: a suite a file, a case an object: a CI server shows what was judged and what failed."""

import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from triplane.inventory import Resource
from triplane.reporting.outcome import Outcome, object_path
from triplane.rules import Finding

# Characters that XML 1.0 does not know, even escaped.
_UNKNOWN_TO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(outcome: Outcome, resources: tuple[Resource, ...]) -> str:
    """The whole document; `resources` is everything that was judged."""
    root = Element("testsuites", name="triplane")
    suites: dict[str, Element] = {}

    def case(file: str, name: str) -> Element:
        suite = suites.setdefault(
            file, SubElement(root, "testsuite", name=file) if file not in suites else suites[file]
        )
        return SubElement(suite, "testcase", name=name, classname=file)

    by_object: dict[int, list[Finding]] = {}
    for finding in outcome.sorted_findings:
        by_object.setdefault(id(finding.resource) if finding.resource else 0, []).append(finding)
    suppressed: dict[int, list[str]] = {}
    for one in outcome.report.suppressed:
        suppressed.setdefault(id(one.finding.resource), []).append(f"{one.finding.rule.id}: {one.by.reason}")
    for resource in resources:
        _fill(
            case(resource.origin.file or "(no file)", object_path(resource)),
            outcome,
            by_object.get(id(resource), []),
            suppressed.get(id(resource), []),
        )
    for finding in by_object.get(0, []):
        place = outcome.place(finding)
        _fill(case(place.file if place else "(the whole input)", finding.rule.id), outcome, [finding], [])
    for missed in outcome.not_read:
        SubElement(case(missed.position.file, "read"), "error", type="not read", message=_clean(str(missed)))
    for defect in outcome.report.defects:
        SubElement(case("triplane", defect.rule.id), "error", type="defect", message=_clean(defect.error))
    for suite in (*suites.values(), root):
        suite.set("tests", str(len(suite.findall(".//testcase"))))
        for name in ("failure", "error"):
            suite.set(f"{name}s", str(len(suite.findall(f".//{name}"))))
        suite.set("skipped", str(len(suite.findall(".//skipped"))))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _fill(case: Element, outcome: Outcome, findings: list[Finding], suppressed: list[str]) -> None:
    """A case fails once (readers expect no more), with all its findings in the text."""
    failures = [finding for finding in findings if finding.kind == "fail"]
    if failures:
        first = failures[0]
        element = SubElement(case, "failure", type=first.rule.id, message=_clean(first.message))
        element.text = _clean("\n".join(_told(outcome, finding) for finding in findings))
    elif suppressed:
        SubElement(case, "skipped", message=_clean("; ".join(suppressed)))
    elif findings:
        SubElement(case, "system-out").text = _clean("\n".join(_told(outcome, finding) for finding in findings))


def _told(outcome: Outcome, finding: Finding) -> str:
    word = "unknown" if finding.kind == "unknown" else str(finding.severity)
    place = outcome.place(finding)
    where = f"{place}  " if place else ""
    return f"{where}{word} {finding.rule.id}  {finding.message}" + (
        f"\n  fix  {finding.fix}" if finding.kind == "fail" else ""
    )


def _clean(text: str) -> str:
    return _UNKNOWN_TO_XML.sub("?", text)
