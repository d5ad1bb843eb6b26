"""What a recorded run keeps, and where it behaves as the engine and not as the SDK's own mocks do."""

import json
import logging
import sys
import threading
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pulumi
import pytest

from triplane import program
from triplane.program import ProgramError, Recording, Resource, Secret, Unknown, run_function, run_program


class Thing(pulumi.CustomResource):
    answer: pulumi.Output[str]

    def __init__(self, name: str, props: Any = None, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("pkg:mod:Thing", name, {"answer": None, **(props or {})}, opts)


class Box(pulumi.ComponentResource):
    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("pkg:mod:Box", name, None, opts)


def child_of(parent: pulumi.Resource, **options: Any) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions(parent=parent, **options)


def named(recording: Recording, name: str) -> Resource:
    (found,) = [resource for resource in recording.resources if resource.name == name]
    return found


def test_urns_hold_the_whole_chain_of_parent_types() -> None:
    def declare() -> None:
        inner = Box("inner", child_of(Box("outer")))
        Thing("thing", opts=child_of(inner))

    recording = run_function(declare, project="p", stack="s")
    assert [resource.urn for resource in recording.resources] == [
        "urn:pulumi:s::p::pkg:mod:Box::outer",
        "urn:pulumi:s::p::pkg:mod:Box$pkg:mod:Box::inner",
        "urn:pulumi:s::p::pkg:mod:Box$pkg:mod:Box$pkg:mod:Thing::thing",
    ]
    assert named(recording, "thing").parent == named(recording, "inner").urn
    assert [r.name for r in recording.by_parent[""]] == ["outer"]


@pytest.mark.parametrize("same_parent", [True, False])
def test_a_name_twice_is_refused_as_the_engine_refuses_it(same_parent: bool) -> None:
    def declare() -> None:
        Thing("thing")
        Thing("thing", opts=None if same_parent else child_of(Box("box")))

    if same_parent:
        with pytest.raises(ProgramError, match="declares pkg:mod:Thing thing twice"):
            run_function(declare)
    else:
        assert len(run_function(declare).resources) == 3


def test_options_arrive_and_the_inherited_ones_reach_children() -> None:
    def declare() -> None:
        first = Thing("first")
        box = Box("box", pulumi.ResourceOptions(protect=True, retain_on_delete=True))
        Thing("kept", opts=child_of(box, ignore_changes=["a"], replace_on_changes=["b"], depends_on=[first]))
        Thing("free", opts=child_of(box, protect=False, retain_on_delete=False))

    recording = run_function(declare)
    kept, free = named(recording, "kept"), named(recording, "free")
    assert (kept.protect, kept.retain_on_delete) == (True, True)
    assert not named(recording, "first").protect
    assert (free.protect, free.retain_on_delete) == (False, False)
    assert kept.depends_on == (named(recording, "first").urn,)
    assert kept.options == {"ignoreChanges": ["a"], "replaceOnChanges": ["b"]}


def test_values_come_out_plain() -> None:
    given = {"whole": 3, "part": 1.5, "flag": True, "nothing": None, "list": [1, {"a": "b"}], "text": "3", "big": 2**40}
    recording = run_function(lambda: Thing("thing", {"spec": given}))
    assert named(recording, "thing").inputs["spec"] == given
    assert isinstance(named(recording, "thing").inputs["spec"]["whole"], int)


@pytest.mark.parametrize("preview", [True, False])
def test_what_only_a_provider_knows_is_unknown(preview: bool) -> None:
    def declare() -> None:
        thing = Thing("thing")
        Thing("user", {"id_of_other": thing.id, "said": thing.answer})

    inputs = named(run_function(declare, preview=preview), "user").inputs
    assert inputs["id_of_other"] == (Unknown() if preview else "thing-id")
    assert inputs.get("said") == (Unknown() if preview else None)


def test_secrets_never_show() -> None:
    def declare() -> None:
        config = pulumi.Config()
        Thing("thing", {"password": config.require_secret("password"), "open": config.require("open")})
        pulumi.export("password", config.require_secret("password"))

    config = {"project:password": "hunter2", "project:open": "yes"}
    recording = run_function(declare, config=config, secrets=frozenset({"project:password"}))
    assert recording.outputs["password"] == Secret("hunter2")
    assert named(recording, "thing").inputs["open"] == "yes"
    assert "hunter2" not in repr(recording) + str(recording.outputs["password"])


def test_outputs_of_stack_and_components_arrive() -> None:
    def declare() -> None:
        Box("box").register_outputs({"size": 2})
        pulumi.export("list", ["a"])

    recording = run_function(declare)
    assert recording.outputs == {"list": ["a"]}
    assert dict(recording.component_outputs) == {named(recording, "box").urn: {"size": 2}}


def test_the_order_is_that_of_the_program_in_every_run() -> None:
    def declare() -> None:
        for number in range(30):
            Thing(f"b-{number}", opts=child_of(Box(f"a-{number}")))
        Thing("last")

    orders = [[resource.urn for resource in run_function(declare).resources] for _ in range(5)]
    assert all(order == orders[0] for order in orders)
    assert orders[0][-1].endswith("::last")
    positions = {urn.rpartition("::")[2]: index for index, urn in enumerate(orders[0])}
    assert all(positions[f"b-{n}"] == positions[f"a-{n}"] + 1 for n in range(30))


def test_a_resource_knows_the_line_that_made_it() -> None:
    def declare() -> None:
        Thing("thing")

    thing = named(run_function(declare), "thing")
    line = Path(__file__).read_text().splitlines()[thing.line - 1]
    assert (thing.file, line.strip()) == ("test_recording.py", 'Thing("thing")')


def test_provider_functions_get_answers() -> None:
    def declare() -> None:
        pulumi.export("zone", pulumi.runtime.invoke("pkg:mod:zone", {"of": "x"}).value["zone"])

    recording = run_function(declare, answers={"pkg:mod:zone": {"zone": "a"}})
    assert recording.outputs["zone"] == "a"
    assert recording.invokes == (("pkg:mod:zone", {"of": "x"}),)


def test_an_output_in_a_text_is_an_error_and_no_value() -> None:
    def declare() -> None:
        Thing("thing", {"name": f"x-{Thing('other').id}"})

    with pytest.raises(ProgramError, match="Output"):
        run_function(declare)


def test_two_runs_do_not_know_of_each_other(tmp_path: Path) -> None:
    """Two programs with a module of one name, in one process, one after the other and at once."""
    found: dict[str, Any] = {}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__main__.py").write_text(
            "import pulumi, fleet_module\npulumi.export('seen', [fleet_module.NAME, pulumi.Config().require('key')])\n"
        )
        (tmp_path / name / "fleet_module.py").write_text(f"NAME = '{name}'\n")
    for name in ("one", "two", "one"):
        recording = run_program(tmp_path / name, project=name, stack=name, config={f"{name}:key": name})
        assert recording.outputs["seen"] == [name, name]
        assert (recording.project, recording.stack) == (name, name)

    def in_a_thread(name: str) -> None:
        def declare() -> None:
            for _ in range(20):
                Thing(f"{name}-{len(found)}-{_}")
            pulumi.export("stack", pulumi.get_stack())

        found[name] = run_function(declare, stack=name)

    threads = [threading.Thread(target=in_a_thread, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert {name: recording.outputs["stack"] for name, recording in found.items()} == {"a": "a", "b": "b"}
    assert all(len(recording.resources) == 20 for recording in found.values())


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import pulumi\nraise pulumi.RunError('the pool is too big')", "the pool is too big"),
        ("x = 1\nx.y", "__main__.py:2  AttributeError: 'int' object has no attribute 'y'"),
        ("import sys\nsys.exit(1)", "__main__.py:2  SystemExit: 1"),
        ("def broken(:", "SyntaxError"),
    ],
)
def test_the_errors_of_a_program_are_its_own(tmp_path: Path, program: str, said: str) -> None:
    (tmp_path / "__main__.py").write_text(program)
    before = (Path.cwd(), json.dumps(__import__("sys").path))
    with pytest.raises(ProgramError) as error:
        run_program(tmp_path, project="p", stack="s")
    assert said in str(error.value)
    assert (Path.cwd(), json.dumps(__import__("sys").path)) == before


@pytest.mark.parametrize("installed", [None, "3.271.9", "4.0.0"])
def test_an_sdk_that_is_missing_or_not_known_is_said(installed: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if installed is None:
            raise metadata.PackageNotFoundError(name)
        return installed

    monkeypatch.setattr(metadata, "version", version)
    with pytest.raises(ProgramError, match=r"pip install 'triplane\[pulumi\]'") as error:
        run_function(lambda: None)
    assert (installed or "needs Pulumi") in str(error.value)


def test_an_sdk_without_the_names_it_takes_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "triplane.program.recording", raising=False)
    monkeypatch.delattr("pulumi.runtime.mocks.MockSettings")
    with pytest.raises(ProgramError, match=r"not as expected .*MockSettings"):
        run_function(lambda: None)


def test_the_releases_it_knows_are_those_the_distribution_asks_for() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    (asked,) = [d for d in project["optional-dependencies"]["pulumi"] if d.startswith("pulumi>")]
    (oldest, (major, _)) = (program.OLDEST_SDK, program.UNTRIED_SDK)
    assert asked == f"pulumi>={oldest[0]}.{oldest[1]},<{major}"


def test_a_run_leaves_no_trace_in_the_process() -> None:
    before = (logging.getLogger("asyncio").level, Path.cwd(), list(sys.path), pulumi.runtime.get_root_resource())
    run_function(lambda: Thing("thing"))
    after = (logging.getLogger("asyncio").level, Path.cwd(), list(sys.path), pulumi.runtime.get_root_resource())
    assert after == before
