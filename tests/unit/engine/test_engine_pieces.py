"""Finding and building the pieces of the engine, without building any."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tools.engine import build
from tools.engine.installed import EngineMissing, cache, engine, find, folder_of, language_host_folder, parsed_version
from tools.engine.pieces import ETCD, GO_PROGRAMS, GO_REQUIREMENTS, KUBERNETES_PROVIDER, LANGUAGE_HOST, PULUMI

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIPLANE_ENGINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    cache().mkdir()


def executable(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n/bin/echo '{text}'\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("v3.274.1", (3, 274, 1)),
        ("etcd Version: 3.7.3\nGit SHA: 1a2b3c\nGo Version: go1.26.8", (3, 7, 3)),
        ("Kubernetes v1.37.2", (1, 37, 2)),
        ("resource-kubernetes-v4.34.2", (4, 34, 2)),
        ("go1.27", (1, 27, 0)),
    ],
)
def test_versions_are_read_from_what_programs_print(text: str, version: tuple[int, ...]) -> None:
    assert parsed_version(text) == version


def test_a_text_without_a_version_is_refused() -> None:
    with pytest.raises(ValueError, match="no version"):
        parsed_version("devel")


@pytest.mark.parametrize(("prints", "used"), [("v3.274.1", True), ("v3.300.0", True), ("v3.9.9", False), ("", False)])
def test_an_installed_program_is_used_if_it_is_new_enough(tmp_path: Path, prints: str, used: bool) -> None:
    installed = executable(tmp_path / "bin" / "pulumi", prints)
    assert find(PULUMI) == (installed if used else None)


@pytest.mark.parametrize(("version", "used"), [("4.34.2", True), ("5.0.0", True), ("4.9.0", False)])
def test_an_installed_provider_is_used_if_it_is_new_enough(tmp_path: Path, version: str, used: bool) -> None:
    plugins = tmp_path / "home" / "plugins"
    installed = executable(plugins / f"resource-kubernetes-v{version}" / KUBERNETES_PROVIDER.name)
    assert find(KUBERNETES_PROVIDER) == (installed if used else None)


def test_a_built_program_comes_before_an_installed_one(tmp_path: Path) -> None:
    executable(tmp_path / "bin" / "etcd", "etcd Version: 9.0.0")
    built = executable(folder_of(ETCD) / "etcd")
    assert find(ETCD) == built


def test_another_recipe_is_another_folder() -> None:
    assert folder_of(ETCD) != folder_of(replace(ETCD, version="3.7.4"))
    assert folder_of(ETCD) != folder_of(replace(ETCD, variables=("main.x=1",)))
    assert folder_of(ETCD) != folder_of(replace(ETCD, module="pulumi"))


def test_the_official_language_host_goes_with_the_official_cli(tmp_path: Path) -> None:
    for program in GO_PROGRAMS:
        executable(folder_of(program) / program.name)
    ours = executable(language_host_folder() / LANGUAGE_HOST)
    assert engine().language_host == ours
    official = executable(folder_of(PULUMI) / LANGUAGE_HOST)
    assert engine().language_host == official


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    executable(folder_of(ETCD) / "etcd")
    with pytest.raises(EngineMissing, match=r"missing: kube-apiserver, .*kubernetes\); run: make engine"):
        engine()


def test_a_build_that_fails_leaves_nothing() -> None:
    folder = cache() / "piece-1.0.0"
    with pytest.raises(RuntimeError), build._whole_or_nothing(folder) as partial:
        (partial / "half").touch()
        raise RuntimeError
    assert list(cache().iterdir()) == []


def test_a_command_that_fails_says_what_and_why() -> None:
    with pytest.raises(build.BuildFailed, match=r"(?s)-c .*no disk"):
        build._run([sys.executable, "-c", "raise SystemExit('no disk')"])


def test_no_source_is_taken_unchecked() -> None:
    for program in GO_PROGRAMS:
        assert (program.folder / "go.sum").stat().st_size > 0
    assert GO_REQUIREMENTS.read_text().count("--hash=sha256:") >= 2


@pytest.mark.parametrize(("ci", "outcome"), [("", "1 skipped"), ("true", "1 error")])
def test_without_the_engine_its_tests_are_skipped_except_in_ci(ci: str, outcome: str) -> None:
    test = "tests/engine/test_control_plane.py::test_servers_end_with_the_block"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | {"CI": ci}, capture_output=True, text=True)
    assert outcome in done.stdout
    assert "run: make engine" in done.stdout
