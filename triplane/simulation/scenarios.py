"""A scenario: a stack, the load on it, for how long, under which strategies, and what goes wrong meanwhile."""

import datetime as dt
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError, model_validator

from triplane.settings.base import Settings
from triplane.settings.models import RoleName, ServiceObjective
from triplane.settings.values import GpuCount, Moment, Name, Number, PositiveDuration, PositiveNumber
from triplane.simulation.errors import SimulationError
from triplane.simulation.strategies import UnknownStrategy, strategy


class ScenarioError(SimulationError):
    """A scenario that cannot be run: says where and why."""


Share = Annotated[Number, Field(ge=0, lt=1)]
Positive = Annotated[Number, Field(ge=0)]


class LengthSettings(Settings):
    """How long prompts and answers are: all alike, or drawn from a trace."""

    input_tokens: int | None = Field(default=None, ge=1, strict=True)
    """Of every prompt; left out: drawn from the trace of `like`, else from the shipped fit."""
    output_tokens: int | None = Field(default=None, ge=1, strict=True)
    """Of every answer."""
    like: str | None = Field(default=None, min_length=1)
    """A trace whose pairs of lengths are drawn with replacement."""


class ArrivalSettings(Settings):
    """Generated arrivals. Rates in requests a second."""

    shape: Literal["constant", "step", "ramp", "burst", "diurnal"]
    """How the rate changes."""
    rate: PositiveNumber
    """Before the step or burst; the mean of a diurnal wave."""
    peak: PositiveNumber | None = None
    """After a step or ramp, or during a burst."""
    at: PositiveDuration | None = None
    """When the step, ramp or burst starts."""
    duration: PositiveDuration | None = None
    """Of the burst or ramp."""
    swing: Annotated[Number, Field(ge=0, le=1)] = 0.5
    """Of a diurnal wave: 1 reaches zero at night."""
    burstiness: Positive = 1.0
    """Coefficient of variation between arrivals: 1 Poisson, above 1 bursts."""
    lengths: LengthSettings = LengthSettings()
    """Prompt and answer lengths."""

    @model_validator(mode="after")
    def _whole(self) -> "ArrivalSettings":
        needed = {"step": ("peak", "at"), "ramp": ("peak", "at", "duration"), "burst": ("peak", "at", "duration")}
        missing = [name for name in needed.get(self.shape, ()) if getattr(self, name) is None]
        if missing:
            raise ValueError(f"shape {self.shape} needs {', '.join(missing)}")
        return self


class LongPromptSettings(Settings):
    """One very long prompt among the others."""

    at: PositiveDuration
    """When it arrives."""
    input_tokens: int = Field(default=1_000_000, ge=1, strict=True)
    """Its length."""
    output_tokens: int = Field(default=500, ge=1, strict=True)
    """Its answer's."""


class ClientSettings(Settings):
    """How clients behave. Left out: an open loop that waits for ever."""

    timeout: PositiveDuration | None = None
    """When an attempt is given up."""
    retries: int = Field(default=0, ge=0, le=200, strict=True)
    """Further attempts after that."""
    concurrency: int | None = Field(default=None, ge=1, strict=True)
    """Most requests on their way at once."""


class JobSettings(Settings):
    """A gang beside the serving roles, such as a training job."""

    queue: Name
    """Its leaf queue."""
    pool: Name
    """Where its pods run."""
    pods: int = Field(ge=1, le=1000, strict=True)
    """Pods of the gang; all of them, or none."""
    gpus: GpuCount
    """Of one pod."""
    at: PositiveDuration | None = None
    """When it is submitted; left out: at the start."""
    duration: PositiveDuration | None = None
    """How long it works once all pods run; left out: for ever."""
    preemptible: bool = True
    """Whether it may use GPUs above its quota, and lose them."""
    priority: int = Field(default=50, ge=0, strict=True)
    """Its PriorityClass's value."""


class OutageSettings(Settings):
    """The metrics' series are missing, as after Prometheus restarted without its data."""

    at: PositiveDuration
    """From when on."""
    duration: PositiveDuration
    """For how long."""


class DriftSettings(Settings):
    """A pool's nodes no longer match it."""

    pool: Name
    """Which pool."""
    at: PositiveDuration
    """When its image or class changed."""


class WeightSettings(Settings):
    """What the composite score is made of; the weights are printed with it."""

    goodput: Positive = 0.7
    """Of the share of offered requests that were served within the objectives."""
    cost: Positive = 0.3
    """Of the lowest cost in the comparison over the strategy's own."""


class Scenario(Settings):
    """One question to the simulator."""

    stack: str | None = Field(default=None, min_length=1)
    """The stack whose file is used, such as prod."""
    set: dict[str, Any] = Field(default_factory=dict)
    """Settings of the stack to change first, by path, such as models.chat.roles.prefill.replicas.min: 0."""
    model: Name | None = None
    """Which of its models is under load; left out: the only one."""
    question: str | None = None
    """What the scenario asks, for its readers."""
    trace: str | None = Field(default=None, min_length=1)
    """A trace to replay; relative to the scenario's file."""
    speed: PositiveNumber = 1.0
    """Divides the trace's times: 2 doubles its rate."""
    arrivals: ArrivalSettings | None = None
    """Generated load, in place of a trace."""
    long_prompt: LongPromptSettings | None = None
    """One very long prompt."""
    horizon: PositiveDuration | None = None
    """What is simulated; left out: the trace's length, or one hour. A trace is repeated to fill it."""
    seeds: int = Field(default=5, ge=1, le=1000, strict=True)
    """Runs of each strategy, with other boot times, phases and generated arrivals."""
    strategies: tuple[str, ...] = ()
    """Names of strategies; left out: asDeclared."""
    slo: ServiceObjective | None = None
    """Objectives in place of the model's."""
    client: ClientSettings = ClientSettings()
    """How clients behave."""
    routing: Literal["roundRobin", "leastLoaded", "queueAndKv"] = "queueAndKv"
    """How requests find their replica."""
    skew: Share = 0.0
    """Share of the requests that go to one replica whatever its load."""
    start_replicas: dict[RoleName, Annotated[int, Field(ge=0, le=10_000, strict=True)]] = Field(default_factory=dict)
    """Replicas that are ready at the start; left out: each role's minimum."""
    cold_start: PositiveDuration | None = None
    """In place of the model's."""
    reserved_nodes: dict[Name, Annotated[int, Field(ge=0, le=10_000, strict=True)]] = Field(default_factory=dict)
    """Size of each pool's reservation, which the stack file does not say."""
    prices: dict[Name, PositiveNumber] = Field(default_factory=dict)
    """Your price of one node of a pool, in US dollars an hour, in place of the list price."""
    refusals: Share = 0.0
    """Chance that an order of a node beyond the reservation finds no capacity."""
    spot_interruptions: Positive = 0.0
    """Of one spot node, an hour."""
    begin: Moment = dt.datetime(2026, 1, 5, tzinfo=dt.UTC)
    """The moment the simulation starts, for maintenance windows. The default is a Monday."""
    jobs: dict[Name, JobSettings] = Field(default_factory=dict)
    """Gangs beside the serving roles."""
    outages: tuple[OutageSettings, ...] = ()
    """Times without metrics."""
    drift: tuple[DriftSettings, ...] = ()
    """Changes that make nodes drift."""
    weights: WeightSettings = WeightSettings()
    """Of the composite score."""

    @model_validator(mode="after")
    def _consistent(self) -> "Scenario":
        if self.trace and self.arrivals:
            raise ValueError("trace and arrivals are two loads: leave one out")
        for name in self.strategies:
            try:
                strategy(name)
            except UnknownStrategy as error:
                raise ValueError(str(error)) from None
        if not (self.weights.goodput + self.weights.cost) > 0:
            raise ValueError("weights: at least one must be above 0")
        return self


def read_values(path: Path) -> dict[str, Any]:
    """What a scenario file says. Raises ScenarioError, and OSError where it cannot be read."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ScenarioError(f"{path}: {error}") from None
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path}: is not UTF-8 text: {error.reason} at byte {error.start}") from None
    if not isinstance(values, dict):
        raise ScenarioError(f"{path}: a scenario is a mapping with a stack, a load and strategies")
    return values


def read_scenario(path: Path) -> Scenario:
    """A scenario file. Raises ScenarioError with every mistake, OSError where it cannot be read."""
    return scenario_of(read_values(path), str(path))


def scenario_of(values: dict[str, Any], place: str) -> Scenario:
    """A scenario from values. Raises ScenarioError with every mistake; `place` names where they came from."""
    try:
        return Scenario.model_validate(values, by_alias=True, by_name=False)
    except ValidationError as error:
        lines = []
        for one in error.errors(include_url=False):
            path = ".".join(str(part) for part in one["loc"])
            lines.append(f"{place}: {path + ': ' if path else ''}{one['msg'].removeprefix('Value error, ')}")
        raise ScenarioError("\n".join(lines)) from None
