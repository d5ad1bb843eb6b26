"""Pods of all groups: which get a place, how long they load, and how they leave.

A gang holds nothing until all its pods have a place, except under kube-scheduler, which binds one pod at a time.
"""

import math
from collections.abc import Callable, Sequence

from triplane.simulation.clock import Clock
from triplane.simulation.coldstart import ColdStart, Draws
from triplane.simulation.fair_share import Queue
from triplane.simulation.kernel import Serving
from triplane.simulation.nodes import Node, NodeLayer
from triplane.simulation.strategies import Scheduler
from triplane.simulation.world_groups import Group, decide
from triplane.simulation.world_ledger import Ledger

GRACE = 600.0
"""Longest drain of a pod, where the workload does not say: the manifests' own default."""
_DRAIN_LOOK = 1.0
_EVICT_AGAIN = 5.0
_CYCLE = 1.0


class PodLayer:
    """Groups and their places. `nodes` is set by the owner before anything is placed."""

    nodes: NodeLayer

    def __init__(
        self,
        scheduler: Scheduler,
        queues: Sequence[Queue],
        cold_start: ColdStart,
        serving: Serving,
        clock: Clock,
        draws: Draws,
        ledger: Ledger,
        log: Callable[..., None],
        *,
        replace: Callable[[Group, float], None],
        forget: Callable[[int], None],
    ) -> None:
        """`replace`: the owner of an evicted group makes a new one. `forget`: a slot of the kernel is free again."""
        self._scheduler, self._queues, self._cold_start = scheduler, queues, cold_start
        self._serving, self._clock, self._draws = serving, clock, draws
        self._ledger, self._log, self._replace, self._forget = ledger, log, replace, forget
        self.groups: list[Group] = []
        self.evictions: dict[str, int] = {}
        self.evicted_requests = 0
        self.preemptions = 0
        """Of replicas that are gone."""
        self._ended_busy = {"serving": 0.0, "draining": 0.0}
        self._cycle_planned = False
        self._pending_pods: dict[str, list[int]] = {}

    def add(self, group: Group, now: float) -> Group:
        """A new group, without a place yet."""
        self.settle(now)
        self.groups.append(group)
        return group

    def settle(self, now: float) -> None:
        """Book the time up to now as things were."""
        self._ledger.settle(now, self.nodes.nodes, self.groups)

    def _at(self, now: float) -> Serving:
        """The kernel, brought to this moment."""
        self._serving.advance(now)
        return self._serving

    def stand(self, group: Group) -> None:
        """Put a replica of the start on nodes that are there, and let it serve at once."""
        for index in range(len(group.nodes)):
            standing = [node for node in self.nodes.standing(group.pool) if node.free >= group.gpus]
            node = max(standing, key=lambda one: one.used, default=None) or self.nodes.place_now(group.pool)
            self._hold(group, index, node, 0.0)
            node.images.add(group.kind)
        group.placed = group.first_placed = 0.0
        self._serve(group, 0.0)

    def busy(self, now: float) -> dict[str, float]:
        """GPU-seconds that engines worked, while serving and while draining."""
        total = dict(self._ended_busy)
        seen = self._at(now).signals()
        worked = dict(zip(seen.slots.tolist(), seen.busy.tolist(), strict=True))
        for group in self.groups:
            if group.slot >= 0 and group.phase in ("serving", "draining"):
                self._book(group, worked.get(group.slot, 0.0), total)
        return total

    @staticmethod
    def _book(group: Group, busy: float, into: dict[str, float]) -> None:
        at_drain = busy if math.isnan(group.drained) else group.busy_at_drain
        into["serving"] += at_drain * group.size
        into["draining"] += (busy - at_drain) * group.size

    # --- places -------------------------------------------------------------------------------------------------

    def plan_cycle(self, now: float) -> None:
        if not self._cycle_planned:
            self._cycle_planned = True
            # KAI runs a cycle a second; kube-scheduler takes a pod as it comes.
            wait = _CYCLE if self._scheduler == "kai" else 0.0
            self._clock.at(now + wait, self._cycle)

    def _cycle(self, now: float) -> None:
        """One scheduling cycle; what stays pending is marked, and a provisioner may buy for it."""
        self._cycle_planned = False
        self.settle(now)
        for pool in self.nodes.plans:
            pending = [group for group in self.groups if group.pool == pool and group.phase == "pending"]
            if not pending:
                continue
            living = [group for group in self.groups if group.phase != "gone"]
            ready = [node for node in self.nodes.standing(pool) if node.phase == "ready"]
            outcome = decide(self._scheduler, pool, living, ready, self._queues, now)
            for group, why in outcome.evicted:
                self._evict(group, why.split(" ")[0], now, GRACE, why)
            for group, index, node in outcome.bound:
                self._hold(group, index, node, now)
            for group in pending:
                self._after_cycle(group, outcome.refused.get(group.name), group.name in outcome.waiting, now)
            if self._mark(pool):
                self.nodes.pods_pending(now)
                if any(group.is_job for group in living):
                    # Minimum run times and fair shares change with time alone.
                    self._clock.at(now + 10.0, self._look_again)

    def _look_again(self, now: float) -> None:
        if any(group.phase == "pending" for group in self.groups):
            self.plan_cycle(now)

    def _after_cycle(self, group: Group, refused: str | None, waiting: bool, now: float) -> None:
        if all(group.nodes):
            group.unschedulable = False
            self._load(group, now)
            return
        if refused and refused != group.refused:
            self._log(now, "refused", group.name, refused)
        group.refused = refused
        group.unschedulable = not waiting

    def _mark(self, pool: str) -> bool:
        self._pending_pods[pool] = [
            group.gpus
            for group in self.groups
            if group.pool == pool and group.phase == "pending" and group.unschedulable
            for node in group.nodes
            if node is None
        ]
        return bool(self._pending_pods[pool])

    def pending(self, pool: str) -> list[int]:
        """GPUs of each pod that is marked unschedulable."""
        self._mark(pool)
        return self._pending_pods[pool]

    def node_ready(self, now: float) -> None:
        """A node can take pods: the scheduler looks."""
        self.plan_cycle(now)

    def _hold(self, group: Group, index: int, node: Node, now: float) -> None:
        self.settle(now)
        group.nodes[index] = node
        node.held[group.name] = node.held.get(group.name, 0) + group.gpus
        self.nodes.touched(node, now)
        if math.isnan(group.first_placed):
            group.first_placed = now
            if len(group.nodes) > 1 and not all(group.nodes) and self._scheduler == "kubeScheduler":
                self._log(now, "partial", group.name, "holds GPUs and waits for the rest of its gang")

    def _load(self, group: Group, now: float) -> None:
        """All pods have a node: image where it is not there, weights, engine."""
        cold, draws = self._cold_start, self._draws
        image = 0.0
        for node in {node.name: node for node in group.nodes if node is not None}.values():
            if group.kind not in node.images:
                node.images.add(group.kind)
                image = max(image, draws.seconds(f"{group.kind}: image", cold.image))
        weights = draws.seconds(f"{group.kind}: weights", cold.weights)
        engine = draws.seconds(f"{group.kind}: engine", cold.engine)
        group.phase, group.placed = "loading", now
        where = ", ".join(sorted({node.name for node in group.nodes if node is not None}))
        detail = f"on {where}: image {image:.0f} s, weights {weights:.0f} s, engine {engine:.0f} s"
        self._log(now, "placed", group.name, detail)
        self._clock.at(now + image + weights + engine, lambda at: self._serve(group, at))

    def _serve(self, group: Group, now: float) -> None:
        if group.phase not in ("pending", "loading"):
            return
        self.settle(now)
        group.phase, group.ready = "serving", now
        if now > 0:
            self._log(now, "ready", group.name, f"{now - group.created:.0f} s after it was asked for")
        if group.is_job:
            self._clock.at(now + group.duration, lambda at: self._finish(group, at))
            return
        self._at(now)
        group.slot = self._serving.add(group.kind)  # type: ignore[arg-type]

    def _finish(self, group: Group, now: float) -> None:
        if group.phase == "serving":
            self._log(now, "finished", group.name)
            self._release(group, now)

    # --- the way down -------------------------------------------------------------------------------------------

    def leave(self, group: Group, why: str, now: float, grace: float) -> None:
        """A group ends: at once, or once its requests are done, at most `grace` seconds later."""
        self.settle(now)
        if group.slot < 0:
            self._release(group, now)
            return
        self._at(now)
        seen = self._serving.signals()
        at = seen.slots.tolist().index(group.slot)
        group.busy_at_drain = float(seen.busy[at])
        group.phase, group.drained, group.deadline = "draining", now, now + grace
        self._log(now, "draining", group.name, f"{why}, {int(seen.load[at])} requests on it")
        self._serving.drain(group.slot)
        self._look_at_drain(group, now)

    def _look_at_drain(self, group: Group, now: float) -> None:
        if group.phase != "draining":
            return
        self._at(now)
        if now >= group.deadline or self._serving.removable(group.slot):
            self._release(group, now)
        else:
            self._clock.at(min(now + _DRAIN_LOOK, group.deadline), lambda at: self._look_at_drain(group, at))

    def _release(self, group: Group, now: float) -> None:
        """Take a group off its nodes; what it still serves is lost."""
        self.settle(now)
        if group.slot >= 0:
            self._at(now)
            seen = self._serving.signals()
            at = seen.slots.tolist().index(group.slot)
            self._book(group, float(seen.busy[at]), self._ended_busy)
            self.preemptions += int(seen.preemptions[at])
            self._serving.kill(group.slot)
            self._forget(group.slot)
            group.slot = -1
        group.phase, group.ended = "gone", now
        for node in {node.name: node for node in group.nodes if node is not None}.values():
            node.held.pop(group.name, None)
            self.nodes.touched(node, now)
        if any(other.phase == "pending" for other in self.groups):
            self.plan_cycle(now)

    def may_move(self, node: Node) -> bool:
        """Jobs carry do-not-disrupt; a role's PodDisruptionBudget lets one replica go while all others serve."""
        return all(self._may_evict(group) for group in self._on(node))

    def _on(self, node: Node) -> list[Group]:
        return [group for group in self.groups if group.name in node.held and group.phase != "gone"]

    def _may_evict(self, group: Group) -> bool:
        if group.is_job:
            return False
        if group.phase == "draining":
            return True
        others = [other for other in self.groups if other.kind == group.kind and other.phase != "gone"]
        return all(other is group or other.phase == "serving" for other in others)

    def evict(self, node: Node, reason: str, now: float, *, grace: float) -> None:
        """Send every pod of a node away as budgets allow, and all of them once `grace` is over."""
        deadline = now + grace

        def go_on(at: float) -> None:
            for group in self._on(node):
                if group.phase != "draining" and (at >= deadline or self._may_evict(group)):
                    limit = max(0.0, deadline - at)
                    self._evict(group, reason, at, min(GRACE, limit), f"{reason} of {node.name}")
                elif group.phase == "draining" and at >= deadline:
                    self._release(group, at)
            if node.held and node.phase == "draining":
                self._clock.at(min(at + _EVICT_AGAIN, deadline) if at < deadline else at + 1.0, go_on)

        go_on(now)

    def _evict(self, group: Group, cause: str, now: float, grace: float, why: str) -> None:
        """Delete a group's pods; its owner makes new ones at once."""
        self.evictions[cause] = self.evictions.get(cause, 0) + 1
        if group.slot >= 0:
            seen = self._at(now).signals()
            self.evicted_requests += int(seen.load[seen.slots.tolist().index(group.slot)])
        self._log(now, "evicted", group.name, why)
        self.leave(group, why, now, grace)
        self._replace(group, now)
