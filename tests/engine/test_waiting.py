"""Waiting for KAI on the real engine: what a Queue depends on is not done before KAI says that it serves."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.engine.client import Client
from tools.engine.control_plane import ControlPlane
from tools.engine.deployment import Deployment

PROJECT = """
name: waiting
runtime: {name: python, options: {toolchain: pip, virtualenv: .venv}}
"""
PROGRAM = """
import os, pulumi
from pulumi_kubernetes import Provider
from triplane.components.platform import wait_for
from triplane.manifests.releases import platform_releases
from triplane.settings.cluster import ClusterSettings
from triplane.settings.platform import PlatformSettings

cluster = ClusterSettings(name="c", context=os.environ["WAITING_CONTEXT"], cloud="existing", kubernetes="1.35")
platform = PlatformSettings.model_validate({"kai": {"install": True}})
(kai,) = platform_releases(platform, cluster)
provider = Provider("cluster", context=cluster.context)
wait_for(kai.ready, opts=pulumi.ResourceOptions(provider=provider))
"""
CONFIG: dict[str, Any] = {"apiVersion": "kai.scheduler/v1", "kind": "Config", "metadata": {"name": "kai-config"}}
WAIT = "pulumi.com/waitFor"


@pytest.fixture
def waiting(
    tmp_path: Path, cluster: ControlPlane, deployment: Callable[[Path, str], Deployment], api: Client
) -> Iterator[Deployment]:
    project = tmp_path / "waiting"
    project.mkdir()
    (project / "Pulumi.yaml").write_text(PROJECT)
    (project / "__main__.py").write_text(PROGRAM)
    (project / ".venv").symlink_to(sys.prefix)
    made = deployment(project, "dev")
    made.environment = {"KUBECONFIG": str(cluster.kubeconfig), "WAITING_CONTEXT": cluster.context}
    yield made
    api.delete(CONFIG)


def report(api: Client, available: str) -> None:
    """Writes the status that KAI's operator writes."""
    condition = {
        "type": "Available",
        "status": available,
        "reason": "available",
        "message": "",
        "lastTransitionTime": "2026-11-01T00:00:00Z",
        "observedGeneration": 1,
    }
    path = f"{api.collection_of(CONFIG)}/kai-config/status"
    body = {"status": {"conditions": [condition]}}
    assert api.request("PATCH", path, body, media="application/merge-patch+json").status == 200


def test_queues_wait_until_kai_serves_and_kais_own_settings_stay_its_own(
    waiting: Deployment, cluster: ControlPlane, api: Client
) -> None:
    spec = {"namespace": "kai-scheduler"}
    api.create({**CONFIG, "spec": spec})
    report(api, "False")
    finished = threading.Event()
    waited: list[bool] = []

    def serve() -> None:
        """As the operator does, some time after the engine has begun to wait."""
        operator = cluster.client()
        deadline = time.monotonic() + 60
        while WAIT not in (operator.get(CONFIG) or CONFIG)["metadata"].get("annotations", {}):
            assert time.monotonic() < deadline, "the engine never patched the object"
            time.sleep(0.1)
        waited.append(not finished.wait(3))
        report(operator, "True")
        operator.close()

    operator = threading.Thread(target=serve)
    operator.start()
    try:
        waiting.up().succeeded()
    finally:
        finished.set()
        operator.join()
    assert waited == [True], "the update ended before KAI served"

    stored = api.get(CONFIG)
    assert stored is not None
    assert stored["spec"] == spec
    assert waiting.up().succeeded().changes == {}

    waiting.destroy().succeeded()
    left = api.get(CONFIG)
    assert left is not None, "only the patch is ours to delete"
    assert left["spec"] == spec
    assert WAIT not in left["metadata"].get("annotations", {})
