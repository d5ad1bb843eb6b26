"""Whatever stands in a stack file: it is a stack, or a SettingsError with sentences. Nothing else is ever raised."""

from typing import Any

from changed_stack import values
from hypothesis import given, settings
from hypothesis import strategies as st

from triplane.settings import SettingsError, StackSettings
from triplane.settings.stack import StackSettings as Model


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(inner for key, child in children for inner in paths_of(child, (*path, key)))]


PATHS = [path for path in paths_of(values({})) if path]
WORDS = st.sampled_from(
    [
        "",
        "serving",
        "spot",
        "chat-decode",
        "assistants",
        "unlimited",
        "Never",
        "70%",
        "5m",
        "0s",
        "H100",
        "GB200",
        "1.9",
    ]
)
LEAVES = st.none() | st.booleans() | st.integers(-2, 10**7) | st.floats(0, 100) | WORDS | st.text(max_size=5)
KEYS = WORDS | st.sampled_from(["secure", "gpus", "quota", "children", "signal", "metric", "roles", "hosts", "static"])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)


@st.composite
def changed(draw: st.DrawFn) -> dict[str, Any]:
    result = values({})
    for path in draw(st.lists(st.sampled_from(PATHS), min_size=1, max_size=3)):
        *parents, last = path
        inner: Any = result
        try:
            for parent in parents:
                inner = inner[parent]
            if draw(st.booleans()):
                inner[last] = draw(VALUES)
            elif isinstance(inner, dict):
                inner[draw(KEYS)] = draw(VALUES)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took this path away
    return result


@settings(max_examples=200, deadline=None)
@given(changed())
def test_a_changed_stack(stack: dict[str, Any]) -> None:
    try:
        loaded = StackSettings.from_config(stack, "stack")
    except SettingsError as error:
        assert error.problems
        for problem in error.problems:
            assert problem.message
            assert "pydantic" not in str(problem)
            assert "Input should" not in str(problem)
            assert "Value error" not in str(problem)
    else:
        assert Model.model_validate(loaded.model_dump(by_alias=True), by_alias=True, by_name=False) == loaded


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(KEYS | st.sampled_from(list(Model.model_fields)), VALUES, max_size=5))
def test_anything(stack: dict[str, Any]) -> None:
    try:
        StackSettings.from_config(stack, "stack")
    except SettingsError as error:
        assert error.problems
