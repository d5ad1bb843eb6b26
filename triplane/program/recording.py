"""The recording monitor: stands where the engine's resource monitor would, and keeps every request.

This is the one file that touches names of the SDK which are public by name only (MockSettings, MockEngine,
run_in_stack, set_root_resource; pulumi 3.272). A test runs it against the installed SDK.

Unlike the SDK's own mocks it follows the engine: URNs carry the whole chain of parent types, a duplicate is an error,
options that the engine inherits are inherited, and outputs of the stack arrive.
"""

import asyncio
import contextlib
import contextvars
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pulumi
from google.protobuf import empty_pb2, struct_pb2  # type: ignore[import-untyped]
from pulumi.runtime.mocks import MockEngine, MockSettings
from pulumi.runtime.proto import provider_pb2, resource_pb2
from pulumi.runtime.rpc import UNKNOWN, _special_secret_sig, _special_sig_key
from pulumi.runtime.settings import configure, set_root_resource
from pulumi.runtime.stack import run_in_stack

from triplane.program.recorded import ProgramError, Recording, Resource, Secret, Unknown

STACK_TYPE = "pulumi:pulumi:Stack"
_STRICT = "PULUMI_ERROR_OUTPUT_STRING"
"""With it an Output inside an f-string raises. Without, a sentence of English becomes the value, with a warning."""
ANSWERS: Mapping[str, Mapping[str, Any]] = {
    # Not an account: an offline run knows none.
    "aws:index/getCallerIdentity:getCallerIdentity": {
        "accountId": "000000000000",
        "arn": "arn:aws:iam::000000000000:user/offline",
        "id": "000000000000",
        "userId": "offline",
    },
    "aws:index/getPartition:getPartition": {
        "id": "aws",
        "partition": "aws",
        "dnsSuffix": "amazonaws.com",
        "reverseDnsPrefix": "com.amazonaws",
    },
    "aws:index/getRegion:getRegion": {"id": "us-east-1", "name": "us-east-1", "region": "us-east-1"},
}
"""Results of provider functions that programs for AWS call most, where the run has no provider to ask."""


def record(
    program: Callable[[], object],
    main: Path,
    *,
    at_home: bool,
    project: str,
    stack: str,
    config: dict[str, str],
    secrets: frozenset[str],
    preview: bool,
    answers: Mapping[str, Mapping[str, Any]],
) -> Recording:
    """See `triplane.program.run_program`. `main` is the file of `program`. With `at_home` its folder is the current one
    during the run and first on the path, and its modules are imported anew.
    """
    folder = main.parent
    home = folder if at_home else None
    monitor = _Monitor(main, project, stack, {**ANSWERS, **answers}, preview)
    # Settings, config and the root resource live in context variables: a context of its own isolates each run.
    try:
        contextvars.copy_context().run(_run, monitor, program, folder, home, project, stack, config, secrets, preview)
    except pulumi.RunError as error:
        raise ProgramError(str(error)) from error
    except (Exception, SystemExit) as error:
        raise ProgramError(f"{_place_of(error, folder)}{type(error).__name__}: {error}") from error
    return monitor.recording()


def _place_of(error: BaseException, folder: Path) -> str:
    """`components/nodes.py:12  `: the innermost line of the program's own that the error passed."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(f"{folder}{os.sep}") and _own_code(frame.filename)]
    return f"{Path(own[-1].filename).relative_to(folder)}:{own[-1].lineno}  " if own else ""


def _own_code(file: str) -> bool:
    return "site-packages" not in file


def _run(
    monitor: "_Monitor",
    program: Callable[[], object],
    folder: Path,
    home: Path | None,
    project: str,
    stack: str,
    config: dict[str, str],
    secrets: frozenset[str],
    preview: bool,
) -> None:
    pulumi.runtime.set_all_config(config, sorted(secrets))
    configure(
        MockSettings(  # type: ignore[no-untyped-call]
            monitor=monitor,
            engine=MockEngine(logging.getLogger("triplane.program")),
            project=project,
            stack=stack,
            dry_run=preview,
            organization="organization",
            root_directory=str(folder),
            monitor_features=set(monitor.features),
            outputs=set(),
            lock=threading.Lock(),
            legacy_apply_enabled=False,
            package_refs={},
            base_providers_by_ref={},
            callbacks=None,
            parallel=None,
        )
    )
    set_root_resource(None)  # type: ignore[arg-type]
    with _strict_outputs(), _at(home) if home else contextlib.nullcontext(), _own_loop() as loop:
        loop.run_until_complete(run_in_stack(program))  # type: ignore[arg-type]


@contextlib.contextmanager
def _strict_outputs() -> Iterator[None]:
    unset = {_STRICT} - os.environ.keys()
    os.environ.setdefault(_STRICT, "true")
    try:
        yield
    finally:
        for name in unset:
            os.environ.pop(name, None)  # another thread's run may have ended first


@contextlib.contextmanager
def _at(folder: Path) -> Iterator[None]:
    """As the language host runs a program: its folder first on the path, and current. Its modules are forgotten after,
    so that another run (or another program with a module of the same name) imports its own."""
    before, cwd = set(sys.modules), Path.cwd()
    sys.path.insert(0, str(folder))
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(cwd)
        with contextlib.suppress(ValueError):  # the program may have changed the path itself
            sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file and Path(file).is_relative_to(folder) and _own_code(file) and not _installed(name):
                del sys.modules[name]


def _installed(module: str) -> bool:
    """Modules of our own distribution stay: two copies of one class would differ."""
    return module.partition(".")[0] == "triplane"


@contextlib.contextmanager
def _own_loop() -> Iterator[asyncio.AbstractEventLoop]:
    logger = logging.getLogger("asyncio")
    level = logger.level
    logger.setLevel(logging.CRITICAL)  # a failing program otherwise logs each task it abandons
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        yield loop
    finally:
        asyncio.set_event_loop(None)
        loop.close()
        logger.setLevel(level)


class _Monitor:
    """Answers the SDK's calls. They come on threads, so what is kept is kept under a lock."""

    # Without OUTPUT_VALUES and RESOURCE_REFERENCES inputs arrive as the plain values they stand for; without
    # INVOKE_DEPENDS_ON the SDK itself waits for what a provider function depends on.
    features = (
        resource_pb2.RESOURCE_MONITOR_FEATURE_SECRETS,
        resource_pb2.RESOURCE_MONITOR_FEATURE_ALIAS_SPECS,
        resource_pb2.RESOURCE_MONITOR_FEATURE_REPLACEMENT_TRIGGER,
        resource_pb2.RESOURCE_MONITOR_FEATURE_DELETED_WITH,
        resource_pb2.RESOURCE_MONITOR_FEATURE_REPLACE_WITH,
        resource_pb2.RESOURCE_MONITOR_FEATURE_TRANSFORMS,
        resource_pb2.RESOURCE_MONITOR_FEATURE_INVOKE_TRANSFORMS,
        resource_pb2.RESOURCE_MONITOR_FEATURE_PARAMETERIZATION,
        resource_pb2.RESOURCE_MONITOR_FEATURE_RESOURCE_HOOKS,
        resource_pb2.RESOURCE_MONITOR_FEATURE_ERROR_HOOKS,
    )

    def __init__(
        self, main: Path, project: str, stack: str, answers: Mapping[str, Mapping[str, Any]], preview: bool
    ) -> None:
        self.main, self.folder, self.project, self.stack = str(main), main.parent, project, stack
        self.answers, self.preview = answers, preview
        self.lock = threading.Lock()
        self.root = ""
        self.requests: dict[str, resource_pb2.RegisterResourceRequest] = {}
        self.outputs: dict[str, struct_pb2.Struct] = {}
        self.invokes: list[tuple[str, Mapping[str, Any]]] = []

    def urn(self, parent: str, type_: str, name: str) -> str:
        """The engine's rule: the types of all parents but the stack, joined by $."""
        parent_type = parent.split("::")[2] if parent else STACK_TYPE
        chain = type_ if parent_type == STACK_TYPE else f"{parent_type}${type_}"
        return f"urn:pulumi:{self.stack}::{self.project}::{chain}::{name}"

    # The calls of the ResourceMonitor service that the SDK makes.

    def GetDeploymentInfo(self, request: Any) -> Any:
        return resource_pb2.DeploymentInfo(supportedFeatures=self.features)

    def RegisterResource(self, request: Any) -> Any:
        urn = self.urn(request.parent, request.type, request.name)
        with self.lock:
            if request.type == STACK_TYPE:
                self.root = urn
                return resource_pb2.RegisterResourceResponse(urn=urn)
            if urn in self.requests:
                raise pulumi.RunError(f"the program declares {request.type} {request.name} twice ({urn})")
            self.requests[urn] = request
        # A preview knows the inputs; ids, and outputs that no input gives, stay unknown.
        id_ = "" if self.preview or not request.custom else f"{request.name}-id"
        return resource_pb2.RegisterResourceResponse(urn=urn, id=id_, object=request.object)

    def RegisterResourceOutputs(self, request: Any) -> Any:
        with self.lock:
            self.outputs[request.urn] = request.outputs
        return empty_pb2.Empty()

    def ReadResource(self, request: Any) -> Any:
        return resource_pb2.ReadResourceResponse(
            urn=self.urn(request.parent, request.type, request.name), properties=request.properties
        )

    def Invoke(self, request: Any) -> Any:
        arguments = _plain_struct(request.args)
        with self.lock:
            self.invokes.append((request.tok, arguments))
        result = struct_pb2.Struct()
        result.update(self.answers.get(request.tok, {}))
        return resource_pb2.ResourceInvokeResponse(**{"return": result})

    def Call(self, request: Any) -> Any:
        return provider_pb2.CallResponse(**{"return": struct_pb2.Struct()})

    def RegisterStackTransform(self, request: Any) -> Any:
        return empty_pb2.Empty()

    def RegisterStackInvokeTransform(self, request: Any) -> Any:
        return empty_pb2.Empty()

    def RegisterResourceHook(self, request: Any) -> Any:
        return empty_pb2.Empty()

    def RegisterErrorHook(self, request: Any) -> Any:
        return empty_pb2.Empty()

    def RegisterPackage(self, request: Any) -> Any:
        return resource_pb2.RegisterPackageResponse(ref=f"{request.name}-{request.version}")

    def SignalAndWaitForShutdown(self, request: Any) -> Any:
        return empty_pb2.Empty()

    def recording(self) -> Recording:
        # Requests arrive on threads in no fixed order. By place in the program and name they always come out the same.
        resources = [self._resource(urn, request) for urn, request in self.requests.items()]
        order = {urn: index for index, urn in enumerate(self._in_tree_order())}
        resources.sort(key=lambda resource: order[resource.urn])
        outputs = {urn: _plain_struct(struct) for urn, struct in self.outputs.items()}
        return Recording(
            project=self.project,
            stack=self.stack,
            resources=tuple(resources),
            outputs=outputs.pop(self.root, {}),
            component_outputs=outputs,
            invokes=tuple(sorted(self.invokes, key=str)),
        )

    def _in_tree_order(self) -> Iterator[str]:
        """Parents before their children; siblings by the line of the program that made them, what they wait for
        first, then by name."""
        children: dict[str, list[str]] = {}
        for urn, request in self.requests.items():
            parent = request.parent if request.parent in self.requests else ""
            children.setdefault(parent, []).append(urn)
        depth: dict[str, int] = {}
        for urn in TopologicalSorter({urn: set(r.dependencies) for urn, r in self.requests.items()}).static_order():
            waited = self.requests[urn].dependencies if urn in self.requests else ()
            depth[urn] = 1 + max((depth[other] for other in waited), default=0)
        rank = {urn: (self._place_in_program(request), depth[urn], urn) for urn, request in self.requests.items()}
        pending = sorted(children.get("", ()), key=rank.__getitem__, reverse=True)
        while pending:
            urn = pending.pop()
            yield urn
            pending += sorted(children.get(urn, ()), key=rank.__getitem__, reverse=True)

    def _place_in_program(self, request: Any) -> int:
        """Line of the program's own main file from which the resource was made; 0 when none is known."""
        return next((line for file, line in self._frames(request) if file == self.main), 0)

    def _frames(self, request: Any) -> Iterator[tuple[str, int]]:
        positions = [request.sourcePosition, *(frame.pc for frame in request.stackTrace.frames)]
        for position in positions:
            if position.uri:
                yield unquote(urlparse(position.uri).path), position.line

    def _resource(self, urn: str, request: Any) -> Resource:
        file, line = next(
            (
                (str(Path(path).relative_to(self.folder)), line)
                for path, line in self._frames(request)
                if path.startswith(f"{self.folder}{os.sep}") and _own_code(path)
            ),
            ("", 0),
        )
        options = {
            "ignoreChanges": list(request.ignoreChanges),
            "replaceOnChanges": list(request.replaceOnChanges),
            "deletedWith": self._inherited(request, "deletedWith"),
            "deleteBeforeReplace": request.deleteBeforeReplace,
            "importId": request.importId,
            "version": request.version,
            "aliases": len(request.aliases),
        }
        return Resource(
            urn=urn,
            type=request.type,
            name=request.name,
            inputs=_plain_struct(request.object),
            custom=request.custom,
            parent=request.parent,
            provider=request.provider.rpartition("::")[0],
            depends_on=tuple(sorted(request.dependencies)),
            protect=request.protect,  # passed from parent to child by the SDK itself
            retain_on_delete=bool(self._inherited(request, "retainOnDelete")),
            options={key: value for key, value in options.items() if value},
            file=file,
            line=line,
        )

    def _inherited(self, request: Any, option: str) -> Any:
        """An option that the engine passes from parent to child (deploy/source_eval.go, 3.259)."""
        while request is not None:
            value = getattr(request, option)
            if value or (option == "retainOnDelete" and request.HasField(option)):
                return value
            request = self.requests.get(request.parent)
        return None


def _plain_struct(struct: struct_pb2.Struct) -> dict[str, Any]:
    return {key: _plain(value) for key, value in struct.fields.items()}


def _plain(value: struct_pb2.Value) -> Any:
    """A protobuf value in Python's terms. The wire has no integers: a whole number is one again."""
    match value.WhichOneof("kind"):
        case "string_value":
            return Unknown() if value.string_value == UNKNOWN else value.string_value
        case "number_value":
            number = value.number_value
            return int(number) if number.is_integer() else number
        case "bool_value":
            return value.bool_value
        case "list_value":
            return [_plain(item) for item in value.list_value.values]
        case "struct_value":
            fields = value.struct_value.fields
            if _special_sig_key in fields:
                return _special(fields)
            return {key: _plain(item) for key, item in fields.items()}
        case _:
            return None


def _special(fields: Mapping[str, struct_pb2.Value]) -> Any:
    """Secrets and assets travel as structs with a signature. (A monitor without the features outputValues and
    resourceReferences is sent neither.)"""
    if fields[_special_sig_key].string_value == _special_secret_sig:
        return Secret(_plain(fields["value"]))
    return {key: _plain(item) for key, item in fields.items() if key != _special_sig_key}
