"""Nodes in time: what is bought for pending pods, how long it takes to be of use, and what is given back.

Karpenter: pods are batched (1 s without a further one, 10 s at most), packed, and bought; what stays pending is tried
again after 10 s; disruption is looked at every 10 s and validated after 15 s. An offering that was refused for want of
capacity is left alone for 3 minutes. Source: karpenter pkg/controllers/{provisioning,disruption} and settings, AWS
provider pkg/cache/cache.go (commits 2266468, 1d92708). Cluster Autoscaler: scan every 10 s; a node goes when it was
under half used for 10 minutes, its pods fit elsewhere, and nothing was added for 10 minutes (FAQ, commit 55c37cd). Both
wait for the same boot: what differs is who decides when.
"""

import datetime as dt
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from triplane.simulation.budgets import NodeState, Reason, pool_allowance
from triplane.simulation.clock import Clock
from triplane.simulation.coldstart import ColdStart, Draws
from triplane.simulation.nodes_plan import PoolPlan, pack, window_open
from triplane.simulation.strategies import Consolidation, Provisioner

BATCH_IDLE = 1.0
BATCH_MOST = 10.0
RETRY = 10.0
POLL = 10.0
VALIDATION = 15.0
REFUSED_FOR = 180.0
SPOT_NOTICE = 120.0
UNNEEDED = 600.0
AFTER_ADD = 600.0
UNDER_USED = 0.5

Phase = Literal["booting", "ready", "draining", "gone"]


@dataclass(slots=True, eq=False)
class Node:
    """A node that is paid for. `held` is what each group on it takes, in GPUs."""

    name: str
    plan: PoolPlan
    launched: float
    reserved: bool
    phase: Phase = "booting"
    ready_at: float = math.inf
    ended: float = math.inf
    changed: float = 0.0
    unneeded_since: float = math.inf
    drifted: bool = False
    held: dict[str, int] = field(default_factory=dict)
    images: set[str] = field(default_factory=set)

    @property
    def used(self) -> int:
        """GPUs that pods hold."""
        return sum(self.held.values())

    @property
    def free(self) -> int:
        """GPUs that no pod holds."""
        return self.plan.gpus - self.used


class Pods(Protocol):
    """What the node layer asks the layers above."""

    def pending(self, pool: str) -> list[int]:
        """GPUs of each pod that no node has room for, as the scheduler marked them."""

    def node_ready(self, now: float) -> None:
        """A node can take pods."""

    def may_move(self, node: Node) -> bool:
        """Whether every pod on the node may be evicted now (do-not-disrupt, PodDisruptionBudgets)."""

    def evict(self, node: Node, reason: str, now: float, *, grace: float) -> None:
        """Send every pod of the node away; `grace` bounds it."""


class NodeLayer:
    """All pools. `nodes` holds every node that was ever bought, in order."""

    def __init__(
        self,
        plans: Mapping[str, PoolPlan],
        pods: Pods,
        clock: Clock,
        draws: Draws,
        log: Callable[..., None],
        settle: Callable[[float], None],
        *,
        cold_start: ColdStart,
        provisioner: Provisioner,
        consolidation: Consolidation,
        start: dt.datetime,
        refusals: float = 0.0,
        spot_per_hour: float = 0.0,
    ) -> None:
        self.plans = dict(plans)
        self.nodes: list[Node] = []
        self._pods, self._clock, self._draws, self._log = pods, clock, draws, log
        self._settle = settle  # called before any change, so that the time up to it is booked as it was
        self._cold_start = cold_start
        self._provisioner, self._consolidation, self._start = provisioner, consolidation, start
        self._refusals, self._spot_per_hour = refusals, spot_per_hour
        self._counts = dict.fromkeys(plans, 0)
        self._batch: tuple[float, float] | None = None
        self._refused_until = dict.fromkeys(plans, -math.inf)
        self._last_added = -math.inf
        phase = draws.uniform("nodes: phase") * POLL
        clock.every(POLL, phase, self._scan if provisioner == "clusterAutoscaler" else self._poll)

    # --- buying -------------------------------------------------------------------------------------------------

    def standing(self, pool: str) -> list[Node]:
        """Nodes of a pool that are paid for."""
        return [node for node in self.nodes if node.plan.name == pool and node.phase != "gone"]

    def place_now(self, pool: str) -> Node:
        """A node that is there from the start."""
        node = self._new(pool, 0.0)
        node.phase, node.ready_at = "ready", 0.0
        return node

    def pods_pending(self, now: float) -> None:
        """Pods were marked unschedulable: Karpenter starts or extends its batch. The Cluster Autoscaler just scans."""
        if self._provisioner == "clusterAutoscaler":
            return
        if self._batch is None:
            self._batch = (now, now)
            self._clock.at(now + BATCH_IDLE, self._close_batch)
        else:
            self._batch = (self._batch[0], now)

    def _close_batch(self, now: float) -> None:
        assert self._batch is not None
        first, last = self._batch
        due = min(first + BATCH_MOST, last + BATCH_IDLE)
        if now < due:
            self._clock.at(due, self._close_batch)
            return
        self._batch = None
        if self._buy(now):
            self._clock.at(now + RETRY, self._retry)

    def _retry(self, now: float) -> None:
        if self._batch is None and any(self._pods.pending(pool) for pool in self.plans):
            self.pods_pending(now)

    def _buy(self, now: float) -> bool:
        """Order what pending pods need; whether any pods are pending."""
        pending = False
        for pool, plan in self.plans.items():
            pods = self._pods.pending(pool)
            pending = pending or bool(pods)
            standing = self.standing(pool)
            free = [node.free for node in standing if node.phase in ("booting", "ready")]
            for _ in range(pack(pods, free, plan.gpus, max(0, plan.most - len(standing)))):
                if not self._order(pool, now):
                    break
        return pending

    def _order(self, pool: str, now: float) -> Node | None:
        plan = self.plans[pool]
        in_reservation = sum(node.reserved for node in self.standing(pool)) < plan.reserved
        if not in_reservation:
            if not plan.fallback or now < self._refused_until[pool]:
                return None
            if self._refusals > 0 and self._draws.uniform(f"{pool}: capacity") < self._refusals:
                self._refused_until[pool] = now + REFUSED_FOR
                self._log(now, "nodeRefused", pool, "no capacity on demand; tried again after 180 s")
                return None
        node = self._new(pool, now)
        launch = self._draws.seconds(f"{pool}: launch", self._cold_start.launch)
        device = self._draws.seconds(f"{pool}: device", self._cold_start.device)
        node.ready_at = now + launch + device
        self._last_added = now
        self._log(now, "nodeOrdered", node.name, plan.instance_type)
        self._clock.at(node.ready_at, lambda at: self._ready(node, at))
        return node

    def _new(self, pool: str, now: float) -> Node:
        self._settle(now)
        plan = self.plans[pool]
        self._counts[pool] += 1
        reserved = sum(node.reserved for node in self.standing(pool)) < plan.reserved
        node = Node(f"{pool}-{self._counts[pool]}", plan, now, reserved, changed=now)
        self.nodes.append(node)
        if math.isfinite(plan.expire_after):
            self._clock.at(now + plan.expire_after, lambda at: self._expire(node, at))
        if plan.spot and not reserved and self._spot_per_hour > 0:
            wait = -math.log(1.0 - self._draws.uniform(f"{pool}: spot")) / self._spot_per_hour * 3600.0
            self._clock.at(now + wait, lambda at: self._interrupt(node, at))
        return node

    def _ready(self, node: Node, now: float) -> None:
        if node.phase == "booting":
            self._settle(now)
            node.phase, node.changed = "ready", now
            self._log(now, "nodeReady", node.name, f"{now - node.launched:.0f} s after it was ordered")
            self._pods.node_ready(now)

    # --- giving back --------------------------------------------------------------------------------------------

    def touched(self, node: Node, now: float) -> None:
        """A pod came to the node or left it. A draining node ends with its last pod."""
        node.changed = now
        if node.phase == "draining" and not node.held:
            self._end(node, now)

    def _end(self, node: Node, now: float) -> None:
        self._settle(now)
        node.phase, node.ended = "gone", now
        self._log(now, "nodeGone", node.name, f"after {now - node.launched:.0f} s")

    def _drain(self, node: Node, reason: str, now: float, grace: float) -> None:
        if node.phase in ("draining", "gone"):
            return
        self._settle(now)
        self._log(now, "nodeDraining", node.name, reason)
        node.phase = "draining"
        if node.held:
            self._pods.evict(node, reason, now, grace=grace)
        else:
            self._end(node, now)

    def _expire(self, node: Node, now: float) -> None:
        self._drain(node, "Expired", now, node.plan.grace)

    def _interrupt(self, node: Node, now: float) -> None:
        self._drain(node, "SpotInterrupted", now, SPOT_NOTICE)

    def drift(self, pool: str, now: float) -> None:
        """Everything the pool has now no longer matches it: a new image, a changed class."""
        for node in self.standing(pool):
            node.drifted = True
        self._log(now, "drift", pool, "every node differs from what the pool asks for")

    def _allowed(self, reason: Reason, pool: str, now: float) -> int:
        plan = self.plans[pool]
        when = self._start + dt.timedelta(seconds=now)
        if reason == "Drifted" and plan.maintenance is not None and not window_open(plan.maintenance, when):
            return 0
        states = [
            NodeState(initialized=node.phase != "booting", disrupted=node.phase == "draining")
            for node in self.standing(pool)
        ]
        return pool_allowance(plan.budgets, reason, states, when)

    def _poll(self, now: float) -> None:
        """Karpenter's methods in their order; the first that finds something acts."""
        for pool, plan in self.plans.items():
            ready = [node for node in self.standing(pool) if node.phase == "ready"]
            settled = [node for node in ready if now - node.changed >= plan.consolidate_after]
            empty = [node for node in settled if not node.held]
            spare = max(0, len(ready) - plan.static)
            for node in empty[: min(self._allowed("Empty", pool, now), spare)]:
                self._clock.at(now + VALIDATION, lambda at, node=node: self._validated(node, "Empty", at))  # type: ignore[misc]
            if empty:
                continue
            if self._drifted(ready, pool, now):
                continue
            if self._consolidation == "whenEmptyOrUnderutilized" and self._allowed("Underutilized", pool, now) > 0:
                movable = self._fits_elsewhere(settled, ready)
                if movable is not None and spare > 0:
                    self._clock.at(
                        now + VALIDATION,
                        lambda at, node=movable: self._validated(node, "Underutilized", at),  # type: ignore[misc]
                    )

    def _drifted(self, ready: list[Node], pool: str, now: float) -> bool:
        """Replace one drifted node: the new one is ready before the old one is drained."""
        old = next((node for node in ready if node.drifted and self._pods.may_move(node)), None)
        if old is None or self._allowed("Drifted", pool, now) < 1:
            return False
        booting = [node for node in self.standing(pool) if node.phase == "booting"]
        fresh = [node for node in ready if not node.drifted and node.free >= old.used]
        if fresh:
            self._drain(old, "Drifted", now, old.plan.grace)
        elif not booting and len(self.standing(pool)) < self.plans[pool].most:
            self._order(pool, now)
        return True

    def _fits_elsewhere(self, candidates: Iterable[Node], ready: list[Node]) -> Node | None:
        """The node with the fewest GPUs in use whose pods all fit on others that are ready."""
        for node in sorted(candidates, key=lambda node: (node.used, node.name)):
            rooms = sorted(other.free for other in ready if other is not node)
            if node.held and _all_fit(list(node.held.values()), rooms) and self._pods.may_move(node):
                return node
        return None

    def _validated(self, node: Node, reason: Literal["Empty", "Underutilized"], now: float) -> None:
        if node.phase != "ready" or self._allowed(reason, node.plan.name, now) < 1:
            return
        if reason == "Empty":
            if not node.held and now - node.changed >= node.plan.consolidate_after:
                self._drain(node, reason, now, node.plan.grace)
            return
        ready = [other for other in self.standing(node.plan.name) if other.phase == "ready"]
        if self._fits_elsewhere([node], ready) is node:
            self._drain(node, reason, now, node.plan.grace)

    # --- Cluster Autoscaler ---------------------------------------------------------------------------------------

    def _scan(self, now: float) -> None:
        if self._buy(now):
            return  # no scale-down in a loop that has unschedulable pods
        for pool, plan in self.plans.items():
            ready = [node for node in self.standing(pool) if node.phase == "ready"]
            for node in ready:
                low = node.used < UNDER_USED * plan.gpus
                movable = low and (not node.held or self._fits_elsewhere([node], ready) is node)
                node.unneeded_since = min(node.unneeded_since, now) if movable else math.inf
            spare = len(ready) - max(plan.static, 0)
            if now - self._last_added < AFTER_ADD or spare <= 0:
                continue
            ripe = [node for node in ready if now - node.unneeded_since >= UNNEEDED]
            empty = [node for node in ripe if not node.held][: min(10, spare)]
            for node in empty or ripe[:1]:
                self._drain(node, "ScaleDown", now, plan.grace)


def _all_fit(pods: list[int], rooms: list[int]) -> bool:
    for pod in sorted(pods, reverse=True):
        at = next((i for i, room in enumerate(rooms) if room >= pod), None)
        if at is None:
            return False
        rooms[at] -= pod
    return True
