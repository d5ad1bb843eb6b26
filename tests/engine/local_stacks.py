"""The shipped stacks, pointed at the API server of the tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tools.engine.client import Client
from tools.engine.control_plane import ControlPlane

Block = dict[str, Any]


def change_stack_file(project: Path, stack: str, change: Callable[[Block], None]) -> None:
    """Rewrites the configuration in a stack file of a copied project."""
    path = project / "stacks" / f"Pulumi.{stack}.yaml"
    document = yaml.safe_load(path.read_text())
    # The engine writes the project's name before each key when it notes the stack's salt in the file.
    document["config"] = {key.removeprefix("triplane:"): value for key, value in document["config"].items()}
    change(document["config"])
    path.write_text(yaml.safe_dump(document, sort_keys=False))


def deploy_to(cluster: ControlPlane) -> Callable[[Block], None]:
    """A change of configuration: the test's cluster, no AWS, and controllers that are already there. All else stays."""

    def change(config: Block) -> None:
        config["cluster"] |= {"cloud": "existing", "context": cluster.context, "kubeconfig": str(cluster.kubeconfig)}
        config["cluster"].pop("aws", None)
        for controller in ("karpenter", "kai", "keda"):
            config.setdefault("platform", {}).setdefault(controller, {})["install"] = False

    return change


def read_manifests(folder: Path) -> list[Block]:
    """All objects in the YAML files below a folder."""
    return [
        document
        for path in sorted(folder.rglob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
        if document is not None
    ]


def make_namespaces(api: Client, objects: list[Block]) -> None:
    """A stack deploys into namespaces that exist."""
    for name in sorted({item["metadata"].get("namespace", "default") for item in objects} - {"default"}):
        api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def as_declared(item: Block) -> Block:
    """A stored object without what the server and Pulumi note on it: the fields somebody declared, and defaults."""
    metadata = {
        key: value for key, value in item["metadata"].items() if key in {"name", "namespace", "labels", "annotations"}
    }
    return {key: value for key, value in item.items() if key not in {"status", "metadata"}} | {"metadata": metadata}
