"""A baseline: what is known is not reported, what is new is, and what was repaired is asked back."""

import json
from pathlib import Path

import pytest

from triplane.documents import DocumentError
from triplane.inventory import Inventory
from triplane.inventory.files import Sources
from triplane.rules import Report, judge
from triplane.rules.baseline import Baseline, fingerprint

POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: {name}}}
spec:
  disruption: {{consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 1m}}
  limits: {{nvidia.com/gpu: 8, nodes: 1}}
  template: {{spec: {{requirements: [{{key: karpenter.k8s.aws/instance-gpu-name, operator: In, values: [h100]}}]}}}}
"""


def judged(*names: str, before: str = "") -> Report:
    sources = Sources()
    sources.read_text(before + "---\n".join(POOL.format(name=name) for name in names))
    return judge(Inventory(sources.resources))


def test_what_is_known_is_counted_and_not_reported() -> None:
    report = judged("h100")
    applied = Baseline.of(report.findings).applied(report, "b.json")
    assert applied.failures == ()
    assert set(applied.baselined) == set(report.failures)


def test_moving_an_object_changes_nothing() -> None:
    moved = judged("h100", before="# one more line\n\n---\n")
    assert Baseline.of(judged("h100").findings).applied(moved, "b.json").failures == ()


def test_what_is_new_is_reported() -> None:
    applied = Baseline.of(judged("h100").findings).applied(judged("h100", "h200"), "b.json")
    assert {finding.resource.name for finding in applied.failures if finding.resource} == {"h200"}


def test_a_second_object_of_the_same_name_is_new() -> None:
    once, twice = judged("h100"), judged("h100", "h100")
    left = Baseline.of(once.findings).applied(twice, "b.json").failures
    assert sorted(f.rule.id for f in left if f.rule.id == "NP101") == ["NP101"]


def test_what_was_repaired_is_asked_back_and_pruned() -> None:
    baseline = Baseline.of(judged("h100", "h200").findings)
    applied = baseline.applied(judged("h100"), "b.json")
    assert {finding.rule.id for finding in applied.failures} == {"PH804"}
    assert all(str(finding.place) == "b.json" and "h200" in finding.message for finding in applied.failures)
    assert baseline.pruned(judged("h100")).counts == Baseline.of(judged("h100").findings).counts


def test_rules_that_did_not_run_are_left_in_peace() -> None:
    baseline = Baseline.of(judged("h100").findings)
    sources = Sources()
    sources.read_text(POOL.format(name="h100"))
    from triplane.rules import rule_named

    rule = rule_named("NP109")
    assert rule is not None
    report = judge(Inventory(sources.resources), None, [rule])
    assert baseline.applied(report, "b.json").failures == ()
    assert baseline.pruned(report).counts == baseline.counts


def test_the_file_reads_as_it_was_written(tmp_path: Path) -> None:
    path = str(tmp_path / "b.json")
    baseline = Baseline.of(judged("h100", "h100").findings)
    baseline.write(path)
    assert Baseline.read(path).counts == baseline.counts
    written = json.loads(Path(path).read_text())
    assert written["schema"] == 1
    assert all(set(entry) <= {"rule", "kind", "name", "path", "fingerprint", "count"} for entry in written["findings"])
    assert {entry["fingerprint"] for entry in written["findings"]} == {
        fingerprint(f) for f in judged("h100", "h100").failures
    }


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 2, "findings": []}', '{"findings": []}'])
def test_a_file_that_is_no_baseline_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(DocumentError, match="this is no baseline"):
        Baseline.read(str(tmp_path / "b.json"))
