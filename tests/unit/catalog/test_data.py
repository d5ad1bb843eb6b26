"""Every data file names where and when it is from, and is read no sooner than needed."""

import subprocess
import sys
from importlib.resources import files

import pytest

from triplane import catalog
from triplane.catalog.data import load

FILES = sorted(p.name.removesuffix(".yaml") for p in files("triplane.catalog").iterdir() if p.name.endswith(".yaml"))


def test_the_files() -> None:
    assert FILES == ["accelerators", "controllers", "instance_types", "metrics", "models"]


@pytest.mark.parametrize("name", FILES)
def test_source_and_date(name: str) -> None:
    assert load(name)["source"]
    assert load(name)["date"]


def test_importing_the_catalogue_reads_no_file() -> None:
    script = "import triplane.catalog as c; from triplane.catalog import data; print(data.load.cache_info().misses)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "0"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("1.14.1", (1, 14, 1)), ("1.9", (1, 9, 0)), ("v0.16.8", (0, 16, 8)), ("0.12.0rc1", (0, 12, 0))],
)
def test_releases_compare_as_numbers(text: str, numbers: tuple[int, ...]) -> None:
    assert catalog.release(text) == numbers


@pytest.mark.parametrize("text", ["", "latest", "1", "one.two"])
def test_what_is_no_release(text: str) -> None:
    with pytest.raises(ValueError, match="is no release"):
        catalog.release(text)
