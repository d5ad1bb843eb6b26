"""Quantities and durations as Kubernetes and Go read them; fields of the wrong type read as absent."""

import pytest

from triplane.inventory import Unknown, UnknownValue
from triplane.inventory.fields import at, duration, mapping, number, quantity, sequence, text


@pytest.mark.parametrize(
    ("written", "amount"),
    [
        ("8", 8.0),
        (8, 8.0),
        (8.0, 8.0),
        ("500m", 0.5),
        ("16Gi", 16 * 2**30),
        ("1k", 1000.0),
        ("1.5G", 1.5e9),
        ("1e3", 1000.0),
        ("-1", -1.0),
        (".5", 0.5),
        ("1E", 1e18),
        ("100u", 1e-4),
    ],
)
def test_quantities(written: object, amount: float) -> None:
    assert quantity(written) == pytest.approx(amount)


@pytest.mark.parametrize("written", ["", "8 Gi", "Gi", "1K", "0x10", True, None, [], "1e999", "1Gii"])
def test_what_is_no_quantity(written: object) -> None:
    assert quantity(written) is None


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("1h30m", 5400), ("90s", 90), ("1.5h", 5400), ("0", 0), ("0s", 0), ("100ms", 0.1), ("-5m", -300), ("1m1s", 61)],
)
def test_durations(written: str, seconds: float) -> None:
    assert duration(written) == pytest.approx(seconds)


@pytest.mark.parametrize("written", ["", "Never", "1d", "5", "h", "1h 30m", 30, None, "1h30"])
def test_what_is_no_duration(written: object) -> None:
    assert duration(written) is None


def test_wrong_types_read_as_absent() -> None:
    assert mapping([1]) == {} and sequence({"a": 1}) == () and text(3) is None and number("3") is None
    assert at({"a": [{"b": 1}]}, "a", 0, "b") == 1
    assert at({"a": [{"b": 1}]}, "a", "0", "b") is None
    assert at({"a": 1}, "a", "b") is None


@pytest.mark.parametrize("read", [mapping, sequence, text, number, lambda value: at({"a": value}, "a", "b")])
def test_reading_what_is_not_known_yet_says_where(read: object) -> None:
    with pytest.raises(UnknownValue) as raised:
        read(Unknown(("spec", "limits")))  # type: ignore[operator]
    assert raised.value.path == ("spec", "limits")
