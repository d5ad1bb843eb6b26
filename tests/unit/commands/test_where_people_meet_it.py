"""The hooks, the action and the templates name options that exist."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from triplane.commands.check import check

ROOT = Path(__file__).parents[3]
FILES = [".pre-commit-hooks.yaml", "action.yml", "docs/ci/gitlab.yml", "docs/ci/github-pulumi.yml"]
OPTIONS = {option for parameter in check.params for option in parameter.opts}


@pytest.mark.parametrize("name", FILES)
def test_it_is_yaml_and_its_options_exist(name: str) -> None:
    text = (ROOT / name).read_text()
    assert yaml.safe_load(text)
    commands = [line for line in text.splitlines() if "triplane check" in line or 'triplane" check' in line]
    assert commands or "triplane pack" in text
    for line in commands:
        for option in re.findall(r"(?<=\s)--[a-z-]+", line):
            assert option in OPTIONS, f"{name}: {option}"


def test_the_hooks_have_what_the_tool_asks_for() -> None:
    hooks: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    for hook in hooks:
        assert {"id", "name", "entry", "language"} <= hook.keys()


def test_the_action_uploads_before_it_fails() -> None:
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    names = [step.get("name", "") for step in steps]
    assert names.index("Upload") < names.index("Result")
    assert all(step.get("shell") for step in steps if "run" in step)


def test_inputs_reach_the_shell_through_the_environment_only() -> None:
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    assert not any("${{" in step.get("run", "") for step in steps), "an expression in a script can be injected"
