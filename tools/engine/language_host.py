"""A Pulumi language host for Python: the service by which the engine runs Python programs and policy packs.

Upstream's host is a Go program whose module the Go module proxy does not serve. This one does the part that
deployments need, on the generated stubs of the Python SDK, and leaves out the rest: installing dependencies, converting
and packaging programs. People with the official CLI have upstream's host beside it and never see this file.

Written for engine 3.274 and SDK 3.272. build.py puts it beside `pulumi-language-python-exec`, upstream's own script.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import empty_pb2
from google.protobuf.json_format import MessageToDict
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

EXECUTOR = Path(__file__).with_name("pulumi-language-python-exec")

PROGRAM_HAS_TOLD_THE_USER = 32
"""Exit code of the executor when the program failed and has already said why."""


def interpreter(info: Any) -> str:
    """The Python of a program: that of `options.virtualenv` in Pulumi.yaml or PulumiPolicy.yaml, relative to the file's
    folder; without one, PULUMI_PYTHON_CMD, as upstream."""
    virtualenv = MessageToDict(info.options).get("virtualenv")
    if not virtualenv:
        return os.environ.get("PULUMI_PYTHON_CMD", sys.executable)
    python = Path(info.root_directory, virtualenv, "bin", "python")
    if not python.is_file():
        raise FileNotFoundError(f"virtualenv {virtualenv} has no {python}")
    return str(python)


class LanguageHost(language_pb2_grpc.LanguageRuntimeServicer):
    """Methods are named and typed by the service; each answers one call of the engine."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self.children: set[subprocess.Popen[bytes]] = set()

    def Handshake(self, request: Any, context: Any) -> Any:
        self.engine = request.engine_address or self.engine
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo()

    def GetRequiredPlugins(self, request: Any, context: Any) -> Any:
        return language_pb2.GetRequiredPluginsResponse()

    def GetRequiredPackages(self, request: Any, context: Any) -> Any:
        # None ahead of time: the engine finds each provider when the program registers its first resource.
        return language_pb2.GetRequiredPackagesResponse()

    def GetProgramDependencies(self, request: Any, context: Any) -> Any:
        return language_pb2.GetProgramDependenciesResponse()

    def RuntimeOptionsPrompts(self, request: Any, context: Any) -> Any:
        return language_pb2.RuntimeOptionsResponse()

    def About(self, request: Any, context: Any) -> Any:
        return language_pb2.AboutResponse(executable=interpreter(request.info), version=sys.version.split()[0])

    def Cancel(self, request: Any, context: Any) -> Any:
        self.stop_children()
        return empty_pb2.Empty()

    def Run(self, request: Any, context: Any) -> Any:
        """Runs a program to its end. Its resources go to the engine's monitor directly, not through this host."""
        info = request.info
        program = str(Path(info.program_directory, info.entry_point))
        arguments = {
            "project": request.project,
            "stack": request.stack,
            "organization": request.organization,
            "root_directory": info.root_directory,
            "pwd": request.pwd,
            "monitor": request.monitor_address,
            "engine": self.engine,
            "parallel": str(request.parallel),
            "dry_run": "true" if request.dryRun else "false",
        }
        options = [word for name, value in arguments.items() for word in (f"--{name}", value)]
        environment = os.environ | {
            "PULUMI_CONFIG": json.dumps(dict(request.config)),
            "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(request.configSecretKeys)),
        }
        command = [interpreter(info), "-u", str(EXECUTOR), *options, program]
        # Output is inherited: the engine shows what the host writes.
        code = self.finish(self.start(command, cwd=request.pwd or None, env=environment))
        if code == PROGRAM_HAS_TOLD_THE_USER:
            return language_pb2.RunResponse(bail=True)
        return language_pb2.RunResponse(error="" if code == 0 else f"Program exited with non-zero exit code: {code}")

    def RunPlugin(self, request: Any, context: Any) -> Iterator[Any]:
        """Runs a policy pack or another Python plugin, and passes its output on while it runs."""
        info = request.info
        command = [interpreter(info), "-u"]
        if request.kind == "analyzer":
            # The SDK boots a pack by `pulumi.policy <engine> <folder>`; the engine's address is in args (since 3.169).
            command += ["-m", "pulumi.policy", *request.args, info.program_directory]
        else:
            command += [info.program_directory, *request.args]
        environment = os.environ | dict(entry.split("=", 1) for entry in request.env)
        process = self.start(command, cwd=request.pwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        context.add_callback(process.terminate)  # harmless once it has ended
        for name, chunk in _output_of(process):
            if name == "stdout":
                yield language_pb2.RunPluginResponse(stdout=chunk)
            else:
                yield language_pb2.RunPluginResponse(stderr=chunk)
        yield language_pb2.RunPluginResponse(exitcode=self.finish(process))

    def start(self, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, **options)
        self.children.add(process)
        return process

    def finish(self, process: subprocess.Popen[bytes]) -> int:
        code = process.wait()
        self.children.discard(process)
        return code

    def stop_children(self) -> None:
        for process in list(self.children):
            if process.poll() is None:
                process.terminate()


def _output_of(process: subprocess.Popen[bytes]) -> Iterator[tuple[str, bytes]]:
    """(stdout or stderr, bytes) as they come, until both streams end."""
    chunks: queue.Queue[tuple[str, bytes]] = queue.Queue()

    def pump(name: str, stream: Any) -> None:
        while chunk := stream.read1(65536):
            chunks.put((name, chunk))
        chunks.put((name, b""))

    streams = {"stdout": process.stdout, "stderr": process.stderr}
    for name, stream in streams.items():
        threading.Thread(target=pump, args=(name, stream), daemon=True).start()
    ended = 0
    while ended < len(streams):
        name, chunk = chunks.get()
        if chunk:
            yield name, chunk
        else:
            ended += 1


def main() -> None:
    # A policy pack occupies one worker for as long as it runs, and so does the program.
    server = grpc.server(futures.ThreadPoolExecutor(16))
    host = LanguageHost(engine=sys.argv[-1])
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    engine_process = os.getppid()
    print(port, flush=True)  # the engine reads the port from the first line
    try:
        # An engine that was killed cannot stop its host: the host leaves when it has another parent.
        while server.wait_for_termination(timeout=1.0) and os.getppid() == engine_process:
            pass
    finally:
        host.stop_children()


if __name__ == "__main__":
    main()
