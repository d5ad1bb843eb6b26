"""The pack's side of the engine's protocol: the SDK's own, and beside it the configuration as a whole.

The SDK hands a policy only the part of the configuration under its own name. Profile, parameters and suppressions
concern every rule, so this servicer reads the request that configures the pack before the SDK does. This file touches a
name of the SDK that is public by name only (`_PolicyAnalyzerServicer`, pulumi_policy 1.21); the contract tests run it
against the installed SDK.
"""

import sys
import threading
from concurrent import futures
from typing import Any

import grpc
from google.protobuf import json_format
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc
from pulumi_policy import EnforcementLevel, Policy
from pulumi_policy.policy import _PolicyAnalyzerServicer
from triplane.policies.ledger import STACK
from triplane.policies.situation import Situation

from triplane.rules import Level, all_rules
from triplane.rules.config import default_level
from triplane.rules.config_file import ENTRY, ConfigError, config_of

MAX_MESSAGE_BYTES = 400 * 2**20
"""As the SDK has it: a stack may be large."""
THREADS = 4

_LEVELS = {
    analyzer_pb2.ADVISORY: Level.ADVISORY,
    analyzer_pb2.MANDATORY: Level.MANDATORY,
    analyzer_pb2.REMEDIATE: Level.REMEDIATE,
    analyzer_pb2.DISABLED: Level.DISABLED,
}
_WIRE = {level: wire for wire, level in _LEVELS.items()}


class Servicer(_PolicyAnalyzerServicer):
    """Answers the engine. Methods are named and typed by the service."""

    def __init__(self, name: str, policies: list[Policy], situation: Situation, **about: Any) -> None:
        super().__init__(name, "0.0.1", policies, EnforcementLevel.ADVISORY, **about)
        self.situation = situation
        self.Configure(analyzer_pb2.ConfigureAnalyzerRequest(), None)

    def Configure(self, request: Any, context: Any) -> Any:
        """The engine sends every policy's level and properties, defaults included (3.274, resource/analyzer)."""
        asked = {name: _LEVELS[entry.enforcementLevel] for name, entry in request.policyConfig.items()}
        written = {name: json_format.MessageToDict(entry.properties) for name, entry in request.policyConfig.items()}
        self._read(asked, written)
        # Rules that are off are off for the SDK too: it skips them, which is where its time goes.
        told = analyzer_pb2.ConfigureAnalyzerRequest()
        for name, entry in request.policyConfig.items():
            told.policyConfig[name].CopyFrom(entry)
        for rule in all_rules():
            told.policyConfig[rule.id].enforcementLevel = _WIRE[self.situation.config.level(rule)]
        for name in request.policyConfig:
            if f"{name}{STACK}" in request.policyConfig:
                told.policyConfig[f"{name}{STACK}"].enforcementLevel = request.policyConfig[name].enforcementLevel
        return super().Configure(told, context)

    def _read(self, asked: dict[str, Level], written: dict[str, dict[str, Any]]) -> None:
        known = {rule.id: rule for rule in all_rules()}
        entries: dict[str, Any] = {ENTRY: written.get(ENTRY, {})}
        for id, rule in known.items():
            entry = dict(written.get(id, {}))
            if id in asked and asked[id] is not default_level(rule):
                entry["enforcementLevel"] = asked[id].value
            if entry:
                entries[id] = entry
        try:
            self.situation.config = config_of(entries, "--policy-pack-config", strict_profile=False)
            self.situation.faults = ()
        except ConfigError as error:
            self.situation.faults = tuple(str(problem) for problem in error.problems)

    def Analyze(self, request: Any, context: Any) -> Any:
        with self.situation.request():
            return super().Analyze(request, context)

    def AnalyzeStack(self, request: Any, context: Any) -> Any:
        with self.situation.request():
            return super().AnalyzeStack(request, context)

    def Remediate(self, request: Any, context: Any) -> Any:
        with self.situation.request():
            return super().Remediate(request, context)


def serve(servicer: Servicer) -> None:
    """Serves the engine on a free port of this machine, which it learns from standard output; until it is stopped."""
    options = [("grpc.max_receive_message_length", MAX_MESSAGE_BYTES)]
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=THREADS), options=options)
    analyzer_pb2_grpc.add_AnalyzerServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.buffer.write(f"{port}\n".encode())
    sys.stdout.flush()
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        server.stop(0)
