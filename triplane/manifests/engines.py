"""How each serving engine is started: its command, and the arguments that follow from a role's settings.

A user's own arguments come last and win: a flag that they hold is not written a second time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from triplane import catalog
from triplane.manifests.identity import ManifestError
from triplane.settings.models import ModelSettings, RoleName, WorkloadSettings
from triplane.settings.values import version_key

NIXL_PORT = 5600
"""Where vLLM's NixlConnector shakes hands (its own default)."""
RENDEZVOUS_PORT = 20000
"""Where the hosts of one SGLang replica meet."""
DEREGISTRATION_SECONDS = 15
"""How long a stopping pod still serves: endpoint pickers and proxies need to see it go before it stops listening."""

# LWS sets these in every container, and Kubernetes expands $(NAME) in arguments (leaderworkerset v1).
_LEADER = "$(LWS_LEADER_ADDRESS)"
_HOSTS = "$(LWS_GROUP_SIZE)"
_HOST_INDEX = "$(LWS_WORKER_INDEX)"


@dataclass(frozen=True)
class Launch:
    """One container's start: command and arguments, and what it opens and measures."""

    command: tuple[str, ...]
    args: tuple[str, ...]
    env: tuple[dict[str, Any], ...] = ()
    """Environment in the container's own form, without the names that the user sets."""
    ports: dict[str, int] = field(default_factory=dict)
    metrics_path: str | None = "/metrics"
    """Where it shows its gauges; None: nowhere unless asked to."""


def launch(model: ModelSettings, role_name: RoleName, workload: WorkloadSettings, *, worker: bool = False) -> Launch:
    """The start of a role's engine; `worker`: of a replica's second and further hosts.

    Raises ManifestError for a combination that the engine cannot start by arguments alone.
    """
    if _Flags(workload.args).given("--port"):
        raise ManifestError("--port in workload.args would part from the probes: set workload.port")
    start = {"vllm": _vllm, "sglang": _sglang, "trtllm": _trtllm}[model.engine.name](model, role_name, workload, worker)
    return Launch(
        start.command,
        (*start.args, *workload.args),
        tuple(variable for variable in start.env if variable["name"] not in workload.env),
        {"http": workload.port, **start.ports},
        start.metrics_path,
    )


def drain_command(model: ModelSettings, path: str, port: int) -> list[str]:
    """A preStop hook that waits until the replica holds no request, and for prefill until its KV cache is fetched.

    vLLM aborts what it still holds when it is told to stop. The kubelet ends the wait at the pod's grace period. A
    worker host asks its leader, since only that one serves.
    """
    gauges = tuple(
        catalog.metric(model.engine.name, model.engine.version, m) for m in ("waiting", "running", "kv_usage")
    )
    script = f"""\
import os, time, urllib.request
leader = os.environ.get("LWS_WORKER_INDEX", "0") == "0"
host = "127.0.0.1" if leader else os.environ["LWS_LEADER_ADDRESS"]
time.sleep({DEREGISTRATION_SECONDS})
while True:
    try:
        text = urllib.request.urlopen(f"http://{{host}}:{port}{path}", timeout=5).read().decode()
    except OSError:
        break
    held = [float(line.split()[-1]) for line in text.splitlines() if line.startswith({gauges!r})]
    if all(amount < 0.01 for amount in held):
        break
    time.sleep(2)
"""
    return ["python3", "-c", script]


def _vllm(model: ModelSettings, role_name: RoleName, workload: WorkloadSettings, worker: bool) -> Launch:
    role = model.roles[role_name]
    flags = _Flags(workload.args)
    flags.add("--port", workload.port)
    if not flags.given(
        "--tensor-parallel-size", "-tp", "--pipeline-parallel-size", "-pp", "--data-parallel-size", "-dp"
    ):
        flags.add("--tensor-parallel-size", role.gpus_per_replica)
    if model.served_name:
        flags.add("--served-model-name", model.served_name)
    env: list[dict[str, Any]] = []
    ports: dict[str, int] = {}
    if role_name != "aggregated":
        # NixlConnector takes the real role from the router; the name is for readers and for whoever checks it.
        kv_role = {"prefill": "kv_producer", "decode": "kv_consumer"}[role_name]
        flags.add("--kv-transfer-config", f'{{"kv_connector":"NixlConnector","kv_role":"{kv_role}"}}')
        # Its default is localhost, which no other pod reaches.
        env.append({"name": "VLLM_NIXL_SIDE_CHANNEL_HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})
        env.append({"name": "VLLM_NIXL_SIDE_CHANNEL_PORT", "value": str(NIXL_PORT)})
        ports["nixl"] = NIXL_PORT
    if role.hosts > 1:
        # vLLM images carry no Ray since 0.18; before 0.12 Ray was the only way over several hosts.
        if version_key(model.engine.version) < (0, 12, 0):
            raise ManifestError(
                f"vLLM {model.engine.version} spans {role.hosts} hosts only with a Ray cluster of one's own: "
                "use 0.12 or later, or declare the workload elsewhere and name it under target"
            )
        flags.add("--distributed-executor-backend", "mp")
        flags.add("--nnodes", _HOSTS)
        flags.add("--node-rank", _HOST_INDEX)
        flags.add("--master-addr", _LEADER)
        if worker:
            flags.add("--headless")
    # `vllm serve` takes the model as its first argument; the images' own entry points differ by release.
    positional = () if flags.given("--model") else (model.model,)
    return Launch(("vllm", "serve"), (*positional, *flags.written), tuple(env), ports)


def _sglang(model: ModelSettings, role_name: RoleName, workload: WorkloadSettings, worker: bool) -> Launch:
    role = model.roles[role_name]
    flags = _Flags(workload.args)
    if not flags.given("--model-path", "--model"):
        flags.add("--model-path", model.model)
    flags.add("--host", "0.0.0.0")  # the default, 127.0.0.1, answers no probe
    flags.add("--port", workload.port)
    flags.add("--enable-metrics")  # off by default: a scaler would find no series
    if not flags.given("--tp-size", "--tp", "--tensor-parallel-size", "--pp-size", "--pipeline-parallel-size"):
        flags.add("--tp-size", role.gpus_per_replica)
    if model.served_name:
        flags.add("--served-model-name", model.served_name)
    if role_name != "aggregated":
        flags.add("--disaggregation-mode", role_name)
        flags.add("--disaggregation-transfer-backend", "nixl")
    if role.hosts > 1:
        flags.add("--nnodes", _HOSTS)
        flags.add("--node-rank", _HOST_INDEX)
        flags.add("--dist-init-addr", f"{_LEADER}:{RENDEZVOUS_PORT}")
    return Launch(("python3", "-m", "sglang.launch_server"), flags.written)


def _trtllm(model: ModelSettings, role_name: RoleName, workload: WorkloadSettings, worker: bool) -> Launch:
    role = model.roles[role_name]
    if role_name != "aggregated" or role.hosts > 1:
        what = f"over {role.hosts} hosts" if role.hosts > 1 else f"as {role_name}"
        raise ManifestError(
            f"trtllm-serve runs {what} only with a configuration file or MPI, not by arguments: declare the workload "
            "elsewhere and name it under target"
        )
    flags = _Flags(workload.args)
    flags.add("--host", "0.0.0.0")  # the default, localhost, answers no probe
    flags.add("--port", workload.port)
    if not flags.given("--tp_size", "--pp_size", "--ep_size"):
        flags.add("--tp_size", role.gpus)
    if model.served_name:
        flags.add("--served_model_name", model.served_name)
    return Launch(("trtllm-serve",), (model.model, *flags.written), metrics_path=None)


class _Flags:
    """Arguments as they are collected, aware of what the user gives."""

    def __init__(self, users: Sequence[str]) -> None:
        # `--flag value`, `--flag=value`, `--flag.key value` and `--other_spelling` all give a flag.
        self._users = {_canonical(arg.split("=", 1)[0].split(".", 1)[0]) for arg in users if arg.startswith("-")}
        self.written: tuple[str, ...] = ()

    def given(self, *names: str) -> bool:
        return any(_canonical(name) in self._users for name in names)

    def add(self, name: str, value: object = None) -> None:
        if not self.given(name):
            self.written += (name,) if value is None else (name, str(value))


def _canonical(flag: str) -> str:
    return flag.replace("_", "-")
