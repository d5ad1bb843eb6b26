"""triplane check: formats, configuration, baseline, fixes, programs and states, through its door."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from triplane import cli
from triplane.rules.example import FOLDER

BAD = FOLDER / "NP101" / "bad.typical.yaml"
GOOD = FOLDER / "NP101" / "good.typical.yaml"
PROGRAM = """
import pulumi_kubernetes as k8s

k8s.apiextensions.CustomResource(
    "gpu",
    api_version="karpenter.sh/v1",
    kind="NodePool",
    metadata={"name": "gpu"},
    spec={"template": {"spec": {"requirements": [
        {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Gt", "values": ["0"]},
    ]}}},
)
"""


def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(cli.main, ["check", *arguments], input=stdin)


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copy(BAD, tmp_path / "pool.yaml")
    return tmp_path / "pool.yaml"


@pytest.mark.parametrize("form", ["json", "sarif", "junit", "gitlab"])
def test_a_machine_format_is_alone_on_standard_output(pool: Path, form: str) -> None:
    result = run("--format", form)
    assert result.exit_code == 1
    assert result.stderr == ""
    assert json.loads(result.stdout) if form != "junit" else result.stdout.startswith("<?xml")


def test_github_annotations_come_with_a_job_summary(
    pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    assert "::error file=pool.yaml" in run("--format", "github").stdout
    assert "| error NP101 | NodePool/h100 | pool.yaml:" in (tmp_path / "summary.md").read_text()


def test_a_configuration_decides(pool: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"NP101": "advisory"}')
    assert run("--rule", "NP101", "--config", str(config)).exit_code == 0
    config.write_text('{"NP101": "disabled"}')
    assert run("pool.yaml", "--rule", "NP101", "--config", str(config)).exit_code == 1, "asked for by name"
    config.write_text('{"NP1011": "advisory"}')
    result = run("--config", str(config))
    assert result.exit_code == 2
    assert "config.json:1:2  NP1011: there is no rule NP1011: did you mean" in result.stderr


def test_a_baseline_holds_what_was_there(pool: Path) -> None:
    assert run("pool.yaml", "--write-baseline", "b.json").exit_code == 0
    result = run("pool.yaml", "--baseline", "b.json")
    assert result.exit_code == 0
    assert "in the baseline" in result.stdout
    pool.write_text(GOOD.read_text())
    result = run("pool.yaml", "--baseline", "b.json", "--fail-on", "warning")
    assert result.exit_code == 1 and "PH804" in result.stdout
    assert run("pool.yaml", "--baseline", "b.json", "--prune-baseline", "--fail-on", "warning").exit_code == 0
    assert json.loads(Path("b.json").read_text())["findings"] == []


def test_a_diff_shows_and_changes_nothing(pool: Path) -> None:
    before = pool.read_text()
    result = run("pool.yaml", "--rule", "NP101", "--diff")
    assert result.exit_code == 1
    assert "+    consolidationPolicy: WhenEmpty" in result.stdout
    assert pool.read_text() == before


def test_a_fix_edits_in_place_and_says_what_is_left(pool: Path) -> None:
    pool.write_bytes(b"\xef\xbb\xbf# kept\n" + BAD.read_bytes())
    pool.chmod(0o640)
    result = run("pool.yaml", "--rule", "NP101", "--fix")
    assert result.exit_code == 0, result.output
    assert "1 fixed" in result.stdout and "fixed 1 findings in 1 files" in result.stderr
    assert pool.read_bytes().startswith(b"\xef\xbb\xbf# kept\n")
    assert "consolidationPolicy: WhenEmpty" in pool.read_text()
    assert pool.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in pool.parent.iterdir()] == ["pool.yaml"]
    assert run("pool.yaml", "--rule", "NP101", "--fix").exit_code == 0


def test_what_came_through_a_pipe_is_not_fixed_and_that_is_said() -> None:
    result = run("-", "--rule", "NP101", "--fix", stdin=BAD.read_text())
    assert result.exit_code == 1
    assert "not fixed: NP101 of NodePool/h100: it was not read from a file" in result.stderr


def test_explain_shows_the_pages_of_what_was_found(pool: Path) -> None:
    assert "# NP101 gpu-pool-consolidates-only-empty-nodes" in run("--rule", "NP101", "--explain").stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--diff", "--format", "json"], "leave out --format json"),
        (["--prune-baseline"], "needs --baseline"),
        (["--context", "x"], "go with --live"),
        (["--format", "xml"], "is not one of"),
        (["--baseline", "nothing.json"], "nothing.json"),
    ],
)
def test_options_that_do_not_fit(pool: Path, arguments: list[str], told: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert told in result.stderr


def test_a_rule_asked_for_runs_whatever_the_profile(tmp_path: Path) -> None:
    bad = FOLDER / "NP116" / "bad.typical.yaml"
    assert "NP116" not in run(str(bad), "--profile", "core").stdout
    assert "NP116" in run(str(bad), "--profile", "core", "--rule", "NP116").stdout


def test_several_processes_find_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(12):
        (tmp_path / f"{number:02}.yaml").write_text(BAD.read_text().replace("name: h100", f"name: p{number}", 1))
    (tmp_path / "broken.yaml").write_text("a: [1\n")
    one, several = (run("--format", "json", "--jobs", jobs).stdout for jobs in ("1", "2"))
    assert json.loads(one) == json.loads(several)


def test_a_pulumi_program_is_judged_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "infra"
    project.mkdir()
    (project / "Pulumi.yaml").write_text("name: theirs\nruntime: python\n")
    (project / "__main__.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    result = run("--program", "infra", "--rule", "NP109")
    assert result.exit_code == 1, result.output
    assert "infra/__main__.py:4  error NP109" in result.stdout
    assert "k8s.apiextensions.CustomResource(" in result.stdout


def test_a_stack_of_ours_is_found_in_its_stack_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])
    report = json.loads(run("--stack", "dev", "--profile", "all", "--format", "json").stdout)
    scaled = [finding for finding in report["findings"] if finding["object"]["kind"] == "ScaledObject"]
    assert scaled
    assert {finding["file"] for finding in scaled} == {"stacks/Pulumi.dev.yaml"}
    assert all(finding["line"] > 1 for finding in scaled)


def test_a_program_that_is_none_and_stacks_to_choose_from(tmp_path: Path) -> None:
    result = run("--program", str(tmp_path))
    assert result.exit_code == 2 and "no Pulumi.yaml" in result.stderr
    (tmp_path / "Pulumi.yaml").write_text("name: x\nruntime: python\n")
    (tmp_path / "__main__.py").write_text("")
    for name in ("dev", "prod"):
        (tmp_path / f"Pulumi.{name}.yaml").write_text("config: {}\n")
    result = run("--program", str(tmp_path))
    assert result.exit_code == 2 and "say which by --stack dev, --stack prod" in result.stderr
    assert run("--program", str(tmp_path), "--stack", "dev").exit_code == 0


def test_a_state_is_judged_and_anything_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"version": 3, "deployment": {"resources": []}}')
    assert run("--state", str(tmp_path / "state.json")).exit_code == 0
    result = run("--state", str(GOOD))
    assert result.exit_code == 2 and "is not what pulumi stack export writes" in result.stderr


# Input that is wrong. What was not read is told, and nothing takes for ever.

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join(['*' + before] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("bomb.yaml", BOMB.encode(), "aliases of this document expand to more than"),
        ("itself.yaml", b"a: &a {b: *a}\n", "can never end"),
        ("deep.yaml", b"[" * 5000 + b"]" * 5000, "maximum nesting depth"),
        ("utf16.yaml", "kind: A".encode("utf-16"), "UTF-16"),
        ("nul.yaml", b"kind: \x00\n", "U+0000 is not allowed"),
        ("cut.json", b'{"kind": "Pod", "apiVersion": "v1"', "cut.json:2 not valid YAML"),
    ],
)
def test_input_that_nobody_can_read(tmp_path: Path, name: str, content: bytes, told: str) -> None:
    (tmp_path / name).write_bytes(content)
    result = run(str(tmp_path), "--format", "json")
    assert result.exit_code == 2, result.output
    (missed,) = json.loads(result.stdout)["notRead"]
    assert told in f"{missed['file']}:{missed['line']} {missed['reason']}"


def test_two_hundred_megabytes_are_not_read(tmp_path: Path) -> None:
    with (tmp_path / "huge.yaml").open("wb") as file:
        file.truncate(200 * 2**20)
    result = run(str(tmp_path))
    assert result.exit_code == 2 and "larger than 64 MiB" in result.stdout


def test_a_folder_that_may_not_be_entered_is_told(tmp_path: Path) -> None:
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    result = run(str(tmp_path))
    assert result.exit_code == 2 and "loop.yaml" in result.stdout


def test_a_pipe_with_bytes_that_are_no_text() -> None:
    result = run("-", stdin=b"kind: caf\xe9\n")
    assert result.exit_code == 2 and "<stdin>:1:10" in result.stdout


@pytest.mark.parametrize("value", ["7", "text", "[]", "[7, {}]", "true", "null", "{a: {b: [1]}}"])
def test_any_type_in_any_field_is_no_fault_of_a_rule(tmp_path: Path, value: str) -> None:
    text = "\n---\n".join(
        f"apiVersion: {api}\nkind: {kind}\nmetadata: {value}\nspec: {value}\ndata: {value}\n"
        for api, kind in (
            ("karpenter.sh/v1", "NodePool"),
            ("apps/v1", "Deployment"),
            ("v1", "ConfigMap"),
            ("v1", "List"),
        )
    )
    (tmp_path / "x.yaml").write_text(text)
    assert run(str(tmp_path), "--profile", "all").exit_code in (0, 1, 2)


def test_nothing_is_drawn_on_a_pipe(pool: Path) -> None:
    command = [str(Path(sys.executable).with_name("triplane")), "check", "pool.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "\x1b" not in done.stdout + done.stderr and done.stderr == ""
