"""Judging a manifest by the real CustomResourceDefinition of its kind."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

CRDS = Path(__file__).parents[2] / "crds"

CrdErrors = Callable[[dict[str, Any]], list[str]]


def _closed(schema: Any) -> Any:
    """The structural schema as JSON Schema, refusing fields it does not list, as `kubectl --validate=strict` does."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {
        key: _closed(value) for key, value in schema.items() if key not in ("exclusiveMinimum", "exclusiveMaximum")
    }
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        closed.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        closed.pop("type", None)
    return closed


@cache
def _validator(api_version: str, kind: str) -> jsonschema.Draft202012Validator:
    group, _, version = api_version.rpartition("/")
    for path in sorted(CRDS.glob(f"{group}_*.yaml")):
        crd = yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        if crd["spec"]["names"]["kind"] == kind:
            schema = next(v for v in crd["spec"]["versions"] if v["name"] == version)["schema"]["openAPIV3Schema"]
            schema["properties"]["metadata"] = {"type": "object", "required": ["name"]}
            return jsonschema.Draft202012Validator(_closed(schema))
    raise LookupError(f"tests/crds has no CustomResourceDefinition of {api_version} {kind}")


@pytest.fixture(scope="session")
def crd_errors() -> CrdErrors:
    """What a manifest's CRD has against it, unknown fields included; empty where it fits."""

    def errors(manifest: dict[str, Any]) -> list[str]:
        validator = _validator(manifest["apiVersion"], manifest["kind"])
        return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(manifest)]

    return errors
