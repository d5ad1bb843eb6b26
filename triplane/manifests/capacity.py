"""What a pool holds and costs, at its smallest and at its largest."""

from collections.abc import Mapping
from typing import NamedTuple

from triplane import catalog
from triplane.settings.models import ModelSettings
from triplane.settings.pools import PoolSettings


class GpuRange(NamedTuple):
    """GPUs of a pool."""

    minimum: int
    maximum: int


class HourlyPrice(NamedTuple):
    """US dollars an hour at on-demand list price; None where the price of an instance type that may launch is not
    known.

    Spot is cheaper; a reservation or block is paid for whether used or not.
    """

    minimum: float | None
    maximum: float | None
    date: str | None
    """Of the price list; None: no instance type fits the pool."""
    region: str | None
    """That the list holds for; other regions differ."""


def fewest_nodes(name: str, pool: PoolSettings, models: Mapping[str, ModelSettings]) -> int:
    """Nodes that always run: those of a static pool, and what every role on the pool needs at its minimum."""
    roles = [role for model in models.values() for role in model.roles.values() if role.pool == name]
    gpus = sum(role.replicas.min * role.gpus_per_replica for role in roles)
    return max(pool.nodes.static or 0, -(-gpus // pool.gpus_per_node))


def pool_gpus(pool: PoolSettings, fewest: int | None = None) -> GpuRange:
    """GPUs with no pod waiting (those of a static pool stay, or of `fewest` nodes) and at the pool's limit."""
    least = fewest if fewest is not None else pool.nodes.static or 0
    return GpuRange(least * pool.gpus_per_node, pool.nodes.max * pool.gpus_per_node)


def hourly_price(pool: PoolSettings, fewest: int | None = None) -> HourlyPrice:
    """From the fewest nodes of the cheapest instance type that fits to the most nodes of the dearest.

    `fewest` as in `pool_gpus`. Raises `catalog.UnknownName` for an unknown accelerator.
    """
    types = catalog.instance_types(pool.accelerator, pool.gpus_per_node)
    if not types:
        return HourlyPrice(None, None, None, None)
    prices = [it.price_usd_hour for it in types]
    known = [price for price in prices if price is not None]
    complete = len(known) == len(prices)
    least = fewest if fewest is not None else pool.nodes.static or 0
    minimum = 0.0 if least == 0 else least * min(known) if complete else None
    return HourlyPrice(
        minimum, pool.nodes.max * max(known) if complete else None, types[0].price_date, types[0].price_region
    )
