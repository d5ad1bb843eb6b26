"""triplane preview at its door: what it shows, writes and compares, and how it refuses."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from triplane.cli import main

ROOT = Path(__file__).parents[3]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of this project with its dev stack, as the current folder."""
    for name in ("Pulumi.yaml", "__main__.py"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "stacks").mkdir()
    shutil.copy(ROOT / "stacks" / "Pulumi.dev.yaml", tmp_path / "stacks")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def change(project: Path, how: Callable[[dict[str, Any]], None]) -> None:
    path = project / "stacks" / "Pulumi.dev.yaml"
    document = yaml.safe_load(path.read_text())
    how(document["config"])
    path.write_text(yaml.safe_dump(document))


def preview(*arguments: str, columns: int = 80) -> Result:
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(main, ["preview", *arguments])


def part(output: str, title: str) -> str:
    """One part of the output: from its title to the next one."""
    lines = output.splitlines()
    start = lines.index(title)
    end = next((n for n in range(start + 1, len(lines)) if not lines[n]), len(lines))
    return "\n".join(lines[start + 1 : end])


def test_it_shows_resources_contracts_findings_notices_and_cost(project: Path) -> None:
    result = preview("dev")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    tree, _, _ = result.stdout.partition("\n\n")
    assert tree.splitlines() == [
        "Stack dev: 14 resources on cluster dev, context dev",
        "  Provider kubernetes dev",
        "  GpuNodePool l4",
        "    EC2NodeClass l4  [protected]",
        "    NodePool l4  [protected]",
        "  QueueTree queues",
        "    Queue dev",
        "      Queue chat-decode",
        "      Queue chat-prefill",
        "  ServingRole chat-decode",
        "    PodDisruptionBudget chat-decode",
        "    ScaledObject chat-decode",
        "  ServingRole chat-prefill",
        "    PodDisruptionBudget chat-prefill",
        "    ScaledObject chat-prefill",
    ]
    contract = part(result.stdout, "What pods must carry that somebody else declares")
    parsed = yaml.safe_load(contract)
    assert parsed.keys() == {"chat-prefill", "chat-decode"}
    assert parsed["chat-decode"]["spec of spec.template"]["nodeSelector"] == {"triplane.dev/pool": "l4"}
    assert part(result.stdout, "Findings") == "nothing found in 9 objects"
    assert "- namespaces that must exist before: chat." in part(result.stdout, "Notices")
    costs = part(result.stdout, "GPUs and US dollars an hour").splitlines()
    assert costs[1].split()[:4] == ["l4", "L4", "2", "3"]


def test_a_patch_is_marked_judged_and_found_in_the_stack_file(project: Path) -> None:
    merge = {"spec": {"disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "budgets": [{"nodes": "9"}]}}}
    change(
        project, lambda config: config.update(patches=[{"target": {"kind": "NodePool", "name": "l4"}, "merge": merge}])
    )
    result = preview("dev")
    assert "    NodePool l4  [protected, patched]" in result.stdout
    line = next(
        number
        for number, text in enumerate((project / "stacks/Pulumi.dev.yaml").read_text().splitlines(), 1)
        if text.startswith(("  - merge:", "  - target:"))
    )
    assert f"stacks/Pulumi.dev.yaml:{line}:" in part(result.stdout, "Findings")
    assert "error NP101" in part(result.stdout, "Findings")
    assert result.exit_code == 1


def test_an_own_manifest_is_marked_judged_and_written(project: Path) -> None:
    (project / "extra").mkdir()
    (project / "extra" / "busy.yaml").write_text(
        "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: busy, namespace: extra}\n"
        "spec:\n  scaleTargetRef: {name: vllm}\n  triggers:\n  - type: prometheus\n"
        "    metadata: {query: avg(DCGM_FI_DEV_GPU_UTIL), threshold: '80', serverAddress: 'http://p:9090'}\n"
    )
    change(project, lambda config: config.update(manifests=["extra/*.yaml"]))
    result = preview("dev", "--write", "out")
    assert "ScaledObject extra/busy  [your manifest]" in result.stdout
    lines = (project / "stacks" / "Pulumi.dev.yaml").read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if text.strip() == "manifests:")
    assert f"stacks/Pulumi.dev.yaml:{line}:3  error AS401" in result.stdout
    assert "namespaces that must exist before: chat, extra." in result.stdout
    assert result.exit_code == 1
    assert (project / "out" / "scaledobject.extra.busy.yaml").exists()


def test_what_is_written_is_the_same_every_time(project: Path) -> None:
    contents = []
    for _ in range(2):
        result = preview("dev", "--write", "out")
        assert result.exit_code == 0
        assert result.stdout.endswith("\nWrote 9 Kubernetes objects to out, a file each.\n")
        contents.append({path.name: path.read_bytes() for path in (project / "out").iterdir()})
    assert contents[0] == contents[1]
    pool = yaml.safe_load((project / "out" / "nodepool.l4.yaml").read_text())
    assert (pool["kind"], pool["metadata"]["name"]) == ("NodePool", "l4")
    assert pool["spec"]["disruption"]["consolidationPolicy"] == "WhenEmpty"


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        ([], ["no object differs"]),
        (
            ["pools.l4.nodes.max=4"],
            [
                "~ NodePool l4",
                "    spec.limits.nodes: 3 -> 4",
                '    spec.limits["nvidia.com/gpu"]: 3 -> 4',
                "no pool would have all its nodes replaced",
            ],
        ),
        (
            ["platform.karpenter.version=1.10.2"],
            ["! NodePool l4: Karpenter would replace every node, as fast as its budgets allow"],
        ),
        (
            ["pools.l4.ami=al2023@v20270101"],
            [
                "~ EC2NodeClass l4",
                "    spec.amiSelectorTerms[0].alias: al2023@v20261115 -> al2023@v20270101",
                "! NodePool l4: Karpenter would replace every node, as fast as its budgets allow",
            ],
        ),
        (["models={}"], ["- ScaledObject chat/chat-decode", "- PodDisruptionBudget chat/chat-prefill"]),
    ],
    ids=["nothing", "limit", "karpenter", "ami", "removed"],
)
def test_a_comparison_says_what_changes_and_what_rolls(project: Path, sets: list[str], expected: list[str]) -> None:
    assert preview("dev", "--write", "before").exit_code == 0
    result = preview("dev", "--diff", "before", *(word for text in sets for word in ("--set", text)))
    assert result.exit_code == 0, result.output
    lines = part(result.stdout, "Changes against before").splitlines()
    assert [line for line in expected if line not in lines] == []
    if not sets:
        assert lines == expected


def test_secret_values_do_not_show_in_a_comparison(project: Path) -> None:
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: chat}\nstringData: {token: hunter1}\n"
    (project / "secret.yaml").write_text(secret)
    change(project, lambda config: config.update(manifests=["secret.yaml"]))
    assert preview("dev", "--write", "before").exit_code == 0
    (project / "secret.yaml").write_text(secret.replace("hunter1", "hunter2"))
    result = preview("dev", "--diff", "before")
    assert "stringData.token: (secret) -> (secret)" in result.stdout
    assert "hunter" not in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dve"], "there is no stack 'dve'. Did you mean dev?"),
        (["dev", "--set", "pools.l4.nodes.max=0"], "--set pools.l4.nodes.max=0  pools.l4.nodes.max: must be"),
        (["dev", "--set", "nonsense"], "--set nonsense  write key.path=value"),
        (["dev", "--set", "pools.l4.gpuPerNode=1"], 'unknown key "gpuPerNode"'),
        (["dev", "--diff", "nowhere"], "nowhere  is no folder that triplane preview --write wrote"),
        (["dev", "--write", "stacks"], "is not empty and was not written by triplane"),
        (["dev", "--set", "manifests=[missing.yaml]"], "manifests: missing.yaml matches no file"),
        (
            ["dev", "--set", "patches=[{target: {kind: NodePool, name: l5}, merge: {spec: {weight: 1}}}]"],
            "Nearest: NodePool l4",
        ),
        ([], "Missing argument 'STACK'"),
    ],
)
def test_bad_input_is_told_and_nothing_is_written(project: Path, arguments: list[str], said: str) -> None:
    before = sorted(project.rglob("*"))
    if "--write" not in arguments:
        arguments = [*arguments, "--write", "out"]
    result = preview(*arguments)
    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert "Traceback" not in result.output
    assert sorted(path for path in project.rglob("*") if "__pycache__" not in path.parts) == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "the file is empty"),
        (b"config:\n\tcluster: {}\n", "Pulumi.dev.yaml:2:1"),
        (b"config:\n  pools: {}\n  pools: {}\n", "pools stands twice"),
        (b"config: {caf\xe9: 1}\n", "UTF-8"),
        (b"config: {cluster: {secure: AAA}}\n", "encrypted"),
        (b"config: {pools: {}, triplane:pools: {}}\n", "are the same key"),
    ],
)
def test_a_broken_stack_file_is_told_with_its_place(project: Path, text: bytes, said: str) -> None:
    (project / "stacks" / "Pulumi.dev.yaml").write_bytes(text)
    result = preview("dev", "--write", "out")
    assert result.exit_code == 2
    assert said in result.stderr
    assert "stacks/Pulumi.dev.yaml" in result.stderr
    assert not (project / "out").exists()


def test_all_mistakes_are_told_at_once(project: Path) -> None:
    def spoil(config: dict[str, Any]) -> None:
        config["pools"]["l4"]["purpose"] = "servin"
        config["queues"]["dev"]["gpus"]["quota"] = -5
        config["models"]["chat"]["coldStart"] = 300

    change(project, spoil)
    result = preview("dev")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) >= 3
    assert all(key in result.stderr for key in ("pools.l4.purpose", "queues.dev.gpus.quota", "models.chat.coldStart"))


def test_the_programs_own_mistake_is_told_as_such(project: Path) -> None:
    (project / "__main__.py").write_text("import pulumi\n\nundefined_name\n")
    result = preview("dev")
    assert result.exit_code == 2
    assert result.stderr == "__main__.py:3  NameError: name 'undefined_name' is not defined\n"


def test_an_object_with_a_secret_or_an_unknown_value_is_not_written(project: Path) -> None:
    (project / "__main__.py").write_text(
        "import pulumi\nfrom triplane.components.kubernetes import KubernetesObject\n"
        "def config_map(name, value):\n"
        "    manifest = {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': name}, 'data': {'k': value}}\n"
        "    return KubernetesObject(manifest)\n"
        "first = config_map('plain', 'v')\n"
        "config_map('unknown', first.id)\n"
        "config_map('hidden', pulumi.Output.secret('hunter2'))\n"
    )
    result = preview("dev", "--write", "out")
    assert result.stderr.splitlines() == [
        "not written: ConfigMap hidden: data.k is a secret",
        "not written: ConfigMap unknown: data.k is known only after an update",
    ]
    assert [path.name for path in (project / "out").glob("*.yaml")] == ["configmap.plain.yaml"]
    assert "hunter2" not in result.output


def test_a_terminal_gets_a_tree_and_no_color_is_respected(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import sys

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def shown(**environment: str) -> str:
        screen = Terminal()
        with monkeypatch.context() as patch:
            patch.delenv("NO_COLOR", raising=False)
            for name, value in {"TERM": "xterm-256color", "COLUMNS": "80", **environment}.items():
                patch.setenv(name, value)
            patch.setattr(sys, "stdout", screen)
            main(["preview", "dev"], standalone_mode=False)
        return screen.getvalue()

    coloured, plain = shown(), shown(NO_COLOR="1")
    assert "├── " in plain and "\x1b[3" in coloured
    assert "\x1b[3" not in plain
    assert max(map(len, plain.splitlines())) <= 90
