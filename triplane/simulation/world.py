"""One run: requests, replicas, gangs and nodes in one clock, under one strategy and one seed.

Replicas are decided every 15 s from metrics that are as old as they would be; a new replica waits for its gang's place,
a place may wait for a node, a placed replica loads its image, weights and engine, and then takes requests. On the way
down it takes no new ones and leaves when its own are done.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from triplane.settings.models import ModelSettings, RoleName
from triplane.settings.stack import StackSettings
from triplane.simulation import hpa, keda
from triplane.simulation.clock import Clock
from triplane.simulation.coldstart import ColdStart, Draws
from triplane.simulation.engines import RoleEngine
from triplane.simulation.fair_share import Triple
from triplane.simulation.keda import KedaState
from triplane.simulation.kernel import ClientModel, GapCounts, Outcomes, Serving
from triplane.simulation.nodes import NodeLayer
from triplane.simulation.nodes_plan import PoolPlan
from triplane.simulation.requests import Ints, Requests
from triplane.simulation.scenarios import Scenario
from triplane.simulation.signals import DCGM, NVML, SCRAPE, SYNC, Observer, RoleAutoscaler, autoscaler, chosen
from triplane.simulation.strategies import Strategy
from triplane.simulation.world_groups import Group, pod_request, queues
from triplane.simulation.world_ledger import Ledger, cost, paid_seconds
from triplane.simulation.world_pods import GRACE, PodLayer

_SEEN = {
    "pending": hpa.Pod(phase="pending", ready=False),
    "loading": hpa.Pod(ready=False),
    "serving": hpa.Pod(),
}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened: scaled, placed, ready, nodeOrdered, ..."""

    at: float
    kind: str
    subject: str
    detail: str


@dataclass(slots=True)
class RoleState:
    """A role's autoscaler with its memory, and what it last wanted."""

    scaler: RoleAutoscaler
    request: Triple
    pods: int
    grace: float
    spec: int
    memory: hpa.HpaState = field(default_factory=hpa.HpaState)
    keda: KedaState = field(default_factory=KedaState)
    made: int = 0


@dataclass(frozen=True)
class RunResult:
    """What one run gave, before anything is summed up."""

    seed: int
    outcomes: Outcomes
    output_tokens: Ints
    gaps: GapCounts
    gpu_seconds: Mapping[str, float]
    paid_gpu_seconds: float
    dollars: float
    events: Sequence[Event]
    times: Sequence[float]
    series: Mapping[str, Sequence[float]]
    evictions: Mapping[str, int]
    evicted_requests: int
    scalings: int
    preemptions: int


class World:
    """A model of a stack under load. `run` simulates it once."""

    def __init__(
        self,
        stack: StackSettings,
        model_name: str,
        requests: Requests,
        scenario: Scenario,
        strategy: Strategy,
        plans: Mapping[str, PoolPlan],
        engines: Mapping[RoleName, RoleEngine],
        seed: int,
        *,
        compiled: bool | None = None,
    ) -> None:
        self.stack, self.scenario, self.strategy, self.seed = stack, scenario, strategy, seed
        self.model_name = model_name
        self.model: ModelSettings = stack.models[model_name]
        self.plans = dict(plans)
        self.clock = Clock()
        self.draws = Draws(seed)
        self.ledger = Ledger(self.plans)
        self.events: list[Event] = []
        self.scalings = 0
        self.times: list[float] = []
        self.series: dict[str, list[float]] = {}
        cold = scenario.cold_start or self.model.cold_start
        self.cold_start = ColdStart.of(cold.total_seconds())
        client = scenario.client
        self.serving = Serving(
            requests,
            {role: engine.limits for role, engine in engines.items()},
            routing=scenario.routing,
            skew=scenario.skew,
            client=ClientModel(
                timeout=client.timeout.total_seconds() if client.timeout else math.inf,
                retries=client.retries,
                concurrency=client.concurrency,
            ),
            seed=seed,
            compiled=compiled,
        )
        self.observer = Observer(self.serving)
        self.pods = PodLayer(
            strategy.scheduler,
            queues(stack.queues),
            self.cold_start,
            self.serving,
            self.clock,
            self.draws,
            self.ledger,
            self.log,
            replace=self._replaced,
            forget=self.observer.forget,
        )
        self.nodes = self.pods.nodes = NodeLayer(
            self.plans,
            self.pods,
            self.clock,
            self.draws,
            self.log,
            self.pods.settle,
            cold_start=self.cold_start,
            provisioner=strategy.provisioner,
            consolidation=strategy.consolidation,
            start=scenario.begin,
            refusals=scenario.refusals,
            spot_per_hour=scenario.spot_interruptions,
        )
        self.roles = {role: self._role_state(role, strategy) for role in self.model.roles}
        self._start()

    # --- the start ----------------------------------------------------------------------------------------------

    def _role_state(self, role_name: RoleName, strategy: Strategy) -> RoleState:
        role = self.model.roles[role_name]
        workload = role.workload
        request = pod_request(role.gpus, workload, self.plans[role.pool])
        grace = workload.termination_grace.total_seconds() if workload and workload.termination_grace else GRACE
        scaler = autoscaler(self.stack, self.model, role_name, strategy)
        spec = self.scenario.start_replicas.get(role_name, role.replicas.min)
        return RoleState(scaler, request, role.hosts, min(grace, self.plans[role.pool].grace), spec)

    def _start(self) -> None:
        for name, plan in self.plans.items():
            for _ in range(plan.static):
                self.nodes.place_now(name)
        for role_name, state in self.roles.items():
            for _ in range(state.spec):
                self.pods.stand(self._replica(role_name, state, 0.0))
        for name, job in self.scenario.jobs.items():
            self.clock.at(job.at.total_seconds() if job.at else 0.0, lambda now, name=name: self._submit(name, now))  # type: ignore[misc]
        for drift in self.scenario.drift:
            self.clock.at(drift.at.total_seconds(), lambda now, pool=drift.pool: self.nodes.drift(pool, now))  # type: ignore[misc]
        self._scrape(0.0)
        uniform = self.draws.uniform
        self.clock.every(SCRAPE, SCRAPE * uniform("scrape: phase"), self._scrape)
        dcgm = NVML + (DCGM - NVML) * uniform("dcgm: phase")
        self.clock.every(DCGM, dcgm - NVML, lambda now: self._at(now).observer.open_sample())
        self.clock.every(DCGM, dcgm, lambda now: self._at(now).observer.close_sample())
        for role_name in self.roles:
            phase = SYNC * uniform(f"{role_name}: sync phase")
            self.clock.every(SYNC, phase, lambda now, role=role_name: self._sync(role, now))  # type: ignore[misc]
            scaled = self.roles[role_name].scaler.scaled
            if scaled is not None and scaled.min_replicas == 0:
                first = scaled.polling_s * uniform(f"{role_name}: poll phase")
                self.clock.every(scaled.polling_s, first, lambda now, role=role_name: self._poll(role, now))  # type: ignore[misc]

    # --- time ---------------------------------------------------------------------------------------------------

    def _at(self, now: float) -> "World":
        """Bring the kernel to this moment."""
        self.serving.advance(now)
        return self

    def log(self, at: float, kind: str, subject: str, detail: str = "") -> None:
        """Keep what happened."""
        self.events.append(Event(at, kind, subject, detail))

    def run(self, horizon: float, samples: int = 2880) -> RunResult:
        """Simulate up to the horizon, seconds, and sum up."""
        step = max(SYNC, horizon / samples)
        self.clock.every(step, 0.0, self._sample)
        self.clock.run(horizon)
        self.pods.settle(horizon)
        busy = self.pods.busy(horizon)
        seen = self.serving.signals()
        return RunResult(
            seed=self.seed,
            outcomes=self.serving.outcomes(),
            output_tokens=self.serving.requests.output_tokens,
            gaps=self.serving.itl(),
            gpu_seconds=self.ledger.close(busy["serving"], busy["draining"]),
            paid_gpu_seconds=paid_seconds(self.nodes.nodes, self.plans, horizon),
            dollars=cost(self.nodes.nodes, self.plans, horizon),
            events=self.events,
            times=self.times,
            series=self.series,
            evictions=self.pods.evictions,
            evicted_requests=self.pods.evicted_requests,
            scalings=self.scalings,
            preemptions=self.pods.preemptions + int(seen.preemptions.sum()),
        )

    # --- replicas -----------------------------------------------------------------------------------------------

    def _members(self) -> dict[str, frozenset[int]]:
        return {
            role: frozenset(
                g.slot for g in self.pods.groups if g.kind == role and g.phase == "serving" and not g.is_job
            )
            for role in self.roles
        }

    def _blind(self, now: float) -> bool:
        return any(
            o.at.total_seconds() <= now < o.at.total_seconds() + o.duration.total_seconds()
            for o in self.scenario.outages
        )

    def _scrape(self, now: float) -> None:
        if not self._blind(now):
            self._at(now).observer.scrape(now, self._members())

    def _replicas(self, role: str) -> list[Group]:
        return [group for group in self.pods.groups if group.kind == role and group.alive and not group.is_job]

    def _pods(self, role: str) -> list[hpa.Pod]:
        """The role's pods as the HPA sees them; with samples only where it scales on them."""
        if self.strategy.signal != "dutyCycle":
            return [_SEEN[group.phase] for group in self._replicas(role)]
        duty = self.observer.reading.roles[role].duty if role in self.observer.reading.roles else {}
        pods = []
        for group in self._replicas(role):
            # A loading pod has GPUs, and DCGM reports that they do nothing.
            sample = duty.get(group.slot) if group.phase == "serving" else 0.0 if group.phase == "loading" else None
            pods.append(replace(_SEEN[group.phase], sample=None if sample is None else hpa.milli(sample)))
        return pods

    def _sync(self, role: RoleName, now: float) -> None:
        """One sync of the role's HPA."""
        state, reading = self.roles[role], self._at(now).observer.reading
        blind, pods, scaler = self._blind(now), self._pods(role), state.scaler
        replicas = len(self._replicas(role))
        if scaler.scaled is None:
            metrics = scaler.metrics(reading, pods, blind)
        else:
            asked = keda.ask(scaler.scaled, state.keda, scaler.readings(reading, blind), replicas, pods)
            metrics, state.keda = [report.metric for report in asked[0]], asked[1]
        decision = hpa.sync(scaler.bounds, state.memory, now, state.spec, replicas, metrics)
        state.memory = decision.state
        if decision.replicas != state.spec:
            name, value, target = scaler.shown(reading)
            seen = "no value" if blind else f"{value:.2f}"
            self._scale(role, decision.replicas, now, f"{name} {seen} of {target:g} ({decision.reason})")

    def _poll(self, role: RoleName, now: float) -> None:
        """One pass of KEDA's own loop, which wakes a role at 0 and empties it."""
        state, reading = self.roles[role], self._at(now).observer.reading
        assert state.scaler.scaled is not None
        readings = state.scaler.readings(reading, self._blind(now))
        found = keda.poll(state.scaler.scaled, state.keda, now, readings, len(self._replicas(role)), self._pods(role))
        state.keda = found.state
        if found.replicas is not None and found.replicas != state.spec:
            self._scale(role, found.replicas, now, f"KEDA: {found.reason}")

    def _scale(self, role: RoleName, replicas: int, now: float, why: str) -> None:
        state = self.roles[role]
        self.log(now, "scaled", role, f"{state.spec} to {replicas}: {why}")
        self.scalings += 1
        state.spec = replicas
        self._reconcile(role, now)

    def _reconcile(self, role: RoleName, now: float) -> None:
        """Create or delete replicas until there are as many as the target asks for."""
        state = self.roles[role]
        alive = self._replicas(role)
        for _ in range(state.spec - len(alive)):
            self._replica(role, state, now)
            self.pods.plan_cycle(now)
        for group in self._to_go(alive, len(alive) - state.spec):
            self.pods.leave(group, "scaled down", now, state.grace)

    @staticmethod
    def _to_go(alive: list[Group], count: int) -> list[Group]:
        """As a ReplicaSet ranks them: without a place, not ready, beside most others of its kind, youngest."""
        beside: dict[str, int] = {}
        for group in alive:
            for node in group.nodes:
                if node is not None:
                    beside[node.name] = beside.get(node.name, 0) + 1

        def rank(group: Group) -> tuple[int, int, float]:
            order = {"pending": 0, "loading": 1}.get(group.phase, 2)
            crowd = max((beside[node.name] for node in group.nodes if node is not None), default=0)
            return (order, -crowd, -group.created)

        return sorted(alive, key=rank)[: max(0, count)]

    def _replica(self, role_name: RoleName, state: RoleState, now: float) -> Group:
        role = self.model.roles[role_name]
        state.made += 1
        group = Group(
            f"{role_name}-{state.made}", role_name, False, role.queue, role.pool, state.request, [None] * state.pods,
            role.preemptible, 100, now,
        )  # fmt: skip
        self.pods.add(group, now)
        if now > 0:
            self.log(now, "asked", group.name)
        return group

    def _submit(self, name: str, now: float) -> None:
        job = self.scenario.jobs[name]
        count = sum(group.kind == name and group.is_job for group in self.pods.groups)
        request = pod_request(job.gpus, None, self.plans[job.pool])
        again = f"-{count + 1}" if count else ""
        group = Group(
            f"{name}{again}", name, True, job.queue, job.pool, request, [None] * job.pods, job.preemptible,
            job.priority, now, duration=job.duration.total_seconds() if job.duration else math.inf,
        )  # fmt: skip
        self.pods.add(group, now)
        self.log(now, "submitted", group.name, f"{job.pods} pods of {job.gpus} GPUs")
        self.pods.plan_cycle(now)

    def _replaced(self, group: Group, now: float) -> None:
        """An evicted group's owner makes a new one."""
        if group.is_job:
            self._submit(group.kind, now)
        else:
            self._reconcile(group.kind, now)  # type: ignore[arg-type]

    # --- what is watched ------------------------------------------------------------------------------------------

    def _sample(self, now: float) -> None:
        """One point of every time series."""
        seen = self._at(now).serving.signals()
        reading = self.observer.reading
        self.times.append(now)
        point: dict[str, float] = {}
        held = self.serving.held
        for role, state in self.roles.items():
            groups = self._replicas(role)
            slots = [group.slot for group in groups if group.phase == "serving"]
            own = chosen(seen, slots)
            point[f"{role}.desired"] = state.spec
            point[f"{role}.ready"] = len(slots)
            point[f"{role}.loading"] = sum(group.phase == "loading" for group in groups)
            point[f"{role}.pending"] = sum(group.phase == "pending" for group in groups)
            # Without a ready replica, requests wait where they are routed.
            point[f"{role}.waiting"] = float(seen.waiting[own].sum()) if slots else float(held)
            point[f"{role}.running"] = float(seen.running[own].sum())
            point[f"{role}.kvUsage"] = float(seen.kv_usage[own].mean()) if own.any() else 0.0
            _, value, target = state.scaler.shown(reading)
            point[f"{role}.signal"] = value
            point[f"{role}.target"] = target
            point[f"{role}.duty"] = reading.roles[role].mean_duty if role in reading.roles else math.nan
        for pool in self.plans:
            standing = self.nodes.standing(pool)
            point[f"{pool}.nodes"] = sum(node.phase in ("ready", "draining") for node in standing)
            point[f"{pool}.booting"] = sum(node.phase == "booting" for node in standing)
        for cause, gpus in self.ledger.count(self.nodes.nodes, self.pods.groups).items():
            point[f"gpus.{cause}"] = gpus
        point["held"] = held
        for name, value in point.items():
            self.series.setdefault(name, []).append(value)
