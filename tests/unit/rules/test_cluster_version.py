"""A cluster whose version is no release: the rule cannot tell, and says so instead of raising."""

import pytest

from triplane.inventory import Inventory, Origin, Resource
from triplane.rules import Config, Profile, judge, rule_named

POLICY = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "MutatingAdmissionPolicy",
    "metadata": {"name": "gpu-pools"},
}


@pytest.mark.parametrize("version", ["0", "latest", "one.two"])
def test_a_version_that_is_no_release_is_unknown(version: str) -> None:
    cluster = {
        "apiVersion": "eks.aws/pulumi",
        "kind": "Cluster",
        "metadata": {"name": "prod"},
        "spec": {"version": version},
    }
    rule = rule_named("IN703")
    assert rule is not None
    inventory = Inventory(Resource(data, Origin(file="x.yaml")) for data in (cluster, POLICY))
    report = judge(inventory, Config(profile=Profile.ALL), [rule])
    assert not report.defects
    assert [finding.kind for finding in report.findings] == ["unknown"]
    assert version in report.unknowns[0].message
