"""A folder of generated text files that is always whole: as it was before, or as it is now."""

import ctypes
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

MARKER = ".triplane"
"""Name of the file that says what else in a folder was generated."""


class FolderError(ValueError):
    """A folder that must not be replaced. `str()` is a whole sentence."""


def write_folder(folder: Path, files: Mapping[str, str], marker: str) -> None:
    """Makes `folder` hold exactly `files` (name to text) and the marker file with the text `marker`.

    Everything is written beside it and swapped in at the end: a process killed at any moment leaves the old folder or
    the new one, and what it leaves beside is removed by the next. `marker` names the files, one a
    line or in a list; its first line is the same in every call.
    Raises FolderError, with nothing changed, for a folder that holds anything else than an earlier call wrote; OSError
    for what the file system refuses.
    """
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    new, old = (folder.with_name(f".{folder.name}.triplane-{word}") for word in ("new", "old"))
    with _locked(folder.parent):
        for leftover in (new, old):
            shutil.rmtree(leftover, ignore_errors=True)
        _refuse_what_is_not_ours(folder, marker)
        try:
            new.mkdir()
            if folder.exists():
                shutil.copymode(folder, new)
            for name, text in {**files, MARKER: marker}.items():
                (new / name).write_text(text, encoding="utf-8", newline="\n")
            _swap_in(new, folder, old)
        finally:
            for leftover in (new, old):
                shutil.rmtree(leftover, ignore_errors=True)


def _refuse_what_is_not_ours(folder: Path, marker: str) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise FolderError(f"{folder} is no folder")
    if folder == Path.cwd():
        raise FolderError(f"{folder} is where you stand, and would be swapped away under you: name a folder in it")
    names = {path.name for path in folder.iterdir()}
    if names and MARKER not in names:
        raise FolderError(
            f"{folder} is not empty and was not written by triplane: name another folder, or empty this one"
        )
    written = (folder / MARKER).read_text(encoding="utf-8") if names else marker
    if written.partition("\n")[0] != marker.partition("\n")[0]:
        raise FolderError(f"{folder / MARKER} was not written by triplane: name another folder, or empty this one")
    listed = written.split() if names else []
    if others := sorted(names - {MARKER} - set(listed)):
        shown = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
        raise FolderError(f"{folder} also holds {shown}, which triplane did not write: move that away first")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One writer at a time, so that whatever lies beside the folder is what a killed one left."""
    try:
        import fcntl
    except ModuleNotFoundError:  # not a POSIX system
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _swap_in(new: Path, folder: Path, old: Path) -> None:
    """Puts `new` in the place of `folder` in one step, where the system can."""
    if not folder.exists() or not _exchange(new, folder):
        if folder.exists():
            folder.rename(old)
        new.rename(folder)


def _exchange(one: Path, other: Path) -> bool:
    """Swaps two paths atomically: renameat2 of Linux, renamex_np of macOS. False where that cannot be done."""
    here, there = os.fsencode(one), os.fsencode(other)
    with suppress(AttributeError, OSError, TypeError):  # a system or a C library without the function
        libc = ctypes.CDLL(None)
        if sys.platform == "darwin":
            return bool(libc.renamex_np(here, there, 2) == 0)  # RENAME_SWAP
        at_cwd, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
        return bool(libc.renameat2(at_cwd, here, at_cwd, there, exchange) == 0)
    return False
