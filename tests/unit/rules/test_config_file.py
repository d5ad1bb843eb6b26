"""The configuration file: one shape for both doors, every fault told at once with its place and the nearest name."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from triplane.rules import Config, Level, Parameters, Profile, all_rules, door_rules, rule_named
from triplane.rules.config_file import ConfigError, config_of, config_schema, read_config

ROOT = Path(__file__).parents[3]
SHIPPED = sorted((ROOT / "policies" / "config").glob("*.json"))
VALIDATOR = jsonschema.Draft202012Validator(config_schema())


def level(config: Config, name: str) -> Level:
    rule = rule_named(name)
    assert rule is not None
    return config.level(rule)


def test_an_empty_file_is_the_default(tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_text("")
    assert read_config(str(tmp_path / "empty.json")) == Config() == config_of({})


def test_everything_it_can_say() -> None:
    config = config_of(
        {
            "triplane": {
                "profile": "core",
                "include": ["AS416"],
                "parameters": {"cold_start": "8m", "slo": ["Deployment/chat-*"], "other_gpus": 8.0},
                "on_unknown": "fail",
                "suppressions": [{"rules": ["NP101"], "object": "NodePool/x", "reason": "why", "until": "2999-01-31"}],
                "annotations_may_ignore": "all",
                "longest_suppression_days": 90,
                "enforcementLevel": "mandatory",
            },
            "NP102": {"enforcementLevel": "advisory", "min_consolidate_after": "30m", "on_unknown": "warn"},
            "NP109": "disabled",
            "PH808": "mandatory",
            "environments": ["prod"],
        }
    )
    assert config.profile is Profile.CORE
    assert config.parameters.cold_start == 480
    assert config.parameters.other_gpus == 8, "the engine hands every number on as a float"
    assert (level(config, "NP102"), level(config, "NP109")) == (Level.ADVISORY, Level.DISABLED)
    assert level(config, "AS416") is Level.ADVISORY, "included"
    assert level(config, "AS412") is Level.DISABLED, "outside the profile"
    np102, np101 = rule_named("NP102"), rule_named("NP101")
    assert np102 is not None and np101 is not None
    assert config.parameters_of(np102).min_consolidate_after == 1800
    assert config.parameters_of(np101).min_consolidate_after == Parameters().min_consolidate_after
    assert (config.unknown(np102), config.unknown(np101)) == ("warn", "fail")
    assert config.suppressions[0].rules == ("NP101",)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ([], "a configuration is an object"),
        ({"NP1011": "advisory"}, "NP1011: there is no rule NP1011: did you mean"),
        ({"tripplane": {}}, "did you mean triplane"),
        ({"np101": "advisory"}, "write NP101"),
        ({"gpu-pool-consolidates-only-empty-nodes": "advisory"}, "write NP101"),
        ({"NP101": "mandatry"}, "NP101: 'mandatry' is no level"),
        ({"NP101": 7}, "NP101: write a level"),
        ({"NP102": {"min_consolidate_aftr": "1h"}}, "did you mean min_consolidate_after"),
        ({"NP102": {"min_consolidate_after": "1 hour"}}, "is no duration"),
        ({"NP101": {"on_unknown": "panic"}}, "write warn or fail"),
        ({"triplane": {"profil": "core"}}, "triplane.profil: there is no profil: did you mean profile"),
        ({"triplane": {"profile": "cor"}}, "triplane.profile: 'cor' is not one of"),
        ({"triplane": {"parameters": {"cold_star": "8m"}}}, "did you mean cold_start"),
        ({"triplane": {"cold_start": "8m"}}, "triplane.cold_start: there is no cold_start"),
        ({"triplane": {"suppressions": [{"rules": [], "reason": "x"}]}}, "triplane.suppressions[0].rules"),
        ({"triplane": {"suppressions": [{"rules": ["NP1"], "reason": "x"}]}}, "there is no rule NP1"),
        ({"triplane": {"suppressions": [{"rules": ["NP101"], "until": "soon"}]}}, "suppressions[0].until"),
        ({"triplane": {"include": ["AS4166"]}}, "triplane.include[0]: there is no rule"),
        ({"triplane": {"profile": "core"}, "AS416": "advisory"}, 'Add "include": ["AS416"]'),
    ],
)
def test_a_mistake_is_told_with_its_path_and_what_to_write(written: Any, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config_of(written, "prod.json")
    assert told in str(caught.value)
    assert str(caught.value).startswith("prod.json")


def test_all_mistakes_are_told_at_once_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "prod.json"
    path.write_text('{\n  "NP1011": "advisory",\n  "triplane": {\n    "profil": "core"\n  }\n}\n')
    with pytest.raises(ConfigError) as caught:
        read_config(str(path))
    lines = str(caught.value).splitlines()
    assert [line.split("  ")[0] for line in lines] == [f"{path}:4:5", f"{path}:2:3"]


def test_the_engines_newer_form_is_read_too() -> None:
    config = config_of({"version": 2, "policies": {"NP101": "advisory"}})
    assert level(config, "NP101") is Level.ADVISORY


def test_all_sets_every_level_that_is_not_set() -> None:
    config = config_of({"all": "advisory", "NP101": "mandatory"})
    assert (level(config, "NP101"), level(config, "NP102")) == (Level.MANDATORY, Level.ADVISORY)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_configurations_are_valid(path: Path) -> None:
    read_config(str(path))
    VALIDATOR.validate(json.loads(path.read_text()))


def test_there_is_one_for_each_environment() -> None:
    assert [path.stem for path in SHIPPED] == ["dev", "prod", "staging"]


def test_the_schema_knows_every_rule_and_every_parameter() -> None:
    jsonschema.Draft202012Validator.check_schema(config_schema())
    properties = config_schema()["properties"]
    assert {rule.id for rule in (*all_rules(), *door_rules())} < set(properties)
    parameters = properties["triplane"]["anyOf"][1]["properties"]["parameters"]["properties"]
    assert set(parameters) == Parameters.names()
    assert [name for name, schema in parameters.items() if not schema.get("description")] == []


@pytest.mark.parametrize(
    "written",
    [
        {"NP1011": "advisory"},
        {"NP101": "mandatry"},
        {"triplane": {"profil": "core"}},
        {"NP102": {"min_consolidate_aftr": 1}},
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(written: Any) -> None:
    assert not VALIDATOR.is_valid(written)
