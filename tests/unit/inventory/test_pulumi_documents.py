"""What the Pulumi CLI prints, as resources."""

import json
from typing import Any

import pytest

from triplane.inventory import Inventory, Unknown
from triplane.inventory.files import Sources
from triplane.rules import judge, rule_named

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
SIGNATURE, SECRET = "4dabf18193072939515e22adb298388d", "1b47061264138c4ac30d75fd1eb44270"
SPEC: dict[str, Any] = {
    "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized"},
    "template": {
        "spec": {"requirements": [{"key": "karpenter.k8s.aws/instance-gpu-name", "operator": "In", "values": ["h100"]}]}
    },
}


def state(name: str = "h100", **more: Any) -> dict[str, Any]:
    return {
        "urn": f"urn:pulumi:prod::x::kubernetes:karpenter.sh/v1:NodePool::{name}",
        "custom": True,
        "type": "kubernetes:karpenter.sh/v1:NodePool",
        "inputs": {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": SPEC},
        **more,
    }


def export(*resources: dict[str, Any]) -> dict[str, Any]:
    return {"version": 3, "deployment": {"manifest": {}, "resources": list(resources)}}


def preview(*steps: tuple[str, dict[str, Any] | None], same: int = 0) -> dict[str, Any]:
    return {
        "config": {},
        "steps": [{"op": op, "urn": "x", "newState": new} for op, new in steps],
        "changeSummary": {"same": same},
    }


def read(document: dict[str, Any]) -> Sources:
    sources = Sources()
    sources.read_text(json.dumps(document, indent=2))
    return sources


@pytest.mark.parametrize("document", [export(state()), preview(("create", state()))], ids=["export", "preview"])
def test_its_resources_are_judged_with_a_place_in_it(document: dict[str, Any]) -> None:
    sources = read(document)
    rule = rule_named("NP101")
    assert rule is not None
    (finding,) = judge(Inventory(sources.resources), None, [rule]).failures
    assert finding.resource is not None and finding.resource.origin.urn.endswith("::h100")
    position = sources.position(finding.resource, finding.path)
    assert position is not None
    assert "WhenEmptyOrUnderutilized" in sources.text("<stdin>").splitlines()[position.line - 1]


def test_a_source_position_points_into_the_program() -> None:
    (resource,) = read(export(state(sourcePosition="project:///pools.ts#12,5"))).resources
    assert (resource.origin.file, resource.origin.line, resource.origin.column) == ("pools.ts", 12, 5)


def test_components_providers_and_what_goes_are_left_out() -> None:
    component = {"urn": "u", "custom": False, "type": "x:y:Z", "inputs": {}}
    provider = {"urn": "p", "custom": True, "type": "pulumi:providers:kubernetes", "inputs": {}}
    sources = read(export(component, provider, state("gone", delete=True), state()))
    assert [resource.name for resource in sources.resources] == ["h100"]
    sources = read(preview(("delete", None), ("delete-replaced", state("old")), ("create", state())))
    assert [resource.name for resource in sources.resources] == ["h100"]


def test_the_steps_of_a_replacement_are_one_resource() -> None:
    steps = [(op, state()) for op in ("create-replacement", "replace")]
    assert len(read(preview(*steps)).resources) == 1


def test_a_preview_that_leaves_out_what_stays_says_so() -> None:
    (missed,) = read(preview(("create", state()), same=3)).not_read
    assert "3 unchanged resources" in missed.reason and "--show-sames" in missed.reason
    assert read(preview(("same", state()), same=1)).not_read == []


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (UNKNOWN, Unknown),
        ("[secret]", Unknown),
        ({SIGNATURE: SECRET, "ciphertext": "v1:x"}, Unknown),
        ({SIGNATURE: SECRET, "plaintext": "not json"}, Unknown),
        ({SIGNATURE: SECRET, "plaintext": '{"a": [1]}'}, {"a": [1]}),
    ],
)
def test_values_that_are_not_known_and_secrets(value: Any, plain: Any) -> None:
    resource = state()
    resource["inputs"]["spec"] = value
    (found,) = read(export(resource)).resources
    assert isinstance(found.data["spec"], Unknown) if plain is Unknown else found.data["spec"] == plain


@pytest.mark.parametrize(
    "garbage",
    [
        {"version": 3, "deployment": {}},
        {"version": 3, "deployment": {"resources": [None, 7, {"type": 7}, {"type": "a:b:C", "custom": True}]}},
        {"steps": [None, {"newState": 7}, {"op": 7, "newState": {}}], "config": {}},
        {"steps": [], "changeSummary": 7},
    ],
)
def test_garbage_does_no_harm(garbage: dict[str, Any]) -> None:
    assert read(garbage).not_read == []
