"""The JSON Schema of a stack file, for editors: `python -m triplane.settings.schema` writes docs/stack.schema.json.

It describes the file as a person writes it: `config:` with plain or prefixed keys, beside what the engine itself keeps
there. What needs more than one field is checked by StackSettings only.
"""

import json
import sys
from pathlib import Path
from typing import Any

from pydantic.json_schema import JsonSchemaValue

from triplane.settings.source import ENGINE_KEYS
from triplane.settings.stack import StackSettings

PROJECT = "triplane"
DEFAULT_PATH = Path("docs/stack.schema.json")

_ENGINE_KEYS_SAY = {
    "secretsprovider": "How the engine encrypts secrets of this stack.",
    "encryptedkey": "The engine's own key, encrypted.",
    "encryptionsalt": "The engine's salt for a passphrase.",
    "environment": "Pulumi ESC environments whose values this stack takes over.",
}


def stack_schema() -> dict[str, Any]:
    """The schema of a whole stack file (draft 2020-12)."""
    settings = _tidy(StackSettings.model_json_schema(by_alias=True))
    definitions: dict[str, Any] = settings.pop("$defs")
    keys: dict[str, Any] = settings["properties"]
    config = {
        "type": "object",
        "description": settings["description"],
        "properties": {**keys, **{f"{PROJECT}:{key}": schema for key, schema in keys.items()}},
        "patternProperties": {
            f"^(?!{PROJECT}:)[^:]+:[^:]+$": {"description": "A setting of a provider or the engine."},
            "^[^:]+:config:[^:]+$": {"description": "The old form of a prefixed key."},
        },
        "additionalProperties": False,
        "allOf": [{"anyOf": [{"required": [key]}, {"required": [f"{PROJECT}:{key}"]}]} for key in settings["required"]],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Triplane stack file",
        "type": "object",
        "properties": {
            "config": config,
            **{key: {"description": _ENGINE_KEYS_SAY[key]} for key in ENGINE_KEYS if key != "config"},
        },
        "required": ["config"],
        "additionalProperties": False,
        "$defs": definitions,
    }


def schema_text() -> str:
    """The schema as it is shipped."""
    return json.dumps(stack_schema(), indent=2) + "\n"


def _tidy(schema: JsonSchemaValue) -> dict[str, Any]:
    """Without the titles that pydantic makes of field names, and with names of the right form as the only ones."""

    def tidy(value: Any, holds_names: bool) -> Any:
        if isinstance(value, dict):
            tidied = {
                key: tidy(inner, key in ("properties", "patternProperties", "$defs") and not holds_names)
                for key, inner in value.items()
                if holds_names or key != "title"
            }
            if "patternProperties" in tidied and not holds_names:
                tidied.setdefault("additionalProperties", False)
            return tidied
        return [tidy(item, False) for item in value] if isinstance(value, list) else value

    tidied: dict[str, Any] = tidy(schema, False)
    return tidied


def main(arguments: list[str]) -> None:
    """Writes the schema to the path given, or to docs/stack.schema.json."""
    path = Path(arguments[0]) if arguments else DEFAULT_PATH
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(schema_text(), encoding="utf-8")
    unfinished.replace(path)


if __name__ == "__main__":
    main(sys.argv[1:])
