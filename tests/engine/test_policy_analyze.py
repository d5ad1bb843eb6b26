"""`pulumi policy analyze --file`: the pack over an exported state, without a backend or a cluster."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_pack import GPU_POOL, PACK, pool

from tools.engine.deployment import Deployment, Run


def exported(*items: dict[str, Any]) -> dict[str, Any]:
    """A state as `pulumi stack export` writes it."""
    stack = "urn:pulumi:dev::shop::pulumi:pulumi:Stack::shop-dev"
    resources: list[dict[str, Any]] = [{"urn": stack, "custom": False, "type": "pulumi:pulumi:Stack"}]
    for item in items:
        token = f"kubernetes:{item['apiVersion']}:{item['kind']}"
        resources.append(
            {
                "urn": f"urn:pulumi:dev::shop::{token}::{item['metadata']['name']}",
                "custom": True,
                "id": item["metadata"]["name"],
                "type": token,
                "inputs": item,
                "outputs": item,
                "parent": stack,
            }
        )
    return {"version": 3, "deployment": {"manifest": {}, "resources": resources}}


@pytest.fixture
def analyze(tmp_path: Path, deployment: Callable[[Path, str], Deployment]) -> Callable[..., Run]:
    def run(*items: dict[str, Any]) -> Run:
        project = tmp_path / "shop"
        project.mkdir()
        (project / "Pulumi.yaml").write_text("name: shop\nruntime: python\n")
        (project / ".venv").symlink_to(sys.prefix)
        (project / "state.json").write_text(json.dumps(exported(*items)))
        return deployment(project, "dev").run("policy", "analyze", "--file", "state.json", "--policy-pack", PACK)

    return run


def test_a_safe_state_passes(analyze: Callable[..., Run]) -> None:
    assert "NP101" not in analyze(GPU_POOL).succeeded().output


def test_what_is_deployed_is_judged(analyze: Callable[..., Run]) -> None:
    run = analyze(pool(consolidationPolicy="WhenEmptyOrUnderutilized"))
    assert run.code != 0
    assert "NP101" in run.output
