"""Runs a Pulumi program offline and records what it declares: no CLI, no cluster, no account.

`run_program` runs a project's folder, `run_function` a few lines of a test. The SDK is imported when a program runs.
"""

import inspect
import runpy
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from triplane.program.recorded import ProgramError, Recording, Resource, Secret, Unknown

__all__ = ["ProgramError", "Recording", "Resource", "Secret", "Unknown", "run_function", "run_program"]

Answers = Mapping[str, Mapping[str, Any]]

OLDEST_SDK, UNTRIED_SDK = (3, 272), (4, 0)
"""Releases of the SDK that the recorder knows: from the first, and before the second."""


def run_program(
    folder: Path,
    *,
    project: str,
    stack: str,
    config: Mapping[str, str] | None = None,
    secrets: frozenset[str] = frozenset(),
    preview: bool = True,
    answers: Answers | None = None,
) -> Recording:
    """Runs `folder/__main__.py` as the engine would and returns what it registered.

    `config` holds full keys (`project:key`) and the text the engine would hand over: JSON for anything but a string.
    `answers` are results of provider functions by token, merged over the built-in ones. `preview` false runs as an
    update does: outputs are known. Raises ProgramError for whatever the program raises.
    """
    record = _recorder()
    main = folder.resolve() / "__main__.py"
    return record(
        lambda: runpy.run_path(str(main), run_name="__main__"),
        main,
        at_home=True,
        project=project,
        stack=stack,
        config=dict(config or {}),
        secrets=secrets,
        preview=preview,
        answers=dict(answers or {}),
    )


def run_function(
    declare: Callable[[], object],
    *,
    project: str = "project",
    stack: str = "test",
    config: Mapping[str, str] | None = None,
    secrets: frozenset[str] = frozenset(),
    preview: bool = True,
    answers: Answers | None = None,
) -> Recording:
    """Runs `declare` as if it were a whole program; everything else as in `run_program`."""
    return _recorder()(
        declare,
        Path(inspect.getfile(declare)).resolve(),
        at_home=False,
        project=project,
        stack=stack,
        config=dict(config or {}),
        secrets=secrets,
        preview=preview,
        answers=dict(answers or {}),
    )


def _recorder() -> Callable[..., Recording]:
    """The recorder, or a ProgramError that says what to install: it needs names that another SDK may not have."""
    try:
        sdk = metadata.version("pulumi")
    except metadata.PackageNotFoundError:
        raise ProgramError("running a program needs Pulumi's SDK: pip install 'triplane[pulumi]'") from None
    oldest, untried = ("{}.{}".format(*release) for release in (OLDEST_SDK, UNTRIED_SDK))
    remedy = f"releases from {oldest} and below {untried} are: pip install 'triplane[pulumi]'"
    major, minor = sdk.split(".")[:2]
    if not OLDEST_SDK <= (int(major), int(minor)) < UNTRIED_SDK:
        raise ProgramError(f"pulumi {sdk} is not known here; {remedy}")
    try:
        from triplane.program.recording import record
    except (ImportError, AttributeError) as error:
        raise ProgramError(f"pulumi {sdk} is not as expected ({error}); {remedy}") from error
    return record
