"""YAML that we write is read back as it was, by both readers, and always the same."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triplane.documents import Dialect, read_documents
from triplane.documents.writing import yaml_text

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=20) | st.sampled_from(
    ["y", "no", "On", "1e3", "0o17", "017", "1_000", "12:30:00", ".inf", "~", "null", "", " ", "2026-12-01", "<<", "="]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(TEXTS.filter(lambda key: key != "<<"), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("dialect", list(Dialect))
@given(value=VALUES.filter(lambda value: value is not None))
def test_any_value_comes_back(dialect: Dialect, value: Any) -> None:
    (document,) = read_documents(yaml_text(value), "written.yaml", dialect)
    assert _as_json(document.value) == _as_json(value)


def _as_json(value: Any) -> Any:
    """JSON does not tell 1.0 from 1, nor -0.0 from 0; True is not 1."""
    if isinstance(value, dict):
        return {key: _as_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    return value if isinstance(value, str | None) else (isinstance(value, bool), float(value))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": {"d": [], "c": {}}}, "a:\n  c: {}\n  d: []\nb: 1\n"),
        ({"script": "one\ntwo\n"}, "script: |\n  one\n  two\n"),
        ({"query": "sum(rate(x[5m])) " * 20}, f"query: '{'sum(rate(x[5m])) ' * 20}'\n"),
        (["yes", "y", "1e3", "10", True, 1.0], '- "yes"\n- "y"\n- "1e3"\n- "10"\n- true\n- 1.0\n'),
    ],
)
def test_people_can_read_it(value: Any, text: str) -> None:
    assert yaml_text(value) == text


def test_compact_yaml_folds_at_the_width() -> None:
    text = yaml_text({"labels": {f"key-{n}": "v" for n in range(12)}, "b": [1, 2]}, compact=True, width=40)
    assert "b: [1, 2]" in text
    assert max(map(len, text.splitlines())) <= 50
