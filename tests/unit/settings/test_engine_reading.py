"""A stack read from its file equals the stack that came through the engine.

`engine/*.json` is what the engine's own Go library hands to a program for each file: see documents/oracle/README.md.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pulumi
import pulumi.runtime
import pytest

from triplane.settings import StackSettings
from triplane.settings.source import read_stack

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
FILES = {"tricky": HERE / "engine" / "Pulumi.tricky.yaml", "base": HERE / "base.yaml"}
KEYS = tuple(field.alias or name for name, field in StackSettings.model_fields.items())


@pytest.fixture(params=FILES)
def stack(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """A stack's name, and a project that holds it."""
    (tmp_path / "stacks").mkdir()
    shutil.copy(ROOT / "Pulumi.yaml", tmp_path)
    shutil.copy(FILES[request.param], tmp_path / "stacks" / f"Pulumi.{request.param}.yaml")
    return request.param, tmp_path


def through_the_engine(name: str, project: Path) -> dict[str, Any]:
    """The values as the program reads them, defaults of the project's schema filled in as the engine does."""
    config: dict[str, str] = json.loads((HERE / "engine" / f"{name}.json").read_text())
    for key in ("platform", "queues", "models", "observability", "policy"):
        config.setdefault(f"triplane:{key}", "{}")
    for key in ("patches", "manifests"):
        config.setdefault(f"triplane:{key}", "[]")
    pulumi.runtime.set_all_config(config)
    reader = pulumi.Config("triplane")
    return {key: value for key in KEYS if (value := reader.get_object(key)) is not None}


def test_both_ways_give_one_object(stack: tuple[str, Path]) -> None:
    name, project = stack
    loaded = StackSettings.load(name, project)
    assert StackSettings.from_config(through_the_engine(name, project), f"stack {name}") == loaded
    path = project / "stacks" / f"Pulumi.{name}.yaml"
    assert StackSettings.from_config(through_the_engine(name, project), path) == loaded


def test_both_ways_give_one_set_of_values(stack: tuple[str, Path]) -> None:
    name, project = stack
    assert dict(read_stack(name, project).values) == through_the_engine(name, project)


def test_places_are_known_whichever_way_a_value_came(tmp_path: Path) -> None:
    (tmp_path / "stacks").mkdir()
    shutil.copy(ROOT / "Pulumi.yaml", tmp_path)
    path = tmp_path / "stacks" / "Pulumi.base.yaml"
    path.write_text(FILES["base"].read_text().replace("max: 8", "max: 9"))
    with pytest.raises(Exception, match="9 x 2 GPUs") as loaded:
        StackSettings.load("base", tmp_path)
    values = dict(read_stack("base", tmp_path).values)
    with pytest.raises(Exception, match="9 x 2 GPUs") as passed:
        StackSettings.from_config(values, path)
    assert str(passed.value) == str(loaded.value)
    assert str(loaded.value).startswith("stacks/Pulumi.base.yaml:")
