"""The shipped JSON Schema is that of the models, and takes what the models take."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from changed_stack import REMOVED, values

from triplane.documents import Dialect, read_documents
from triplane.settings.schema import main, stack_schema

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "docs" / "stack.schema.json"
FILES = [*sorted((ROOT / "stacks").glob("Pulumi.*.yaml")), Path(__file__).parent / "engine" / "Pulumi.tricky.yaml"]
VALIDATOR = jsonschema.Draft202012Validator(stack_schema())


def test_the_schema_is_fresh() -> None:
    assert json.loads(SHIPPED.read_text()) == stack_schema(), "run: python -m triplane.settings.schema"


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(stack_schema())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_shipped_stacks_are_valid(path: Path) -> None:
    (document,) = read_documents(path.read_text(), path.name, Dialect.PULUMI)
    VALIDATOR.validate(document.value)


@pytest.mark.parametrize("name", ["dev", "staging", "prod"])
def test_stack_files_name_the_schema_for_editors(name: str) -> None:
    first = (ROOT / "stacks" / f"Pulumi.{name}.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=../docs/stack.schema.json"
    assert (ROOT / "stacks" / first.rpartition("=")[2]).resolve() == SHIPPED


@pytest.mark.parametrize(
    "changes",
    [
        {"pools.serving.purpose": "servin"},
        {"pools.serving.gpuPerNode": 8},
        {"pools.serving.nodes": {}},
        {"pools.serving.nodes.max": "6"},
        {"pools.Serving": {}},
        {"models.chat.coldStart": 7},
        {"models.chat.roles.prefil": {}},
        {"cluster": REMOVED},
        {"pols": {}},
        {"queues.research.children.pretrain.gpus.quota": -2},
    ],
)
def test_mistakes_of_one_field_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate({"config": values(changes)})


def test_every_field_is_described() -> None:
    schema = stack_schema()
    objects = {"config": schema["properties"]["config"], **schema["$defs"]}
    bare = [
        f"{name}.{key}"
        for name, definition in objects.items()
        for key, field in definition.get("properties", {}).items()
        if not field.get("description")
    ]
    assert bare == []


def test_writing_it(tmp_path: Path) -> None:
    main([str(tmp_path / "schema.json")])
    assert [path.name for path in tmp_path.iterdir()] == ["schema.json"]
    assert json.loads((tmp_path / "schema.json").read_text()) == stack_schema()
