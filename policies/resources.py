"""What CrossGuard hands a policy, as resources of an inventory.

The SDK wraps properties in proxies that raise on unknown values and hands every number on as a float (pulumi_policy
1.21, proxy.py). Rules want plain values, with `Unknown` where a value is not known yet.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pulumi_policy.proxy import UnknownValueError, _is_unknown

from triplane.documents import Path
from triplane.inventory import Origin, Resource, Unknown, pulumi_resource

# The engine's mark of a value on the wire that is a secret (sdk/go/common/resource/properties.go).
SIGNATURE = "4dabf18193072939515e22adb298388d"
_SECRET = "1b47061264138c4ac30d75fd1eb44270"


def resource_of(
    type_token: str, properties: Mapping[str, Any], urn: str, ignored: Sequence[str] | None = None
) -> Resource:
    """One resource of a policy's arguments; `ignored` as in its option ignoreChanges."""
    return pulumi_resource(type_token, _plain(properties, ()), Origin(urn=urn, ignored=tuple(ignored or ())))


def _plain(value: Any, path: Path) -> Any:
    if isinstance(value, str):
        return Unknown(path) if _is_unknown(value) else value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, Mapping):
        if SIGNATURE in value and value[SIGNATURE] == _SECRET:
            return _plain(value["value"], path)
        return {key: _item(value, key, (*path, key)) for key in value}
    if isinstance(value, Sequence):
        return [_item(value, index, (*path, index)) for index in range(len(value))]
    return value  # assets and archives: no rule reads them


def _item(container: Any, key: Any, path: Path) -> Any:
    try:
        value = container[key]
    except UnknownValueError:
        return Unknown(path)
    return _plain(value, path)
