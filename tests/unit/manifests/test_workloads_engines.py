"""How the engines are started: the role's flags, and the user's last."""

import io
from typing import Any

import pytest

from triplane.manifests.engines import drain_command, launch
from triplane.settings.models import ModelSettings, RoleName


def args(
    role: RoleName = "aggregated",
    engine: str = "vllm",
    version: str = "0.12.0",
    *,
    worker: bool = False,
    **settings: Any,
) -> list[str]:
    """A role's arguments; `user` are the user's own."""
    values = {
        "model": "acme/m",
        "engine": {"name": engine, "version": version},
        "namespace": "n",
        "coldStart": "5m",
        "servedName": settings.get("served"),
        "roles": {
            role: {
                "pool": "p",
                "queue": "q",
                "gpus": settings.get("gpus", 4),
                "hosts": settings.get("hosts", 1),
                "replicas": {"min": 1, "max": 2},
                "signal": {"queueDepth": 4},
                "workload": {"image": "i:1", "args": settings.get("user", []), "env": settings.get("env", {})},
            }
        },
    }
    model = ModelSettings.model_validate(values)
    declared = model.roles[role].workload
    assert declared is not None
    start = launch(model, role, declared, worker=worker)
    return [*start.command, *start.args, *(f"${v['name']}" for v in start.env)]


VLLM = ["vllm", "serve", "acme/m", "--port", "8000"]
SGLANG = ["python3", "-m", "sglang.launch_server", "--model-path", "acme/m", "--host", "0.0.0.0", "--port", "8000"]
NIXL = ["$VLLM_NIXL_SIDE_CHANNEL_HOST", "$VLLM_NIXL_SIDE_CHANNEL_PORT"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [*VLLM, "--tensor-parallel-size", "4"]),
        ({"served": "chat"}, [*VLLM, "--tensor-parallel-size", "4", "--served-model-name", "chat"]),
        (
            {"role": "prefill"},
            [
                *VLLM,
                "--tensor-parallel-size",
                "4",
                "--kv-transfer-config",
                '{"kv_connector":"NixlConnector","kv_role":"kv_producer"}',
                *NIXL,
            ],
        ),
        (
            {"role": "decode"},
            [
                *VLLM,
                "--tensor-parallel-size",
                "4",
                "--kv-transfer-config",
                '{"kv_connector":"NixlConnector","kv_role":"kv_consumer"}',
                *NIXL,
            ],
        ),
        (
            {"hosts": 2, "gpus": 8, "worker": True},
            [
                *[*VLLM, "--tensor-parallel-size", "16", "--distributed-executor-backend", "mp"],
                *["--nnodes", "$(LWS_GROUP_SIZE)", "--node-rank", "$(LWS_WORKER_INDEX)"],
                *["--master-addr", "$(LWS_LEADER_ADDRESS)", "--headless"],
            ],
        ),
        ({"engine": "sglang"}, [*SGLANG, "--enable-metrics", "--tp-size", "4"]),
        (
            {"engine": "sglang", "role": "prefill", "hosts": 2, "gpus": 8},
            [
                *[*SGLANG, "--enable-metrics", "--tp-size", "16"],
                *["--disaggregation-mode", "prefill", "--disaggregation-transfer-backend", "nixl"],
                *["--nnodes", "$(LWS_GROUP_SIZE)", "--node-rank", "$(LWS_WORKER_INDEX)"],
                *["--dist-init-addr", "$(LWS_LEADER_ADDRESS):20000"],
            ],
        ),
        (
            {"engine": "trtllm", "version": "1.0.0", "served": "chat"},
            [
                *["trtllm-serve", "acme/m", "--host", "0.0.0.0", "--port", "8000"],
                *["--tp_size", "4", "--served_model_name", "chat"],
            ],
        ),
    ],
)
def test_a_roles_flags(settings: dict[str, Any], expected: list[str]) -> None:
    assert args(**settings) == expected


def test_only_workers_are_headless() -> None:
    assert "--headless" in args(hosts=2, worker=True)
    assert "--headless" not in args(hosts=2)


@pytest.mark.parametrize(
    ("user", "absent"),
    [
        (["--tensor-parallel-size", "2", "--pipeline-parallel-size=2"], "--tensor-parallel-size=4"),
        (["-tp", "2"], "--tensor-parallel-size"),
        (["--tensor_parallel_size=2"], "--tensor-parallel-size"),
        (["--data-parallel-size", "4"], "--tensor-parallel-size"),
        (["--kv-transfer-config.kv_connector", "LMCacheConnectorV1"], "--kv-transfer-config"),
        (["--served-model-name", "other"], "chat"),
        (["--model", "/models/m"], "acme/m"),
    ],
)
def test_a_flag_that_the_user_gives_is_not_written_again(user: list[str], absent: str) -> None:
    found = args(role="decode", served="chat", user=user)
    assert absent not in found
    assert found[: -len(NIXL)][-len(user) :] == user


def test_the_users_environment_wins() -> None:
    assert "$VLLM_NIXL_SIDE_CHANNEL_HOST" not in args(role="decode", env={"VLLM_NIXL_SIDE_CHANNEL_HOST": "h"})


DECODE_ROLE = {"pool": "p", "queue": "q", "gpus": 1, "replicas": {"min": 1, "max": 2}, "signal": {"queueDepth": 4}}
DECODE = ModelSettings.model_validate(
    {
        "model": "acme/m",
        "engine": {"version": "0.12.0"},
        "namespace": "n",
        "coldStart": "5m",
        "roles": {"decode": DECODE_ROLE},
    }
)


@pytest.mark.parametrize(
    ("scrapes", "asked"),
    [
        (["waiting 0.0\nrunning 2.0", "waiting 0.0\nrunning 0.0"], 2),
        (["waiting 1\nrunning 0", "waiting 0\nrunning 1", "waiting 0\nrunning 0\nkv 0.4", "waiting 0\nkv 0.0"], 4),
        (["unrelated_total 7"], 1),
        ([None], 1),  # the engine has stopped
    ],
)
def test_the_drain_ends_when_the_replica_holds_nothing(
    scrapes: list[str | None], asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {
        "waiting": "vllm:num_requests_waiting",
        "running": "vllm:num_requests_running",
        "kv": "vllm:kv_cache_usage_perc",
    }
    urls: list[str] = []

    def urlopen(url: str, timeout: float) -> io.BytesIO:
        urls.append(url)
        text = scrapes[len(urls) - 1]
        if text is None:
            raise ConnectionRefusedError
        lines = [line.split() for line in text.splitlines()]
        body = [f'{names.get(name, name)}{{model_name="m"}} {amount}' for name, amount in lines]
        return io.BytesIO("\n".join(["# HELP x y", *body]).encode())

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    python, _, script = drain_command(DECODE, "/metrics", 8000)
    assert python == "python3"
    exec(compile(script, "drain", "exec"), {})
    assert urls == ["http://127.0.0.1:8000/metrics"] * asked


def test_a_worker_host_waits_for_its_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    urls: list[str] = []
    monkeypatch.setenv("LWS_WORKER_INDEX", "1")
    monkeypatch.setenv("LWS_LEADER_ADDRESS", "chat-0.chat")
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr("urllib.request.urlopen", lambda url, timeout: urls.append(url) or io.BytesIO(b""))
    exec(compile(drain_command(DECODE, "/metrics", 8000)[2], "drain", "exec"), {})
    assert urls == ["http://chat-0.chat:8000/metrics"]
