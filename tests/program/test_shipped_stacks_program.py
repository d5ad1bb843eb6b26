"""The whole program for each shipped stack."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from triplane.documents import Dialect, decode, read_documents
from triplane.manifests.fleet import fleet_manifests
from triplane.program import ProgramError, run_program
from triplane.program.projects import find_project, stack_config
from triplane.settings import StackSettings
from triplane.settings.source import read_stack
from triplane.testing import StackRun, run_stack

pytestmark = pytest.mark.filterwarnings("ignore:aws.ec2/encryptioncontrol:DeprecationWarning")

ROOT = Path(__file__).parents[2]
STACKS = sorted(path.name.split(".")[1] for path in (ROOT / "stacks").glob("Pulumi.*.yaml"))

DEV_POOL = {"purpose": "serving", "accelerator": "L4", "gpusPerNode": 1, "nodes": {"max": 1}, "ami": "al2023@v20261115"}


@pytest.fixture(scope="module", params=STACKS)
def stack(request: pytest.FixtureRequest) -> Iterator[tuple[StackSettings, StackRun]]:
    yield StackSettings.load(request.param, ROOT), run_stack(request.param, ROOT)


def test_it_declares_exactly_the_fleet_of_its_settings(stack: tuple[StackSettings, StackRun]) -> None:
    settings, run = stack
    expected = fleet_manifests(settings).objects
    assert sorted(run.objects(), key=str_of) == sorted(expected, key=str_of)


def str_of(manifest: dict[str, Any]) -> str:
    return f"{manifest['kind']}/{manifest['metadata'].get('namespace')}/{manifest['metadata']['name']}"


def test_all_kubernetes_resources_go_to_the_stacks_own_cluster(stack: tuple[StackSettings, StackRun]) -> None:
    settings, run = stack
    (provider,) = run.resources("kubernetes")
    assert provider.name == settings.cluster.name
    assert provider.inputs["context"] == settings.cluster.context
    kubernetes = [resource for resource in run.resources() if resource.type.startswith("kubernetes:")]
    assert {resource.provider for resource in kubernetes} == {provider.urn}


def test_pools_are_protected_and_say_where_they_are_made(stack: tuple[StackSettings, StackRun]) -> None:
    settings, run = stack
    pools = run.resources("NodePool")
    assert {pool.name for pool in pools} == set(settings.pools)
    assert all(pool.protect == settings.cluster.protect for pool in pools)
    assert {pool.file for pool in pools} == {"components/nodes.py"}
    assert {component.file for component in run.resources("GpuNodePool")} == {"__main__.py"}


def test_a_role_waits_for_its_own_pool_and_queue(stack: tuple[StackSettings, StackRun]) -> None:
    settings, run = stack
    for model_name, model in settings.models.items():
        for role_name, role in model.roles.items():
            scaler = run.resource("ScaledObject", f"{model_name}-{role_name}")
            reached = reachable(run, scaler.urn)
            assert run.resource("NodePool", role.pool).urn in reached
            assert run.resource("Queue", role.queue).urn in reached


def reachable(run: StackRun, urn: str) -> set[str]:
    found: set[str] = set()
    pending = [urn]
    while pending:
        for waited in run.recording.by_urn[pending.pop()].depends_on:
            if waited not in found:
                found.add(waited)
                pending.append(waited)
    return found


def test_it_declares_the_same_in_every_run_and_in_an_update(stack: tuple[StackSettings, StackRun]) -> None:
    _, run = stack
    again = run_stack(run.recording.stack, ROOT)
    assert again.recording == run.recording
    update = run_stack(run.recording.stack, ROOT, preview=False)
    assert update.objects() == run.objects()


@pytest.mark.parametrize("stack", STACKS)
def test_the_program_reads_the_settings_that_load_reads(stack: str, tmp_path: Path) -> None:
    (tmp_path / "__main__.py").write_text(
        "from pathlib import Path\n"
        "import pulumi\n"
        "from triplane.components import declared_stack\n"
        "stack, _ = declared_stack(Path(__file__).parent)\n"
        "pulumi.export('settings', stack.model_dump_json(by_alias=True))\n"
    )
    config, secrets = stack_config(find_project(ROOT), read_stack(stack, ROOT))
    recording = run_program(tmp_path, project="triplane", stack=stack, config=config, secrets=secrets)
    assert StackSettings.model_validate_json(recording.outputs["settings"]) == StackSettings.load(stack, ROOT)


def test_what_others_live_in_comes_first_and_the_rest_waits_for_controllers(tmp_path: Path) -> None:
    manifests = {
        "Namespace": "{apiVersion: v1, kind: Namespace, metadata: {name: chat}}",
        "ConfigMap": "{apiVersion: v1, kind: ConfigMap, metadata: {name: own, namespace: chat}}",
    }
    for name in ("Pulumi.yaml", "__main__.py", "stacks/Pulumi.prod.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for kind, text in manifests.items():
        (tmp_path / f"{kind}.yaml").write_text(text)
    run = run_stack("prod", tmp_path, set={"manifests": ["Namespace.yaml", "ConfigMap.yaml"]})
    namespace = run.resource("Namespace")
    assert run.recording.by_urn[namespace.parent].name == "foundations"
    for waiting in ("NodePool", "kubernetes:scheduling.run.ai/v2:Queue", "ScaledObject", "ConfigMap"):
        assert all(namespace.urn in reachable(run, resource.urn) for resource in run.resources(waiting))
    releases = {resource.urn for resource in run.resources("Release")}
    assert releases <= reachable(run, run.resource("ConfigMap").urn)


def test_each_object_waits_for_a_few_others_however_large_the_fleet() -> None:
    pools = {f"p{number}": {**dict(DEV_POOL)} for number in range(40)}
    queues = {f"q{number}": {"gpus": {"quota": 0, "limit": 1}} for number in range(40)}
    run = run_stack("dev", ROOT, set={"pools": pools, "queues": queues, "models": {}})
    assert len(run.resources("NodePool")) == len(run.resources("Queue")) == 40
    assert max(len(resource.depends_on) for resource in run.resources()) <= 2


def test_a_mistake_is_told_by_the_program_too() -> None:
    with pytest.raises(ProgramError, match=r"stacks/Pulumi\.dev\.yaml:\d+:\d+  pools\.l4\.nodes\.max"):
        run_stack("dev", ROOT, set={"pools.l4.nodes.max": 0})


def test_dev_never_imports_pulumi_aws() -> None:
    code = (
        "import sys\nfrom triplane.testing import run_stack\n"
        f"assert run_stack('dev', {str(ROOT)!r}).objects('NodePool')\n"
        "sys.exit(any(name.partition('.')[0] in ('pulumi_aws', 'pulumi_kubernetes') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0


def test_the_program_is_short_enough_to_read_at_a_glance() -> None:
    assert len((ROOT / "__main__.py").read_text().splitlines()) < 40


def test_the_project_says_what_the_engine_needs() -> None:
    (document,) = read_documents(
        decode((ROOT / "Pulumi.yaml").read_bytes(), "Pulumi.yaml"), "Pulumi.yaml", Dialect.PULUMI
    )
    assert document.value["stackConfigDir"] == "stacks"
    assert document.value["runtime"]["options"] == {"toolchain": "pip", "virtualenv": ".venv"}
