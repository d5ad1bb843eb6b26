"""Where every paid GPU-second went, and what it cost."""

import math
from collections.abc import Iterable, Mapping

from triplane.simulation.nodes import Node
from triplane.simulation.nodes_plan import PoolPlan
from triplane.simulation.world_groups import Group

CAUSES = (
    "busy",
    "job",
    "warmReserve",
    "loading",
    "draining",
    "partialGang",
    "booting",
    "emptyNode",
    "besideOthers",
    "reservedUnused",
)
"""busy: in an engine's step. job: a job's, while all its pods run. warmReserve: a ready replica without a request.
loading: image, weights, engine. draining: a replica that takes nothing new and has nothing to do. partialGang: held by
a gang that is not whole. booting: a node without its GPUs yet. emptyNode: a node without pods. besideOthers: free, on a
node that others use. reservedUnused: paid for in a reservation, not running."""


class Ledger:
    """GPU-seconds by cause. `settle` is called before anything changes."""

    def __init__(self, plans: Mapping[str, PoolPlan]) -> None:
        self._plans = plans
        self._at = 0.0
        self.seconds = dict.fromkeys((*CAUSES, "serving"), 0.0)
        """`serving` and draining still hold the busy time of the kernel, until `close`."""
        self.now: dict[str, int] = {}

    def settle(self, now: float, nodes: Iterable[Node], groups: Iterable[Group]) -> None:
        """Book the time since the last call under what has been the case since then."""
        span = now - self._at
        if span <= 0:
            return
        self._at = now
        for cause, gpus in self.count(nodes, groups).items():
            self.seconds[cause] += gpus * span

    def count(self, nodes: Iterable[Node], groups: Iterable[Group]) -> dict[str, int]:
        """GPUs by cause at this moment."""
        gpus = dict.fromkeys(self.seconds, 0)
        running = dict.fromkeys(self._plans, 0)
        for node in nodes:
            if node.phase == "gone":
                continue
            running[node.plan.name] += node.reserved
            if node.phase == "booting":
                gpus["booting"] += node.plan.gpus
            elif not node.held:
                gpus["emptyNode"] += node.plan.gpus
            else:
                gpus["besideOthers"] += node.free
        for group in groups:
            if group.phase == "pending":
                gpus["partialGang"] += group.holds
            elif group.phase in ("loading", "draining"):
                gpus[group.phase] += group.holds
            elif group.phase == "serving":
                gpus["job" if group.is_job else "serving"] += group.holds
        for name, plan in self._plans.items():
            gpus["reservedUnused"] += (plan.reserved - running[name]) * plan.gpus
        return gpus

    def close(self, busy_serving: float, busy_draining: float) -> dict[str, float]:
        """GPU-seconds by cause, with the engines' busy time told apart from waiting."""
        seconds = dict(self.seconds)
        serving = seconds.pop("serving")
        seconds["busy"] = busy_serving + busy_draining
        seconds["warmReserve"] = serving - busy_serving
        seconds["draining"] -= busy_draining
        return {cause: seconds[cause] for cause in CAUSES}


def cost(nodes: Iterable[Node], plans: Mapping[str, PoolPlan], horizon: float) -> float:
    """US dollars: every node for its time at its price; a reservation for all of the time."""
    dollars = 0.0
    for node in nodes:
        if not node.reserved:
            dollars += (min(node.ended, horizon) - node.launched) * node.plan.price
    return dollars + math.fsum(plan.reserved * horizon * plan.price for plan in plans.values())


def paid_seconds(nodes: Iterable[Node], plans: Mapping[str, PoolPlan], horizon: float) -> float:
    """GPU-seconds paid for."""
    bought = math.fsum(
        (min(node.ended, horizon) - node.launched) * node.plan.gpus for node in nodes if not node.reserved
    )
    return bought + math.fsum(plan.reserved * horizon * plan.gpus for plan in plans.values())
