"""Whole scheduling rounds against KAI's own integration tests and further runs of its actions (commit d5bc503)."""

from typing import Any

import pytest

from tests.unit.simulation.golden import cases
from tests.unit.simulation.kai_scenarios import differences


def whole_devices(table: str) -> tuple[list[Any], list[Any]]:
    """Cases in which every task asks for whole GPUs, and the others."""
    whole: list[Any] = []
    shared: list[Any] = []
    for param in cases(table):
        jobs = param.values[0]["input"]["jobs"]
        (shared if any(job["gpus_per_task"] % 1 for job in jobs) else whole).append(param)
    return whole, shared


OWN, SHARED = whole_devices("kai_scenarios")
MORE, SHARED_MORE = whole_devices("kai_scenarios_more")


@pytest.mark.parametrize("case", OWN + MORE)
def test_scenario(case: dict[str, Any]) -> None:
    assert differences(case) == []


def test_what_is_compared() -> None:
    """GPU sharing is not simulated: 16 of the 144 cases ask for parts of a device and are left out."""
    assert (len(OWN), len(MORE), len(SHARED), len(SHARED_MORE)) == (56, 72, 16, 0)
