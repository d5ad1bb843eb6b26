"""The pack out of an installed wheel, from another project: `pulumi up --policy-pack "$(triplane pack)"`."""

import copy
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_pack import GPU_POOL, pool

from tools.engine.deployment import Deployment, Run

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# Everything that a distribution is built from; a copy, since a build leaves its traces.
SOURCES = ("triplane", "components", "policies", "pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the built wheel's files, as an installation lays them out."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in SOURCES:
        origin = ROOT / name
        if origin.is_dir():
            shutil.copytree(origin, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(origin, source / name)
    build = "from setuptools import build_meta; print(build_meta.build_wheel('..'))"
    done = subprocess.run([sys.executable, "-c", build], cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "site")
    return folder / "site"


@pytest.fixture
def installed(site: Path) -> dict[str, str]:
    """The environment in which the wheel is what `import triplane` finds."""
    return {"PYTHONPATH": str(site), "PULUMI_PYTHON_CMD": sys.executable}


@pytest.fixture
def pack(installed: dict[str, str], tmp_path: Path) -> str:
    """What `triplane pack` prints, run outside of the repository."""
    command = [sys.executable, "-c", "from triplane.cli import main; main()", "pack"]
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | installed, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def judge(
    tmp_path: Path, deployment: Callable[[Path, str], Deployment], installed: dict[str, str], pack: str
) -> Callable[..., Run]:
    """Previews one object by another project's program, with the installed pack."""

    def make(item: dict[str, Any], *options: str) -> Run:
        project = tmp_path / "objects"
        shutil.copytree(HERE / "projects" / "objects", project)
        (project / ".venv").symlink_to(sys.prefix)
        (project / "objects.json").write_text(json.dumps([item]))
        made = deployment(project, "theirs")
        made.environment = {**installed, "KUBECONFIG": os.devnull}
        return made.run("preview", "--non-interactive", "--policy-pack", pack, *options)

    return make


def test_it_is_the_wheels_and_names_no_virtual_environment(site: Path, pack: str) -> None:
    assert Path(pack) == site / "triplane" / "policies"
    assert "virtualenv" not in (Path(pack) / "PulumiPolicy.yaml").read_text()
    assert {path.name for path in Path(pack, "config").iterdir()} == {"dev.json", "staging.json", "prod.json"}


def test_it_stops_a_foreign_project(judge: Callable[..., Run]) -> None:
    run = judge(pool(consolidationPolicy="WhenEmptyOrUnderutilized"))
    assert run.code != 0
    assert "NP101" in run.output


def test_it_lets_a_safe_object_pass(judge: Callable[..., Run]) -> None:
    run = judge(copy.deepcopy(GPU_POOL))
    assert "NP101" not in run.output


def test_its_own_configurations_are_read(judge: Callable[..., Run], pack: str) -> None:
    run = judge(pool(consolidationPolicy="WhenEmptyOrUnderutilized"), "--policy-pack-config", f"{pack}/config/dev.json")
    assert run.code == 0, run.output
    assert "NP101" in run.output, "said, but it does not stop"


def test_a_faulty_configuration_stops_and_says_what_to_write(judge: Callable[..., Run], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"triplane": {"profil": "core"}}')
    run = judge(copy.deepcopy(GPU_POOL), "--policy-pack-config", str(tmp_path / "config.json"))
    assert run.code != 0
    assert "did you mean profile" in run.output
