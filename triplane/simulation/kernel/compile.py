"""One source, two ways to run it: as it stands, or compiled by numba.

The compiled kernel is worth its 20 seconds of compilation only for a long simulation, and only once: the machine code
is kept in the user's cache folder, in a folder named after the kernel's source and numba's version.
"""

import functools
import hashlib
import importlib
import importlib.util
import logging
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from triplane.simulation.kernel import state

MODULES = ("lists", "heaps", "gaps", "prefix", "blocks", "timing", "steps", "events")
"""Kernel modules, each after those it calls."""

COMPILE_FROM = 200_000
"""Requests from which on the compiled kernel pays for itself."""


LOG = logging.getLogger(__name__)


def numba_available() -> bool:
    """Whether the compiled kernel can be had."""
    return importlib.util.find_spec("numba") is not None


def cache_folder() -> Path:
    """Where compiled code is kept: $XDG_CACHE_HOME/triplane/kernel/<source and version>."""
    import numba

    digest = hashlib.sha256(f"{numba.__version__} {sys.version}".encode())
    for name in (*MODULES, "state", "native"):
        digest.update((Path(__file__).parent / f"{name}.py").read_bytes())
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "triplane" / "kernel" / digest.hexdigest()[:16]


@functools.cache
def functions(compiled: bool) -> types.SimpleNamespace:
    """The kernel's functions, plain or compiled. Both call each other only among themselves."""
    modules = [importlib.import_module(f"triplane.simulation.kernel.{name}") for name in MODULES]
    if not compiled:
        return types.SimpleNamespace(**{n: f for m in modules for n, f in own_functions(m)})
    import numba

    importlib.import_module("triplane.simulation.kernel.native")
    folder = cache_folder()
    kept = _writable(folder)
    if not (kept and any(folder.rglob("*.nbc"))):
        where = f"kept in {folder}" if kept else f"not kept: {folder} cannot be written"
        LOG.warning("compiling the simulation kernel for this machine: about 20 seconds, once (%s)", where)
    before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder) if kept else ""
    try:
        built: dict[str, Any] = {}
        for module in modules:
            names = {**vars(module), **built}
            for name, function in own_functions(module):
                copy = types.FunctionType(function.__code__, names, name)
                copy.__module__ = module.__name__
                built[name] = names[name] = numba.njit(cache=kept)(copy)
    finally:
        numba.config.CACHE_DIR = before
    return types.SimpleNamespace(**built)


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def own_functions(module: types.ModuleType) -> list[tuple[str, Callable[..., Any]]]:
    """Functions a module defines, in the order of its text."""
    return [
        (n, f) for n, f in vars(module).items() if isinstance(f, types.FunctionType) and f.__module__ == module.__name__
    ]


def world_for(world: state.World, compiled: bool) -> Any:
    """What the kernel's functions take for their world."""
    if not compiled:
        return world
    from triplane.simulation.kernel.native import NativeWorld

    return NativeWorld(world)
