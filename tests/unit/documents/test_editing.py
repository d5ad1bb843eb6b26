"""One value changed in text: what was asked for, and nothing else."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triplane.documents.editing import EditError, documents_of, remove_value, set_value
from triplane.documents.writing import yaml_text


def put(text: str, path: tuple[str | int, ...], value: Any) -> str:
    return set_value(text, documents_of(text, "x.yaml")[0], path, value).applied(text)


def take(text: str, path: tuple[str | int, ...]) -> str:
    return remove_value(text, documents_of(text, "x.yaml")[0], path).applied(text)


@pytest.mark.parametrize(
    ("before", "path", "value", "after"),
    [
        ("a: 1  # one\nb: 2\n", ("a",), 3, "a: 3  # one\nb: 2\n"),
        ("a: 'x'\n", ("a",), "z", "a: z\n"),
        ("a: x\n", ("a",), "yes", 'a: "yes"\n'),
        ("a:\n  b: 1 # one\n  # end\nc: 2\n", ("a", "d"), 3, "a:\n  b: 1 # one\n  d: 3\n  # end\nc: 2\n"),
        ("a:\n  b: 1\nc: 2", ("e",), True, "a:\n  b: 1\nc: 2\ne: true"),
        ("a: {b: 1}\n", ("a", "c"), "x", "a: {b: 1, c: x}\n"),
        ("a: {}\n", ("a", "c"), "x", "a: {c: x}\n"),
        ("a:\nb: 1\n", ("a",), 2, "a: 2\nb: 1\n"),
        ("a:\nb: 1\n", ("a", "c"), 2, 'a: {"c": 2}\nb: 1\n'),
        ("a: 1\n", ("b", "c", "d"), 2, "a: 1\nb:\n  c:\n    d: 2\n"),
        ("a:\n  - b: 1\n  - b: 2\n", ("a", 1, "c"), 3, "a:\n  - b: 1\n  - b: 2\n    c: 3\n"),
        ("a:\n- b\n- c\n", ("a", 2), "d", "a:\n- b\n- c\n- d\n"),
        ("a: [b]\n", ("a", 1), "c", "a: [b, c]\n"),
        ('{"a": {"b": 1}}\n', ("a", "c"), "x", '{"a": {"b": 1, "c": "x"}}\n'),
        ("a: 1\r\nb: 2\r\n", ("c",), 3, "a: 1\r\nb: 2\r\nc: 3\r\n"),
        ("a: |\n  text\n\n# end\n", ("b",), 1, "a: |\n  text\nb: 1\n\n# end\n"),
        ("ä: ü # ö\nb: 1\n", ("b",), 2, "ä: ü # ö\nb: 2\n"),
    ],
)
def test_setting(before: str, path: tuple[str | int, ...], value: Any, after: str) -> None:
    assert put(before, path, value) == after


@pytest.mark.parametrize(
    ("before", "path", "after"),
    [
        ("a: 1\nb: 2 # two\nc: 3\n", ("b",), "a: 1\nc: 3\n"),
        ("a: 1\nb:\n  c: 2\n", ("b",), "a: 1\n"),
        ("a: {b: 1, c: 2}\n", ("a", "b"), "a: {c: 2}\n"),
        ("a: {b: 1, c: 2}\n", ("a", "c"), "a: {b: 1}\n"),
        ("a: {b: 1}\n", ("a", "b"), "a: {}\n"),
        ("a:\n  b: 1\nc: 2\n", ("a", "b"), "a:\n  {}\nc: 2\n"),
        ("a:\n- b: 1\n  c: 2\n", ("a", 0, "b"), "a:\n- c: 2\n"),
        ("a:\n- b\n- c\n", ("a", 1), "a:\n- b\n"),
    ],
)
def test_removing(before: str, path: tuple[str | int, ...], after: str) -> None:
    assert take(before, path) == after


@pytest.mark.parametrize(
    ("text", "path", "told"),
    [
        ("a: &x {b: 1}\nc: *x\n", ("c", "b"), "shared through an anchor"),
        ("a: &x {b: 1}\nc: *x\n", ("a", "b"), "shared through an anchor"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", ("c", "b"), "merge key"),
        ("a: 1\n", ("a", "b"), "neither a mapping nor a list"),
    ],
)
def test_what_would_change_something_else_is_refused(text: str, path: tuple[str | int, ...], told: str) -> None:
    with pytest.raises(EditError, match=told):
        put(text, path, 2)


def test_removing_what_is_not_there_is_refused() -> None:
    with pytest.raises(EditError, match="not written here"):
        take("a: 1\n", ("b",))


KEYS = st.sampled_from(["a", "b", "spec", "nvidia.com/gpu", "yes", "1"])
SCALARS = st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=6).filter(str.isprintable)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=12
)


def paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(deeper for key, item in inner for deeper in paths(item, (*path, key)))]


@settings(max_examples=300, deadline=None)
@given(value=st.dictionaries(KEYS, VALUES, min_size=1, max_size=4), new=SCALARS, compact=st.booleans(), data=st.data())
def test_the_text_reads_as_the_changed_value(
    value: dict[str, Any], new: Any, compact: bool, data: st.DataObject
) -> None:
    text = yaml_text(value, compact=compact)
    path = data.draw(st.sampled_from(paths(value)[1:]))
    wanted = copy.deepcopy(value)
    parent: Any = wanted
    for part in path[:-1]:
        parent = parent[part]
    if data.draw(st.booleans()):
        parent[path[-1]] = new
        edited = put(text, path, new)
    else:
        del parent[path[-1]]
        try:
            edited = take(text, path)
        except EditError:
            return
    assert documents_of(edited, "x.yaml")[0].value == wanted
