"""Two other checkers of manifests, to measure beside: kubeconform (schemas) and Checkov (policies).

    go install github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0
    python -m venv checkov && checkov/bin/pip install checkov

kubeconform gets a schema for every kind that is checked: those of the custom resources from their definitions in
tests/crds, those of Kubernetes from the API server's own OpenAPI files, which its Go module holds.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

KUBERNETES = "k8s.io/kubernetes@v1.37.2"
CRDS = Path(__file__).parents[1] / "crds"


def kubeconform_command(program: str, folder: Path, schemas: Path) -> tuple[str, ...]:
    location = f"{schemas}/{{{{.Group}}}}_{{{{.ResourceAPIVersion}}}}_{{{{.ResourceKind}}}}.json"
    return program, "-n", "2", "-summary", "-schema-location", location, str(folder)


def checkov_command(program: str, folder: Path) -> tuple[str, ...]:
    flags = ("--framework", "kubernetes", "--quiet", "--compact", "--skip-download", "--output", "json")
    return program, *flags, "--directory", str(folder)


def write_schemas(folder: Path) -> Path:
    """A JSON schema a kind: `<group>_<version>_<kind>.json`, for the core group `v1_v1_<kind>.json`."""
    folder.mkdir()
    for name, schema in (*_of_kubernetes(), *_of_custom_resources()):
        (folder / f"{name.lower()}.json").write_text(json.dumps(schema), encoding="utf-8")
    return folder


def _of_custom_resources() -> list[tuple[str, Any]]:
    return [
        (
            f"{crd['spec']['group']}_{version['name']}_{crd['spec']['names']['kind']}",
            version["schema"]["openAPIV3Schema"],
        )
        for path in CRDS.glob("*.yaml")
        for crd in yaml.load_all(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
        if crd and crd["kind"] == "CustomResourceDefinition"
        for version in crd["spec"]["versions"]
    ]


def _of_kubernetes() -> list[tuple[str, Any]]:
    said = subprocess.run(["go", "mod", "download", "-json", KUBERNETES], check=True, capture_output=True, text=True)
    found = []
    for path in (Path(json.loads(said.stdout)["Dir"]) / "api/openapi-spec/v3").glob("*__v*_openapi.json"):
        components = json.loads(path.read_text(encoding="utf-8")).get("components", {})
        for name, schema in components.get("schemas", {}).items():
            kinds = schema.get("x-kubernetes-group-version-kind", [])
            if len(kinds) == 1:  # more: something every group has, such as DeleteOptions
                group, version, kind = (kinds[0][key] for key in ("group", "version", "kind"))
                reference = {"$ref": f"#/components/schemas/{name}", "components": components}
                found.append((f"{group or version}_{version}_{kind}", reference))
    return found
