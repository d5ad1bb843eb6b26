"""The door itself: verbs, help, exit codes, and what a person sees when something goes wrong."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from triplane import cli
from triplane.catalog import UnknownName
from triplane.documents import DocumentError, Position
from triplane.manifests.identity import ManifestError
from triplane.program import ProgramError
from triplane.settings import Problem, SettingsError

TRIPLANE = str(Path(sys.executable).with_name("triplane"))
ROOT = Path(__file__).parents[3]


def test_help_lists_every_verb_and_imports_none() -> None:
    code = (
        "import sys\nfrom click.testing import CliRunner\nfrom triplane.cli import VERBS, main\n"
        "result = CliRunner().invoke(main, ['--help'])\n"
        "assert result.exit_code == 0 and all(f'  {verb} ' in result.output for verb in VERBS), result.output\n"
        "heavy = ('triplane.commands', 'triplane.settings', 'pydantic', 'yaml', 'pulumi', 'rich')\n"
        "sys.exit(', '.join(name for name in heavy if name in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_has_its_command_and_its_help(verb: str) -> None:
    result = CliRunner().invoke(cli.main, [verb, "--help"])
    assert result.exit_code == 0
    assert result.output.startswith(f"Usage: main {verb}")


def test_every_command_file_has_its_verb() -> None:
    files = {path.stem for path in (ROOT / "triplane" / "commands").glob("*.py")} - {"__init__"}
    assert {verb.module for verb in cli.VERBS.values()} == files


def test_a_verb_that_does_not_exist_is_told_with_the_nearest() -> None:
    result = CliRunner().invoke(cli.main, ["previw", "dev"])
    assert result.exit_code == 2
    assert "there is no command previw: did you mean preview?" in result.output


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> CliRunner:
    @click.command()
    def broken() -> None:
        raise error

    monkeypatch.setattr(cli.Door, "get_command", lambda self, ctx, name: broken)
    return CliRunner()


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (SettingsError([Problem(("pools",), Position("f", 1, 2), "is missing")]), 2, "f:1:2  pools: is missing\n"),
        (ManifestError("no such object"), 2, "no such object\n"),
        (DocumentError(Position("f", 3, 4), "no YAML"), 2, "f:3:4  no YAML\n"),
        (ProgramError("__main__.py:3  KeyError: 'x'"), 2, "__main__.py:3  KeyError: 'x'\n"),
        (UnknownName("accelerator", "H1000", ("H100",)), 2, "unknown accelerator 'H1000': did you mean H100?\n"),
        (PermissionError(13, "Permission denied", "out"), 2, "out: Permission denied\n"),
        (
            KeyError("a\nb"),
            3,
            "internal error: KeyError: 'a\\nb' (run with TRIPLANE_TRACEBACK=1 for the traceback)\n",
        ),
        (click.UsageError("wrong"), 2, "wrong"),
        (KeyboardInterrupt(), 130, ""),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_errors_become_a_line_and_an_exit_code(
    error: BaseException, code: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(cli.TRACEBACK, raising=False)
    result = raising(monkeypatch, error).invoke(cli.main, ["preview"])
    assert result.exit_code == code
    assert result.stdout == ""
    assert told in result.stderr if isinstance(error, click.UsageError) else result.stderr == told


def test_the_traceback_is_there_for_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cli.TRACEBACK, "1")
    result = raising(monkeypatch, KeyError("x")).invoke(cli.main, ["preview"])
    assert isinstance(result.exception, KeyError)


def test_every_error_of_the_input_is_where_the_door_looks() -> None:
    for module, name in cli.INPUT_ERRORS.items():
        assert issubclass(getattr(__import__(module, fromlist=[name]), name), Exception)


def test_a_reader_that_stops_reading_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [TRIPLANE, "rules"], stdout=writing, stderr=subprocess.PIPE, text=True, check=False, timeout=60
    )
    os.close(writing)
    assert done.stderr == ""
    assert done.returncode == 128 + signal.SIGPIPE


def test_an_interrupt_ends_quietly(tmp_path: Path) -> None:
    """Ctrl-C while a program runs."""
    (tmp_path / "Pulumi.yaml").write_text((ROOT / "Pulumi.yaml").read_text())
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "Pulumi.dev.yaml").write_text((ROOT / "stacks" / "Pulumi.dev.yaml").read_text())
    (tmp_path / "__main__.py").write_text("import time\nprint('running', flush=True)\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [TRIPLANE, "preview", "dev"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr.strip()) == (130, "")
