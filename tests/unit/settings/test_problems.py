"""Mistakes in the words of the person who made them: all at once, each with place, what was found and what to type."""

from pathlib import Path

import pytest
from changed_stack import BASE_TEXT

from triplane.settings import SettingsError, StackSettings

ROOT = Path(__file__).parents[3]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "Pulumi.yaml").write_text((ROOT / "Pulumi.yaml").read_text())
    (tmp_path / "stacks").mkdir()
    return tmp_path


def lines(project: Path, text: str) -> list[str]:
    (project / "stacks" / "Pulumi.prod.yaml").write_text(text)
    with pytest.raises(SettingsError) as error:
        StackSettings.load("prod", project)
    assert "pydantic" not in str(error.value)
    assert "http" not in str(error.value)
    return str(error.value).splitlines()


def test_the_sentence_of_a_role_above_its_quota(project: Path) -> None:
    old, new = "replicas: {min: 2, max: 6}", "replicas: {min: 2, max: 8}"
    line = BASE_TEXT[: BASE_TEXT.index(old)].count("\n") + 1
    quota = BASE_TEXT[: BASE_TEXT.index("chat-decode:")].count("\n") + 1
    assert lines(project, BASE_TEXT.replace(old, new))[-1] == (
        f"stacks/Pulumi.prod.yaml:{line}:35  models.chat.roles.decode.replicas.max: 8 x 4 GPUs = 32 > quota 24 "
        f"of queue chat-decode. Non-preemptible pods may use quota only. Set max: 6, or quota: 32 (line {quota})."
    )


ONE_CHANGE = [
    (
        "purpose: serving ",
        "purpose: servin ",
        'must be serving, training or batch, found "servin". Did you mean serving?',
    ),
    (
        "gpusPerNode: 8\n      zones",
        "gpusPerNod: 8\n      zones",
        'unknown key "gpusPerNod". Did you mean gpusPerNode? Allowed:',
    ),
    ("gpusPerNode: 8\n      zones", "gpusPerNod: 8\n      zones", "pools.serving.gpusPerNode: is missing"),
    (
        "gpusPerNode: 8\n      zones",
        "gpus_per_node: 8\n      zones",
        'unknown key "gpus_per_node". Did you mean gpusPerNode?',
    ),
    ('kubernetes: "1.35"', "kubernetes: 1.10", 'a version is written "1.14.1" or "1.14", with quotes'),
    ("efa: true\n      maint", "efa: yes\n      maint", 'pools.serving.efa: must be true or false, found "yes"'),
    ("nodes: {max: 6}", "nodes: {max: six}", 'pools.serving.nodes.max: must be a whole number, found "six"'),
    ("nodes: {max: 6}", "nodes: {max: 0}", "pools.serving.nodes.max: must be at least 1, found 0"),
    ("nodes: {max: 6}", "nodes: {max: 6.5}", "pools.serving.nodes.max: must be a whole number, found 6.5"),
    ("nodes: {max: 6}", "nodes: {max: 100000}", "must be at most 10,000, found 100000"),
    ("nodes: {max: 6}", "nodes:", "pools.serving.nodes: is empty: write a mapping, or leave the key out"),
    ("nodes: {max: 6}", "nodes: 6", "pools.serving.nodes: must be a mapping, found 6"),
    (
        "zones: [us-east-1b]\n      nodes: {max: 6}",
        "zones: us-east-1b\n      nodes: {max: 6}",
        "zones: must be a list, found",
    ),
    ("context: prod-use1 ", "context: 12 ", "cluster.context: must be text, with quotes, found 12"),
    ("region: us-east-1", "region: virginia", 'must be an AWS region such as us-east-1; found "virginia"'),
    ("    serving:", "    Serving_1:", '"Serving_1" cannot be a name: a name is at most 63 lower-case letters'),
    ("al2023@v20261115\n      efa: true\n      maint", "al2023@latest\n      efa: true\n      maint", "never @latest"),
    ("coldStart: 7m", "coldStart: 7", "coldStart: a duration needs a number and a unit: 50ms, 90s, 10m"),
    ("coldStart: 7m", "coldStart: 0s", "coldStart: must be longer than 0s"),
    ("kvUsage: 70%", "kvUsage: 0.7", "kvUsage: a percentage needs its sign: 70%; found 0.7"),
    (
        "        prefill:",
        "        prefil:",
        'unknown key "prefil". Did you mean prefill? Allowed: prefill, decode, aggregated',
    ),
    ('from: "02:00"', "from: 2am", 'maintenance.from: a time of day is written "02:00", in UTC'),
    ("gpus: {quota: 56", "gpus: {quota: -2", "queues.assistants.gpus.quota: must be a whole number of GPUs, 0 or more"),
    ("gpus: {quota: 56", "gpus: {quota: true", "must be a whole number of GPUs, 0 or more, or unlimited; found true"),
    ("minRuntime: {reclaim: 30m}", "minRuntime: {reclaim: -1m}", "minRuntime.reclaim: a duration needs a number"),
    (
        "policy: {profile: core}",
        "polcy: {profile: core}",
        'unknown key "polcy". Did you mean policy? Allowed: cluster, platform',
    ),
    ("policy: {profile: core}", "policy: {secure: v1:abc}", "policy: is encrypted. A setting is no secret"),
    ("profile: core", "profile: {secure: v1:abc}", "policy.profile: is encrypted."),
    ("  pools:", "  pools: {}\n  pols:", "pools: is empty: it needs at least one entry"),
    ("nodes: {max: 6}", "disruption: {consolidationPolicy: Balanced}", '"consolidationPolicy" has no switch'),
    ("tokensPerSecond: 10000", "tokensPerSecond: fast", 'tokensPerSecond: must be a number; found "fast"'),
    ("signal: {kvUsage: 70%}", "signal: {kvUsage: 70%}\n          target: {kind: X}", "target.apiVersion: is missing"),
    (
        "signal: {kvUsage: 70%}",
        "signal: {kvUsage: 70%}\n          target: {component: x}",
        "target.deployment: is missing",
    ),
    (
        "signal: {kvUsage: 70%}",
        "signal: {kvUsage: 70%}\n          target: {deployment: d, component: x, nam: y}",
        'target.nam: unknown key "nam". Allowed: deployment, component',
    ),
    (
        "reserved: [cr-0a1b2c3d4e5f67890]",
        "reserved: [0a1b]",
        'capacity.reserved[0]: must be the id of a capacity reservation such as cr-0a1b2c3d; found "0a1b"',
    ),
]


@pytest.mark.parametrize(("old", "new", "message"), ONE_CHANGE)
def test_one_mistake(project: Path, old: str, new: str, message: str) -> None:
    assert old in BASE_TEXT
    found = lines(project, BASE_TEXT.replace(old, new, 1))
    assert any(message in line for line in found), found


def test_all_mistakes_at_once_in_the_order_of_the_file(project: Path) -> None:
    text = BASE_TEXT
    for old, new in [
        ("region: us-east-1", "region: 1"),
        ("nodes: {max: 6}", "nodes: {max: six}"),  # breaks the pool: what depends on it stays silent
        ("      purpose: training", "      purpos: training\n      purpose: training"),
        ("capacity: {fallback: on-demand}", "capacity: {fallback: spot}"),  # cross-field, of a pool with an unknown key
        ("chat-decode:  {gpus: {quota: 24, limit: 24}}", "chat-decode:  {gpus: {quota: 24, limit: 8}}"),
        ("queue: chat-prefill", "queue: chat-prefil"),
        ("kvUsage: 70%", "kvUsage: 99%"),
    ]:
        assert old in text
        text = text.replace(old, new, 1)
    found = lines(project, text)
    numbers = [int(line.split(":")[1]) for line in found]
    assert numbers == sorted(numbers)
    paths = [line.split("  ")[1].split(": ")[0] for line in found]
    assert paths == [
        "cluster.region",
        "pools.serving.nodes.max",
        "pools.training.purpos",
        "pools.training.capacity.fallback",
        "queues.assistants.children.chat-decode.gpus.limit",
        "models.chat.roles.prefill.queue",
        "models.chat.roles.decode.signal.kvUsage",
    ]


@pytest.mark.parametrize(
    "signal",
    [
        "{metric: DCGM_FI_DEV_GPU_UTIL}",
        "{DCGM_FI_DEV_FB_USED: 80}",
        "{gpuUtilization: 70%}",
        "{dutyCycle: 60}",
        "{memory: 80%}",
        "{cpu: 80%}",
        "{queueDepth: 'avg(DCGM_FI_PROF_SM_ACTIVE)'}",
        "{external: {name: kubernetes.io|container|accelerator|duty_cycle}}",
        "{external: [{name: nvidia_smi_utilization_gpu_ratio}]}",
        "{query: 'sum(nv_gpu_utilization)', queueDepth: 5}",
        "{gpuMemoryUsage: 70}",
        "{powerUsage: 300}",
    ],
)
def test_what_a_device_reports_of_itself_is_no_signal(project: Path, signal: str) -> None:
    (found,) = [x for x in lines(project, BASE_TEXT.replace("{kvUsage: 70%}", signal)) if "says nothing of demand" in x]
    assert "models.chat.roles.decode.signal" in found
    assert "Use signal: {kvUsage: 70%}, KV cache in use summed over the role" in found


@pytest.mark.parametrize("signal", ["{kvUsage: 70%}", "{flowControlQueue: 1, inferencePool: gpu-memory}"])
def test_demand_is_a_signal(project: Path, signal: str) -> None:
    (project / "stacks" / "Pulumi.prod.yaml").write_text(BASE_TEXT.replace("{kvUsage: 70%}", signal))
    assert StackSettings.load("prod", project).models["chat"].roles["decode"].signal


def test_a_metric_of_demand_under_an_unknown_key_is_an_unknown_key(project: Path) -> None:
    (found,) = lines(
        project, BASE_TEXT.replace("{kvUsage: 70%}", "{kvUsage: 70%, metric: 'vllm:gpu_cache_usage_perc'}")
    )
    assert 'unknown key "metric"' in found


def test_values_without_a_file_name_their_source() -> None:
    with pytest.raises(SettingsError) as error:
        StackSettings.from_config({"cluster": {}}, "stack prod")
    assert str(error.value).splitlines()[0].startswith("stack prod  cluster.")
    assert {problem.path[0] for problem in error.value.problems} == {"cluster", "pools"}
