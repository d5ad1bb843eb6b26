"""The real engine and a real Kubernetes API server, for every test in this folder."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tools.engine.client import Client
from tools.engine.control_plane import ControlPlane, control_plane
from tools.engine.deployment import Deployment
from tools.engine.installed import Engine, EngineMissing
from tools.engine.installed import engine as find_engine

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CRDS = ROOT / "tests" / "crds"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.engine)


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The built engine. Without one the test is skipped, except in CI, where nothing may be skipped unseen."""
    try:
        return find_engine()
    except EngineMissing as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def cluster(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server that knows the kinds of Karpenter, KAI, KEDA, LeaderWorkerSet and Dynamo: all of tests/crds."""
    definitions = [
        document
        for path in sorted(CRDS.glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
        if document is not None
    ]
    with control_plane(engine, tmp_path_factory.mktemp("control-plane"), definitions=definitions) as running:
        yield running


@pytest.fixture
def api(cluster: ControlPlane) -> Iterator[Client]:
    """A connection to the API server."""
    client = cluster.client()
    yield client
    client.close()


@pytest.fixture
def deployment(engine: Engine, tmp_path: Path) -> Callable[[Path, str], Deployment]:
    """Makes a stack of a project, with nothing deployed: `deployment(project, "dev")`."""

    def make(project: Path, stack: str) -> Deployment:
        return Deployment(engine, project, stack, tmp_path / f"home-{stack}").init()

    return make
