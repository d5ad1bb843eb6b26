"""The shipped stacks on the real engine and API server: deployed, unchanged, changed, protected, refused."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from local_stacks import as_declared, change_stack_file, deploy_to, make_namespaces, read_manifests

from tools.engine.client import Client
from tools.engine.control_plane import ControlPlane
from tools.engine.deployment import Deployment, copy_project
from triplane.settings import StackSettings

ROOT = Path(__file__).parents[2]
PACK = str(ROOT / "policies")
SHIPPED = sorted(path.name.split(".")[1] for path in (ROOT / "stacks").glob("Pulumi.*.yaml"))

Block = dict[str, Any]


@dataclass
class Local:
    """A shipped stack, deploying to the API server of the tests."""

    deployment: Deployment
    api: Client
    objects: list[Block]
    """What `triplane preview --write` writes."""

    @property
    def project(self) -> Path:
        return self.deployment.project

    def change(self, change: Callable[[Block], None]) -> None:
        change_stack_file(self.project, self.deployment.stack, change)


def preview(project: Path, stack: str, folder: Path) -> list[Block]:
    """The objects that `triplane preview --write` writes."""
    command = [str(Path(sys.executable).with_name("triplane")), "preview", stack, "--write", str(folder)]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return read_manifests(folder)


@pytest.fixture
def local(
    tmp_path: Path, cluster: ControlPlane, api: Client, deployment: Callable[[Path, str], Deployment]
) -> Iterator[Callable[[str], Local]]:
    """Makes one of the shipped stacks local. Whatever it has deployed is gone after the test, protected or not."""
    made: list[Local] = []

    def make(stack: str) -> Local:
        project = copy_project(ROOT, tmp_path / stack)
        change_stack_file(project, stack, deploy_to(cluster))
        objects = preview(project, stack, tmp_path / f"written-{stack}")
        make_namespaces(api, objects)
        made.append(Local(deployment(project, stack), api, objects))
        return made[-1]

    yield make
    for each in made:
        for item in each.objects:
            api.delete(item)


def test_all_stacks_are_looked_at() -> None:
    assert {"dev", "staging", "prod"} <= set(SHIPPED)


@pytest.mark.parametrize("stack", SHIPPED)
def test_the_server_accepts_every_manifest_of_every_stack(stack: str, api: Client, tmp_path: Path) -> None:
    """As shipped: with AWS where the stack has it."""
    objects = preview(ROOT, stack, tmp_path / "written")
    assert {"NodePool", "Queue", "ScaledObject"} <= {item["kind"] for item in objects}
    make_namespaces(api, objects)
    for item in objects:
        api.create(item, dry_run=True)


@pytest.mark.parametrize("stack", SHIPPED)
def test_the_server_stores_what_preview_wrote_and_defaults(stack: str, local: Callable[[str], Local]) -> None:
    here = local(stack)
    # What the server makes of each written file, before anything is deployed: its own defaults and nothing else.
    expected = [as_declared(here.api.create(item, dry_run=True)) for item in here.objects]
    here.deployment.up().succeeded()
    stored = [here.api.get(item) for item in here.objects]
    assert [as_declared(item) for item in stored if item is not None] == expected


@pytest.mark.parametrize("stack", SHIPPED)
def test_a_second_up_changes_nothing(stack: str, local: Callable[[str], Local]) -> None:
    here = local(stack)
    assert set(here.deployment.up().succeeded().changes) == {"create"}
    assert here.deployment.up().succeeded().changes == {}
    assert here.deployment.preview("--refresh").succeeded().changes == {}


@pytest.mark.parametrize("stack", SHIPPED)
def test_without_a_cluster_it_renders_what_preview_wrote(
    stack: str, local: Callable[[str], Local], tmp_path: Path
) -> None:
    here = local(stack)
    rendered = tmp_path / "rendered"
    here.deployment.run("config", "set", "kubernetes:renderYamlToDirectory", str(rendered)).succeeded()
    here.deployment.environment = {"KUBECONFIG": "/dev/null"}
    here.deployment.up().succeeded()

    def by_identity(objects: list[Block]) -> dict[tuple[str, ...], Block]:
        return {
            (item["apiVersion"], item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]): item
            for item in objects
        }

    assert by_identity([as_declared(item) for item in read_manifests(rendered)]) == by_identity(here.objects)


@pytest.mark.parametrize("stack", SHIPPED)
def test_the_engine_hands_over_the_settings_that_load_reads(stack: str, local: Callable[[str], Local]) -> None:
    here = local(stack)
    (here.project / "__main__.py").write_text(
        "from pathlib import Path\n"
        "import pulumi\n"
        "from triplane.components import declared_stack\n"
        "stack, _ = declared_stack(Path(__file__).parent)\n"
        "pulumi.export('settings', stack.model_dump_json(by_alias=True))\n"
    )
    here.deployment.up().succeeded()
    through_the_engine = StackSettings.model_validate_json(here.deployment.outputs()["settings"])
    assert through_the_engine == StackSettings.load(stack, here.project)


def test_a_changed_quota_updates_the_queue_in_place(local: Callable[[str], Local]) -> None:
    here = local("prod")
    here.deployment.up().succeeded()
    queue: Block = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "pretrain"}}
    before = here.api.get(queue)
    assert before is not None
    quota = before["spec"]["resources"]["gpu"]["quota"]

    def lower(config: Block) -> None:
        config["queues"]["research"]["children"]["pretrain"]["gpus"]["quota"] = quota - 8

    here.change(lower)
    assert here.deployment.up().succeeded().changes == {"update": 1}
    after = here.api.get(queue)
    assert after is not None
    assert after["spec"]["resources"]["gpu"]["quota"] == quota - 8
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


def test_destroy_honours_protection(local: Callable[[str], Local]) -> None:
    here = local("prod")
    here.deployment.up().succeeded()
    pools = here.api.items("karpenter.sh/v1", "NodePool")
    assert pools
    refused = here.deployment.destroy()
    assert refused.code != 0
    assert "protect" in refused.output
    assert here.api.items("karpenter.sh/v1", "NodePool") == pools

    here.deployment.run("state", "unprotect", "--all", "--yes", "--stack", "prod").succeeded()
    here.deployment.destroy().succeeded()
    assert here.api.items("karpenter.sh/v1", "NodePool") == []
    assert here.deployment.resources() == []


def consolidating(config: Block) -> None:
    """The consolidation trap, by a patch."""
    pool = next(iter(config["pools"]))
    merge = {"spec": {"disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "budgets": [{"nodes": "10%"}]}}}
    config["patches"] = [{"target": {"kind": "NodePool", "name": pool}, "merge": merge}]


def following_the_duty_cycle(config: Block) -> None:
    """The signal trap, by a manifest of the user's own."""
    config["manifests"] = ["extra/*.yaml"]


DUTY_CYCLE_SCALER = """\
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: busy
  namespace: default
spec:
  scaleTargetRef:
    name: vllm
  minReplicaCount: 1
  maxReplicaCount: 4
  triggers:
    - type: prometheus
      metricType: AverageValue
      metadata:
        serverAddress: http://prometheus.monitoring:9090
        query: avg(DCGM_FI_DEV_GPU_UTIL)
        threshold: "80"
        ignoreNullValues: "false"
"""


@pytest.mark.parametrize(
    ("trap", "rule"), [(consolidating, "NP101"), (following_the_duty_cycle, "AS401")], ids=["patch", "manifest"]
)
@pytest.mark.parametrize("deployed", [False, True], ids=["new stack", "running stack"])
def test_the_pack_refuses_a_trap_and_nothing_changes(
    local: Callable[[str], Local], trap: Callable[[Block], None], rule: str, deployed: bool
) -> None:
    here = local("dev")
    if deployed:
        assert here.deployment.up("--policy-pack", PACK, preview=True).succeeded().violations == []
    before = [here.api.get(item) for item in here.objects]
    (here.project / "extra").mkdir()
    (here.project / "extra" / "busy.yaml").write_text(DUTY_CYCLE_SCALER)
    here.change(trap)
    run = here.deployment.up("--policy-pack", PACK, preview=True)
    assert run.code != 0
    assert {violation["policyName"] for violation in run.violations} == {rule}
    assert [here.api.get(item) for item in here.objects] == before
    assert (
        here.api.get({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "busy"}}) is None
    )


@pytest.mark.parametrize("stack", SHIPPED)
def test_the_pack_accepts_every_stack(stack: str, local: Callable[[str], Local]) -> None:
    run = local(stack).deployment.preview("--policy-pack", PACK).succeeded()
    assert run.violations == []
