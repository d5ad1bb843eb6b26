"""Which cron schedules Karpenter's parser accepts."""

import pytest

from triplane.catalog.cron import is_schedule


@pytest.mark.parametrize(
    "written",
    ["0 6 * * mon-fri", "*/15 0-5 1,15 * *", "@daily", "30 18 * * 6,0", "0 0 ? JAN-MAR SUN", "5/10 * * * *"],
)
def test_what_can_be_read(written: str) -> None:
    assert is_schedule(written)


@pytest.mark.parametrize(
    "written",
    [
        "0 0 6 * * *",
        "@noon",
        "@dailyx",
        "60 * * * *",
        "* 24 * * *",
        "0 6 * * 7",
        "0 6 * * fri-mon",
        "*/0 * * * *",
        "",
        "a b c d e",
    ],
)
def test_what_stops_every_disruption(written: str) -> None:
    assert not is_schedule(written)
