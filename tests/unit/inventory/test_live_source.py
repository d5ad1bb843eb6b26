"""Reading a cluster: pages, kinds that are not served, kinds that may not be listed, and a server that is not there."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest

from triplane.inventory.live import LiveError, connect, read_cluster

POOLS = [{"metadata": {"name": f"p{i}", "managedFields": [1]}, "spec": {}} for i in range(5)]
OFFERED = {
    "/apis": {"groups": [{"name": "karpenter.sh", "preferredVersion": {"version": "v1"}}]},
    "/apis/karpenter.sh/v1": {
        "resources": [
            {"name": "nodepools", "kind": "NodePool", "verbs": ["get", "list"]},
            {"name": "nodepools/status", "kind": "NodePool", "verbs": ["get"]},
            {"name": "nodeclaims", "kind": "NodeClaim", "verbs": ["list"]},
        ]
    },
    "/api/v1": {
        "resources": [
            {"name": "configmaps", "kind": "ConfigMap", "verbs": ["list"]},
            {"name": "secrets", "kind": "Secret", "verbs": ["list"]},
            {"name": "services", "kind": "Service", "verbs": ["list"]},
        ]
    },
    "/api/v1/services": {"items": None},
}


class Server(ThreadingHTTPServer):
    """Answers as an API server does, two objects a page; remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.expire = False


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        url = urlparse(self.path)
        self.server.asked.append(f"{self.command} {url.path}")
        status, body = self.answer(url.path, parse_qs(url.query))
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, Any]:
        if path == "/apis/karpenter.sh/v1/nodepools":
            start = int(query.get("continue", ["0"])[0])
            if start and self.server.expire:
                self.server.expire = False
                return 410, {"kind": "Status", "reason": "Expired"}
            following = str(start + 2) if start + 2 < len(POOLS) else ""
            return 200, {"items": POOLS[start : start + 2], "metadata": {"continue": following}}
        if path == "/api/v1/configmaps":
            return 403, {"kind": "Status", "reason": "Forbidden"}
        return (200, OFFERED[path]) if path in OFFERED else (404, {"kind": "Status"})

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def kubeconfig(folder: Path, url: str) -> str:
    path = folder / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "hunter2"}}],
        "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(json.dumps(config))
    return str(path)


@pytest.fixture
def config(server: Server, tmp_path: Path) -> str:
    return kubeconfig(tmp_path, f"http://127.0.0.1:{server.server_port}")


@pytest.mark.parametrize("expire", [False, True], ids=["pages", "an expired page"])
def test_every_page_is_read(server: Server, config: str, expire: bool) -> None:
    server.expire = expire
    sources = read_cluster(connect(config), ["NodePool.karpenter.sh", "Queue.scheduling.run.ai"])
    assert [resource.name for resource in sources.resources] == ["p0", "p1", "p2", "p3", "p4"]
    (first, *_) = sources.resources
    assert first.kind == "NodePool.karpenter.sh" and first.api_version == "karpenter.sh/v1"
    assert "managedFields" not in first.data["metadata"]


def test_it_only_reads_and_no_secrets(server: Server, config: str) -> None:
    read_cluster(connect(config), ["NodePool.karpenter.sh", "Secret"])
    assert all(asked.startswith("GET ") for asked in server.asked)
    assert not any("secrets" in asked for asked in server.asked)


def test_what_may_not_be_listed_is_told_with_the_right_it_takes(config: str) -> None:
    (missed,) = read_cluster(connect(config), []).not_read
    assert "test/api/v1/configmaps" in str(missed)
    assert "403" in missed.reason and "grant the verb list on configmaps" in missed.reason


def test_it_says_which_cluster_it_is(server: Server, config: str) -> None:
    assert str(connect(config)) == f"context test, server http://127.0.0.1:{server.server_port}"
    assert "hunter2" not in repr(connect(config))


@pytest.mark.parametrize(("context", "told"), [("tset", "did you mean test"), ("prod", "there are: test")])
def test_a_context_that_does_not_exist_is_told(config: str, context: str, told: str) -> None:
    with pytest.raises(LiveError, match=told):
        connect(config, context)


def test_a_kubeconfig_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(LiveError, match="the kubeconfig cannot be used"):
        connect(str(tmp_path / "nothing"))


def test_a_server_that_is_not_there_is_told(tmp_path: Path) -> None:
    cluster = connect(kubeconfig(tmp_path, "http://127.0.0.1:1"))
    with pytest.raises(LiveError, match=r"127\.0\.0\.1:1 cannot be reached"):
        read_cluster(cluster, [])
