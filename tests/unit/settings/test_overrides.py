"""--set: where a value goes, what it means, and what an error names."""

from typing import Any

import pytest

from triplane.settings import SettingsError
from triplane.settings.overrides import Override, override
from triplane.settings.source import Source


def result(values: dict[str, Any], *texts: str) -> Any:
    return override(Source(values, "file"), [Override.parse(text) for text in texts]).values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pools.h100.nodes.max=4", {"pools": {"h100": {"nodes": {"max": 4}}}}),
        ("cluster.kubernetes='1.36'", {"cluster": {"kubernetes": "1.36"}}),
        ("cluster.kubernetes=1.36.1", {"cluster": {"kubernetes": "1.36.1"}}),
        ("cluster.adopt=true", {"cluster": {"adopt": True}}),
        ("cluster.adopt=yes", {"cluster": {"adopt": "yes"}}),
        ("manifests=[a.yaml, b.yaml]", {"manifests": ["a.yaml", "b.yaml"]}),
        ("patches[0].target.kind=Queue", {"patches": [{"target": {"kind": "Queue"}}]}),
        ('pools.a.labels["example.com/rack"]=r=1', {"pools": {"a": {"labels": {"example.com/rack": "r=1"}}}}),
        ("pools.a.labels.example=", {"pools": {"a": {"labels": {"example": None}}}}),
    ],
)
def test_a_value_is_yaml_and_its_path_is_made(text: str, expected: Any) -> None:
    assert result({}, text) == expected


def test_what_is_there_is_kept_and_the_source_too() -> None:
    values = {"pools": {"a": {"nodes": {"max": 1, "static": 1}}}, "manifests": ["x"], "empty": None}
    changed = result(values, "pools.a.nodes.max=2", "manifests[1]=y", "pools.a.nodes.max=3", "empty.a=1")
    assert changed == {
        "pools": {"a": {"nodes": {"max": 3, "static": 1}}},
        "manifests": ["x", "y"],
        "empty": {"a": 1},
    }
    assert values == {"pools": {"a": {"nodes": {"max": 1, "static": 1}}}, "manifests": ["x"], "empty": None}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pools", "write key.path=value"),
        ("=4", "write key.path=value"),
        ("[0]=4", "write key.path=value"),
        ("pools.a[x]=4", "write key.path=value"),
        ("pools.a={", "not valid YAML"),
        ("pools.a={b: 1, b: 2}", "stands twice"),
        ("pools.a.b=1", "pools.a is 3"),
        ("pools[0]=1", "pools is a mapping with a"),
        ("manifests.a=1", "manifests is a list of 1"),
        ("manifests[5]=1", "manifests is a list of 1"),
    ],
)
def test_what_cannot_be_set_is_named(text: str, said: str) -> None:
    with pytest.raises(SettingsError) as error:
        result({"pools": {"a": 3}, "manifests": ["x"]}, text)
    assert str(error.value).startswith(f"--set {text}  ")
    assert said in str(error.value)


def test_a_mistake_in_what_was_set_stands_in_the_command() -> None:
    source = override(Source({"pools": {"a": {}}}, "file"), [Override.parse("pools.a.nodes.max=0")])
    assert str(source.position(("pools", "a", "nodes", "max"))) == "--set pools.a.nodes.max=0"
    assert str(source.position(("cluster",))) == "file"
    freezing = override(Source({}, "file"), [Override.parse("freeze.reason=x")])
    assert str(freezing.position(("freeze", "since"))) == "--set freeze.reason=x"
