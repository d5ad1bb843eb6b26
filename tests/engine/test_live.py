"""check and init read a real API server."""

import json
from typing import Any

import yaml
from click.testing import CliRunner
from test_pack import pool

from tools.engine.client import Client
from tools.engine.control_plane import ControlPlane
from triplane.commands.check import check
from triplane.commands.init import init


def test_what_a_cluster_holds_is_judged(cluster: ControlPlane, api: Client) -> None:
    wrong: dict[str, Any] = pool(consolidationPolicy="WhenEmptyOrUnderutilized")
    wrong["metadata"]["name"] = "read-live"
    api.apply(wrong)
    try:
        arguments = ["--live", "--kubeconfig", str(cluster.kubeconfig), "--context", cluster.context]
        result = CliRunner().invoke(check, [*arguments, "--rule", "NP101", "--format", "json"])
        assert result.exit_code == 1, result.output
        assert f"reading context {cluster.context}, server https://" in result.stderr
        report = json.loads(result.stdout)
        assert [f["object"]["name"] for f in report["findings"] if f["object"]["name"] == "read-live"] == ["read-live"]
        assert report["notRead"] == []
        made = CliRunner().invoke(init, arguments)
        assert "read-live" in made.output and f"context: {cluster.context}" in made.stdout, made.output
    finally:
        api.delete(wrong)
    assert yaml.safe_load(cluster.kubeconfig.read_text())["current-context"], "the file is as it was"
