"""Suppressions: who may accept what, with which reason, until when."""

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from triplane.inventory import Inventory
from triplane.inventory.files import Sources
from triplane.rules import Config, Level, Report, judge, rule_named
from triplane.rules.suppressions import Suppression

VARIANT = """\
apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata: {{name: chat-decode, namespace: chat{annotations}}}
spec: {{modelID: example/chat, minReplicas: 2, maxReplicas: 6}}
"""
TODAY = dt.datetime.now(dt.UTC).date()
TOMORROW, YESTERDAY = TODAY + dt.timedelta(days=1), TODAY - dt.timedelta(days=1)


def annotated(text: str) -> str:
    return VARIANT.format(annotations=f', annotations: {{triplane.dev/ignore: "{text}"}}' if text else "")


def judged(
    text: str, config: Config | None = None, rules: tuple[str, ...] = ("AS420", "PH801", "PH802", "PH803")
) -> Report:
    sources = Sources()
    sources.read_text(text)
    assert not sources.not_read
    chosen = [rule for name in rules if (rule := rule_named(name))]
    return judge(Inventory(sources.resources, sources.comments), config, chosen)


def found(report: Report) -> list[str]:
    return sorted(finding.rule.id for finding in report.failures)


@pytest.mark.parametrize(
    ("annotation", "rules", "suppressed"),
    [
        ("", ["AS420"], 0),
        ("AS420 reason=planned", [], 1),
        ("as420 reason=planned", [], 1),
        ("AS408, AS420 reason=planned", ["PH803"], 1),
        (f"AS420 until={TODAY} reason=planned", [], 1),
        (f"AS420 until={TOMORROW} reason=planned, until=then", [], 1),
        (f"AS420 until={YESTERDAY} reason=planned", ["AS420", "PH802"], 0),
        ("AS420", ["AS420", "PH801"], 0),
        ("AS420 reason=", ["AS420", "PH801"], 0),
        ("AS420 until=soon reason=planned", ["AS420", "PH801"], 0),
        ("reason=planned", ["AS420", "PH801"], 0),
        ("NP101 reason=planned", ["AS420", "PH803"], 0),
        ("AS420x reason=planned", ["AS420", "PH803"], 0),
        ("AS420 reason=a\\nAS408 reason=b", ["PH803"], 1),
    ],
)
def test_an_annotation(annotation: str, rules: list[str], suppressed: int) -> None:
    report = judged(annotated(annotation))
    assert (found(report), len(report.suppressed)) == (rules, suppressed)


@pytest.mark.parametrize(
    ("before", "after", "suppressed"),
    [
        ("# triplane: ignore[AS420] reason=planned\n", "", 1),
        ("# licence\n---\n# Source: chart/x.yaml\n# triplane:ignore[AS420] reason=planned\n", "", 1),
        ("---\n", "# triplane: ignore[AS420] reason=planned\n", 1),
        (
            "# triplane: ignore[AS420] reason=planned\napiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n---\n",
            "",
            0,
        ),
        (
            "",
            "---\n# triplane: ignore[AS420] reason=planned\napiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n",
            0,
        ),
        ("# triplane: ignore[AS420]\n", "", 0),
    ],
)
def test_a_comment_speaks_for_its_document(before: str, after: str, suppressed: int) -> None:
    report = judged(before + annotated("") + after, rules=("AS420",))
    assert len(report.suppressed) == suppressed
    assert len(report.failures) == 1 - suppressed


def test_a_comment_that_takes_nothing_is_reported_at_its_line() -> None:
    report = judged("# one\n# triplane: ignore[AS408] reason=planned\n" + annotated("AS420 reason=planned"))
    (finding,) = report.failures
    assert finding.rule.id == "PH803"
    assert str(finding.place) == "<stdin>:2:3"


MANDATORY = {"levels": {"AS420": Level.MANDATORY}}


@pytest.mark.parametrize(
    ("config", "suppressed"),
    [
        (Config(), 1),
        (Config(**MANDATORY), 0),
        (Config(levels={"AS420": Level.REMEDIATE}), 0),
        (Config(**MANDATORY, annotations_may_ignore="all"), 1),
        (Config(**MANDATORY, suppressions=(Suppression("config", ("AS420",), "planned"),)), 1),
    ],
)
def test_whoever_writes_an_object_does_not_approve_himself(config: Config, suppressed: int) -> None:
    report = judged(annotated("AS420 reason=planned"), config)
    assert len(report.suppressed) == suppressed
    assert found(report) == ([] if suppressed else ["AS420"]), "a suppression that may not count is not unused"
    assert all("only the configuration" in finding.note for finding in report.failures)


@pytest.mark.parametrize(
    ("where", "suppressed"),
    [
        ({}, 1),
        ({"object": "VariantAutoscaling/chat-*"}, 1),
        ({"object": "VariantAutoscaling/chat/chat-*"}, 1),
        ({"object": "*/other"}, 0),
        ({"file": "<*>"}, 1),
        ({"file": "prod/*"}, 0),
        ({"urn": "urn:*"}, 0),
    ],
)
def test_an_entry_of_a_configuration_names_objects_by_patterns(where: dict[str, Any], suppressed: int) -> None:
    entry = Suppression("config", ("AS420",), "planned", path=("triplane", "suppressions", 0), **where)
    report = judged(annotated(""), Config(suppressions=(entry,)))
    assert len(report.suppressed) == suppressed
    assert found(report) == ([] if suppressed else ["AS420", "PH803"])


@pytest.mark.parametrize(
    ("until", "rules"),
    [
        (TOMORROW, []),
        (TODAY + dt.timedelta(days=30), []),
        (TODAY + dt.timedelta(days=31), ["AS420", "PH802"]),
        (None, ["AS420", "PH802"]),
    ],
)
def test_a_configuration_may_bound_how_long_one_lasts(until: dt.date | None, rules: list[str]) -> None:
    text = f"AS420 until={until} reason=planned" if until else "AS420 reason=planned"
    assert found(judged(annotated(text), Config(longest_suppression_days=30))) == rules


def test_a_rule_that_is_off_is_not_called_unused() -> None:
    off = Config(levels={"AS420": Level.DISABLED})
    assert found(judged(annotated("AS420 reason=planned"), off)) == []


def test_whether_one_is_used_is_known_although_its_rule_was_not_asked_for() -> None:
    assert found(judged(annotated("AS420 reason=planned"), rules=("PH803",))) == []
    assert found(judged(annotated("AS408 reason=planned"), rules=("PH803",))) == ["PH803"]


def test_nothing_suppresses_the_rules_about_suppressions() -> None:
    assert found(judged(annotated("PH801 PH803"))) == ["AS420", "PH801", "PH803", "PH803"]


def test_garbage_in_the_annotation_is_no_suppression(tmp_path: Path) -> None:
    for value in ("7", "[AS420]", "{a: b}", "true", "null"):
        text = VARIANT.format(annotations=f", annotations: {{triplane.dev/ignore: {value}}}")
        assert found(judged(text)) == ["AS420"]
