"""What a role's autoscaler can see: metrics as old as their scrape, and the rules by which replicas move.

An engine's metrics are scraped every 15 s. GPU utilization goes a longer way: NVML reports the share of the last second
in which a kernel ran, DCGM's exporter reads that every 30 s (dcgm-exporter d5e5f51, pkg/cmd/app.go), and the scrape
comes after. So a duty cycle is near 100 % whenever a replica decodes for anyone, and it is old.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from triplane import catalog
from triplane.settings.models import ModelSettings, RoleName, RoleSettings, SignalSettings
from triplane.settings.stack import StackSettings
from triplane.simulation import hpa, keda
from triplane.simulation.errors import SimulationError
from triplane.simulation.kernel import ReplicaSignals, Serving
from triplane.simulation.strategies import Strategy

SCRAPE = 15.0
SYNC = 15.0
DCGM = 30.0
NVML = 1.0
TTFT_WINDOW = 300.0
KEDA_POLL = 15.0
"""As the stack's manifests set it; it decides between 0 and 1 replicas alone."""
_SIGNAL, _TTFT = "signal", "ttft-p99"


class SignalError(SimulationError):
    """A signal that is not simulated: says which."""


@dataclass(frozen=True, slots=True)
class RoleReading:
    """One role at a scrape, summed over its ready replicas. duty: percent busy by slot, as old as DCGM left it."""

    replicas: int = 0
    waiting: int = 0
    running: int = 0
    kv: float = 0.0
    prompt_tokens: int = 0
    duty: Mapping[int, float] = field(default_factory=dict)

    @property
    def mean_duty(self) -> float:
        """Over the replicas that have a sample; NaN without any."""
        return sum(self.duty.values()) / len(self.duty) if self.duty else math.nan


@dataclass(frozen=True, slots=True)
class Reading:
    """What Prometheus holds since a scrape. held: requests that no replica could take. ttft_p99: seconds, over the last
    five minutes, NaN without requests."""

    at: float = -math.inf
    roles: Mapping[str, RoleReading] = field(default_factory=dict)
    held: int = 0
    ttft_p99: float = math.nan


class Observer:
    """Reads the kernel as the exporters do. `reading` is the last scrape."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._busy: dict[int, float] = {}
        self._duty: dict[int, float] = {}
        self._oldest = 0
        self._first = np.asarray(serving.world.first)
        self.reading = Reading()

    def open_sample(self) -> None:
        """A second before DCGM reads: NVML's sample begins."""
        seen = self._serving.signals()
        self._busy = dict(zip(seen.slots.tolist(), seen.busy.tolist(), strict=True))

    def close_sample(self) -> None:
        """DCGM reads the share of the sample in which each replica worked."""
        seen = self._serving.signals()
        self._duty = {
            slot: min(100.0, 100.0 * (busy - self._busy[slot]) / NVML)
            for slot, busy in zip(seen.slots.tolist(), seen.busy.tolist(), strict=True)
            if slot in self._busy
        }

    def forget(self, slot: int) -> None:
        """A replica is gone; its slot may be used again."""
        self._duty.pop(slot, None)
        self._busy.pop(slot, None)

    def scrape(self, now: float, members: Mapping[str, frozenset[int]]) -> Reading:
        """Prometheus reads every ready replica; `members` are the slots of each role that are not draining."""
        seen = self._serving.signals()
        roles = {role: _summed(seen, slots, self._duty) for role, slots in members.items()}
        self.reading = Reading(now, roles, self._serving.held, self._ttft_p99(now))
        return self.reading

    def _ttft_p99(self, now: float) -> float:
        """The 99th percentile of TTFT over first tokens of the last five minutes, by rank; NaN without any."""
        emitted = self._serving.recent_first_tokens(self._oldest)
        if not len(emitted):
            return math.nan
        first = self._first[emitted]
        # They come in the order of processing, which differs from that of time by a step at most.
        recent = first >= now - TTFT_WINDOW
        if not recent[0]:
            self._oldest += int(recent.argmax()) if recent.any() else len(first)
        ttft = (first - self._serving.requests.arrival[emitted])[recent]
        if not len(ttft):
            return math.nan
        rank = math.ceil(0.99 * len(ttft)) - 1
        # A request that lost its replica after its first token has none again.
        return max(0.0, float(np.partition(ttft, rank)[rank]))


def chosen(seen: ReplicaSignals, slots: Collection[int]) -> npt.NDArray[np.bool_]:
    """Which of the replicas that were seen are among these slots."""
    wanted = np.zeros(int(seen.slots.max(initial=0)) + 1, bool)
    for slot in slots:
        if slot < len(wanted):
            wanted[slot] = True
    return np.asarray(wanted[seen.slots])


def _summed(seen: ReplicaSignals, slots: frozenset[int], duty: Mapping[int, float]) -> RoleReading:
    own = chosen(seen, slots)
    return RoleReading(
        replicas=int(own.sum()),
        waiting=int(seen.waiting[own].sum()),
        running=int(seen.running[own].sum()),
        kv=float(seen.kv_usage[own].sum()),
        prompt_tokens=int(seen.prompt_tokens[own].sum()),
        duty={int(slot): duty[int(slot)] for slot in seen.slots[own] if int(slot) in duty},
    )


@dataclass(frozen=True)
class RoleAutoscaler:
    """One role's autoscaler under a strategy: KEDA with the HPA it makes, or an HPA alone."""

    role_name: RoleName
    role: RoleSettings
    slo_ttft: float | None
    strategy: Strategy
    bounds: hpa.Hpa
    scaled: keda.ScaledObject | None

    def shown(self, reading: Reading) -> tuple[str, float, float]:
        """The signal's name, its value as the autoscaler compares it, and its target."""
        one = reading.roles.get(self.role_name, RoleReading())
        signal, replicas = self.role.signal, max(1, one.replicas)
        if self.strategy.signal == "dutyCycle":
            return "duty cycle", one.mean_duty, self.strategy.target
        if self.strategy.signal == "queueDepth":
            return "waiting a replica", one.waiting / replicas, self.strategy.target
        name, total, target = _declared(signal, one, reading)
        return f"{name} a replica", total / replicas, target

    def readings(self, reading: Reading, blind: bool) -> dict[str, keda.Reading]:
        """What the declared queries give; `blind`: the series are missing."""
        if blind:
            return {_SIGNAL: None, _TTFT: None}
        one = reading.roles.get(self.role_name, RoleReading())
        found: dict[str, keda.Reading] = {_SIGNAL: _declared(self.role.signal, one, reading)[1]}
        if self.slo_ttft is not None:
            # The query is silent below the objective and at most twice the target above it.
            late = reading.ttft_p99 if reading.ttft_p99 > self.slo_ttft else 0.0
            found[_TTFT] = min(late, 2 * self.slo_ttft)
        return found

    def metrics(self, reading: Reading, pods: list[hpa.Pod], blind: bool) -> list[hpa.Metric]:
        """What an HPA without KEDA reads. pods: every pod of the role, with a sample where DCGM has one."""
        if blind:
            return [hpa.Unavailable("the series are missing", wakes=True)]
        one = reading.roles.get(self.role_name, RoleReading())
        if self.strategy.signal == "dutyCycle":
            if not any(pod.sample is not None for pod in pods):
                return [hpa.Unavailable("no pod has a sample")]
            return [hpa.PodsAverage(hpa.milli(self.strategy.target), pods)]
        if self.strategy.signal == "queueDepth":
            return [hpa.AverageValue(hpa.milli(self.strategy.target), [hpa.milli(float(one.waiting))])]
        values = {name: value for name, value in self.readings(reading, blind).items() if isinstance(value, float)}
        target = _declared(self.role.signal, one, reading)[2]
        found: list[hpa.Metric] = [hpa.AverageValue(hpa.milli(target), [hpa.milli(values[_SIGNAL])])]
        if self.slo_ttft is not None:
            found.append(hpa.Value(hpa.milli(self.slo_ttft), [hpa.milli(values[_TTFT])], pods))
        return found


def _declared(signal: SignalSettings, one: RoleReading, reading: Reading) -> tuple[str, float, float]:
    if signal.backlog is not None and signal.tokens_per_second is not None:
        return "backlog s", one.prompt_tokens / signal.tokens_per_second, signal.backlog.total_seconds()
    if signal.kv_usage is not None:
        return "KV usage", one.kv, float(signal.kv_usage)
    if signal.queue_depth is not None:
        return "waiting", float(one.waiting), float(signal.queue_depth)
    if signal.concurrency is not None:
        return "running", float(one.running), float(signal.concurrency)
    if signal.flow_control_queue is not None:
        return "queued in the EPP", float(reading.held), float(signal.flow_control_queue)
    raise SignalError("the signal wva is not simulated here: choose another one, or a strategy that sets one")


def autoscaler(stack: StackSettings, model: ModelSettings, role_name: RoleName, strategy: Strategy) -> RoleAutoscaler:
    """A role's autoscaler: as declared, or an HPA on the strategy's signal; behaviour from the cold start, or the HPA's
    defaults. Raises SignalError for a signal that is not simulated."""
    role = model.roles[role_name]
    up, down = _behaviour(stack, model, role) if strategy.behaviour == "derived" else (None, None)
    slo_ttft = model.slo.ttft_p99.total_seconds() if model.slo and role_name != "decode" else None
    if strategy.signal != "declared":
        bounds = hpa.Hpa(max(1, role.replicas.min), role.replicas.max, up, down)
        return RoleAutoscaler(role_name, role, slo_ttft, strategy, bounds, None)
    target = _declared(role.signal, RoleReading(), Reading())[2]
    if role.autoscaler == "hpa":
        bounds = hpa.Hpa(role.replicas.min, role.replicas.max, up, down)
        return RoleAutoscaler(role_name, role, slo_ttft, strategy, bounds, None)
    null = strategy.null_reads_as_zero
    triggers = [keda.Trigger(_SIGNAL, target, ignore_null=null)]
    if slo_ttft is not None:
        triggers.append(keda.Trigger(_TTFT, slo_ttft, "Value", ignore_null=null))
    fallback = keda.Fallback(3, max(1, role.replicas.min), "currentReplicasIfHigher")
    scaled = keda.ScaledObject(
        tuple(triggers),
        role.replicas.min,
        role.replicas.max,
        polling_s=KEDA_POLL,
        cooldown_s=max(300, 3 * math.ceil(model.cold_start.total_seconds())),
        fallback=fallback if catalog.supports("keda", stack.platform.keda.version, "fallback-behavior") else None,
        scale_up=up,
        scale_down=down,
    )
    return RoleAutoscaler(role_name, role, slo_ttft, strategy, scaled.hpa(), scaled)


def _behaviour(
    stack: StackSettings, model: ModelSettings, role: RoleSettings
) -> tuple[hpa.ScalingRules, hpa.ScalingRules]:
    """What the stack's manifests write into `behavior`; a test compares the two."""
    cold = math.ceil(model.cold_start.total_seconds())
    tolerant = catalog.supports("kubernetes", stack.cluster.kubernetes, "hpa-tolerance") and (
        role.autoscaler == "hpa" or catalog.supports("keda", stack.platform.keda.version, "hpa-tolerance")
    )
    up = hpa.ScalingPolicy("Pods", max(1, role.replicas.max // 4), min(1800, max(1, cold)))
    down = hpa.ScalingPolicy("Pods", 1, 300)
    window = min(3600, max(300, math.ceil(cold * 3 / 2)))
    return (
        hpa.ScalingRules((up,), window_s=0, tolerance=0.05 if tolerant else None),
        hpa.ScalingRules((down,), window_s=window, tolerance=0.2 if tolerant else None),
    )
