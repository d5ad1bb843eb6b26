"""Situations from public reports: what must be found in each, and what must not. The index says where each is from."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from triplane.documents import render_path
from triplane.inventory import Inventory
from triplane.inventory.files import Sources
from triplane.rules import Config, Parameters, Profile, Report, Severity, all_rules, judge
from triplane.rules.numbers import ALSO_KNOWN_AS

FOLDER = Path(__file__).parent / "manifests"
INDEX = yaml.safe_load((FOLDER / "index.yaml").read_text())
CASES = INDEX["cases"]
RULES = {rule.id for rule in all_rules()}


def number(name: str) -> str:
    """The id of a rule the index names by its number, or by the name it was proposed under."""
    name = name.removeprefix("NEW:")
    return ALSO_KNOWN_AS.get(name, name)


@cache
def report_of(file: str) -> Report:
    case = next(case for case in CASES if case["file"] == file)
    sources = Sources()
    sources.read_paths([str(FOLDER / file)])
    assert not sources.not_read
    parameters = Parameters.of(INDEX["defaults"] | case.get("assumes", {}))
    report = judge(Inventory(sources.resources), Config(profile=Profile.ALL, parameters=parameters))
    assert not report.defects, report.defects[0].trace
    return report


def failures(file: str) -> set[tuple[str, str, str]]:
    """(rule, object, path) of every failure; paths as the index writes them, without quotes."""
    return {(f.rule.id, str(f.resource), render_path(f.path).replace('"', "")) for f in report_of(file).failures}


def expectations() -> list[Any]:
    return [
        pytest.param(case["file"], entry, id=f"{case['id']}-{number(entry['rule'])}")
        for case in CASES
        for entry in case["expected"]
    ]


@pytest.mark.parametrize(("file", "entry"), expectations())
def test_what_is_wrong_is_found(file: str, entry: dict[str, Any]) -> None:
    rule = number(entry["rule"])
    assert rule in RULES
    found = failures(file)
    objects = [entry["object"], *entry.get("also", ())]
    assert (rule, entry["object"], entry["path"]) in found or any(
        (rule, o) in {f[:2] for f in found} for o in objects[1:]
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_what_is_right_is_left_alone(case: dict[str, Any]) -> None:
    forbidden = {number(name) for name in case["must_not"]}
    assert {found for found in failures(case["file"]) if found[0] in forbidden} == set()


@pytest.mark.parametrize("case", [case for case in CASES if case.get("no_errors")], ids=lambda case: case["id"])
def test_a_sound_case_has_no_error(case: dict[str, Any]) -> None:
    errors = [f for f in report_of(case["file"]).failures if f.rule.severity is Severity.ERROR]
    assert [(f.rule.id, str(f.resource), f.message) for f in errors] == []


def test_the_index_names_every_file() -> None:
    assert {case["file"] for case in CASES} == {path.name for path in FOLDER.glob("*.yaml")} - {"index.yaml"}
