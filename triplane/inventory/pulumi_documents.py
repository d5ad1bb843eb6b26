"""What the Pulumi CLI prints, in any language's project: `pulumi stack export` and `pulumi preview --json`."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from triplane.documents import Path, Position
from triplane.inventory.fields import Unknown, mapping, sequence
from triplane.inventory.resource import NotRead, Origin, Resource
from triplane.inventory.sources import pulumi_resource

# Marks of the engine in plain JSON (sdk/go/common/resource/properties.go).
_SIGNATURE = "4dabf18193072939515e22adb298388d"
_SECRET = "1b47061264138c4ac30d75fd1eb44270"
_UNKNOWN = frozenset(
    {
        "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    }
)
_HIDDEN = "[secret]"
_SOURCE = re.compile(r"(?:project://|file://)?/*(?P<file>.+)#(?P<line>\d+)(?:,(?P<column>\d+))?")
_GONE = frozenset(
    ("delete", "delete-replaced", "discard-replaced", "discard", "read-discard", "remove-pending-replace")
)


@dataclass
class PulumiDocument:
    """What one export or preview holds."""

    resources: list[Resource] = field(default_factory=list)
    not_read: list[NotRead] = field(default_factory=list)


def is_pulumi_document(value: Any) -> bool:
    """Whether a JSON document is a stack's export or a preview."""
    if value.__class__ is not dict or "kind" in value:
        return False
    return _is_export(value) or (
        isinstance(value.get("steps"), list) and ("changeSummary" in value or "config" in value)
    )


def _is_export(value: Mapping[str, Any]) -> bool:
    deployment = value.get("deployment")
    return isinstance(value.get("version"), int) and isinstance(deployment, dict)


def pulumi_document(value: Mapping[str, Any], file: str, document: int = 0) -> PulumiDocument:
    """The resources of an export or a preview, without components, providers and what is being deleted."""
    found = PulumiDocument()
    states = _exported(value) if _is_export(value) else _previewed(value)
    for state, within in states:
        resource = _resource(state, file, document, within)
        if resource is not None:
            found.resources.append(resource)
    if not _is_export(value):
        found.not_read.extend(_left_out(value, file))
    return found


def _exported(value: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Path]]:
    for index, state in enumerate(sequence(value["deployment"].get("resources"))):
        if isinstance(state, dict) and not state.get("delete"):
            yield state, ("deployment", "resources", index, "inputs")


def _previewed(value: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Path]]:
    last: dict[str, tuple[Mapping[str, Any], Path]] = {}
    for index, step in enumerate(sequence(value.get("steps"))):
        state = step.get("newState") if isinstance(step, dict) else None
        if isinstance(state, dict) and step.get("op") not in _GONE:
            # A replacement takes several steps; the last one says what there will be.
            last[str(state.get("urn"))] = state, ("steps", index, "newState", "inputs")
    yield from last.values()


def _left_out(value: Mapping[str, Any], file: str) -> Iterator[NotRead]:
    """A preview shows what changes; what stays as it is it only counts."""
    same = mapping(value.get("changeSummary")).get("same")
    shown = sum(isinstance(step, dict) and step.get("op") == "same" for step in sequence(value.get("steps")))
    if isinstance(same, int) and same > shown:
        yield NotRead(
            Position(file),
            f"{same - shown} unchanged resources are not in this preview: run pulumi preview --json --show-sames",
        )


def _resource(state: Mapping[str, Any], file: str, document: int, within: Path) -> Resource | None:
    type_token, urn, inputs = state.get("type"), state.get("urn"), state.get("inputs")
    if not isinstance(type_token, str) or type_token.startswith("pulumi:") or not state.get("custom"):
        return None
    properties = {key: plain(value, (key,)) for key, value in mapping(inputs).items()}
    origin = Origin(file=file, document=document, within=within, urn=str(urn or ""))
    if match := _SOURCE.fullmatch(str(state.get("sourcePosition") or "")):
        origin = Origin(
            file=match["file"], urn=str(urn or ""), line=int(match["line"]), column=int(match["column"] or 0)
        )
    return pulumi_resource(type_token, properties, origin)


def plain(value: Any, path: Path) -> Any:
    """A value as the rules read it: Unknown for what only the update knows and for what is encrypted."""
    if isinstance(value, str):
        return Unknown(path) if value in _UNKNOWN or value == _HIDDEN else value
    if isinstance(value, list):
        return [plain(item, (*path, index)) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if value.get(_SIGNATURE) == _SECRET:
        text = value.get("plaintext")
        try:
            return plain(json.loads(text), path) if isinstance(text, str) else Unknown(path)
        except ValueError:
            return Unknown(path)
    return {key: plain(item, (*path, key)) for key, item in value.items() if key != _SIGNATURE}
