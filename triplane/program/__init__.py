"""Runs a Pulumi program offline and records what it declares: no CLI, no cluster, no account.

`run_program` is the only way in. The SDK is imported when a program runs, not before.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from triplane.program.recorded import ProgramError, Recording, Resource, Secret, Unknown

__all__ = ["ProgramError", "Recording", "Resource", "Secret", "Unknown", "run_program"]


def run_program(
    folder: Path,
    *,
    project: str,
    stack: str,
    config: Mapping[str, str] | None = None,
    secrets: frozenset[str] = frozenset(),
    preview: bool = True,
    answers: Mapping[str, Mapping[str, Any]] | None = None,
) -> Recording:
    """Runs `folder/__main__.py` as the engine would and returns what it registered.

    `config` holds full keys (`project:key`) and the text the engine would hand over: JSON for anything but a string.
    `answers` are results of provider functions by token, merged over the built-in ones. `preview` false runs as an
    update does: outputs are known. Raises ProgramError for whatever the program raises.
    """
    from triplane.program.recording import record

    return record(
        folder,
        project=project,
        stack=stack,
        config=dict(config or {}),
        secrets=secrets,
        preview=preview,
        answers=dict(answers or {}),
    )
