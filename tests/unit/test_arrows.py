"""Which room may import which: the arrows of the architecture, read from the code's own import statements."""

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# A room may import itself and what is listed. What is not listed here is no room: the test below names it.
MAY_IMPORT: dict[str, set[str]] = {
    "documents": set(),
    "catalog": set(),
    "settings": {"catalog", "documents"},
    "manifests": {"settings", "catalog", "documents"},
    "inventory": {"documents", "catalog"},
    "rules": {"inventory", "catalog", "documents"},
    "simulation": {"settings", "catalog"},
    "program": {"settings", "documents", "inventory"},
    "testing": {"program", "settings"},
    "reporting": {"rules", "inventory", "documents", "program", "manifests", "settings", "catalog", "simulation"},
    "commands": {
        "settings",
        "documents",
        "catalog",
        "manifests",
        "program",
        "inventory",
        "rules",
        "reporting",
        "simulation",
    },
    "cli": {"commands"},
    "components": {"settings", "manifests", "documents", "catalog"},
    "policies": {"rules", "inventory", "documents", "catalog"},
}
NOBODY_IMPORTS = {"cli": set(), "reporting": {"commands"}, "components": set(), "policies": set(), "commands": {"cli"}}
PULUMI_ROOMS = {"components", "policies", "program", "testing"}
PROVIDER_SDKS = {"pulumi_kubernetes", "pulumi_aws"}


def room_of(path: Path) -> str:
    """`triplane/rules/x.py` -> rules; `components/x.py` -> components; `triplane/cli.py` -> cli."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[0] if parts[0] in ("components", "policies") else parts[1]


def source_files() -> list[Path]:
    files = [p for folder in ("triplane", "components", "policies") for p in sorted((ROOT / folder).rglob("*.py"))]
    return [p for p in files if p != ROOT / "triplane" / "__init__.py"]


def imports_of(path: Path) -> set[str]:
    """Every module a file imports, anywhere in it, as absolute dotted names."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where an arrow goes"
            names |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def rooms_imported(path: Path) -> set[str]:
    rooms = {name.split(".")[1] for name in imports_of(path) if name.startswith("triplane.")}
    return rooms & set(MAY_IMPORT)


def top_level_imports(path: Path) -> set[str]:
    """What importing the file imports: statements outside functions and outside `if TYPE_CHECKING`."""
    found: set[str] = set()
    pending = list(ast.parse(path.read_text()).body)
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
        pending.extend(child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt))
    return found


@pytest.mark.parametrize("path", source_files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_room_imports_only_what_its_arrows_allow(path: Path) -> None:
    room = room_of(path)
    assert room in MAY_IMPORT, f"{room} is a new room: give it its arrows in this test"
    beyond = rooms_imported(path) - MAY_IMPORT[room] - {room}
    assert not beyond, f"{room} must not import {sorted(beyond)}"


@pytest.mark.parametrize("path", source_files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_doors_are_imported_by_nobody_else(path: Path) -> None:
    room = room_of(path)
    for door in rooms_imported(path) & set(NOBODY_IMPORTS) - {room}:
        assert room in NOBODY_IMPORTS[door], f"{room} imports {door}, which is a door"


@pytest.mark.parametrize("path", source_files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_pulumi_stays_where_the_engine_is(path: Path) -> None:
    modules = {name.split(".")[0] for name in imports_of(path)}
    if room_of(path) != "components":
        assert not modules & PROVIDER_SDKS
    if room_of(path) not in PULUMI_ROOMS:
        assert not modules & {"pulumi", "pulumi_policy"}


@pytest.mark.parametrize(
    "path", [p for p in source_files() if p.is_relative_to(ROOT / "triplane")], ids=lambda p: str(p.relative_to(ROOT))
)
def test_the_library_imports_without_pulumi(path: Path) -> None:
    if path.is_relative_to(ROOT / "triplane" / "program" / "recording.py"):
        return  # the one file that runs a program; `triplane.program` itself imports it only when a program runs
    assert not top_level_imports(path) & {"pulumi", "pulumi_policy", "google", "grpc"}


def test_the_distribution_carries_every_package() -> None:
    declared = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    on_disk = {
        ("triplane." if path.parts[len(ROOT.parts)] != "triplane" else "")
        + ".".join(path.parent.relative_to(ROOT).parts)
        for folder in ("triplane", "components", "policies")
        for path in (ROOT / folder).rglob("__init__.py")
    }
    assert declared == on_disk
