"""What examples in YAML cannot say about scaled objects: the options of a Pulumi program."""

import pytest

from triplane.inventory import Inventory, Origin, Resource
from triplane.rules import Config, judge, rule_named

RULE = rule_named("AS411")
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "chat"},
    "spec": {"replicas": 2, "template": {"spec": {"containers": []}}},
}
SCALER = {
    "apiVersion": "keda.sh/v1alpha1",
    "kind": "ScaledObject",
    "metadata": {"name": "chat"},
    "spec": {"scaleTargetRef": {"name": "chat"}, "maxReplicaCount": 4, "triggers": []},
}


@pytest.mark.parametrize(
    ("ignored", "failures"),
    [((), 1), (("spec.replicas",), 0), (("spec",), 0), (("metadata.annotations", "spec.template"), 1)],
)
def test_replicas_that_an_update_leaves_alone_may_be_written(ignored: tuple[str, ...], failures: int) -> None:
    assert RULE is not None
    inventory = Inventory([Resource(DEPLOYMENT, Origin(ignored=ignored)), Resource(SCALER, Origin())])
    assert len(judge(inventory, Config(), [RULE]).failures) == failures
