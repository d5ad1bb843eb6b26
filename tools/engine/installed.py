"""Where the pieces of the engine are: in the cache folder, or installed on this machine and new enough."""

import hashlib
import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tools.engine.pieces import (
    ETCD,
    GO_PROGRAMS,
    KUBE_APISERVER,
    KUBE_CONTROLLER_MANAGER,
    KUBERNETES_PROVIDER,
    LANGUAGE_HOST,
    PULUMI,
    GoProgram,
)

Version = tuple[int, ...]


def cache() -> Path:
    """The folder that all is built into: TRIPLANE_ENGINE_CACHE, else triplane/engine in the user's cache folder."""
    if chosen := os.environ.get("TRIPLANE_ENGINE_CACHE"):
        return Path(chosen).expanduser().resolve()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "triplane" / "engine"


def recipe_folder(name: str, version: str, *sources: Path | str) -> Path:
    """The folder of one piece in the cache. Its name carries the version and a digest of all that the build depends on:
    a changed recipe never finds an old executable."""
    digest = hashlib.sha256(f"{platform.system()} {platform.machine()}".encode())
    for source in sources:
        digest.update(b"\0" + (source.read_bytes() if isinstance(source, Path) else source.encode()))
    return cache() / f"{name}-{version}-{digest.hexdigest()[:12]}"


def folder_of(program: GoProgram) -> Path:
    sources = sorted(path for path in program.folder.iterdir() if path.suffix in {".mod", ".sum", ".go"})
    return recipe_folder(program.name, program.version, *sources, program.package, *program.variables)


def language_host_folder() -> Path:
    return recipe_folder(
        LANGUAGE_HOST, PULUMI.version, Path(__file__).with_name("language_host.py"), PULUMI.folder / "go.sum"
    )


def parsed_version(text: str) -> Version:
    """The first version in a text: "etcd Version: 3.7.3" is (3, 7, 3). ValueError when there is none."""
    if found := re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text):
        return tuple(int(part or 0) for part in found.groups())
    raise ValueError(f"no version in {text!r}")


def find(program: GoProgram) -> Path | None:
    """The executable of a piece: from the cache, else one installed on this machine; None when it has to be built."""
    built = folder_of(program) / program.name
    if built.is_file():
        return built
    if program is KUBERNETES_PROVIDER:
        return _plugin(program)
    on_path = shutil.which(program.name)
    if on_path and _reported_version(on_path, program) >= parsed_version(program.version):
        return Path(on_path)
    return None


def find_language_host(pulumi: Path) -> Path | None:
    """The official language host if it lies beside the CLI, as in an official installation; else ours."""
    for candidate in (pulumi.with_name(LANGUAGE_HOST), language_host_folder() / LANGUAGE_HOST):
        if candidate.is_file():
            return candidate
    return None


def _reported_version(executable: str, program: GoProgram) -> Version:
    try:
        answer = subprocess.run([executable, *program.version_command], capture_output=True, text=True, timeout=60)
        return parsed_version(answer.stdout + answer.stderr)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return ()  # older than every version: one that cannot say is not used


def _plugin(program: GoProgram) -> Path | None:
    """A provider that `pulumi plugin install` has put into Pulumi's home, in a folder named by its version."""
    home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
    for folder in sorted((home / "plugins").glob(f"{program.name.removeprefix('pulumi-')}-v*")):
        executable = folder / program.name
        if executable.is_file() and parsed_version(folder.name) >= parsed_version(program.version):
            return executable
    return None


@dataclass(frozen=True)
class Engine:
    """All pieces, ready to run."""

    pulumi: Path
    provider: Path
    language_host: Path
    etcd: Path
    apiserver: Path
    controller_manager: Path

    def environment(self, *, home: Path, python: Path) -> dict[str, str]:
        """The environment of a `pulumi` run that reaches out for nothing and keeps its state under one folder.

        home: an empty folder of the run's own. python: the interpreter that runs programs and policy packs.
        """
        backend = home / "backend"
        backend.mkdir(parents=True, exist_ok=True)
        # Nothing of the caller's own Pulumi or Kubernetes set-up may leak into a run.
        inherited = {
            key: value for key, value in os.environ.items() if not key.startswith(("PULUMI_", "KUBE", "PYTHON", "AWS_"))
        }
        folders = dict.fromkeys(str(path.parent) for path in (self.pulumi, self.provider, self.language_host))
        return inherited | {
            "PATH": os.pathsep.join([*folders, inherited.get("PATH", os.defpath)]),
            "PULUMI_HOME": str(home),
            "PULUMI_BACKEND_URL": backend.as_uri(),
            "PULUMI_CONFIG_PASSPHRASE": "a passphrase for tests",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_DISABLE_REGISTRY_RESOLVE": "true",
            "PULUMI_PYTHON_CMD": str(python),
            "PULUMI_DEBUG_COMMANDS": "true",  # --event-log is among these
            # An Output in an f-string becomes an English sentence as the value, with a warning only: make it an error.
            "PULUMI_ERROR_OUTPUT_STRING": "true",
        }


class EngineMissing(Exception):
    """Some piece is neither built nor installed; the text says which and what to run."""


def engine() -> Engine:
    """All pieces. Raises EngineMissing."""
    found = {program.name: find(program) for program in GO_PROGRAMS}
    pulumi = found[PULUMI.name]
    found[LANGUAGE_HOST] = find_language_host(pulumi) if pulumi else None
    if missing := sorted(name for name, path in found.items() if path is None):
        raise EngineMissing(f"the engine is not built (missing: {', '.join(missing)}); run: make engine")
    paths = {name: path for name, path in found.items() if path is not None}
    return Engine(
        pulumi=paths[PULUMI.name],
        provider=paths[KUBERNETES_PROVIDER.name],
        language_host=paths[LANGUAGE_HOST],
        etcd=paths[ETCD.name],
        apiserver=paths[KUBE_APISERVER.name],
        controller_manager=paths[KUBE_CONTROLLER_MANAGER.name],
    )
