"""The engine's requests to the pack, whichever way it is reached."""

from collections.abc import Callable
from typing import Any

from google.protobuf import empty_pb2, json_format, struct_pb2
from pulumi.runtime.proto import analyzer_pb2
from pulumi_policy import EnforcementLevel
from pulumi_policy.policy import _PolicyAnalyzerServicer  # the class PolicyPack serves: there is no public one
from triplane.policies.pack import NAME, policies

# The engine's mark for a string that is not known yet (sdk/go/common/resource/properties.go).
UNKNOWN_STRING = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


class Door:
    """The analyzer's calls, answered by a servicer in this process or by a started pack."""

    def __init__(self, call: Callable[[str, Any], Any]) -> None:
        self.call = call

    def info(self) -> Any:
        return self.call("GetAnalyzerInfo", empty_pb2.Empty())

    def configure(self, levels: dict[str, int]) -> None:
        config = {name: analyzer_pb2.PolicyConfig(enforcementLevel=level) for name, level in levels.items()}
        self.call("Configure", analyzer_pb2.ConfigureAnalyzerRequest(policyConfig=config))

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
    servicer = _PolicyAnalyzerServicer(NAME, "0.0.1", policies(), EnforcementLevel.ADVISORY)
    return Door(lambda method, request: getattr(servicer, method)(request, None))
