"""How long `triplane check` takes with every rule on, as a whole process, and how it grows with the input.

The limits are those of docs/performance.md. TRIPLANE_KUBECONFORM and TRIPLANE_CHECKOV name the programs of peers.py;
without one its comparison is skipped.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from corpus import crowd, write_files
from peers import checkov_command, kubeconform_command, write_schemas
from pytest_benchmark.fixture import BenchmarkFixture

TRIPLANE = str(Path(sys.executable).with_name("triplane"))
PEERS = {name: os.environ.get(f"TRIPLANE_{name.upper()}") for name in ("kubeconform", "checkov")}
# A user's Python keeps compiled modules.
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


class Cost(NamedTuple):
    seconds: float
    """Wall time."""
    cpu_seconds: float
    mebibytes: float


def run(*command: str) -> Cost:
    """One process, from its start to its end; the corpus holds faults, which both kinds of checker report with 1."""
    started = time.perf_counter()
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in (0, 1), command
    unit = 1 if sys.platform == "darwin" else 1024
    wall = time.perf_counter() - started
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit / 2**20)


def least(costs: list[Cost]) -> Cost:
    return Cost(*(min(values) for values in zip(*costs, strict=True)))


def in_turns(*commands: tuple[str, ...], rounds: int = 5) -> list[Cost]:
    """The least of each command's runs, taken in turns so that a busy machine is busy for all."""
    runs = [[run(*command) for command in commands] for _ in range(rounds)]
    return [least(list(costs)) for costs in zip(*runs, strict=True)]


def check(folder: Path) -> tuple[str, ...]:
    return TRIPLANE, "check", "--profile", "all", str(folder)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, Path]]:
    base = tmp_path_factory.mktemp("manifests")
    yield {count: write_files(base / str(count), count) for count in (200, 2_000, 10_000, 20_000)}


def test_200_files_cold(benchmark: BenchmarkFixture, folders: dict[int, Path]) -> None:
    costs: list[Cost] = []
    benchmark.pedantic(lambda: costs.append(run(*check(folders[200]))), rounds=5, warmup_rounds=1)
    cost = least(costs)
    benchmark.extra_info |= {"MiB": round(cost.mebibytes)}
    assert cost.seconds <= 0.35


def test_rate_of_2_000_files(benchmark: BenchmarkFixture, folders: dict[int, Path]) -> None:
    """Between 200 and 2,000 files, so that what starting costs is left out; a second of one core."""
    few, many = in_turns(check(folders[200]), check(folders[2_000]))
    rate = 1_800 / (many.cpu_seconds - few.cpu_seconds)
    benchmark.extra_info |= {"a second of a core": round(rate), "in all": round(2_000 / many.cpu_seconds)}
    benchmark.pedantic(run, check(folders[2_000]), rounds=1)
    assert rate >= 3_500


def test_20_000_objects_with_stack_rules(benchmark: BenchmarkFixture, folders: dict[int, Path]) -> None:
    half, whole = in_turns(check(folders[10_000]), check(folders[20_000]), rounds=2)
    benchmark.extra_info |= {
        "seconds": round(whole.seconds, 2),
        "MiB": round(whole.mebibytes),
        "times half of it": round(whole.cpu_seconds / half.cpu_seconds, 2),
    }
    benchmark.pedantic(run, check(folders[20_000]), rounds=1)
    assert whole.seconds <= 12
    assert whole.mebibytes <= 1_024
    assert whole.cpu_seconds <= 2.2 * half.cpu_seconds


def test_twice_the_models_in_one_place(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    files = [tmp_path / f"{models}.yaml" for models in (1_000, 2_000)]
    for file in files:
        file.write_text(crowd(int(file.stem)), encoding="utf-8")
    half, whole = in_turns(*(check(file) for file in files), rounds=3)
    benchmark.extra_info |= {"times half of it": round(whole.cpu_seconds / half.cpu_seconds, 2)}
    benchmark.pedantic(run, check(files[1]), rounds=1)
    assert whole.cpu_seconds <= 2.2 * half.cpu_seconds


@pytest.mark.skipif(not PEERS["kubeconform"], reason="TRIPLANE_KUBECONFORM names no kubeconform")
def test_beside_kubeconform(benchmark: BenchmarkFixture, folders: dict[int, Path], tmp_path: Path) -> None:
    schemas = write_schemas(tmp_path / "schemas")
    peer = kubeconform_command(str(PEERS["kubeconform"]), folders[2_000], schemas)
    summary = subprocess.run(peer, capture_output=True, text=True, check=True).stdout
    assert "Valid: 2000, Invalid: 0, Errors: 0, Skipped: 0" in summary
    ours, theirs = in_turns(check(folders[2_000]), peer)
    benchmark.extra_info |= {
        "seconds": (round(ours.seconds, 2), round(theirs.seconds, 2)),
        "CPU seconds": (round(ours.cpu_seconds, 2), round(theirs.cpu_seconds, 2)),
    }
    benchmark.pedantic(run, check(folders[2_000]), rounds=1)
    assert ours.cpu_seconds <= 2 * theirs.cpu_seconds


@pytest.mark.skipif(not PEERS["checkov"], reason="TRIPLANE_CHECKOV names no Checkov")
def test_beside_checkov(benchmark: BenchmarkFixture, folders: dict[int, Path]) -> None:
    ours, theirs = in_turns(check(folders[2_000]), checkov_command(str(PEERS["checkov"]), folders[2_000]), rounds=2)
    benchmark.extra_info |= {
        "seconds": (round(ours.seconds, 2), round(theirs.seconds, 2)),
        "times": round(theirs.cpu_seconds / ours.cpu_seconds, 1),
    }
    benchmark.pedantic(run, check(folders[2_000]), rounds=1)
    assert 10 * ours.cpu_seconds <= theirs.cpu_seconds
