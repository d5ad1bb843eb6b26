"""How long the command line takes, cold, and how large it gets; and how the offline run grows with the fleet.

A time means something beside another of the same machine: each is shown as a ratio to importing the classes that it
uses, which no program on this SDK can do without. The limits are those of docs/performance.md.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

ROOT = Path(__file__).parents[2]
TRIPLANE = str(Path(sys.executable).with_name("triplane"))
# What the program of prod takes from Pulumi's packages.
TOUCHED = (
    "import pulumi, pulumi_aws\n"
    "from pulumi_aws import cloudwatch, eks, iam, sqs\n"
    "pulumi_aws.Provider, pulumi_aws.get_caller_identity, pulumi_aws.get_partition\n"
    "cloudwatch.EventRule, cloudwatch.EventTarget, eks.AccessEntry, eks.PodIdentityAssociation\n"
    "iam.Role, iam.Policy, iam.RolePolicyAttachment, sqs.Queue, sqs.QueuePolicy\n"
    "from pulumi_kubernetes.helm.v3 import Release\n"
    "from pulumi_kubernetes.apiextensions import CustomResourcePatch\n"
)


class Cost(NamedTuple):
    seconds: float
    mebibytes: float


def run(*command: str) -> Cost:
    """Wall time of a process and the largest memory it had."""
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    unit = 1 if sys.platform == "darwin" else 1024
    return Cost(time.perf_counter() - started, usage.ru_maxrss * unit / 2**20)


def measured(benchmark: BenchmarkFixture, command: tuple[str, ...], against: tuple[str, ...]) -> tuple[Cost, Cost]:
    """The least of five runs of each, taken in turns."""
    bases: list[Cost] = []
    costs: list[Cost] = []
    benchmark.pedantic(
        lambda: costs.append(run(*command)),
        setup=lambda: bases.append(run(*against)),
        rounds=5,
        warmup_rounds=1,
    )
    cost = Cost(min(c.seconds for c in costs), max(c.mebibytes for c in costs))
    base = Cost(min(c.seconds for c in bases), max(c.mebibytes for c in bases))
    benchmark.extra_info |= {
        "seconds": round(cost.seconds, 3),
        "MiB": round(cost.mebibytes),
        "importing what it uses, seconds": round(base.seconds, 3),
        "ratio": round(cost.seconds / base.seconds, 2),
    }
    return cost, base


def test_help(benchmark: BenchmarkFixture) -> None:
    cost, _ = measured(benchmark, (TRIPLANE, "--help"), (sys.executable, "-c", "import click"))
    assert cost.seconds <= 0.25


@pytest.mark.parametrize(
    ("stack", "touched", "seconds"), [("prod", TOUCHED, 2.0), ("dev", "import pulumi", 1.5)], ids=["prod", "dev"]
)
def test_preview_cold(benchmark: BenchmarkFixture, stack: str, touched: str, seconds: float) -> None:
    cost, base = measured(benchmark, (TRIPLANE, "preview", stack), (sys.executable, "-c", touched))
    assert cost.seconds <= seconds
    assert cost.mebibytes <= 300
    assert cost.seconds <= 4 * base.seconds


def test_load_and_validate(benchmark: BenchmarkFixture) -> None:
    from triplane.settings import StackSettings

    assert benchmark(StackSettings.load, "prod", ROOT).cluster.name
    assert benchmark.stats.stats.median <= 0.15


def fleet(pools: int) -> dict[str, Any]:
    """Settings of as many pools, each with a queue and a model of one role: eight resources a pool."""
    pool = {"purpose": "serving", "accelerator": "L4", "gpusPerNode": 1, "nodes": {"max": 2}, "ami": "al2023@v20261115"}
    model = {
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "engine": {"version": "0.12.0"},
        "namespace": "chat",
        "coldStart": "5m",
    }
    role = {"gpus": 1, "replicas": {"min": 1, "max": 2}, "signal": {"kvUsage": "70%"}}
    return {
        "pools": {f"pool-{n}": pool for n in range(pools)},
        "queues": {
            "all": {
                "gpus": {"quota": 2 * pools},
                "children": {f"queue-{n}": {"gpus": {"quota": 2}} for n in range(pools)},
            }
        },
        "models": {
            f"m-{n}": {**model, "roles": {"aggregated": {**role, "pool": f"pool-{n}", "queue": f"queue-{n}"}}}
            for n in range(pools)
        },
    }


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[[int], int]:
    """Records and writes a fleet; returns how many resources it has."""
    from triplane.program.written import write_manifests
    from triplane.testing import run_stack

    def record_and_write(pools: int) -> int:
        recording = run_stack("dev", ROOT, set=fleet(pools)).recording
        assert write_manifests(tmp_path / "out", recording, "dev", "1.14.1") == []
        return len(recording.resources)

    return record_and_write


def test_a_thousand_resources_recorded_and_written(benchmark: BenchmarkFixture, recorded: Callable[[int], int]) -> None:
    resources = benchmark.pedantic(recorded, args=(143,), rounds=3, warmup_rounds=1)
    benchmark.extra_info["resources"] = resources
    assert resources >= 1000
    assert benchmark.stats.stats.max <= 6


def test_four_times_the_fleet_takes_about_four_times_as_long(
    benchmark: BenchmarkFixture, recorded: Callable[[int], int]
) -> None:
    def timed(pools: int) -> float:
        started = time.perf_counter()
        recorded(pools)
        return time.perf_counter() - started

    timed(5)
    small = min(timed(35) for _ in range(3))
    large = min(benchmark.pedantic(timed, args=(140,), rounds=1), timed(140))
    benchmark.extra_info["ratio"] = round(large / small, 2)
    assert large / small <= 6
