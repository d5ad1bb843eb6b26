"""`triplane simulate`: what it prints, what it writes, and how it refuses."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result

from triplane.cli import main
from triplane.reporting.simulations import sparkline

ROOT = Path(__file__).parents[3]
TRACE = str(ROOT / "tests" / "data" / "traces" / "azure_llm_2023_conv.csv")
SHIPPED = sorted((ROOT / "scenarios").glob("*.yaml"))


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def simulate(*args: str) -> Result:
    return CliRunner().invoke(main, ["simulate", *args])


def test_a_comparison_is_printed_and_written(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    found = simulate(
        "prod", "--trace", TRACE, "--horizon", "5m", "--seeds", "2", "--compare", "dutyCycleHpa", "tripleLayer",
        "--json", str(out),
    )  # fmt: skip
    assert found.exit_code == 0, found.output
    data = json.loads(out.read_text())
    schema = json.loads((ROOT / "docs" / "simulation.schema.json").read_text())
    jsonschema.validate(data, schema)
    offered = data["strategies"][0]["runs"][0]["offered"]
    for words in (
        f"{offered:,}",
        "goodput / offered",
        "USD a day",
        "Why (",
        "Where the numbers come from",
        "0.7 x goodput",
    ):
        assert words in found.output
    assert not list(tmp_path.glob("*.part"))


def test_strategies_may_be_repeated_or_joined() -> None:
    outputs = [
        simulate("prod", "--horizon", "2m", "--seeds", "1", *how).output
        for how in (
            ("--compare", "tripleLayer", "--compare", "consolidating"),
            ("--compare", "tripleLayer,consolidating"),
            ("--compare", "tripleLayer", "consolidating"),
        )
    ]
    assert outputs[0] == outputs[1] == outputs[2]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("prod", "tripleLayer"), "strategies come after --compare"),
        (("prod", "--compare", "tripel"), "no strategy tripel"),
        (("prod", "--trace", "nowhere.csv"), "nowhere.csv"),
        (("prod", "--horizon", "0s"), "horizon"),
        (("prod", "--speed", "0"), "speed"),
        (("nowhere",), "nowhere"),
        (("nowhere.yaml",), "nowhere.yaml"),
        (("prod", "--model", "other"), "no model other"),
        (("prod", "--json", "nowhere/result.json"), "there is no folder nowhere"),
    ],
)
def test_wrong_input_ends_with_2_and_says_why(args: tuple[str, ...], words: str) -> None:
    found = simulate(*args)
    assert found.exit_code == 2
    assert words in found.output
    assert "Traceback" not in found.output


def test_a_trace_error_names_its_line(tmp_path: Path) -> None:
    trace = tmp_path / "bad.csv"
    trace.write_text("time,input_tokens,output_tokens\n0,10,10\n1,nan,10\n")
    found = simulate("prod", "--trace", str(trace))
    assert found.exit_code == 2 and "bad.csv:3" in found.output


def test_more_than_can_be_served_is_said() -> None:
    found = simulate("prod", "--trace", TRACE, "--speed", "40", "--seeds", "1")
    assert "not stable: " in found.output and "exceeds capacity by" in found.output


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_scenario_loads(path: Path) -> None:
    from triplane.settings.overrides import Override, override
    from triplane.settings.source import read_stack
    from triplane.settings.validation import validate
    from triplane.simulation.comparison import set_up
    from triplane.simulation.scenarios import read_scenario

    scenario = read_scenario(path)
    assert scenario.stack and scenario.question and scenario.strategies
    source = override(read_stack(scenario.stack), [Override.of(*change) for change in scenario.set.items()])
    assert set_up(validate(source), scenario.stack, scenario, path.parent).load.horizon > 0


def test_a_scenario_file_runs() -> None:
    found = simulate("scenarios/reclaim.yaml", "--seeds", "1", "--horizon", "45m")
    assert found.exit_code == 0, found.output
    assert "kubeScheduler" in found.output and "tripleLayer" in found.output


def test_dev_without_a_load_gets_one_that_is_marked_assumed() -> None:
    command = [str(Path(sys.executable).parent / "triplane"), "simulate", "dev", "--seeds", "1"]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert found.returncode == 0, found.stderr
    assert "no load given" in found.stdout
    row = next(line for line in found.stdout.splitlines() if line.startswith("load "))
    assert "assumed" in row


def test_bars_go_from_nothing_to_the_most() -> None:
    assert sparkline([0, 1, 2, 4]) == "▁▃▅█"
    assert sparkline([]) == ""
    assert sparkline([float("nan"), 1.0]) == " █"
    assert len(sparkline([1.0] * 1000)) <= 60


def test_the_written_schema_is_that_of_the_results() -> None:
    from triplane.simulation.result_schema import schema

    assert json.loads((ROOT / "docs" / "simulation.schema.json").read_text()) == schema()
