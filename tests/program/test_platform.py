"""The Helm releases as the engine would be asked for them, and what each layer waits for."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from triplane.program import ProgramError, Recording, Resource, run_program

RELEASE = "kubernetes:helm.sh/v3:Release"
PATCH = "kubernetes:kai.scheduler/v1:ConfigPatch"
PROGRAM = """
import json, pulumi
from triplane.components import Platform
from triplane.settings.cluster import ClusterSettings
from triplane.settings.platform import PlatformSettings

class Before(pulumi.ComponentResource):
    # Stands for what nodes wait for.
    def __init__(self):
        super().__init__("test:index:Before", "before")
        pulumi.CustomResource("test:index:Inside", "inside", {{}}, pulumi.ResourceOptions(parent=self))

given = json.loads({given!r})
cluster = pulumi.ProviderResource("kubernetes", "cluster", {{}})
platform = Platform(
    "platform",
    platform=PlatformSettings.model_validate(given["platform"]),
    cluster=ClusterSettings.model_validate(given["cluster"]),
    nodes_after=[Before()],
    opts=pulumi.ResourceOptions(provider=cluster),
)
for layer in ("nodes", "queues", "replicas"):
    waits = pulumi.ResourceOptions(depends_on=platform.dependencies(layer))
    pulumi.CustomResource("test:index:Object", layer, {{}}, waits)
"""
CLUSTER = {"name": "prod", "context": "prod", "cloud": "eks", "region": "us-east-1", "kubernetes": "1.35"}
EVERYTHING = {controller: {"install": True} for controller in ("karpenter", "kai", "keda")}


class Run:
    """Runs a program of one Platform, and of one object in each layer that waits for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, platform: Mapping[str, Any], **cluster: Any) -> Recording:
        given = json.dumps({"platform": platform, "cluster": {**CLUSTER, **cluster}})
        (self.folder / "__main__.py").write_text(PROGRAM.format(given=given))
        return run_program(self.folder, project="triplane", stack="test")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def of(recording: Recording, type_: str) -> dict[str, Resource]:
    return {resource.name: resource for resource in recording.resources if resource.type == type_}


def made(recording: Recording) -> list[Resource]:
    return [resource for resource in recording.resources if resource.type.startswith("kubernetes:")]


def waits(recording: Recording, type_: str, name: str) -> set[str]:
    return {urn.rpartition("::")[2] for urn in of(recording, type_)[name].depends_on}


def test_nothing_installed_declares_nothing(run: Run) -> None:
    recorded = run({})
    assert not made(recorded)
    assert not of(recorded, "triplane:platform:Platform")
    assert waits(recorded, "test:index:Object", "nodes") == {"inside"}
    assert waits(recorded, "test:index:Object", "queues") == waits(recorded, "test:index:Object", "replicas") == set()


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        ("nodes", {"inside", "karpenter-crd", "karpenter"}),
        ("queues", {"kai-scheduler", "kai-config-available"}),
        ("replicas", {"keda"}),
    ],
)
def test_each_layer_waits_for_its_controller(run: Run, layer: str, expected: set[str]) -> None:
    assert waits(run(EVERYTHING), "test:index:Object", layer) == expected


def test_releases_are_pinned_named_and_go_through_the_clusters_provider(run: Run) -> None:
    recorded = run(EVERYTHING)
    releases = of(recorded, RELEASE)
    assert {name: (r.inputs["chart"], r.inputs["version"], r.inputs["namespace"]) for name, r in releases.items()} == {
        "karpenter-crd": ("oci://public.ecr.aws/karpenter/karpenter-crd", "1.14.1", "kube-system"),
        "karpenter": ("oci://public.ecr.aws/karpenter/karpenter", "1.14.1", "kube-system"),
        "kai-scheduler": ("oci://ghcr.io/kai-scheduler/kai-scheduler/kai-scheduler", "v0.16.8", "kai-scheduler"),
        "keda": ("keda", "2.20.2", "keda"),
    }
    for name, release in releases.items():
        assert release.inputs["name"] == name, "else the engine adds a suffix and the service account changes its name"
        assert release.inputs["timeout"] == 600
        assert not release.inputs.get("skipAwait")
        assert release.inputs["createNamespace"] == (release.inputs["namespace"] != "kube-system")
    assert releases["keda"].inputs["repositoryOpts"] == {"repo": "https://kedacore.github.io/charts"}
    (provider,) = of(recorded, "pulumi:providers:kubernetes").values()
    assert {resource.provider for resource in made(recorded)} == {provider.urn}, "never the ambient kubeconfig"


@pytest.mark.parametrize("protect", [True, False])
def test_only_the_definitions_are_protected_and_they_are_kept_even_so(run: Run, protect: bool) -> None:
    recorded = run(EVERYTHING, protect=protect)
    assert [r.name for r in recorded.resources if r.protect] == (["karpenter-crd"] if protect else [])
    assert [r.name for r in recorded.resources if r.retain_on_delete] == ["karpenter-crd"]
    assert {name: r.inputs["atomic"] for name, r in of(recorded, RELEASE).items()} == {
        "karpenter-crd": False,
        "karpenter": True,
        "kai-scheduler": False,
        "keda": True,
    }


def test_karpenter_starts_after_its_definitions_and_its_permissions(run: Run) -> None:
    recorded = run(EVERYTHING)
    assert waits(recorded, RELEASE, "karpenter") == {"karpenter-crd", "inside"}
    assert of(recorded, RELEASE)["karpenter"].inputs["skipCrds"]
    for independent in ("karpenter-crd", "kai-scheduler", "keda"):
        assert waits(recorded, RELEASE, independent) == set()


def test_kai_is_waited_for_until_its_webhook_serves(run: Run) -> None:
    """A patch of the wait alone: it must not take any field of an object that KAI's own chart writes."""
    recorded = run(EVERYTHING)
    assert waits(recorded, PATCH, "kai-config-available") == {"kai-scheduler"}
    assert of(recorded, PATCH)["kai-config-available"].inputs == {
        "apiVersion": "kai.scheduler/v1",
        "kind": "Config",
        "metadata": {
            "name": "kai-config",
            "annotations": {"pulumi.com/waitFor": "condition=Available", "pulumi.com/timeoutSeconds": "600"},
        },
    }


def test_values_arrive_whole(run: Run) -> None:
    release = of(run(EVERYTHING, namespace="karpenter"), RELEASE)["karpenter"].inputs
    assert release["createNamespace"] is True
    assert release["values"]["settings"]["interruptionQueue"] == "prod"
    assert release["values"]["settings"]["featureGates"]["reservedCapacity"] is True
    assert release["values"]["replicas"] == 2


def test_what_a_chart_cannot_do_is_said_at_once(run: Run) -> None:
    with pytest.raises(ProgramError, match="no gate TerminateFirstDrift"):
        run({"karpenter": {"install": True, "gates": ["TerminateFirstDrift"]}})


def test_importing_the_component_does_not_import_helm() -> None:
    code = "import sys, triplane.components.platform; sys.exit('pulumi_kubernetes' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
