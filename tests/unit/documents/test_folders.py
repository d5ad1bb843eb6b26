"""A written folder is the old one or the new one, whatever happens, and nobody else's files are lost."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from triplane.documents import folders
from triplane.documents.folders import MARKER, FolderError, write_folder


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def write(folder: Path, **files: str) -> None:
    write_folder(folder, files, "\n".join(["# ours", *files]))


def beside(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.parent.iterdir() if path != folder)


@pytest.mark.parametrize("exchange", [True, False], ids=["swapped in one step", "renamed twice"])
def test_a_folder_is_replaced_as_a_whole(tmp_path: Path, exchange: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not exchange:
        monkeypatch.setattr(folders, "_exchange", lambda one, other: False)
    folder = tmp_path / "deep" / "out"
    write(folder, a="1", b="2")
    assert contents(folder) == {"a": "1", "b": "2", MARKER: "# ours\na\nb"}
    write(folder, b="3", c="4")
    assert contents(folder) == {"b": "3", "c": "4", MARKER: "# ours\nb\nc"}
    assert beside(folder) == []


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    write(tmp_path, a="1")
    assert contents(tmp_path) == {"a": "1", MARKER: "# ours\na"}


@pytest.mark.parametrize("with_marker", [True, False])
def test_what_is_not_ours_is_never_replaced(tmp_path: Path, with_marker: bool) -> None:
    folder = tmp_path / "out"
    if with_marker:
        write(folder, a="1")
    else:
        folder.mkdir()
    (folder / "mine.yaml").write_text("precious")
    before = contents(folder)
    with pytest.raises(FolderError, match="mine.yaml, which triplane did not write" if with_marker else "not empty"):
        write(folder, a="2")
    assert contents(folder) == before
    assert beside(folder) == []


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("x")
    with pytest.raises(FolderError, match="is no folder"):
        write(tmp_path / "out", a="1")
    assert (tmp_path / "out").read_text() == "x"


def test_a_name_that_the_file_system_refuses_leaves_the_old_folder(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write(folder, a="1")
    with pytest.raises(OSError, match="too long"):
        write(folder, **{"x" * 300: "1"})
    assert contents(folder) == {"a": "1", MARKER: "# ours\na"}
    assert beside(folder) == []


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write(tmp_path / "link", a="1")
    assert (tmp_path / "link").is_symlink()
    assert contents(tmp_path / "real") == {"a": "1", MARKER: "# ours\na"}


WRITER = """
import sys
from pathlib import Path
from triplane.documents.folders import write_folder
folder, turn = Path(sys.argv[1]), 0
while True:
    turn += 1
    files = {f"{n}.yaml": f"{turn}" for n in range(20 + turn % 7)}
    write_folder(folder, files, "\\n".join(["# ours", *files]))
    print(turn, flush=True)
"""


def test_a_kill_at_any_moment_leaves_a_whole_folder(tmp_path: Path) -> None:
    """A writer that does nothing but replace the folder is killed in the middle of it, again and again."""
    folder = tmp_path / "out"
    moments = random.Random(7)
    for _ in range(12):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()  # it is at work
        time.sleep(moments.uniform(0, 0.03))
        writer.send_signal(signal.SIGKILL)
        writer.wait(timeout=60)
        writer.stdout.close()
        found = contents(folder)
        listed = found.pop(MARKER).splitlines()[1:]
        assert sorted(found) == sorted(listed)
        assert len(set(found.values())) == 1, "files of two turns in one folder"
    write(folder, a="1")
    assert beside(folder) == [], "what killed writers left is gone"


def test_two_writers_at_once_take_turns(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    for writer in writers:
        assert writer.stdout is not None
        for _ in range(30):
            assert writer.stdout.readline(), writer.communicate()[1].decode()
    for writer in writers:
        writer.kill()
        writer.communicate(timeout=60)
    write(folder, a="1")
    assert contents(folder) == {"a": "1", MARKER: "# ours\na"}


def test_the_folder_one_stands_in_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FolderError, match="where you stand"):
        write(Path(), a="1")
    assert contents(tmp_path) == {}


def test_a_marker_of_somebody_else_makes_nothing_ours(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / MARKER).write_text("precious")
    (tmp_path / "out" / "precious").write_text("keep me")
    with pytest.raises(FolderError, match="was not written by triplane"):
        write(tmp_path / "out", a="1")
    assert (tmp_path / "out" / "precious").read_text() == "keep me"


def test_a_folder_keeps_who_may_read_it(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir(mode=0o700)
    write(tmp_path / "out", a="1")
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700
