"""The pack's configuration: profile, levels, parameters and suppressions, as the engine hands them on."""

import json
from pathlib import Path
from typing import Any

import pytest
from pack_door import UNKNOWN_STRING, Door
from pulumi.runtime.proto import analyzer_pb2

ROOT = Path(__file__).parents[2]
MANDATORY, ADVISORY = analyzer_pb2.MANDATORY, analyzer_pb2.ADVISORY
NODE_POOL = "kubernetes:karpenter.sh/v1:NodePool"
VARIANT = "kubernetes:llmd.ai/v1alpha1:VariantAutoscaling"
STACK = "pulumi:pulumi:Stack"


def pool(**annotations: str) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "h100", "annotations": annotations},
        "spec": {
            "limits": {"nvidia.com/gpu": 8.0},
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30m"},
            "template": {"spec": {}},
        },
    }


def variant(ignore: str = "") -> dict[str, Any]:
    annotations = {"triplane.dev/ignore": ignore} if ignore else {}
    metadata = {"name": "chat", "annotations": annotations}
    return {"apiVersion": "llmd.ai/v1alpha1", "kind": "VariantAutoscaling", "metadata": metadata, "spec": {}}


def levels(diagnostics: list[Any], name: str) -> set[int]:
    return {diagnostic.enforcementLevel for diagnostic in diagnostics if diagnostic.policyName == name}


@pytest.mark.parametrize(
    ("written", "level"),
    [
        ({}, {MANDATORY}),
        ({"NP102": "advisory"}, {ADVISORY}),
        ({"NP102": "disabled"}, set()),
        ({"NP102": {"min_consolidate_after": "30m"}}, set()),
        ({"NP102": {"enforcementLevel": "advisory", "min_consolidate_after": "45m"}}, {ADVISORY}),
        ({"triplane": {"parameters": {"min_consolidate_after": "10m"}}}, set()),
        ({"triplane": {"suppressions": [{"rules": ["NP102"], "object": "NodePool/h*", "reason": "test"}]}}, set()),
        ({"triplane": {"suppressions": [{"rules": ["NP102"], "urn": "urn:pulumi:dev::*", "reason": "test"}]}}, set()),
        ({"triplane": {"suppressions": [{"rules": ["NP102"], "object": "NodePool/l4", "reason": "x"}]}}, {MANDATORY}),
    ],
)
def test_a_rule_follows_it(door: Door, written: dict[str, Any], level: set[int]) -> None:
    door.configure(written)
    assert levels(door.analyze(NODE_POOL, pool()), "NP102") == level


@pytest.mark.parametrize(
    ("profile", "include", "told"), [("core", [], False), ("core", ["AS420"], True), ("recommended", [], True)]
)
def test_the_profile_decides_which_rules_run(door: Door, profile: str, include: list[str], told: bool) -> None:
    door.configure({"triplane": {"profile": profile, "include": include}})
    assert bool(levels(door.analyze(VARIANT, variant()), "AS420")) is told


@pytest.mark.parametrize(
    ("written", "ignore", "level"),
    [
        ({}, "AS420 reason=planned", set()),
        ({}, "AS420", {ADVISORY}),
        ({"AS420": "mandatory"}, "AS420 reason=planned", {MANDATORY}),
        ({"AS420": "mandatory", "triplane": {"annotations_may_ignore": "all"}}, "AS420 reason=planned", set()),
    ],
)
def test_an_annotation_ignores_what_is_advisory(
    door: Door, written: dict[str, Any], ignore: str, level: set[int]
) -> None:
    door.configure(written)
    assert levels(door.analyze(VARIANT, variant(ignore)), "AS420") == level


def test_suppressions_are_judged_over_the_whole_stack(door: Door) -> None:
    said = door.analyze_stack([(VARIANT, variant("AS420 reason=planned")), (VARIANT, variant("AS408"))])
    assert levels(said, "PH801") == {MANDATORY}
    assert levels(said, "PH803") == {ADVISORY}
    assert len([d for d in said if d.policyName == "PH803"]) == 1, "the first one is used"


@pytest.mark.parametrize("where", [{"triplane": {"on_unknown": "fail"}}, {"NP101": {"on_unknown": "fail"}}])
def test_what_cannot_be_judged_stops_where_it_says_so(door: Door, where: dict[str, Any]) -> None:
    unknown = pool()
    unknown["spec"]["disruption"]["consolidationPolicy"] = UNKNOWN_STRING
    assert levels(door.analyze(NODE_POOL, unknown), "NP101") == set()
    door.configure(where)
    said = door.analyze(NODE_POOL, unknown)
    assert levels(said, "NP101") == {MANDATORY}
    assert not any("NP101" in d.message for d in said if d.policyName == "PH808")


def test_a_fault_in_it_is_told_once_and_stops(door: Door) -> None:
    door.configure({"triplane": {"profil": "core"}, "NP102": {"min_consolidate_after": "1 hour"}})
    said = door.analyze(STACK, {})
    assert levels(said, "triplane") == {MANDATORY}
    text = "\n".join(diagnostic.message for diagnostic in said)
    assert "did you mean profile" in text and "is no duration" in text
    assert levels(door.analyze(NODE_POOL, pool()), "triplane") == set()


@pytest.mark.parametrize("path", sorted((ROOT / "policies" / "config").glob("*.json")), ids=lambda path: path.stem)
def test_shipped_configurations_have_no_fault(door: Door, path: Path) -> None:
    door.configure(json.loads(path.read_text()))
    assert levels(door.analyze(STACK, {}), "triplane") == set()


def test_a_remediation_changes_only_what_is_wrong(door: Door) -> None:
    secret = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "value": "hunter2"}
    wrong = pool(token=secret, later=UNKNOWN_STRING)  # type: ignore[arg-type]
    wrong["spec"]["disruption"]["consolidationPolicy"] = "WhenEmptyOrUnderutilized"
    assert door.remediate(NODE_POOL, wrong) == []
    door.configure({"NP101": "remediate"})
    (made,) = door.remediate(NODE_POOL, wrong)
    assert made.policyName == "NP101" and made.diagnostic == ""
    from google.protobuf import json_format

    properties = json_format.MessageToDict(made.properties)
    assert properties["spec"]["disruption"]["consolidationPolicy"] == "WhenEmpty"
    wrong["spec"]["disruption"]["consolidationPolicy"] = "WhenEmpty"
    assert properties == wrong, "the secret is still a secret, the unknown is still unknown"


def test_what_needs_no_remediation_gets_none(door: Door) -> None:
    door.configure({"NP101": "remediate"})
    assert door.remediate(NODE_POOL, pool()) == []


def test_one_request_is_read_once(monkeypatch: pytest.MonkeyPatch, pack_in_process: Door) -> None:
    from triplane.policies import situation

    read: list[str] = []
    original = situation.resource_of

    def counted(type_token: str, properties: Any, urn: str, ignored: Any = None) -> Any:
        read.append(urn)
        return original(type_token, properties, urn, ignored)

    monkeypatch.setattr(situation, "resource_of", counted)
    pack_in_process.configure({})
    pack_in_process.analyze_stack([(NODE_POOL, pool()), (VARIANT, variant())])
    assert len(read) == 2
    pack_in_process.analyze(NODE_POOL, pool())
    assert len(read) == 3
