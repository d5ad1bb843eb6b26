"""The pages are written from the rules, and none is stale."""

from pathlib import Path

import pytest

from triplane.reporting.generated_docs import generated, stale, write
from triplane.reporting.rule_pages import index, page, parameters
from triplane.rules import Rule, all_rules, door_rules
from triplane.rules.parameters import Parameters

DOCS = Path(__file__).parents[3] / "docs"
RULES = (*all_rules(), *door_rules())


def test_nothing_is_stale() -> None:
    assert stale(DOCS) == [], "run: make docs"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_page_says_what_why_and_how(rule: Rule) -> None:
    text = page(rule)
    assert text.startswith(f"# {rule.id} {rule.slug}\n\n{rule.title}.\n")
    for heading in ("## Why", "## Fix", "## Where it is judged", "## Sources"):
        assert f"\n{heading}\n" in text
    if rule not in door_rules():
        assert "## Fails" in text and "## Passes" in text and "```yaml" in text
    assert all(f"| `{name}` |" in text for name in rule.parameters)


def test_the_index_names_every_rule_once() -> None:
    rows = [line for line in index().splitlines() if line.startswith("| [")]
    assert [row.split("]")[0].removeprefix("| [") for row in rows] == [
        rule.id for rule in sorted(RULES, key=lambda rule: (rule.layer, rule.id))
    ]


def test_every_parameter_has_a_meaning() -> None:
    assert set(parameters()) == Parameters.names()
    assert all(meaning for _, meaning in parameters().values())


def test_writing_again_changes_nothing_and_takes_away_what_is_of_no_rule(tmp_path: Path) -> None:
    assert set(write(tmp_path)) == set(generated())
    (tmp_path / "rules" / "NP999.md").write_text("gone")
    assert write(tmp_path) == ["rules/NP999.md"]
    assert write(tmp_path) == []
    assert not list(tmp_path.rglob("*.unfinished"))
