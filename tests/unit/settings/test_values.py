"""Typed values: what is read, what is refused, and that a printed value reads back as itself."""

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from triplane.settings import values
from triplane.settings.pools import VolumeSize
from triplane.settings.queues import GpuAmount, ResourceAmount
from triplane.settings.values import format_duration, parse_duration, quantity_value, version_key

READ: list[tuple[Any, Any, Any]] = [
    (values.Duration, "0s", dt.timedelta(0)),
    (values.Duration, "1h30m", dt.timedelta(minutes=90)),
    (values.Duration, "1.2s", dt.timedelta(milliseconds=1200)),
    (values.Duration, "50ms", dt.timedelta(milliseconds=50)),
    (values.Duration, "2d", dt.timedelta(days=2)),
    (values.NodeDurationOrNever, "Never", "Never"),
    (values.NodeDurationOrNever, "720h", dt.timedelta(hours=720)),
    (values.Percentage, "70%", 0.7),
    (values.Percentage, "12.5%", 0.125),
    (values.Quantity, 16, "16"),
    (values.Quantity, "500m", "500m"),
    (values.TimeOfDay, "02:00", dt.time(2)),
    (values.Version, "1.10", "1.10"),
    (values.Name, "a-1", "a-1"),
    (values.LabelValue, "", ""),
    (values.LabelKey, "example.com/team", "example.com/team"),
    (values.Moment, "2026-12-01T03:10Z", dt.datetime(2026, 12, 1, 3, 10, tzinfo=dt.UTC)),
    (values.Moment, "2026-12-01 03:10:00 +0200 +0200", dt.datetime(2026, 12, 1, 1, 10, tzinfo=dt.UTC)),
    (values.Moment, "2026-12-01 00:00:00 +0000 UTC", dt.datetime(2026, 12, 1, tzinfo=dt.UTC)),
    (GpuAmount, -1, "unlimited"),
    (GpuAmount, "unlimited", "unlimited"),
    (GpuAmount, 0, 0),
    (ResourceAmount, -1, "unlimited"),
    (ResourceAmount, 64, "64"),
    (VolumeSize, "2Ti", "2Ti"),
]

REFUSED: list[tuple[Any, Any]] = [
    (values.Duration, 5),
    (values.Duration, "5"),
    (values.Duration, ""),
    (values.Duration, "5x"),
    (values.Duration, "-5s"),
    (values.Duration, "5m 3s"),
    (values.PositiveDuration, "0s"),
    (values.NodeDuration, "50ms"),
    (values.NodeDurationOrNever, "never"),
    (values.NodeDurationOrNever, "0s"),
    (values.Percentage, 70),
    (values.Percentage, 0.7),
    (values.Percentage, "70"),
    (values.Percentage, "-1%"),
    (values.Quantity, "16GB"),
    (values.Quantity, True),
    (values.Quantity, 1.5),
    (values.TimeOfDay, "2:00"),
    (values.TimeOfDay, "24:00"),
    (values.TimeOfDay, 120),
    (values.Version, 1.1),
    (values.Version, "v1.1"),
    (values.Version, "1"),
    (values.Version, "latest"),
    (values.Name, "A"),
    (values.Name, "-a"),
    (values.Name, "a" * 64),
    (values.Name, "a.b"),
    (values.LabelValue, 1),
    (values.LabelValue, "a" * 64),
    (values.LabelKey, "a/b/c"),
    (values.LabelKey, ""),
    (values.Moment, "yesterday"),
    (values.Moment, 5),
    (values.PositiveNumber, True),
    (values.PositiveNumber, "1"),
    (values.PositiveNumber, 0),
    (values.Flag, "true"),
    (values.Flag, 1),
    (GpuAmount, -2),
    (GpuAmount, 1.5),
    (GpuAmount, True),
    (GpuAmount, "all"),
    (ResourceAmount, 1.5),
    (ResourceAmount, -2),
    (VolumeSize, "100"),
    (VolumeSize, "0Gi"),
    (VolumeSize, "60Ti"),
    (VolumeSize, "1500Mi"),
]


@pytest.mark.parametrize(("kind", "written", "value"), READ)
def test_read(kind: Any, written: Any, value: Any) -> None:
    assert TypeAdapter(kind).validate_python(written) == value


@pytest.mark.parametrize(("kind", "written"), REFUSED)
def test_refused(kind: Any, written: Any) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(kind).validate_python(written)


@given(st.integers(0, 10**12))
def test_a_printed_duration_reads_back(microseconds: int) -> None:
    duration = dt.timedelta(microseconds=microseconds)
    assert parse_duration(format_duration(duration)) == duration


@pytest.mark.parametrize(
    ("text", "printed"),
    [("1200ms", "1200ms"), ("50ms", "50ms"), ("1.5ms", "1.5ms"), ("90s", "1m30s"), ("2d", "48h"), ("0s", "0s")],
)
def test_one_printed_form(text: str, printed: str) -> None:
    assert format_duration(parse_duration(text)) == printed


@given(st.floats(0, 1).map(lambda share: round(share, 4)))
def test_a_printed_percentage_reads_back(share: float) -> None:
    kind = TypeAdapter(values.Percentage)
    assert kind.validate_python(kind.dump_python(share)) == pytest.approx(share)


def test_quantities_and_versions_compare() -> None:
    assert quantity_value("64Gi") == 2**36
    assert quantity_value("500m") * 2 == 1
    assert version_key("1.10") > version_key("1.9.9")
