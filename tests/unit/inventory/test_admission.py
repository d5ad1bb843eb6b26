"""What stands at the API server's door."""

from typing import Any

import pytest

from triplane.inventory.admission import Admission, flat
from triplane.inventory.resource import Origin, Resource


def admission(api: str, kind: str, **fields: Any) -> Admission:
    return Admission(Resource({"apiVersion": api, "kind": kind, "metadata": {"name": "a"}, **fields}, Origin()))


RULE = {
    "apiGroups": ["", "karpenter.sh"],
    "operations": ["CREATE"],
    "resources": ["pods", "x/*"],
}
CONSTRAINTS = {"matchConstraints": {"resourceRules": [RULE]}}
GROUP = "admissionregistration.k8s.io/v1"


@pytest.mark.parametrize(
    ("found", "above"),
    [
        (
            admission(GROUP, "ValidatingAdmissionPolicy", spec=CONSTRAINTS),
            ("spec", "matchConstraints", "resourceRules", 0, "resources"),
        ),
        (
            admission(GROUP, "MutatingWebhookConfiguration", webhooks=[{}, {"rules": [RULE]}]),
            ("webhooks", 1, "rules", 0, "resources"),
        ),
        (
            admission("policies.kyverno.io/v1", "ValidatingPolicy", spec=CONSTRAINTS),
            ("spec", "matchConstraints", "resourceRules", 0, "resources"),
        ),
    ],
)
def test_every_group_is_matched_with_every_resource(found: Admission, above: tuple[Any, ...]) -> None:
    matches = list(found.matches)
    assert [(match.group, match.resource) for match in matches] == [
        ("", "pods"), ("", "x/*"), ("karpenter.sh", "pods"), ("karpenter.sh", "x/*"),
    ]  # fmt: skip
    assert [match.path for match in matches] == [(*above, 0), (*above, 1)] * 2
    assert all(match.creates() for match in matches)


def test_kyverno_matches_kinds_in_all_its_places() -> None:
    rules = [
        {"match": {"resources": {"kinds": ["Pod"], "operations": ["DELETE"]}}},
        {"match": {"all": [{"resources": {"kinds": ["Pod/binding"]}}]}, "mutate": {"patchesJson6902": "- path: /spec"}},
        "nonsense",
    ]
    found = admission("kyverno.io/v1", "ClusterPolicy", spec={"rules": rules})
    assert [(match.resource, match.creates()) for match in found.matches] == [("Pod", False), ("Pod/binding", True)]
    assert [match.path for match in found.matches][1] == (
        "spec", "rules", 1, "match", "all", 0, "resources", "kinds", 0,
    )  # fmt: skip
    assert list(found.writes) == [(("spec", "rules", 1, "mutate"), "patchesJson6902 - path: /spec")]


def test_a_validating_policy_writes_nothing() -> None:
    assert list(admission(GROUP, "ValidatingAdmissionPolicy", spec={"validations": [{}]}).writes) == []


def test_a_text_of_everything_inside() -> None:
    assert flat({"a": [1, {"b": True}], "c": None}) == "a 1 b True c None"
