"""Every shipped stack's Kubernetes objects, to the letter, as `triplane preview --write` writes them.

`triplane preview prod --diff tests/golden/prod` shows what a change does; `make golden` takes it over.
"""

from pathlib import Path

import pytest

from triplane.program.written import write_manifests
from triplane.settings import StackSettings
from triplane.testing import run_stack

ROOT = Path(__file__).parents[2]
STACKS = sorted(path.name.split(".")[1] for path in (ROOT / "stacks").glob("Pulumi.*.yaml"))


@pytest.mark.filterwarnings("ignore:aws.ec2/encryptioncontrol:DeprecationWarning")
@pytest.mark.parametrize("stack", STACKS)
def test_a_stack_writes_its_golden_files(stack: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    golden = Path(__file__).parent / stack
    folder = golden if request.config.getoption("--update-golden") else tmp_path / stack
    recording = run_stack(stack, ROOT).recording
    left_out = write_manifests(folder, recording, stack, StackSettings.load(stack, ROOT).platform.karpenter.version)
    assert left_out == []
    assert _texts(folder) == _texts(golden), "see the difference with: triplane preview STACK --diff tests/golden/STACK"


def test_no_golden_folder_outlives_its_stack() -> None:
    assert sorted(path.name for path in Path(__file__).parent.iterdir() if (path / ".triplane").exists()) == STACKS


def _texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}
