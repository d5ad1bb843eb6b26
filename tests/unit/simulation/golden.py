"""Reads the golden tables: inputs and outputs of the originals, beside this repository's tests as plain figures."""

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "data" / "golden"


def cases(table: str, *kinds: str) -> list[Any]:
    """Cases of a table as pytest parameters named by their id; of these kinds, or all."""
    found = json.loads((FOLDER / f"{table}.json").read_text())["cases"]
    chosen = [case for case in found if not kinds or case["kind"] in kinds]
    assert chosen, f"{table} has no case of {kinds}"
    return [pytest.param(case, id=case["id"]) for case in chosen]
