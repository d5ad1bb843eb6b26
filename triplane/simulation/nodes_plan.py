"""What a pool may buy, at what price, and when it gives nodes back: settings and a strategy in, plain figures out."""

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass

from triplane import catalog
from triplane.settings.pools import KEEP_EMPTY_NODE, MaintenanceWindow, PoolSettings
from triplane.simulation.budgets import Budget
from triplane.simulation.errors import SimulationError
from triplane.simulation.fair_share import Triple
from triplane.simulation.provenance import Coefficient

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class PoolError(SimulationError):
    """A pool that cannot be simulated: says why."""


@dataclass(frozen=True, kw_only=True)
class PoolPlan:
    """One pool as the simulation sees it. Prices in US dollars a second, times in seconds."""

    name: str
    gpus: int
    capacity: Triple
    instance_type: str
    price: float
    most: int
    static: int
    reserved: int
    """Nodes that a reservation holds: they cannot be refused, and are paid for whether they run or not."""
    fallback: bool
    """Whether nodes beyond the reservation may be bought."""
    spot: bool
    consolidate_after: float
    expire_after: float
    grace: float
    """terminationGracePeriod: the longest drain of a node; infinite where it is not set."""
    budgets: tuple[Budget, ...]
    maintenance: MaintenanceWindow | None
    coefficients: tuple[Coefficient, ...]


def pool_plan(
    name: str,
    pool: PoolSettings,
    *,
    reserved: int,
    price_hour: float | None,
    underutilized: bool,
    pods: Sequence[Triple] = (),
) -> PoolPlan:
    """A pool's plan: the cheapest instance type that holds each of `pods` (GPUs, CPU millicores, memory bytes).

    `price_hour`: the user's own price of a node, in place of the list price. Raises PoolError.
    """
    types = catalog.instance_types(pool.accelerator, pool.gpus_per_node)
    if not types:
        raise PoolError(f"pools.{name}: no instance type has {pool.gpus_per_node} x {pool.accelerator}")
    fitting = [one for one in types if all(_fits(pod, one) for pod in pods)]
    if not fitting:
        raise PoolError(
            f"pools.{name}: no instance type with {pool.gpus_per_node} GPUs has the CPU and memory of its pods"
        )
    chosen = fitting[0]
    spot = pool.capacity.fallback == "spot"
    if price_hour is None and spot:
        raise PoolError(
            f"pools.{name}: a spot price is an input, since no trustworthy one is published: set prices.{name}"
        )
    price = chosen.price_usd_hour if price_hour is None else price_hour
    if price is None:
        raise PoolError(f"pools.{name}: the price of {chosen.name} is not known: set prices.{name}")
    disruption = pool.disruption
    after = disruption.consolidate_after or KEEP_EMPTY_NODE[pool.purpose]
    if underutilized:
        # Karpenter's defaults: consolidateAfter 0s, one budget of 10 % for every reason.
        wait = 0.0
        budgets: tuple[Budget, ...] = (Budget("10%"),)
    else:
        wait = _seconds(after)
        budgets = (
            Budget("0", frozenset({"Underutilized"})),
            Budget("1", frozenset({"Empty"})),
            Budget("1" if pool.maintenance else "0", frozenset({"Drifted"})),
        )
    source = (
        Coefficient(f"{name}: price", price, f"USD/h, {chosen.name}", "input", "scenario")
        if price_hour is not None
        else Coefficient(
            f"{name}: price",
            price,
            f"USD/h, {chosen.name}",
            "published",
            f"on demand, {chosen.price_region}, {chosen.price_date}: {chosen.source}",
        )
    )
    rows = [source]
    if pool.capacity.reserved or pool.capacity.blocks:
        rows.append(
            Coefficient(
                f"{name}: reserved nodes", reserved, "nodes", "input" if reserved else "assumed",
                "scenario" if reserved else "the stack file names a reservation, not its size: taken as none",
            )
        )  # fmt: skip
    if not reserved and pool.capacity.fallback is None:
        raise PoolError(f"pools.{name}: buys from reservations only, whose size is an input: set reservedNodes.{name}")
    return PoolPlan(
        name=name,
        gpus=pool.gpus_per_node,
        capacity=(
            float(pool.gpus_per_node),
            float(chosen.allocatable_cpu_millis),
            chosen.allocatable_memory_mib * 2.0**20,
        ),
        instance_type=chosen.name,
        price=price / 3600.0,
        most=pool.nodes.max if pool.capacity.fallback else min(pool.nodes.max, reserved),
        static=pool.nodes.static or 0,
        reserved=reserved,
        fallback=pool.capacity.fallback is not None,
        spot=spot,
        consolidate_after=wait,
        expire_after=_seconds(disruption.expire_after) if disruption.expire_after else math.inf,
        grace=_seconds(disruption.termination_grace_period) if disruption.termination_grace_period else math.inf,
        budgets=budgets,
        maintenance=pool.maintenance,
        coefficients=tuple(rows),
    )


def _fits(pod: Triple, one: catalog.InstanceType) -> bool:
    return pod[1] <= one.allocatable_cpu_millis and pod[2] <= one.allocatable_memory_mib * 2.0**20


def _seconds(value: dt.timedelta | str) -> float:
    return value.total_seconds() if isinstance(value, dt.timedelta) else math.inf


def window_open(window: MaintenanceWindow | None, when: dt.datetime) -> bool:
    """Whether nodes may drift at a moment: inside the pool's maintenance window, in UTC."""
    if window is None:
        return False
    minute = when.weekday() * 1440 + when.hour * 60 + when.minute
    opens = window.start.hour * 60 + window.start.minute
    length = (window.end.hour * 60 + window.end.minute - opens) % 1440 or 1440
    return any((minute - _DAYS.index(day) * 1440 - opens) % (7 * 1440) < length for day in window.days)


def pack(pods: list[int], free: list[int], per_node: int, most: int) -> int:
    """New nodes for pods (GPUs each) that do not fit on what is free: first fit, largest first, at most `most`."""
    rooms = sorted(free)
    new = 0
    for pod in sorted(pods, reverse=True):
        at = next((i for i, room in enumerate(rooms) if room >= pod), None)
        if at is not None:
            rooms[at] -= pod
        elif pod <= per_node and new < most:
            rooms.append(per_node - pod)
            new += 1
    return new
