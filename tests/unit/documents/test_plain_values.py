"""The quick reader of plain text agrees with the full reader, on every text that it takes."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from triplane.documents import DocumentError, read_documents, read_values
from triplane.documents.plainly import MAX_DEPTH, plain_values

ROOT = Path(__file__).parents[3]
FILES = sorted(path for folder in ("tests", "triplane", "stacks") for path in (ROOT / folder).rglob("*.yaml"))


def fully(text: str) -> list[tuple[Any, int]]:
    return [(document.value, document.start.line) for document in read_documents(text, "file.yaml")]


def agrees(text: str) -> bool:
    """Whether the quick reader took the text; then it must have found what the full reader finds."""
    values = plain_values(text)
    if values is None:
        return False
    # repr tells 1 from 1.0 and True, and the order of keys.
    assert repr(values) == repr(fully(text)), text
    return True


def test_it_reads_most_manifests() -> None:
    taken = [agrees(path.read_text(encoding="utf-8")) for path in FILES]
    assert len(taken) > 500
    assert sum(taken) > 0.6 * len(taken)


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\nb: yes\n",
        "a:\n- 1\n- b: 2\n  c: 3\nd:\n",
        "a:\n  - b:\n    - c\n  - d: []\n",
        "---\n# only a comment\n---\na: 1\n---\n---\nb: 2 # two\n",
        "  a: 1\n  b: 2\n",
        "a: \"x # y\"\nb: 'y: z'\nc: http://x/y#z\nd: a,b [c] {d}\n",
        'a: {b: "1", c: /d}\ne: [x, "y, z", 0x10, on]\n',
        "a: [b, [c, {d: [e]}], {}]\nb: {c: {d: 'e, f', g: []}}\n'h': 1\n",
        "on: 1\n1: x\n1.50: y\n",
        "a: |\n  x\n   y\n\n  z # no comment\n\nb: |-\n  w\n",
        "- a\n- b\n",
        "a: 123456789012345678901234567890\nb: 1e3\nc: 0o17\nd: 017\ne: 1_000\nf: -.5\n",
        "a:   1   \nb:    \n",
    ],
)
def test_plain_text_is_taken(text: str) -> None:
    assert agrees(text)


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\na: 2\n",
        "true: 1\nyes: 2\n",
        "a: {b: 1, b: 2}\n",
        "a: &x 1\nb: *x\n",
        "<<: {a: 1}\n",
        "a: !!str 1\n",
        "a: .inf\n",
        "~: 1\n",
        "a: b: c\n",
        "a: x\n  y\n",
        "a: x\n  - y\n",
        "a: 1\n  b: 2\n",
        "a:\n    b: 1\n  c: 2\n",
        "  a: 1\nb: 2\n",
        "- a\nb: 1\n",
        "a: 1\n- b\n",
        "a: 1\n...\n",
        "--- a\n",
        "a:\n\t- b\n",
        "a: 1\r\nb: 2\r\n",
        'a: "x\\n"\n',
        "a: 'it''s'\n",
        'a: "x"y\n',
        "a: 'x\n  y'\n",
        "a: >\n  x\n",
        "a: |2\n   x\n",
        "a: |\n  x",
        "a: |\nb: 1\n",
        "a: |\n   x\n  y\n",
        "a: |\n\n  x\n",
        "a: [b,]\n",
        "a: {b}\n",
        "a: {b: 1] \n",
        "a: [b] c]\n",
        "a: {b: }\n",
        "a: {b:1}\n",
        "a: [b c]\n",
        f"a: {'[' * (MAX_DEPTH + 1)}{']' * (MAX_DEPTH + 1)}\n",
        "a: [b: c]\n",
        "a: [b,\n  c]\n",
        "- - a\n",
        "-\n  a: 1\n",
        "? a\n: b\n",
        "%YAML 1.1\n---\na: 1\n",
        "a: @b\n",
        "a: `b`\n",
        "a: b\u2028c: d\n",
        "just text\n",
        "".join(f"{'  ' * depth}a:\n" for depth in range(MAX_DEPTH + 1)),
        '{"a": 1}\n',
    ],
)
def test_anything_else_is_left_to_the_full_reader(text: str) -> None:
    assert plain_values(text) is None


def test_values_of_any_text_are_those_of_its_documents() -> None:
    assert list(read_values("\ufeffa: 1\n---\nb: &x 2\n", "f")) == [({"a": 1}, 1), ({"b": 2}, 3)]
    with pytest.raises(DocumentError, match="line 1"):
        list(read_values("a: 1\na: 2\n", "f"))


# fmt: off
VALUES = [
    "a", "b", "yes", "n", "1", "0x1F", "1.0", "1e3", "-1", "null", "~", ".5", "2026-12-01", "a-b", "x.y/z", "<<", "--x",
    "", '""', '"a"', "'b'", '"1"', "|", "|-", "a b", "a:b", "a#b", "a #b", "# c", "a, b", "$(x)", "-", "a:", "a",
    "[a, 1]", "[a, [b, {c: d}]]", "{a: [{b: 1}]}", "[]", "{}", "{a: 1}", "{a: b, c: 'd'}", "[a,]", "{a: 1, a: 2}",
    "[a", "a]", "*a", "&a b", '"a', "'a' b", "[a: b]", "{a}", "? a", "'a''b'", "[a] ]", "[a] # ]", "[a b]", "[1, 'x']",
]
# fmt: on
lines = st.builds(
    lambda indent, dash, key, value: f"{' ' * indent}{dash}{key}{value}",
    st.integers(0, 6),
    st.sampled_from(["", "", "", "- ", "-  ", "- - "]),
    st.sampled_from(["", "a: ", "b: ", "c: ", "d: ", '"a": ', "yes: ", "1: ", "a:", "a:  "]),
    st.sampled_from(VALUES),
)
texts = st.lists(lines | st.sampled_from(["---", "", "  ", "# c", "...", "--- # c", "---a"]), max_size=8)


@given(texts, st.booleans())
@example(["a: |", "  x", "   "], True)
@example(["a:", "- b", "", "- c", "b:", " - d"], False)
def test_no_text_is_read_differently(written: list[str], ends: bool) -> None:
    text = "\n".join(written) + ("\n" if ends else "")
    values = plain_values(text)
    if values is not None:
        try:
            expected = fully(text)
        except DocumentError as error:
            raise AssertionError(f"{text!r} was taken, though it is refused: {error}") from None
        assert repr(values) == repr(expected), text
