"""The pack as the engine meets it: in the SDK's own servicer, and over gRPC to a started pack."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from pack_door import Door, in_process
from pulumi.runtime.proto import analyzer_pb2_grpc

PACK = Path(__file__).parents[2] / "policies"


@pytest.fixture(scope="session")
def started_pack() -> Iterator[Door]:
    """The pack started as the language host starts it: working directory and argument are the pack's folder."""
    command = [sys.executable, "-u", "-m", "pulumi.policy", "127.0.0.1:1", "."]
    told = {"PULUMI_PROJECT": "shop", "PULUMI_STACK": "dev", "PULUMI_DRY_RUN": "true", "PULUMI_ORGANIZATION": "us"}
    process = subprocess.Popen(command, cwd=PACK, env=os.environ | told, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = analyzer_pb2_grpc.AnalyzerStub(channel)
            yield Door(lambda method, request: getattr(stub, method)(request, timeout=30))
    finally:
        process.terminate()
        process.communicate(timeout=10)


@pytest.fixture(scope="session")
def pack_in_process() -> Door:
    return in_process()


@pytest.fixture(params=["in-process", "over-grpc"])
def door(request: pytest.FixtureRequest) -> Door:
    found: Door = request.getfixturevalue("pack_in_process" if request.param == "in-process" else "started_pack")
    found.configure({})
    return found
