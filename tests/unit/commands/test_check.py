"""triplane check at its door: what it prints, what it exits with, what it does with input that is no manifest."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from triplane.commands.check import check
from triplane.rules.example import FOLDER

BAD = FOLDER / "NP101" / "bad.typical.yaml"
GOOD = FOLDER / "NP101" / "good.typical.yaml"


def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(check, list(arguments), input=stdin)


def test_a_finding_has_a_place_an_excerpt_a_reason_and_a_fix(tmp_path: Path) -> None:
    shutil.copy(BAD, tmp_path / "pool.yaml")
    result = run(str(tmp_path), "--rule", "NP101")
    assert result.exit_code == 1
    line = next(n for n, text in enumerate(BAD.read_text().splitlines(), 1) if text.startswith("  limits"))
    assert f"{tmp_path}/pool.yaml:{line}:" in result.stdout
    assert (
        "error NP101  spec.disruption.consolidationPolicy is not set (default WhenEmptyOrUnderutilized)"
        in result.stdout
    )
    assert "fix  Write consolidationPolicy: WhenEmpty." in result.stdout
    assert "1 error in 1 object" in result.stdout


def test_a_good_file_exits_with_zero() -> None:
    result = run(str(GOOD), "--rule", "NP101")
    assert result.exit_code == 0
    assert result.stdout == "nothing found in 1 object\n"


def test_standard_input_is_read() -> None:
    result = run("-", "--rule", "np101", stdin=BAD.read_text())
    assert result.exit_code == 1
    assert "<stdin>:" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [((), 1), (("--fail-on", "never"), 0), (("--profile", "core"), 1), (("--rule", "AS401"), 0)],
)
def test_options_decide_the_exit_code(arguments: tuple[str, ...], code: int) -> None:
    assert run(str(BAD), *arguments).exit_code == code


def test_an_unknown_rule_is_a_usage_error_with_the_nearest_name() -> None:
    result = run(str(BAD), "--rule", "NP110101")
    assert result.exit_code == 2
    assert "there is no rule NP110101" in result.stderr


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("broken.yaml", b"a: [1\nb: 2\n", "broken.yaml:2"),
        ("tab.yaml", b"kind: A\n\tapiVersion: v1\n", "tab"),
        ("twice.yaml", b"apiVersion: v1\nkind: A\nkind: B\n", "kind stands twice"),
        ("latin.yaml", b"kind: caf\xe9\n", "UTF-8"),
        ("nameless.yaml", b"apiVersion: v1\nmetadata: {name: x}\n", "this object has no kind"),
        ("binary.yaml", bytes(range(256)), "UTF-8"),
    ],
)
def test_what_cannot_be_read_is_listed_and_exits_with_two(tmp_path: Path, name: str, content: bytes, told: str) -> None:
    (tmp_path / name).write_bytes(content)
    result = run(str(tmp_path))
    assert result.exit_code == 2
    assert "not read  " in result.stdout and told in result.stdout
    assert "Traceback" not in result.output


def test_findings_outrank_what_could_not_be_read(tmp_path: Path) -> None:
    shutil.copy(BAD, tmp_path / "pool.yaml")
    (tmp_path / "broken.yaml").write_text("a: [1")
    result = run(str(tmp_path))
    assert result.exit_code == 1
    assert "broken.yaml" in result.stdout


def test_a_missing_path_is_said(tmp_path: Path) -> None:
    result = run(str(tmp_path / "nothing"))
    assert result.exit_code == 2
    assert "No such file" in result.stdout


def test_a_link_to_its_own_folder_ends(tmp_path: Path) -> None:
    (tmp_path / "again").symlink_to(tmp_path)
    shutil.copy(GOOD, tmp_path / "pool.yaml")
    result = run(str(tmp_path))
    assert result.exit_code == 0
    assert "in 1 object" in result.stdout


def test_files_that_are_no_manifests_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("replicas: 3\n")
    (tmp_path / "comments.yaml").write_text("# nothing\n---\n...\n")
    result = run(str(tmp_path))
    assert result.exit_code == 0
    assert result.stderr == ""


def test_crlf_and_a_byte_order_mark_do_no_harm(tmp_path: Path) -> None:
    text = BAD.read_text().replace("\n", "\r\n")
    (tmp_path / "windows.yaml").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert run(str(tmp_path), "--rule", "NP101").exit_code == 1


def test_secret_values_are_never_shown(tmp_path: Path) -> None:
    manifest = BAD.read_text().replace(
        "  limits: {nvidia.com/gpu: 64}", '  limits: {nvidia.com/gpu: 64}\n  apiToken: "hunter2"'
    )
    (tmp_path / "pool.yaml").write_text(manifest)
    assert "hunter2" not in run(str(tmp_path)).output
