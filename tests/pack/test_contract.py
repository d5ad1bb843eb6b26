"""What the pack answers to the engine's requests, through both doors."""

from pathlib import Path
from typing import Any

import pytest
from pack_door import UNKNOWN_STRING, Door
from pulumi.runtime.proto import analyzer_pb2

from triplane.rules import Severity, all_rules
from triplane.rules.example import Example, examples

RULES = {rule.id: rule for rule in all_rules()}
MANDATORY, ADVISORY, DISABLED = analyzer_pb2.MANDATORY, analyzer_pb2.ADVISORY, analyzer_pb2.DISABLED
NODE_POOL = "kubernetes:karpenter.sh/v1:NodePool"
WITH_DEFAULTS = [
    example for example in examples() if not any(line.startswith("assumes:") for line in example._comments)
]


def sent(data: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The type token and the properties under which the engine would send an object."""
    version, kind = data["apiVersion"], data["kind"]
    properties = {"name": data.get("metadata", {}).get("name", ""), **data.get("spec", {})}
    if version.endswith(".aws/pulumi"):
        return f"aws:{version.partition('.')[0]}/{kind[:1].lower()}{kind[1:]}:{kind}", properties
    if version.startswith("helm.sh/"):
        return f"kubernetes:{version}:{kind}", properties
    return f"kubernetes:{version if '/' in version else f'core/{version}'}:{kind}", data


def names(diagnostics: list[Any], level: int = MANDATORY) -> set[str]:
    return {diagnostic.policyName for diagnostic in diagnostics if diagnostic.enforcementLevel == level}


def gpu_pool(**disruption: Any) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "h100"},
        "spec": {"limits": {"nvidia.com/gpu": 8.0}, "disruption": disruption, "template": {"spec": {}}},
    }


def test_the_pack_describes_every_rule(door: Door) -> None:
    info = door.info()
    assert info.name == "triplane"
    told = {policy.name: policy for policy in info.policies}
    assert len(told) == len(info.policies)
    assert set(told) == set(RULES) | {"triplane", "PH808", "PH808-stack", "PH809", "PH809-stack"}
    for rule in RULES.values():
        policy = told[rule.id]
        assert policy.displayName == rule.slug
        assert policy.description == rule.title + "."
        assert policy.remediation_steps == rule.fix
        assert policy.severity and list(policy.tags)
        assert policy.url == rule.sources[0]
        assert policy.framework.name == "Triplane" and policy.framework.reference == rule.id
        assert set(policy.configSchema.properties) == {"on_unknown", *rule.parameters}
        assert policy.enforcementLevel == (MANDATORY if rule.severity is Severity.ERROR else ADVISORY)


@pytest.mark.parametrize("example", WITH_DEFAULTS, ids=lambda e: f"{e.rule}-{e.kind}.{e.case}")
def test_the_pack_says_what_the_rule_says(door: Door, example: Example) -> None:
    rule = RULES[example.rule]
    door.configure({"triplane": {"profile": "all"}, example.rule: MANDATORY})
    objects = [sent(resource.data) for resource in example.inventory().resources]
    if rule.scope == "stack":
        violations = door.analyze_stack(objects)
    else:
        violations = [violation for data in objects for violation in door.analyze(*data)]
    ours = [violation for violation in violations if violation.policyName == rule.id]
    assert bool(ours) == (example.kind == "bad")
    for violation in ours:
        assert any(path in violation.message for _, path in example.expected)
        assert violation.enforcementLevel == MANDATORY


def test_numbers_that_arrive_as_floats_are_shown_as_people_write_them(door: Door) -> None:
    pool = gpu_pool(consolidationPolicy="WhenEmpty", consolidateAfter="1h")
    assert "NP101" not in names(door.analyze(NODE_POOL, pool))


def test_an_unknown_value_is_reported_and_not_swallowed(door: Door) -> None:
    pool = gpu_pool(consolidationPolicy=UNKNOWN_STRING, consolidateAfter="1h")
    diagnostics = door.analyze(NODE_POOL, pool)
    assert "NP101" not in names(diagnostics)
    (said,) = [d for d in diagnostics if d.policyName == "PH808" and "NP101" in d.message]
    assert said.enforcementLevel == ADVISORY
    assert "spec.disruption.consolidationPolicy" in said.message


def test_what_is_unknown_stops_an_update_where_the_configuration_says_so(door: Door) -> None:
    door.configure({"PH808": MANDATORY})
    diagnostics = door.analyze(NODE_POOL, gpu_pool(consolidationPolicy=UNKNOWN_STRING, consolidateAfter="1h"))
    assert "PH808" in names(diagnostics)


def test_an_unknown_value_beside_the_point_changes_nothing(door: Door) -> None:
    pool = gpu_pool(consolidationPolicy="WhenEmptyOrUnderutilized", consolidateAfter="1h")
    pool["metadata"]["annotations"] = {"owner": UNKNOWN_STRING}
    diagnostics = door.analyze(NODE_POOL, pool)
    assert "NP101" in names(diagnostics)
    assert not any("NP101" in d.message for d in diagnostics if d.policyName == "PH808")


def test_a_wholly_unknown_spec_is_unknown_not_safe(door: Door) -> None:
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "x"}, "spec": UNKNOWN_STRING}
    diagnostics = door.analyze(NODE_POOL, pool)
    assert any("NP101" in d.message for d in diagnostics if d.policyName == "PH808")


def test_a_secret_value_is_judged_and_not_shown(door: Door) -> None:
    secret = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "value": "hunter2"}
    pool = gpu_pool(consolidationPolicy="WhenEmptyOrUnderutilized", consolidateAfter="1h")
    pool["metadata"]["annotations"] = {"token": secret}
    diagnostics = door.analyze(NODE_POOL, pool)
    assert "NP101" in names(diagnostics)
    assert not any("hunter2" in d.message for d in diagnostics)


def test_a_disabled_rule_says_nothing(door: Door) -> None:
    door.configure({"NP101": DISABLED})
    assert "NP101" not in names(door.analyze(NODE_POOL, gpu_pool()))


@pytest.mark.parametrize(
    "type_token",
    [
        "pulumi:pulumi:Stack",
        "kubernetes:core/v1:ConfigMap",
        "triplane:nodes:GpuNodePool",
        "gcp:container/nodePool:NodePool",
    ],
)
def test_other_resources_pass(door: Door, type_token: str) -> None:
    assert names(door.analyze(type_token, {"spec": {"limits": {"nvidia.com/gpu": 8}}})) == set()


def test_the_packs_folder_is_what_is_installed() -> None:
    import triplane.policies

    folder = Path(triplane.policies.__path__[0])
    assert (folder / "PulumiPolicy.yaml").is_file()
    assert len((folder / "__main__.py").read_text().splitlines()) <= 10
