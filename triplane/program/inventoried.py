"""A recorded program as resources of an inventory, for the rules."""

from collections.abc import Iterator
from typing import Any

from triplane.documents import Path
from triplane.inventory import Origin, Resource, Unknown, pulumi_resource
from triplane.program import recorded


def inventory_resources(recording: recorded.Recording) -> Iterator[Resource]:
    """Every resource but components and providers, with the line of the program that made it."""
    for resource in recording.resources:
        if resource.custom and not resource.type.startswith("pulumi:"):
            ignored = tuple(resource.options.get("ignoreChanges", ()))
            origin = Origin(file=resource.file, urn=resource.urn, line=resource.line, ignored=ignored)
            properties = {key: _plain(value, (key,)) for key, value in resource.inputs.items()}
            yield pulumi_resource(resource.type, properties, origin)


def _plain(value: Any, path: Path) -> Any:
    """The marks of a recording as the inventory's. A secret is read like any value, since rules judge it too."""
    match value:
        case recorded.Unknown():
            return Unknown(path)
        case recorded.Secret():
            return _plain(value.value, path)
        case dict():
            return {key: _plain(item, (*path, key)) for key, item in value.items()}
        case list():
            return [_plain(item, (*path, index)) for index, item in enumerate(value)]
        case _:
            return value
