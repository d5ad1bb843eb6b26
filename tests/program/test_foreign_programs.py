"""Programs that are not ours: other resources, other configuration, providers' own classes."""

import subprocess
import sys
from pathlib import Path

import pytest

from triplane.inventory import Inventory, NodePool
from triplane.program.inventoried import inventory_resources
from triplane.rules import judge
from triplane.settings import SettingsError
from triplane.testing import run_stack

PROGRAM = """
import pulumi
import pulumi_kubernetes as k8s

config = pulumi.Config()
provider = k8s.Provider("cluster", context=config.require("context"))
options = pulumi.ResourceOptions(provider=provider)
pool = k8s.apiextensions.CustomResource(
    "gpu",
    api_version="karpenter.sh/v1",
    kind="NodePool",
    metadata={"name": "gpu"},
    spec={
        "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1m"},
        "template": {"spec": {"requirements": [
            {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Gt", "values": ["0"]},
        ]}},
        "weight": config.require_int("weight"),
    },
    opts=options,
)
secret = k8s.core.v1.Secret("token", metadata={"name": "token"}, string_data={"t": config.require_secret("token")},
                            opts=options)
release = k8s.helm.v3.Release("dcgm", chart="dcgm-exporter", version="4.5.0", opts=options)
patch = k8s.apiextensions.CustomResourcePatch("kai", api_version="kai.scheduler/v1", kind="Config",
                                              metadata={"name": "kai-config"}, opts=options)
pulumi.export("region", pulumi.Config("aws").require("region"))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "Pulumi.yaml").write_text(
        "name: theirs\nruntime: python\nmain: infra\n"
        "config:\n  aws:region: {value: us-west-2}\n  weight: {type: integer, default: 7}\n"
    )
    (tmp_path / "infra").mkdir()
    (tmp_path / "infra" / "__main__.py").write_text(PROGRAM)
    (tmp_path / "Pulumi.test.yaml").write_text("config:\n  theirs:context: kind\n  token: {secure: AAABBB}\n")
    return tmp_path


def test_it_runs_with_its_own_configuration(project: Path) -> None:
    run = run_stack("test", project / "infra")
    assert run.outputs == {"region": "us-west-2"}
    assert run.object("NodePool")["spec"]["weight"] == 7
    assert run.resource("NodePool").file == "__main__.py"
    assert run.resource("kubernetes").inputs["context"] == "kind"
    assert [manifest["kind"] for manifest in run.objects()] == ["NodePool", "Secret"], "no release, and no patch"


def test_an_encrypted_value_stays_a_secret(project: Path) -> None:
    secret = run_stack("test", project).object("Secret")
    assert "(encrypted)" not in str(secret)
    assert "(secret)" in str(secret["stringData"]) or "Secret" in repr(secret["stringData"])


def test_its_resources_are_judged_like_any(project: Path) -> None:
    inventory = Inventory(inventory_resources(run_stack("test", project).recording))
    assert [pool.resource.name for pool in inventory.views(NodePool)] == ["gpu"]
    (finding, *_) = [finding for finding in judge(inventory).failures if finding.rule.id == "NP101"]
    assert finding.resource is not None
    assert finding.resource.origin.file == "__main__.py"
    assert finding.resource.origin.line > 0


@pytest.mark.parametrize(
    ("stack", "said"),
    [("tset", "Did you mean test"), ("test", None)],
)
def test_a_stack_that_does_not_exist_is_named(project: Path, stack: str, said: str | None) -> None:
    if said is None:
        assert run_stack(stack, project)
        return
    with pytest.raises(SettingsError, match=said):
        run_stack(stack, project)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "no Pulumi.yaml in this folder or above it"),
        ({"Pulumi.yaml": "runtime: python\n"}, "a project needs a name"),
        ({"Pulumi.yaml": "name: x\nmain: nowhere\n"}, "there is no __main__.py in"),
    ],
)
def test_a_folder_that_is_no_project_is_said(tmp_path: Path, files: dict[str, str], said: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(SettingsError, match=said):
        run_stack("dev", tmp_path)


def test_the_testing_module_imports_without_the_sdk() -> None:
    code = "import sys, triplane.testing; sys.exit('pulumi' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
