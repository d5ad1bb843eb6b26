"""Each text is read as Go reads it: see oracle/README.md for where the answers come from."""

import json
from pathlib import Path
from typing import Any

import pytest

from triplane.documents import Dialect, DocumentError, read_documents

READINGS = [
    json.loads(line) for line in Path(__file__).with_name("oracle").joinpath("readings.jsonl").read_text().splitlines()
]

# Go accepts what we refuse on purpose, in one dialect or both: a key written twice, and a key without a name.
STRICTER = {
    (Dialect.KUBERNETES, "a: 1\na: 2"),
    (Dialect.KUBERNETES, '1: 2\n"1": 3'),
    (Dialect.KUBERNETES, "true: 2\nyes: 3"),
    (Dialect.PULUMI, "~: 3"),
    (Dialect.PULUMI, "null: 4"),
}


def read(text: str, dialect: Dialect) -> Any:
    indented = text.replace("\n", "\n  ")
    (document,) = read_documents(f"value:\n  {indented}\n", "file.yaml", dialect)
    return document.value["value"]


def as_engine_text(value: Any) -> str:
    """How the engine hands a top-level scalar to the program: as text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


@pytest.mark.parametrize(("text", "engine", "kubernetes"), READINGS, ids=[repr(row[0]) for row in READINGS])
def test_reading_equals_that_of_go(text: str, engine: dict[str, Any], kubernetes: dict[str, Any]) -> None:
    for dialect, expected in ((Dialect.PULUMI, engine), (Dialect.KUBERNETES, kubernetes)):
        if "refused" in expected or (dialect, text) in STRICTER:
            with pytest.raises(DocumentError):
                read(text, dialect)
        elif "secret" in expected:
            assert "secure" in json.dumps(read(text, dialect))
        elif "text" in expected:
            value = read(text, dialect)
            assert as_engine_text(value) == expected["text"] or value == float(expected["text"])
        else:
            wanted = expected["object"] if dialect is Dialect.PULUMI else expected["value"]
            value = read(text, dialect)
            assert value == wanted
            assert type(value) is type(wanted)
