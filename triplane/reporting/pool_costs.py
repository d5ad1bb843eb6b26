"""What each pool holds and costs, at its fewest and at its most nodes."""

from collections.abc import Iterator

from triplane.manifests.capacity import HourlyPrice, fewest_nodes, hourly_price, pool_gpus
from triplane.settings.stack import StackSettings


def pool_costs(stack: StackSettings) -> Iterator[str]:
    """A table with a line for each pool and their sum, and below it what the prices are."""
    rows: list[tuple[str, ...]] = [("pool", "accelerator", "GPUs min", "max", "$/hour min", "max")]
    gpus, prices = [0, 0], []
    for name, pool in stack.pools.items():
        fewest = fewest_nodes(name, pool, stack.models)
        held, price = pool_gpus(pool, fewest), hourly_price(pool, fewest)
        gpus = [gpus[0] + held.minimum, gpus[1] + held.maximum]
        prices.append(price)
        rows.append((name, pool.accelerator, str(held.minimum), str(held.maximum), *_dollars(price)))
    if len(prices) > 1:
        rows.append(("all pools", "", str(gpus[0]), str(gpus[1]), *_dollars(_sum(prices))))
    yield from _aligned(rows)
    yield ""
    yield "min: what minimum replicas and static nodes need; max: each pool's limit."
    known = [price for price in prices if price.date]
    if known:
        yield f"On-demand list prices of {known[0].region} on {known[0].date}; other regions differ."
    if any(pool.capacity.fallback == "spot" for pool in stack.pools.values()):
        yield "Spot is cheaper, and its price moves."
    if any(pool.capacity.reserved for pool in stack.pools.values()):
        yield "A capacity reservation is paid for whether it is used or not."


def _sum(prices: list[HourlyPrice]) -> HourlyPrice:
    minima, maxima = [p.minimum for p in prices], [p.maximum for p in prices]
    return HourlyPrice(
        None if None in minima else sum(filter(None, minima)),
        None if None in maxima else sum(filter(None, maxima)),
        None,
        None,
    )


def _dollars(price: HourlyPrice) -> tuple[str, str]:
    minimum, maximum = ("unknown" if value is None else f"{value:,.2f}" for value in (price.minimum, price.maximum))
    return ("price", "unknown") if minimum == maximum == "unknown" else (minimum, maximum)


def _aligned(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
