"""Every rule against its own examples, and against everybody else's good ones."""

import pytest

from triplane.documents import render_path
from triplane.inventory import Inventory, Resource
from triplane.rules import Config, Level, Profile, Rule, all_rules, judge
from triplane.rules.edits import edited
from triplane.rules.example import Example, examples

RULES = {rule.id: rule for rule in all_rules()}
EXAMPLES = examples()


def found(example: Example, rules: list[Rule]) -> list[tuple[str, str, str, str]]:
    """(rule, verdict, object, path) of every finding, with the example's parameters."""
    config = Config(profile=Profile.ALL, parameters=example.parameters)
    report = judge(example.inventory(), config, rules)
    assert not report.defects, report.defects[0].trace
    return [(f.rule.id, f.kind, str(f.resource), render_path(f.path)) for f in report.findings]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: f"{e.rule}-{e.kind}.{e.case}")
def test_a_rule_finds_what_its_example_says(example: Example) -> None:
    failures = {(what, path) for _, kind, what, path in found(example, [RULES[example.rule]]) if kind == "fail"}
    assert failures == example.expected
    assert bool(example.expected) == (example.kind == "bad")


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.kind == "good"], ids=lambda e: f"{e.rule}-good.{e.case}")
def test_no_rule_fails_on_a_good_example(example: Example) -> None:
    assert [finding for finding in found(example, list(RULES.values())) if finding[1] == "fail"] == []


FIXABLE = [example for example in EXAMPLES if example.kind == "bad" and RULES[example.rule].autofix]


@pytest.mark.parametrize("example", FIXABLE, ids=lambda e: f"{e.rule}-{e.case}")
def test_an_autofix_makes_its_bad_case_pass(example: Example) -> None:
    rule = RULES[example.rule]
    config = Config(profile=Profile.ALL, parameters=example.parameters)
    inventory = example.inventory()
    findings = judge(inventory, config, [rule]).failures
    unfixed = {(str(f.resource), f.path) for f in findings if not f.edits}
    fixed = [
        Resource(
            edited(resource.data, [edit for f in findings if f.resource is resource for edit in f.edits]),
            resource.origin,
        )
        for resource in inventory.resources
    ]
    left = {(str(f.resource), f.path) for f in judge(Inventory(fixed), config, [rule]).failures}
    assert left == unfixed


@pytest.mark.parametrize("rule", [rule for rule in RULES.values() if rule.autofix], ids=lambda r: r.id)
def test_a_rule_with_an_autofix_shows_one(rule: Rule) -> None:
    own = [example for example in FIXABLE if example.rule == rule.id]
    reports = [judge(e.inventory(), Config(profile=Profile.ALL, parameters=e.parameters), [rule]) for e in own]
    assert any(finding.edits for report in reports for finding in report.failures)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: f"{e.rule}-{e.kind}.{e.case}")
def test_edits_come_only_from_rules_that_say_so(example: Example) -> None:
    rule = RULES[example.rule]
    report = judge(example.inventory(), Config(profile=Profile.ALL, parameters=example.parameters), [rule])
    if not rule.autofix:
        assert not any(finding.edits for finding in report.findings)


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda r: r.id)
def test_every_rule_has_examples_and_a_text(rule: Rule) -> None:
    own = [example for example in EXAMPLES if example.rule == rule.id]
    assert sum(example.kind == "bad" for example in own) >= 2, "two inputs that fail"
    assert sum(example.kind == "good" for example in own) >= 3, "three that pass, one of which looks bad"
    assert all(example.shows for example in own)
    assert {example.kind for example in own if example.case == "typical"} == {"bad", "good"}, "what the page shows"
    assert rule.title and rule.why and rule.fix and rule.sources
    assert all(source.startswith("https://") for source in rule.sources)


@pytest.mark.parametrize(
    "example",
    [e for e in EXAMPLES if e.kind == "bad" and RULES[e.rule].scope == "object"],
    ids=lambda e: f"{e.rule}-{e.case}",
)
def test_an_object_rule_needs_no_other_object(example: Example) -> None:
    rule = RULES[example.rule]
    config = Config(profile=Profile.ALL, parameters=example.parameters)
    alone = {
        (str(f.resource), render_path(f.path))
        for resource in example.inventory().resources
        for f in judge(Inventory([resource]), config, [rule]).failures
    }
    assert alone == example.expected


def test_ids_and_slugs_are_unique_and_examples_belong_to_a_rule() -> None:
    slugs = [rule.slug for rule in RULES.values()]
    assert len(set(slugs)) == len(slugs)
    assert {example.rule for example in EXAMPLES} <= set(RULES)


def test_core_rules_are_errors_that_need_no_configuration() -> None:
    for rule in RULES.values():
        if rule.profile is Profile.CORE:
            assert Config().level(rule) is Level.MANDATORY
