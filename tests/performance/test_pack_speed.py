"""The policy pack: how long it takes to start, and beside a pack of as many policies that do nothing."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from google.protobuf import json_format, struct_pb2
from pulumi.runtime.proto import analyzer_pb2
from pulumi_policy import EnforcementLevel, ResourceValidationPolicy, StackValidationPolicy
from pulumi_policy.policy import _PolicyAnalyzerServicer
from triplane.policies.pack import pack

from triplane.rules import Level, all_rules
from triplane.rules.example import examples

ROOT = Path(__file__).parents[2]
RUNS = 3
RESOURCES = 300


def requests() -> tuple[list[Any], Any]:
    """300 resources of every kind that the rules know, one by one and as a stack."""
    objects = [
        resource.data for example in examples() if example.kind == "good" for resource in example.inventory().resources
    ]
    single = []
    for number, data in enumerate(objects[:RESOURCES]):
        version = data["apiVersion"] if "/" in data["apiVersion"] else f"core/{data['apiVersion']}"
        token = f"kubernetes:{version}:{data['kind']}"
        properties = json_format.ParseDict(data, struct_pb2.Struct())
        urn = f"urn:pulumi:dev::x::{token}::{number}"
        single.append(analyzer_pb2.AnalyzeRequest(type=token, properties=properties, urn=urn, name=str(number)))
    stack = analyzer_pb2.AnalyzeStackRequest(
        resources=[
            analyzer_pb2.AnalyzerResource(type=one.type, properties=one.properties, urn=one.urn, name=one.name)
            for one in single
        ]
    )
    return single, stack


def seconds(servicer: Any, single: list[Any], stack: Any) -> float:
    start = time.process_time()
    for request in single:
        servicer.Analyze(request, None)
    servicer.AnalyzeStack(stack, None)
    return time.process_time() - start


def nothing(*_: object) -> None:
    """What a policy without a judgement does."""


def test_judging_costs_little_beside_what_the_sdk_costs() -> None:
    ours = pack()
    running = [rule for rule in all_rules() if ours.situation.config.level(rule) is not Level.DISABLED]
    idle = [
        (StackValidationPolicy if rule.scope == "stack" else ResourceValidationPolicy)(rule.id, "nothing", nothing)
        for rule in running
    ]
    empty = _PolicyAnalyzerServicer("nothing", "0.0.1", idle, EnforcementLevel.ADVISORY)
    single, stack = requests()
    assert len(single) == RESOURCES
    ratios = [seconds(ours, single, stack) / seconds(empty, single, stack) for _ in range(RUNS)]
    print(f"\n{len(running)} policies, {RESOURCES} resources: {min(ratios):.2f} times a pack that does nothing")
    assert min(ratios) <= 1.4


def test_it_starts_within_a_second() -> None:
    took = []
    for _ in range(RUNS):
        start = time.perf_counter()
        command = [sys.executable, "-u", "-m", "pulumi.policy", "127.0.0.1:1", "."]
        with subprocess.Popen(command, cwd=ROOT / "policies", stdout=subprocess.PIPE, env=os.environ) as process:
            assert process.stdout is not None
            assert int(process.stdout.readline()) > 0
            took.append(time.perf_counter() - start)
            process.terminate()
    print(f"\nthe pack starts in {min(took):.2f} s")
    assert min(took) <= 1.0
