"""Run a scenario: every strategy over the same requests and seeds."""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from triplane.settings.models import ModelSettings, RoleName
from triplane.settings.stack import StackSettings
from triplane.simulation.coldstart import ColdStart
from triplane.simulation.engines import RoleEngine, role_engine
from triplane.simulation.explanation import Episode, episodes
from triplane.simulation.kernel import COMPILE_FROM, numba_available
from triplane.simulation.loads import Capacity, Load, load_of
from triplane.simulation.nodes_plan import PoolPlan, pool_plan
from triplane.simulation.provenance import Coefficient
from triplane.simulation.results import (
    SCHEMA,
    Comparison,
    Objective,
    StrategyResult,
    Summary,
    Timeline,
    estimates,
    score,
    summarize,
    timeline,
)
from triplane.simulation.scenarios import Scenario, ScenarioError
from triplane.simulation.strategies import Strategy, strategy
from triplane.simulation.world import RunResult, World
from triplane.simulation.world_groups import declared_request

LOG = logging.getLogger(__name__)

SIGNALS = (
    Coefficient("scrape interval", 15, "s", "published", "Prometheus Operator and llm-d guides"),
    Coefficient("HPA sync", 15, "s", "published", "kube-controller-manager's default"),
    Coefficient("DCGM collection", 30, "s", "published", "dcgm-exporter d5e5f51, pkg/cmd/app.go"),
    Coefficient("NVML utilization sample", 1, "s", "published", "nvmlUtilization_t: 1/6 to 1 s; the longest is taken"),
    Coefficient("Karpenter batch", "1 to 10", "s", "published", "karpenter settings"),
    Coefficient("Karpenter disruption", "10, validated after 15", "s", "published", "karpenter 2266468"),
    Coefficient("Cluster Autoscaler", "scan 10, unneeded 600, after add 600", "s", "published", "its FAQ, 55c37cd"),
    Coefficient("capacity refused for", 180, "s", "published", "AWS provider 1d92708, pkg/cache/cache.go"),
)


@dataclass
class Setup:
    """What every run of a scenario shares."""

    stack: StackSettings
    stack_name: str
    model_name: str
    model: ModelSettings
    scenario: Scenario
    engines: dict[RoleName, RoleEngine]
    capacity: Capacity
    load: Load
    strategies: tuple[Strategy, ...]
    objective: Objective

    @property
    def pools(self) -> list[str]:
        """Pools that the roles and jobs use, in the file's order."""
        used = {role.pool for role in self.model.roles.values()} | {job.pool for job in self.scenario.jobs.values()}
        return [name for name in self.stack.pools if name in used]

    def plans(self, one: Strategy) -> dict[str, PoolPlan]:
        """The pools under a strategy."""
        return {
            name: pool_plan(
                name,
                self.stack.pools[name],
                reserved=min(self.scenario.reserved_nodes.get(name, 0), self.stack.pools[name].nodes.max),
                price_hour=self.scenario.prices.get(name),
                underutilized=one.consolidation == "whenEmptyOrUnderutilized",
                pods=[
                    (float(role.gpus), *declared_request(role.workload))
                    for role in self.model.roles.values()
                    if role.pool == name and role.workload
                ],
            )
            for name in self.pools
        }


def set_up(stack: StackSettings, stack_name: str, scenario: Scenario, folder: Path) -> Setup:
    """Check a scenario against its stack and make what its runs share. Raises ScenarioError and its like."""
    model_name = _model_name(stack, scenario.model)
    model = stack.models[model_name]
    for what, named, known in (
        ("startReplicas", scenario.start_replicas, model.roles),
        ("reservedNodes", scenario.reserved_nodes, stack.pools),
        ("prices", scenario.prices, stack.pools),
        ("jobs: pool", [job.pool for job in scenario.jobs.values()], stack.pools),
        ("drift: pool", [drift.pool for drift in scenario.drift], stack.pools),
    ):
        for name in named:
            if name not in known:
                raise ScenarioError(f"{what}: there is no {name}; there are {', '.join(known)}")
    for role, count in scenario.start_replicas.items():
        bounds = model.roles[role].replicas
        if not bounds.min <= count <= bounds.max:
            raise ScenarioError(f"startReplicas.{role}: {count} is not within {bounds.min} to {bounds.max}")
    engines = {
        name: role_engine(model, name, role, stack.pools[role.pool])
        for name, role in sorted(model.roles.items(), key=lambda item: item[0] == "decode")
    }
    capacity = Capacity(engines, {name: _bounds(stack, model, name) for name in model.roles})
    slo = scenario.slo or model.slo
    objective = Objective(slo.ttft_p99.total_seconds() if slo else None, slo.itl_p99.total_seconds() if slo else None)
    names = scenario.strategies or ("asDeclared",)
    load = load_of(scenario, model, capacity, folder)
    load.requests(0)  # so that a load that cannot be drawn is told before anything runs
    setup = Setup(
        stack, stack_name, model_name, model, scenario, engines, capacity, load,
        tuple(strategy(name) for name in dict.fromkeys(names)), objective,
    )  # fmt: skip
    for name, plan in setup.plans(setup.strategies[0]).items():
        least = sum(r.replicas.min * r.gpus_per_replica for r in model.roles.values() if r.pool == name)
        if least > plan.most * plan.gpus:
            raise ScenarioError(
                f"pools.{name}: {plan.most} nodes hold {plan.most * plan.gpus} GPUs; minimums need {least}"
            )
    return setup


def _model_name(stack: StackSettings, wanted: str | None) -> str:
    if not stack.models:
        raise ScenarioError("the stack serves no model: there is nothing to simulate")
    if wanted is None and len(stack.models) == 1:
        return next(iter(stack.models))
    if wanted not in stack.models:
        said = f"there is no model {wanted}" if wanted else "the stack serves several models: name one with --model"
        raise ScenarioError(f"{said}; there are {', '.join(stack.models)}")
    return wanted


def _bounds(stack: StackSettings, model: ModelSettings, role_name: RoleName) -> tuple[int, int]:
    role = model.roles[role_name]
    pool = stack.pools[role.pool]
    return role.replicas.min, min(role.replicas.max, pool.gpus // role.gpus_per_replica)


def stability(setup: Setup, seed: int) -> list[str]:
    """Roles that cannot do the offered work, whatever the autoscaler does."""
    requests = setup.load.requests(seed)
    shares = setup.capacity.load(requests, setup.load.horizon)
    return [
        f"not stable: {role} is offered {share:.2f} times what {setup.capacity.replicas[role][1]} replicas can serve "
        f"(exceeds capacity by {100 * (share - 1):.0f} %)"
        for role, share in shares.items()
        if share > 1.0
    ]


def compare(setup: Setup, progress: Callable[[int, int], None] = lambda done, of: None) -> Comparison:
    """Run everything. An interrupt ends it: what is finished is returned, marked partial."""
    seeds = range(setup.scenario.seeds)
    offered = len(setup.load.requests(0)) * len(seeds) * len(setup.strategies)
    compiled = offered >= COMPILE_FROM and numba_available()
    finished: dict[str, list[Summary]] = {}
    timelines: dict[str, Timeline] = {}
    explained: dict[str, list[Episode]] = {}
    partial = False
    total, done = len(seeds) * len(setup.strategies), 0
    try:
        for seed in seeds:
            for one in setup.strategies:
                run = run_once(setup, one, seed, compiled=compiled)
                roles, pools = list(setup.model.roles), setup.pools
                summary = summarize(run, setup.load.horizon, setup.objective, roles, pools)
                if one.name not in timelines:
                    timelines[one.name] = timeline(run, setup.load.horizon, setup.objective)
                    told = timelines[one.name]
                    explained[one.name] = episodes(told.times, told.series, told.minutes, told.events, roles)
                finished.setdefault(one.name, []).append(summary)
                done += 1
                progress(done, total)
    except KeyboardInterrupt:
        partial = True
        LOG.warning("interrupted after %d of %d runs", done, total)
    return _summed_up(setup, finished, timelines, explained, partial)


def run_once(setup: Setup, one: Strategy, seed: int, *, compiled: bool | None = None) -> RunResult:
    """One strategy with one seed."""
    world = World(
        setup.stack, setup.model_name, setup.load.requests(seed), setup.scenario, one, setup.plans(one), setup.engines,
        seed, compiled=compiled,
    )  # fmt: skip
    return world.run(setup.load.horizon)


def _summed_up(
    setup: Setup,
    finished: dict[str, list[Summary]],
    timelines: dict[str, Timeline],
    explained: dict[str, list[Episode]],
    partial: bool,
) -> Comparison:
    weights = {"goodput": setup.scenario.weights.goodput, "cost": setup.scenario.weights.cost}
    found = {name: estimates(runs) for name, runs in finished.items()}
    costs = [e["dollarsPerDay"].mean for e in found.values() if e["dollarsPerDay"].mean is not None]
    cheapest = min(costs, default=math.nan)
    results = []
    for one in setup.strategies:
        if one.name not in finished:
            continue
        goodput, dollars = found[one.name]["goodput"].mean, found[one.name]["dollarsPerDay"].mean
        results.append(
            StrategyResult(
                name=one.name,
                line=one.line,
                overlay=one.overlay,
                runs=finished[one.name],
                estimates=found[one.name],
                score=None if goodput is None or dollars is None else score(goodput, dollars, cheapest, weights),
                timeline=timelines[one.name],
                explanation=explained[one.name],
            )
        )
    return Comparison(
        schema=SCHEMA,
        stack=setup.stack_name,
        model=setup.model_name,
        load=setup.load.line,
        horizon=setup.load.horizon,
        seeds=setup.scenario.seeds,
        objective=setup.objective,
        partial=partial,
        stability=stability(setup, 0),
        weights=weights,
        strategies=results,
        provenance=provenance(setup),
    )


def provenance(setup: Setup) -> list[Coefficient]:
    """Where every coefficient of the comparison comes from."""
    cold = setup.scenario.cold_start or setup.model.cold_start
    kind = "input" if setup.scenario.cold_start else "declared"
    rows = [*setup.load.coefficients]
    for engine in setup.engines.values():
        rows += engine.coefficients
    total = cold.total_seconds()
    rows.append(Coefficient("cold start", total, "s", kind, "coldStart"))  # type: ignore[arg-type]
    rows += ColdStart.of(total).coefficients(setup.model_name)
    for plan in setup.plans(setup.strategies[0]).values():
        rows += plan.coefficients
    rows.append(Coefficient("refusals", setup.scenario.refusals, "chance an order", "input", "scenario"))
    rows += SIGNALS
    for one in setup.strategies:
        rows += one.coefficients
    return rows
