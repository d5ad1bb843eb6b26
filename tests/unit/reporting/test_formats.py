"""Machine formats: each valid by its own rules, each with the same findings."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from triplane.inventory import Inventory
from triplane.inventory.files import Sources
from triplane.reporting.findings import outcome_text
from triplane.reporting.github import annotations, job_summary
from triplane.reporting.gitlab import code_quality
from triplane.reporting.json_report import json_report, json_schema
from triplane.reporting.junit import junit
from triplane.reporting.outcome import Outcome, uri
from triplane.reporting.sarif import sarif
from triplane.rules import Report, judge
from triplane.rules.baseline import Baseline

SARIF = jsonschema.Draft4Validator(
    json.loads((Path(__file__).parents[2] / "data" / "sarif-schema-2.1.0.json").read_text()),
    format_checker=jsonschema.Draft4Validator.FORMAT_CHECKER,
)


def read(text: str) -> Any:
    return json.loads(text)


def test_json_is_what_its_schema_says(outcome: Outcome) -> None:
    report = read(json_report(outcome))
    jsonschema.Draft202012Validator(json_schema()).validate(report)
    assert report["schema"] == 1
    assert report["summary"]["errors"] == sum(
        f["severity"] == "error" and f["verdict"] == "fail" for f in report["findings"]
    )
    assert report["summary"]["suppressed"] == len(report["suppressed"]) == 1
    assert report["summary"]["notRead"] == 1
    (finding,) = [f for f in report["findings"] if f["rule"] == "NP101"]
    assert finding["object"] == {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "namespace": "", "name": "h100"}
    assert (finding["file"], finding["line"], finding["column"]) == ("a b/pool.yaml", 6, 37)
    assert finding["path"] == "spec.disruption.consolidationPolicy"
    assert finding["fixable"] is True
    assert report["notRead"][0]["file"] == "broken.yaml"
    assert report["notRead"][0]["line"] == 2


def test_sarif_is_valid_and_its_paths_are_relative(outcome: Outcome) -> None:
    log = read(sarif(outcome))
    SARIF.validate(log)
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(set(rules)) == len(rules)
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        physical = result["locations"][0]["physicalLocation"]
        assert physical["artifactLocation"]["uri"] == "a%20b/pool.yaml"
        assert physical["region"]["startLine"] >= 1
        assert result["partialFingerprints"]["identity/v1"]
    by_rule = {result["ruleId"]: result for result in run["results"]}
    assert by_rule["AS420"]["suppressions"] == [{"kind": "inSource", "status": "accepted", "justification": "planned"}]
    (change,) = by_rule["NP101"]["fixes"][0]["artifactChanges"]
    assert change["replacements"] == [
        {
            "deletedRegion": {"startLine": 6, "startColumn": 37, "endLine": 6, "endColumn": 61},
            "insertedContent": {"text": "WhenEmpty"},
        }
    ]
    assert any("not read" in note["message"]["text"] for note in run["invocations"][0]["toolExecutionNotifications"])


def test_sarif_names_the_other_objects_of_a_finding() -> None:
    sources = Sources()
    sources.read_paths([str(Path(__file__).parents[2] / "cases" / "manifests" / "gang-larger-than-its-pool.yaml")])
    log = read(sarif(Outcome(judge(Inventory(sources.resources)), sources)))
    SARIF.validate(log)
    related = [location for result in log["runs"][0]["results"] for location in result.get("relatedLocations", ())]
    assert any(location["logicalLocations"][0]["fullyQualifiedName"].endswith("NodePool/giant") for location in related)


def test_sarif_marks_what_the_baseline_holds(outcome: Outcome) -> None:
    baseline = Baseline.of(f for f in outcome.report.findings if f.rule.id == "NP101")
    outcome = Outcome(baseline.applied(outcome.report, "b.json"), outcome.sources)
    log = read(sarif(outcome))
    SARIF.validate(log)
    states = {result["ruleId"]: result["baselineState"] for result in log["runs"][0]["results"]}
    assert states["NP101"] == "unchanged" and states["AS401"] == "new"


def test_an_empty_run_is_valid_too() -> None:
    empty = Outcome(Report((), (), 0), Sources())
    SARIF.validate(read(sarif(empty)))
    jsonschema.Draft202012Validator(json_schema()).validate(read(json_report(empty)))
    assert read(code_quality(empty)) == []
    assert list(annotations(empty)) == ["nothing found in 0 objects"]
    assert ElementTree.fromstring(junit(empty, ())).get("tests") == "0"


def test_junit_has_a_case_for_each_object(outcome: Outcome) -> None:
    root = ElementTree.fromstring(junit(outcome, tuple(outcome.sources.resources)))
    cases = {case.get("name"): case for case in root.iter("testcase")}
    assert set(cases) == {
        "karpenter.sh/v1/NodePool/h100",
        "llmd.ai/v1alpha1/VariantAutoscaling/x/chat",
        "autoscaling/v2/HorizontalPodAutoscaler/x/chat",
        "read",
    }
    failure = cases["karpenter.sh/v1/NodePool/h100"].find("failure")
    assert failure is not None and "NP101" in (failure.text or "")
    skipped = cases["llmd.ai/v1alpha1/VariantAutoscaling/x/chat"].find("skipped")
    assert skipped is not None and skipped.get("message") == "AS420: planned"
    assert cases["read"].find("error") is not None
    assert (root.get("tests"), root.get("errors"), root.get("skipped")) == ("4", "1", "1")


def test_github_annotations_escape_what_the_runner_reads(outcome: Outcome) -> None:
    lines = list(annotations(outcome))
    (line,) = [line for line in lines if "AS401" in line]
    assert line.startswith("::error file=a b/pool.yaml,line=")
    assert "%0AFix: " in line and "100 %25" in line
    assert any(line.startswith("::error file=broken.yaml,line=2,title=not read::") for line in lines)
    assert all(line.count("\n") == 0 for line in lines)


def test_the_job_summary_is_a_table(outcome: Outcome) -> None:
    summary = job_summary(outcome)
    assert "| error NP101 | NodePool/h100 | a b/pool.yaml:6:37 |" in summary
    assert "Not read:" in summary
    assert all(line.count("|") - line.count("\\|") == 6 for line in summary.splitlines() if line.startswith("| "))


def test_gitlab_gets_unique_fingerprints(outcome: Outcome) -> None:
    entries = read(code_quality(outcome))
    assert len({entry["fingerprint"] for entry in entries}) == len(entries)
    assert {entry["severity"] for entry in entries} <= {"info", "minor", "major", "critical", "blocker"}
    assert all(entry["location"]["lines"]["begin"] >= 1 for entry in entries)
    assert any(entry["check_name"] == "NP101" and entry["location"]["path"] == "a b/pool.yaml" for entry in entries)


def test_text_shows_each_reason_once_and_the_counts(outcome: Outcome) -> None:
    lines = list(outcome_text(outcome))
    text = "\n".join(lines)
    assert "    6 |   disruption: {consolidationPolicy: WhenEmptyOrUnderutilized}  # cheap" in text
    assert len([line for line in lines if "(triplane explain NP101)" in line]) == 1
    assert "1 suppressed, 1 not read" in text
    assert (
        lines[-1]
        == "not read  broken.yaml:2:1  not valid YAML: while parsing a flow sequence, did not find expected ',' or ']'"
    )


def test_findings_of_helm_output_name_the_template() -> None:
    sources = Sources()
    sources.read_text("---\n# Source: serving/templates/pool.yaml\n" + POOL_ONLY)
    outcome = Outcome(judge(Inventory(sources.resources)), sources)
    log = read(sarif(outcome))
    uris = {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in log["runs"][0]["results"]}
    assert uris == {"serving/templates/pool.yaml"}


POOL_ONLY = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: h100}
spec: {template: {spec: {requirements: [{key: karpenter.k8s.aws/instance-gpu-name, operator: In, values: [h100]}]}}}
"""


@pytest.mark.parametrize(
    ("file", "wanted"),
    [("./a.yaml", "a.yaml"), ("a b/ü.yaml", "a%20b/%C3%BC.yaml"), ("<stdin>", "stdin"), ("../x.yaml", "../x.yaml")],
)
def test_uris(file: str, wanted: str) -> None:
    assert uri(file) == wanted


def test_an_absolute_path_below_the_folder_becomes_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert uri(str(tmp_path / "a" / "x.yaml")) == "a/x.yaml"
