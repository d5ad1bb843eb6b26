"""The API server behaves as the one that stacks are deployed to: it knows the kinds, and their validation is on."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.engine.client import Client, Refused
from tools.engine.control_plane import ControlPlane, ControlPlaneFailed, control_plane
from tools.engine.installed import Engine

CRDS = Path(__file__).parents[1] / "crds"

NODE_POOL: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "l4"},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "l4"},
                "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}],
            }
        }
    },
}


def test_every_definition_is_served(api: Client) -> None:
    for path in CRDS.glob("*.yaml"):
        for definition in yaml.safe_load_all(path.read_text()):
            if definition is not None:
                for version in definition["spec"]["versions"]:
                    group, kind = definition["spec"]["group"], definition["spec"]["names"]["kind"]
                    assert api.resource(f"{group}/{version['name']}", kind)


def test_a_dry_run_fills_in_defaults_and_stores_nothing(api: Client) -> None:
    answer = api.create(NODE_POOL, dry_run=True)
    # What Karpenter's definition gives a NodePool that says nothing is what the manifests must never rely on.
    assert answer["spec"]["disruption"] == {
        "budgets": [{"nodes": "10%"}],
        "consolidateAfter": "0s",
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
    }
    assert answer["spec"]["template"]["spec"]["expireAfter"] == "720h"
    assert api.get(NODE_POOL) is None


def test_unknown_fields_are_refused(api: Client) -> None:
    pool = copy.deepcopy(NODE_POOL)
    pool["spec"]["disruption"] = {"consolidationpolicy": "WhenEmpty", "consolidateAfter": "1h"}
    with pytest.raises(Refused, match="unknown field"):
        api.create(pool, dry_run=True)


def test_cel_rules_are_judged(api: Client) -> None:
    pool = copy.deepcopy(NODE_POOL)
    pool["spec"]["template"]["spec"]["requirements"][0]["values"] = []
    with pytest.raises(Refused, match="requirements with operator 'In' must have a value defined"):
        api.create(pool, dry_run=True)


def test_the_kubeconfig_names_the_cluster(cluster: ControlPlane) -> None:
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    assert config["current-context"] == cluster.context
    assert config["clusters"][0]["cluster"]["server"] == cluster.url
    assert cluster.kubeconfig.stat().st_mode & 0o077 == 0


def test_servers_end_with_the_block(engine: Engine, tmp_path: Path) -> None:
    with control_plane(engine, tmp_path) as running:
        client = running.client()
        assert client.request("GET", "/readyz").status == 200
        client.close()
    client = running.client()
    with pytest.raises(OSError):
        client.request("GET", "/readyz")


def test_a_server_that_cannot_start_says_why(engine: Engine, tmp_path: Path) -> None:
    broken = Engine(**(vars(engine) | {"apiserver": engine.etcd}))
    with pytest.raises(ControlPlaneFailed, match="etcd ended with"), control_plane(broken, tmp_path):
        raise AssertionError("started without an API server")
