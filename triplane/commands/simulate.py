"""triplane simulate: the three layers in time under a load, several strategies side by side."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from triplane.simulation.results import Comparison
    from triplane.simulation.scenarios import Scenario

FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("subject", metavar="STACK|SCENARIO.yaml")
@click.argument("more", nargs=-1, metavar="")
@click.option("--trace", type=FILE, metavar="FILE", help="Replay a trace: Azure, Mooncake, BurstGPT or plain CSV.")
@click.option("--speed", type=float, metavar="X", help="Divide the trace's times: 2 doubles its rate.")
@click.option("--horizon", metavar="TIME", help="What is simulated, such as 30m or 1d.")
@click.option("--compare", "names", multiple=True, metavar="NAMES", help="Strategies to run side by side.")
@click.option("--seeds", type=int, metavar="N", help="Runs of each strategy (5).")
@click.option("--model", metavar="NAME", help="Which of the stack's models is under load.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Change a setting first: a.b.c=value, as YAML.")
@click.option("--json", "json_file", type=FILE, metavar="FILE", help="Write everything as JSON.")
@click.pass_context
def simulate(
    context: click.Context,
    subject: str,
    more: tuple[str, ...],
    trace: Path | None,
    speed: float | None,
    horizon: str | None,
    names: tuple[str, ...],
    seeds: int | None,
    model: str | None,
    sets: tuple[str, ...],
    json_file: Path | None,
) -> None:
    """Simulate a stack, or the scenario of a file: requests, replicas, gangs and nodes in one clock.

    Strategies: asDeclared, dutyCycleHpa, queueDepthHpa, tripleLayer, clusterAutoscaler, consolidating, kubeScheduler,
    nullReadsAsZero.
    """
    from triplane.settings.overrides import Override, override
    from triplane.settings.source import read_stack
    from triplane.settings.validation import validate
    from triplane.simulation.comparison import compare, set_up

    if json_file and not json_file.absolute().parent.is_dir():
        raise click.UsageError(f"--json: there is no folder {json_file.parent}")
    if more and not names:
        raise click.UsageError(f"unexpected argument {more[0]}: strategies come after --compare")
    given: dict[str, Any] = {
        "trace": str(trace.resolve()) if trace else None,
        "speed": speed,
        "horizon": horizon,
        "seeds": seeds,
        "model": model,
        "strategies": [name for text in (*names, *more) for name in text.split(",") if name] or None,
    }
    scenario, folder = _scenario(subject, {key: value for key, value in given.items() if value is not None})
    stack_name = scenario.stack or subject
    changes = [Override.of(path, value) for path, value in scenario.set.items()]
    source = override(read_stack(stack_name), [*changes, *(Override.parse(text) for text in sets)])
    setup = set_up(validate(source), stack_name, scenario, folder)
    comparison = compare(setup, _progress)
    if json_file:
        _write(json_file, comparison)
    _show(comparison)
    if json_file:
        click.echo(f"\nWrote {json_file}.", err=True)
    if comparison.partial:
        context.exit(130)


def _scenario(subject: str, given: dict[str, Any]) -> "tuple[Scenario, Path]":
    """The scenario of a file with what the command line sets, or one of the command line alone."""
    from triplane.simulation.scenarios import ScenarioError, read_values, scenario_of

    if not subject.endswith((".yaml", ".yml")):
        return scenario_of({"stack": subject, **given}, "command line"), Path()
    path = Path(subject)
    values = read_values(path)
    if "trace" in given:
        values.pop("arrivals", None)
    scenario = scenario_of({**values, **given}, str(path))
    if scenario.stack is None:
        raise ScenarioError(f"{path}: stack: is missing: name the stack to simulate")
    return scenario, path.parent


def _progress(done: int, of: int) -> None:
    if sys.stderr.isatty():
        click.echo(f"\rrun {done} of {of}" + ("\r" + " " * 30 + "\r" if done == of else ""), nl=False, err=True)


def _write(path: Path, comparison: "Comparison") -> None:
    import json

    from triplane.simulation.results import to_json

    temporary = path.with_name(path.name + ".part")
    temporary.write_text(json.dumps(to_json(comparison), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    temporary.replace(path)


def _show(comparison: "Comparison") -> None:
    from triplane.reporting.simulations import simulation_text

    click.echo(simulation_text(comparison))
