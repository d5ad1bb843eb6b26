"""The built engine runs programs and policy packs as the official one does, seen on a project of one NodePool."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tools.engine.client import Client
from tools.engine.control_plane import ControlPlane
from tools.engine.deployment import Deployment
from tools.engine.installed import parsed_version
from tools.engine.pieces import KUBERNETES_PROVIDER

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
IDENTITY: dict[str, Any] = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "engine-l4"}}


@pytest.fixture
def pool(
    tmp_path: Path, cluster: ControlPlane, deployment: Callable[[Path, str], Deployment], api: Client
) -> Iterator[Deployment]:
    project = tmp_path / "pool"
    shutil.copytree(HERE / "projects" / "pool", project)
    (project / ".venv").symlink_to(sys.prefix)
    made = deployment(project, "dev")
    made.environment = {"KUBECONFIG": str(cluster.kubeconfig), "POOL_CONTEXT": cluster.context}
    yield made
    api.delete(IDENTITY)


def test_up_again_update_and_destroy(pool: Deployment, api: Client) -> None:
    first = pool.up().succeeded()
    assert first.changes == {"create": 3}
    stored = api.get(IDENTITY)
    assert stored is not None
    assert stored["spec"]["disruption"]["consolidationPolicy"] == "WhenEmpty"

    assert pool.up().succeeded().changes == {}

    pool.run("config", "set", "consolidationPolicy", "WhenEmptyOrUnderutilized").succeeded()
    assert pool.preview().succeeded().changes == {"update": 1}
    assert pool.up().succeeded().changes == {"update": 1}

    assert pool.destroy().succeeded().changes == {"delete": 3}
    assert api.get(IDENTITY) is None


def test_config_reaches_the_program_with_the_defaults_of_the_project(pool: Deployment) -> None:
    pool.up().succeeded()
    assert json.loads(pool.outputs()["shape"]) == {"gpus": 8, "zones": ["a", "b"]}
    # The engine does not merge: an object in the stack file takes the place of the whole default.
    pool.run("config", "set", "--path", "shape.gpus", "4").succeeded()
    pool.up().succeeded()
    assert json.loads(pool.outputs()["shape"]) == {"gpus": 4}


@pytest.mark.parametrize(("key", "told"), [("fail", "error: no such zone"), ("crash", "ValueError: no such zone")])
def test_a_program_that_fails_says_why_and_changes_nothing(pool: Deployment, api: Client, key: str, told: str) -> None:
    pool.run("config", "set", key, "no such zone").succeeded()
    run = pool.up()
    assert run.code != 0
    assert told in run.output
    assert ("Traceback" in run.output) == (key == "crash")
    assert api.get(IDENTITY) is None


def test_protected_resources_outlive_destroy(pool: Deployment, api: Client) -> None:
    pool.run("config", "set", "protect", "true").succeeded()
    pool.up().succeeded()
    run = pool.destroy()
    assert run.code != 0
    assert "protected" in run.output
    assert api.get(IDENTITY) is not None


def test_a_policy_pack_stops_a_deployment(pool: Deployment, api: Client) -> None:
    pack = str(pool.project / "policies")
    assert pool.up("--policy-pack", pack).succeeded().violations == []
    pool.run("config", "set", "consolidationPolicy", "WhenEmptyOrUnderutilized").succeeded()
    run = pool.up("--policy-pack", pack)
    assert run.code == 1
    assert [violation["policyName"] for violation in run.violations] == ["only-empty"]
    stored = api.get(IDENTITY)
    assert stored is not None
    assert stored["spec"]["disruption"]["consolidationPolicy"] == "WhenEmpty"


def test_the_provider_is_as_new_as_the_sdk_asks_for() -> None:
    assert parsed_version(KUBERNETES_PROVIDER.version) >= parsed_version(version("pulumi-kubernetes"))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_no_server_outlives_a_killed_test_run(tmp_path: Path) -> None:
    program = """
        import sys, time
        from pathlib import Path
        from tools.engine.control_plane import control_plane
        from tools.engine.installed import engine
        with control_plane(engine(), Path(sys.argv[1])) as running:
            print(running.url, flush=True)
            time.sleep(600)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("https://")
        servers = processes_below(tmp_path)
        process.kill()
    assert len(servers) == 3
    end = time.monotonic() + 10
    while processes_below(tmp_path) and time.monotonic() < end:
        time.sleep(0.1)
    left = processes_below(tmp_path)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


def processes_below(folder: Path) -> list[int]:
    """Processes that work in a folder below this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cwd").readlink().is_relative_to(folder):
                    found.append(int(entry.name))
            except OSError:
                continue  # it ended meanwhile, or is another user's
    return found
