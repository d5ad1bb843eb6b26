"""The engine's requests to the pack, whichever way it is reached."""

from collections.abc import Callable
from typing import Any

from google.protobuf import empty_pb2, json_format, struct_pb2
from pulumi.runtime.proto import analyzer_pb2
from triplane.policies.pack import pack

# The engine's mark for a string that is not known yet (sdk/go/common/resource/properties.go).
UNKNOWN_STRING = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


LEVELS = {
    "advisory": analyzer_pb2.ADVISORY,
    "mandatory": analyzer_pb2.MANDATORY,
    "remediate": analyzer_pb2.REMEDIATE,
    "disabled": analyzer_pb2.DISABLED,
}


class Door:
    """The analyzer's calls, answered by a servicer in this process or by a started pack."""

    def __init__(self, call: Callable[[str, Any], Any]) -> None:
        self.call = call

    def info(self) -> Any:
        return self.call("GetAnalyzerInfo", empty_pb2.Empty())

    def configure(self, written: dict[str, Any]) -> None:
        """What a configuration file says, as the engine hands it on: with the levels of all other policies."""
        request = analyzer_pb2.ConfigureAnalyzerRequest()
        for policy in self.info().policies:
            request.policyConfig[policy.name].enforcementLevel = policy.enforcementLevel
        for name, entry in written.items():
            if isinstance(entry, dict):
                properties = {key: value for key, value in entry.items() if key != "enforcementLevel"}
                request.policyConfig[name].properties.update(properties)
                entry = entry.get("enforcementLevel")
            if entry is not None:
                request.policyConfig[name].enforcementLevel = LEVELS.get(entry, entry)
        self.call("Configure", request)

    def remediate(self, type_token: str, properties: dict[str, Any]) -> list[Any]:
        """The remediations of one resource."""
        struct = json_format.ParseDict(properties, struct_pb2.Struct())
        request = analyzer_pb2.AnalyzeRequest(type=type_token, properties=struct, urn="urn:x", name="x")
        return list(self.call("Remediate", request).remediations)

    def analyze(self, type_token: str, properties: dict[str, Any], urn: str = "") -> list[Any]:
        """The diagnostics on one resource."""
        name = str(properties.get("metadata", {}).get("name", "x"))
        urn = urn or f"urn:pulumi:dev::shop::{type_token}::{name}"
        struct = json_format.ParseDict(properties, struct_pb2.Struct())
        request = analyzer_pb2.AnalyzeRequest(type=type_token, properties=struct, urn=urn, name=name)
        return list(self.call("Analyze", request).diagnostics)

    def analyze_stack(self, resources: list[tuple[str, dict[str, Any]]]) -> list[Any]:
        """The diagnostics on a whole stack."""
        messages = []
        for type_token, properties in resources:
            name = str(properties.get("metadata", {}).get("name", "x"))
            struct = json_format.ParseDict(properties, struct_pb2.Struct())
            urn = f"urn:pulumi:dev::shop::{type_token}::{name}"
            messages.append(analyzer_pb2.AnalyzerResource(type=type_token, properties=struct, urn=urn, name=name))
        return list(self.call("AnalyzeStack", analyzer_pb2.AnalyzeStackRequest(resources=messages)).diagnostics)


def in_process() -> Door:
    servicer = pack()
    return Door(lambda method, request: getattr(servicer, method)(request, None))
