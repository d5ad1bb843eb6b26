"""The JSON schema of a comparison, made from the result's own types, so that the two cannot differ."""

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from triplane.simulation.results import Comparison, camel


def schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of what `triplane simulate --json` writes."""
    definitions: dict[str, Any] = {}
    top = _of(Comparison, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **top,
        "$defs": dict(sorted(definitions.items())),
    }


def _of(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if kind.__name__ not in definitions:
            definitions[kind.__name__] = {}
            hints = typing.get_type_hints(kind)
            fields = {camel(f.name): _of(hints[f.name], definitions) for f in dataclasses.fields(kind)}
            definitions[kind.__name__] = {
                "type": "object",
                "description": " ".join((kind.__doc__ or "").split()),
                "properties": fields,
                "required": list(fields),
                "additionalProperties": False,
            }
        return {"$ref": f"#/$defs/{kind.__name__}"}
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_of(one, definitions) for one in arguments]}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _of(arguments[1], definitions)}
    if origin is Sequence:
        # A figure that was never reached is null in a time series.
        items = {"type": ["number", "null"]} if arguments[0] is float else _of(arguments[0], definitions)
        return {"type": "array", "items": items}
    simple = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
    return {"type": simple[kind]}
