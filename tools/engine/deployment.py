"""Runs of the Pulumi CLI on one stack, with the state in a folder of the run's own."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.engine.installed import Engine

RUN_WITHIN = 120.0
"""Seconds one command may take. A wedged await must fail a test, not hang it."""
CANCEL_WITHIN = 20.0


@dataclass(frozen=True)
class Run:
    """What one command of the CLI did."""

    command: tuple[str, ...]
    code: int
    output: str
    """Standard output and error together, in the order they came."""
    events: tuple[dict[str, Any], ...] = ()
    """Engine events, one a step, diagnostic or policy violation; only of up, preview and destroy."""

    @property
    def changes(self) -> dict[str, int]:
        """How many resources were created, updated, deleted, replaced; those left as they were are not counted."""
        for event in self.events:
            if summary := event.get("summaryEvent"):
                return {step: count for step, count in summary["resourceChanges"].items() if step != "same"}
        return {}

    @property
    def violations(self) -> list[dict[str, Any]]:
        """Policy violations of a mandatory level."""
        found = [event["policyEvent"] for event in self.events if "policyEvent" in event]
        return [violation for violation in found if violation["enforcementLevel"] == "mandatory"]

    def succeeded(self) -> "Run":
        """This run, if its exit code is 0. Raises AssertionError with all it printed."""
        assert self.code == 0, f"{' '.join(self.command)} ended with {self.code}:\n{self.output}"
        return self


@dataclass
class Deployment:
    """One stack of one project. `project` holds Pulumi.yaml; `home` is an empty folder that keeps state and logs."""

    engine: Engine
    project: Path
    stack: str
    home: Path
    environment: dict[str, str] = field(default_factory=dict)
    """Variables on top of the engine's own."""
    python: Path = Path(sys.executable)

    def init(self) -> "Deployment":
        self.run("stack", "init", self.stack).succeeded()
        return self

    def up(self, *options: str, preview: bool = False) -> Run:
        """preview: plan first and stop there if a policy objects, as a person's `pulumi up` does."""
        return self._operation("up", "--yes", *([] if preview else ["--skip-preview"]), *options)

    def preview(self, *options: str) -> Run:
        return self._operation("preview", *options)

    def destroy(self, *options: str) -> Run:
        return self._operation("destroy", "--yes", "--skip-preview", *options)

    def resources(self) -> list[dict[str, Any]]:
        """All resources in the state."""
        exported = self._cli("stack", "export", "--stack", self.stack, merge=False).succeeded()
        resources: list[dict[str, Any]] = json.loads(exported.output)["deployment"].get("resources", [])
        return resources

    def outputs(self) -> dict[str, Any]:
        """What the program exported."""
        shown = self._cli("stack", "output", "--stack", self.stack, "--json", merge=False).succeeded()
        outputs: dict[str, Any] = json.loads(shown.output)
        return outputs

    def run(self, *arguments: str) -> Run:
        return self._cli(*arguments)

    def _operation(self, name: str, *options: str) -> Run:
        log = self.home / "events.jsonl"
        log.unlink(missing_ok=True)
        command = (name, "--stack", self.stack, "--event-log", str(log), "--color", "never", *options)
        done = self._cli(*command)
        lines = log.read_text().splitlines() if log.is_file() else []
        return Run(done.command, done.code, done.output, tuple(json.loads(line) for line in lines))

    def _cli(self, *arguments: str, merge: bool = True) -> Run:
        self.home.mkdir(parents=True, exist_ok=True)
        command = (str(self.engine.pulumi), "--non-interactive", *arguments)
        with subprocess.Popen(
            command,
            cwd=self.project,
            env=self.engine.environment(home=self.home, python=self.python) | self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merge else subprocess.PIPE,
            text=True,
        ) as process:
            try:
                output, errors = process.communicate(timeout=RUN_WITHIN)
            except subprocess.TimeoutExpired:
                printed = "".join(_cancelled(process))
                raise TimeoutError(f"{' '.join(command)} ran past {RUN_WITHIN:.0f} s:\n{printed}") from None
        return Run(command, process.returncode, output + (errors or "" if process.returncode else ""))


def _cancelled(process: subprocess.Popen[str]) -> Iterator[str]:
    """Cancels a run as Ctrl-C does: the engine then stops its providers itself. Returns what the run printed."""
    process.send_signal(signal.SIGINT)
    try:
        streams = process.communicate(timeout=CANCEL_WITHIN)
    except subprocess.TimeoutExpired:
        process.kill()
        streams = process.communicate()
    return (stream for stream in streams if stream)


def copy_project(root: Path, folder: Path) -> Path:
    """A project that a run may write to: the program and its stack files copied, the interpreter of this process linked
    to as its virtual environment. Returns `folder`."""
    folder.mkdir(parents=True)
    for name in ("Pulumi.yaml", "__main__.py"):
        shutil.copyfile(root / name, folder / name)
    shutil.copytree(root / "stacks", folder / "stacks")
    (folder / ".venv").symlink_to(sys.prefix)
    return folder
