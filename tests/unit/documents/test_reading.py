"""Places, and every text that is refused with a place and a sentence."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triplane.documents import Dialect, Document, DocumentError, Position, decode, read_documents, render_path

FAULTS = {
    "tab": ("a:\n\tb: 1\n", "f:2:1", "a tab stands where YAML allows spaces only"),
    "duplicate key": ("a: 1\nb: 2\na: 3\n", "f:3:1", "key a stands twice; first on line 1"),
    "duplicate through another spelling": ("'1': x\n1: y\n", "f:2:1", 'key ["1"] stands twice; first on line 1'),
    "control character": ("a: 1\nb: \x07\n", "f:2:4", "character U+0007 is not allowed"),
    "unclosed list": ("a: [1,\n", "f:2:1", "not valid YAML"),
    "unclosed quote": ("a: 'x\n", "f:2:1", "not valid YAML"),
    "two colons": ("a: b: c\n", "f:1:5", "quote the value or indent the key"),
    "reserved start": ("a: @x\n", "f:1:4", "'@' cannot start a value"),
    "unknown alias": ("a: *nobody\n", "f:1:4", "undefined alias"),
    "alias cycle": ("a: &loop\n  b: {c: *loop}\n", "f:1:4", "an alias points at a value that contains it"),
    "list as key": ("? [a]\n: 1\n", "f:1:3", "a key must be plain text"),
    "infinity": ("a: .inf\n", "f:1:4", ".inf has no form in JSON"),
    "wrong tag": ("a: !!int x\n", "f:1:4", "'x' is no !!int"),
    "merge of a number": ("a: {<<: 5}\n", "f:1:9", "a merge key (<<) takes a mapping"),
    "deep nesting": ("[" * 5000 + "]" * 5000, "f:1:1001", "maximum nesting depth"),
}


def only(text: str, dialect: Dialect = Dialect.KUBERNETES) -> Document:
    (document,) = read_documents(text, "f", dialect)
    return document


@pytest.mark.parametrize(("text", "place", "message"), FAULTS.values(), ids=FAULTS.keys())
def test_fault_names_place_and_remedy(text: str, place: str, message: str) -> None:
    with pytest.raises(DocumentError) as error:
        list(read_documents(text, "f"))
    assert str(error.value).startswith(f"{place}  ")
    assert message in error.value.message


def test_many_nested_aliases_are_refused_before_memory_is_gone() -> None:
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    text += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))
    with pytest.raises(DocumentError, match="aliases of this document expand to more than"):
        list(read_documents(text, "f"))


def test_positions_of_values_keys_items_and_of_what_is_missing() -> None:
    document = only("a:\n  b: [x, y]\n  base: &base {k: v}\n  d:\n    <<: *base\n    e: 1\n")
    assert str(document.position(("a", "b", 1))) == "f:2:10"
    assert str(document.position(("a", "b"), key=True)) == "f:2:3"
    assert str(document.position(("a", "d", "e"))) == "f:6:8"
    assert str(document.position(("a", "d", "k"))) == "f:3:19"  # where the merged value is written
    assert document.position(("a", "missing", "x")) == document.position(("a",))


def test_position_finds_a_key_that_is_no_string() -> None:
    document = only("on: {1: x}\n")
    assert document.value == {"true": {"1": "x"}}
    assert str(document.position(("true", "1"))) == "f:1:9"


def test_a_position_without_a_line_is_the_file() -> None:
    assert str(Position("f")) == "f"


def test_several_documents_and_empty_ones() -> None:
    values = [document.value for document in read_documents("---\na: 1\n---\n# nothing\n---\nb: 2\n", "f")]
    assert values == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize(
    ("data", "place", "message"),
    [
        (b"a: 1\nb: \xff\n", "f:2:4", "byte 0xff is not UTF-8"),
        ("a: 1".encode("utf-16"), "f:1:1", "UTF-16"),
        ("ä: 1\nb: ö".encode("latin-1"), "f:1:1", "byte 0xe4 is not UTF-8"),
    ],
)
def test_text_that_is_no_utf8(data: bytes, place: str, message: str) -> None:
    with pytest.raises(DocumentError) as error:
        decode(data, "f")
    assert str(error.value).startswith(f"{place}  ")
    assert message in error.value.message


def test_byte_order_mark_is_no_part_of_the_text() -> None:
    assert only(decode(b"\xef\xbb\xbfa: 1", "f")).value == {"a": 1}


def test_render_path() -> None:
    assert render_path(("spec", "limits", "nvidia.com/gpu", 0)) == 'spec.limits["nvidia.com/gpu"][0]'


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcXYZ", min_size=1), inner, max_size=4),
    max_leaves=20,
)


@given(value=JSON, dialect=st.sampled_from(Dialect))
def test_json_text_reads_as_json(value: object, dialect: Dialect) -> None:
    text = json.dumps({"value": value})
    (document,) = read_documents(text, "f", dialect)
    assert document.value == {"value": value}


@given(text=st.text(max_size=60), dialect=st.sampled_from(Dialect))
def test_any_text_is_read_or_refused_with_a_place(text: str, dialect: Dialect) -> None:
    try:
        list(read_documents(text, "f", dialect))
    except DocumentError as error:
        assert error.position.line >= 1
