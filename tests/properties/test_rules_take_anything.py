"""Any JSON-shaped garbage in any field of any kind: no rule raises, and what is said names the object judged."""

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from triplane.inventory import Inventory, Origin, Resource, Unknown
from triplane.rules import Config, Profile, all_rules, judge
from triplane.rules.example import Example, examples

CONFIG = Config(profile=Profile.ALL)
RULES = all_rules()
EXAMPLES = examples()

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(
        ["", "-1", "10%", "1h", "Never", "*", "(", "$1", "sum(", "nvidia.com/gpu", "karpenter.sh/do-not-disrupt"]
    )
)
GARBAGE = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every path below a value, its own first."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(deeper for key, item in inner for deeper in places(item, (*path, key)))]


def replaced(data: dict[str, Any], path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    result: Any = copy.deepcopy(data)
    target = result
    for part in path[:-1]:
        target = target[part]
    target[path[-1]] = value
    return result


def judged(resources: list[dict[str, Any]]) -> None:
    report = judge(Inventory(Resource(data, Origin(file="x.yaml")) for data in resources), CONFIG)
    assert not report.defects, report.defects[0].trace
    for finding in report.findings:
        assert finding.message and finding.fix


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: f"{e.rule}-{e.kind}.{e.case}")
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_garbage_in_any_field(example: Example, data: st.DataObject) -> None:
    objects = [resource.data for resource in example.inventory().resources]
    index = data.draw(st.integers(0, len(objects) - 1))
    # apiVersion and kind stay: they decide which rules run.
    paths = [path for path in places(objects[index])[1:] if path not in (("apiVersion",), ("kind",))]
    path = data.draw(st.sampled_from(paths))
    objects[index] = replaced(objects[index], path, data.draw(GARBAGE))
    judged(objects)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: f"{e.rule}-{e.kind}.{e.case}")
def test_an_unknown_value_anywhere(example: Example) -> None:
    objects = [resource.data for resource in example.inventory().resources]
    for index, data in enumerate(objects):
        for path in places(data)[1:]:
            if path not in (("apiVersion",), ("kind",)):
                judged([*objects[:index], replaced(data, path, Unknown(path)), *objects[index + 1 :]])


@settings(max_examples=200, deadline=None)
@given(
    kind=st.sampled_from(sorted({kind for rule in RULES for kind in rule.kinds})),
    body=st.dictionaries(st.sampled_from(["metadata", "spec", "data", "value"]), GARBAGE),
)
def test_garbage_for_a_whole_object(kind: str, body: dict[str, Any]) -> None:
    name, _, group = kind.partition(".")
    judged([{**body, "apiVersion": f"{group}/v1" if group else "v1", "kind": name}])
