"""GPUs and dollars of a pool at its smallest and its largest."""

from typing import Any

import pytest

from triplane.manifests.capacity import hourly_price, pool_gpus
from triplane.settings.pools import PoolSettings


def pool(**overrides: Any) -> PoolSettings:
    values = {"purpose": "serving", "accelerator": "H100-SXM5", "gpusPerNode": 8, "nodes": {"max": 4}, **overrides}
    return PoolSettings.model_validate(values)


@pytest.mark.parametrize(("nodes", "gpus"), [({"max": 4}, (0, 32)), ({"max": 6, "static": 2}, (16, 48))])
def test_gpus(nodes: dict[str, int], gpus: tuple[int, int]) -> None:
    assert pool_gpus(pool(nodes=nodes)) == gpus


@pytest.mark.parametrize(
    ("overrides", "minimum", "maximum"),
    [
        ({}, 0.0, 4 * 55.04),
        ({"nodes": {"max": 6, "static": 2}}, 2 * 55.04, 6 * 55.04),
        # Several types fit: from the cheapest to the dearest.
        ({"accelerator": "L4", "gpusPerNode": 4, "nodes": {"max": 3, "static": 1}}, 4.6016, 3 * 6.6752),
        # The price of p5e is not known, and p5e may launch.
        ({"accelerator": "H200-SXM"}, 0.0, None),
        ({"accelerator": "H200-SXM", "nodes": {"max": 3, "static": 1}}, None, None),
    ],
)
def test_dollars(overrides: dict[str, Any], minimum: float | None, maximum: float | None) -> None:
    price = hourly_price(pool(**overrides))
    assert (price.minimum, price.maximum) == (
        minimum if minimum is None else pytest.approx(minimum),
        maximum if maximum is None else pytest.approx(maximum),
    )
    assert (price.date, price.region) == ("2026-07-20", "us-east-1")


def test_no_type_no_price() -> None:
    assert hourly_price(pool(gpusPerNode=3)) == (None, None, None, None)
