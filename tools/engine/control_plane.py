"""A Kubernetes control plane for tests: etcd, kube-apiserver and two controllers on loopback, in a folder of their own.

Objects are admitted, validated (OpenAPI and CEL), stored and deleted as in any cluster. Nothing else acts on them:
there are no nodes, and no controller of Karpenter, KAI or KEDA.
"""

import base64
import contextlib
import ctypes
import json
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.engine.client import Client, Object
from tools.engine.installed import Engine

READY_WITHIN = 60.0
"""Seconds from start to a ready server; on two busy cores it takes about three."""
STOP_WITHIN = 10.0
ATTEMPTS = 3
"""Between choosing a free port and listening on it another process can take it: then start again."""


class ControlPlaneFailed(Exception):
    """A server ended or did not get ready; the text is the end of its log."""


@dataclass(frozen=True)
class ControlPlane:
    """A running control plane."""

    url: str
    token: str
    """Bearer token of a cluster administrator."""
    authority: str
    """Certificate that signs the server's, as PEM."""
    kubeconfig: Path
    context: str

    def client(self) -> Client:
        """A new connection; the caller closes it."""
        return Client(self.url, self.token, self.authority)


@contextmanager
def control_plane(
    engine: Engine, folder: Path, *, definitions: Sequence[Object] = (), context: str = "triplane-test"
) -> Iterator[ControlPlane]:
    """Runs a control plane for the length of the block. Its data, logs and kubeconfig lie in `folder`.

    definitions: CustomResourceDefinitions that it serves from the start. All servers end with the block, and also when
    this process is killed. Raises ControlPlaneFailed.
    """
    for attempt in range(1, ATTEMPTS + 1):
        attempt_folder = folder / f"start-{attempt}"
        attempt_folder.mkdir(parents=True)
        with contextlib.ExitStack() as stack:
            try:
                plane = _start(engine, attempt_folder, definitions, context, stack)
            except ControlPlaneFailed as error:
                if attempt < ATTEMPTS and "address already in use" in str(error):
                    continue
                raise
            yield plane
            return


def _start(
    engine: Engine, folder: Path, definitions: Sequence[Object], context: str, stack: contextlib.ExitStack
) -> ControlPlane:
    clients, peers, secure = _free_ports(3)
    data, certificates = folder / "etcd", folder / "certificates"
    # Service accounts need a signing key, and Python's library makes none. etcd does, for its peers: use that one.
    peer_key = data / "fixtures" / "peer" / "key.pem"
    etcd = _Server(
        stack,
        folder / "etcd.log",
        [
            str(engine.etcd),
            f"--data-dir={data}",
            f"--listen-client-urls=http://127.0.0.1:{clients}",
            f"--advertise-client-urls=http://127.0.0.1:{clients}",
            f"--listen-peer-urls=https://127.0.0.1:{peers}",
            f"--initial-advertise-peer-urls=https://127.0.0.1:{peers}",
            f"--initial-cluster=default=https://127.0.0.1:{peers}",
            "--peer-auto-tls",
            "--unsafe-no-fsync",  # the data lives as long as the tests
        ],
    )
    etcd.wait_until(lambda: peer_key.is_file() and _listening(clients))

    token = secrets.token_hex(16)
    tokens = folder / "tokens.csv"
    tokens.touch(mode=0o600)
    tokens.write_text(f"{token},admin,1,system:masters\n")
    apiserver = _Server(
        stack,
        folder / "kube-apiserver.log",
        [
            str(engine.apiserver),
            f"--etcd-servers=http://127.0.0.1:{clients}",
            "--bind-address=127.0.0.1",
            f"--secure-port={secure}",
            f"--cert-dir={certificates}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default",
            f"--service-account-signing-key-file={peer_key}",
            f"--service-account-key-file={peer_key}",
            # Its controller, which would make the default service account that pods need, does not run here.
            "--disable-admission-plugins=ServiceAccount",
            "--service-cluster-ip-range=10.96.0.0/16",
        ],
    )
    url = f"https://127.0.0.1:{secure}"
    certificate = certificates / "apiserver.crt"  # the server makes it at its first start, with its signer behind it
    apiserver.wait_until(lambda: certificate.is_file() and _ready(Client(url, token, certificate.read_text())))
    kubeconfig = folder / "kubeconfig"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(_kubeconfig(url, token, certificate.read_text(), context))
    plane = ControlPlane(
        url=url, token=token, authority=certificate.read_text(), kubeconfig=kubeconfig, context=context
    )
    with contextlib.closing(plane.client()) as client:
        client.install(definitions)
    # Pulumi deletes with foreground propagation, which the garbage collector finishes. It learns of new kinds only
    # every 30 s (1.37), so it starts after the definitions.
    controllers = _Server(
        stack,
        folder / "kube-controller-manager.log",
        [
            str(engine.controller_manager),
            f"--kubeconfig={kubeconfig}",
            "--controllers=garbage-collector-controller,namespace-controller",
            "--leader-elect=false",
            "--secure-port=0",
        ],
    )
    controllers.wait_until(lambda: "Proceeding to collect garbage" in controllers.log.read_text(errors="replace"))
    return plane


class _Server:
    """A process that is stopped when the stack unwinds."""

    def __init__(self, stack: contextlib.ExitStack, log: Path, command: list[str]) -> None:
        self.name = Path(command[0]).name
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                cwd=log.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches the tests first, and they stop their servers
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,
            )
        stack.callback(self.stop)

    def wait_until(self, ready: Callable[[], bool]) -> None:
        end = time.monotonic() + READY_WITHIN
        while not ready():
            if self.process.poll() is not None:
                raise ControlPlaneFailed(f"{self.name} ended with {self.process.returncode}:\n{self.last_lines()}")
            if time.monotonic() > end:
                raise ControlPlaneFailed(f"{self.name} was not ready in {READY_WITHIN:.0f} s:\n{self.last_lines()}")
            time.sleep(0.1)

    def last_lines(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(STOP_WITHIN)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _end_with_parent() -> None:
    """Asks Linux to end this process when the one that started it ends, however that happens."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _ready(client: Client) -> bool:
    with contextlib.closing(client):
        try:
            return client.request("GET", "/readyz").status == 200
        except OSError:
            return False


def _kubeconfig(url: str, token: str, authority: str, context: str) -> str:
    certificate = base64.b64encode(authority.encode()).decode()
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": context, "cluster": {"server": url, "certificate-authority-data": certificate}}],
            "users": [{"name": context, "user": {"token": token}}],
            "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
            "current-context": context,
        },
        indent=2,
    )
