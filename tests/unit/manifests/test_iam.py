"""Karpenter's AWS permissions, statement by statement, against the template upstream ships with each release."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from triplane.manifests import iam
from triplane.manifests.identity import ManifestError
from triplane.settings.cluster import AwsSettings, ClusterSettings
from triplane.settings.pools import CapacitySettings, NodeCount, PoolSettings
from triplane.settings.values import version_key

UPSTREAM = json.loads((Path(__file__).parents[2] / "data" / "karpenter_iam.json").read_text())
READ = tuple(UPSTREAM["read_at"])
PLACE = iam.Place(cluster="prod", region="us-east-1", account="123456789012")

Permission = tuple[str, str, str, str, frozenset[tuple[str, str, frozenset[str]]]]
"""Policy, Sid, action, resource, conditions: one permission as IAM decides it."""


def cluster(**settings: Any) -> ClusterSettings:
    values = {"name": "prod", "context": "prod", "cloud": "eks", "region": "us-east-1", "kubernetes": "1.35"}
    return ClusterSettings(**(values | settings))


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def permissions(policy: str, document: dict[str, Any]) -> Iterator[Permission]:
    for statement in document["Statement"]:
        assert statement["Effect"] == "Allow"
        conditions = frozenset(
            (operator, key, frozenset(as_list(values)))
            for operator, tests in statement.get("Condition", {}).items()
            for key, values in tests.items()
        )
        for action in as_list(statement["Action"]):
            for resource in as_list(statement["Resource"]):
                yield (policy, statement["Sid"], action, resource, conditions)


def granted(karpenter: str, place: iam.Place = PLACE) -> set[Permission]:
    policies = iam.controller_policies(place, cluster=cluster(), karpenter=karpenter)
    return {permission for policy, document in policies.items() for permission in permissions(policy, document)}


def upstream(karpenter: str, place: iam.Place = PLACE) -> set[Permission]:
    """The recorded facts, written out for one version and place; the file itself explains its notation."""
    words = {
        "partition": place.partition,
        "region": place.region,
        "account": place.account,
        "cluster": place.cluster,
        "node_role": f"arn:{place.partition}:iam::{place.account}:role/KarpenterNodeRole-prod",
        "queue": f"arn:{place.partition}:sqs:{place.region}:{place.account}:{place.cluster}",
    }

    def current(entry: str) -> str | None:
        text, _, since = entry.partition("@")
        return text if not since or version_key(karpenter) >= version_key(since) else None

    def arn(resource: str) -> str:
        if resource == "*" or resource.startswith("{"):
            return resource.format(**words)
        service, account, rest = resource.split(":", 2)
        region = "" if service == "iam" else place.region
        return f"arn:{place.partition}:{service}:{region}:{account}:{rest}".format(**words)

    def conditions(when: list[Any]) -> Iterator[tuple[str, str, frozenset[str]]]:
        for entry in when:
            for operator, key, *values in UPSTREAM["sets"][entry] if isinstance(entry, str) else [entry]:
                yield (operator, key.format(**words), frozenset(value.format(**words) for value in values))

    found: set[Permission] = set()
    for statement in UPSTREAM["statements"]:
        if (sid := current(statement["sid"])) is None:
            continue
        named = [name for entry in statement["resources"] for name in UPSTREAM["sets"].get(entry, [entry])]
        for action in filter(None, map(current, statement["actions"])):
            for resource in filter(None, map(current, named)):
                when = frozenset(conditions(statement["when"]))
                found.add((statement["policy"], sid, action, arn(resource), when))
    return found


@pytest.mark.parametrize("karpenter", [*READ, "1.9.2", "1.14.1"])
def test_the_controller_may_do_exactly_what_upstream_grants(karpenter: str) -> None:
    ours, theirs = granted(karpenter), upstream(karpenter)
    assert ours - theirs == set(), "granted beyond upstream"
    assert theirs - ours == set(), "missing: Karpenter would be denied"


def test_1_15_is_not_read_and_gets_what_1_14_gets() -> None:
    # 1.15 reboots instances (ec2:RebootInstances) only behind its AWS gate RebootForRepair, for which the stack file
    # has no switch: the permission would be unused.
    assert "1.15" not in READ
    assert granted("1.15.1") == upstream("1.14")


def test_other_partitions_are_spelled_their_own_way() -> None:
    china = iam.Place(
        cluster="prod", region="cn-north-1", account="123456789012", partition="aws-cn", dns_suffix="amazonaws.com.cn"
    )
    assert granted("1.14.1", china) == upstream("1.14", china)
    assert iam.node_trust(china)["Statement"][0]["Principal"] == {"Service": "ec2.amazonaws.com.cn"}
    assert "arn:aws:" not in iam.render(iam.queue_policy(china))
    assert iam.node_policy_arn("AmazonEKS_CNI_Policy", china) == "arn:aws-cn:iam::aws:policy/AmazonEKS_CNI_Policy"


@pytest.mark.parametrize(
    ("since", "policy", "needle"),
    [
        ("1.11", "NodeLifecycle", "placement-group/*"),
        ("1.11", "ResourceDiscovery", "ec2:DescribePlacementGroups"),
        ("1.12", "ResourceDiscovery", "ec2:DescribeInstanceStatus"),
        ("1.12", "ZonalShift", "arc-zonal-shift:GetManagedResource"),
        ("1.9", "NodeLifecycle", "capacity-reservation/*"),
        ("1.9", "ResourceDiscovery", "iam:ListInstanceProfiles"),
        ("1.9", "ResourceDiscovery", "ec2:DescribeCapacityReservations"),
    ],
)
@pytest.mark.parametrize("karpenter", ["1.9.0", "1.10.2", "1.11.1", "1.12.1", "1.13.0", "1.14.1", "1.15.1"])
def test_a_permission_appears_with_the_version_that_calls_it(
    since: str, policy: str, needle: str, karpenter: str
) -> None:
    policies = iam.controller_policies(PLACE, cluster=cluster(), karpenter=karpenter)
    present = needle in iam.render(policies.get(policy, {}))
    assert present == (version_key(karpenter) >= version_key(since))


@pytest.mark.parametrize("karpenter", ["1.8.6", "1.8", "0.37.0"])
def test_a_version_whose_permissions_are_unknown_is_refused(karpenter: str) -> None:
    with pytest.raises(ManifestError, match=rf"Karpenter {karpenter}: .* from 1\.9"):
        iam.controller_policies(PLACE, cluster=cluster(), karpenter=karpenter)
    with pytest.raises(ManifestError, match=r"from 1\.9"):
        iam.interruption_events(karpenter)


def test_nothing_is_granted_on_everything_but_reads() -> None:
    for policy, _, action, resource, conditions in granted("1.15.1"):
        service, verb = action.split(":")
        if resource == "*":
            assert verb.startswith(("Describe", "List", "Get")), (policy, action)
            assert conditions or service in ("pricing", "iam"), f"{action}: the region or cluster is left open"
        if verb.startswith(("Terminate", "Delete", "Remove")) and service != "sqs":
            assert any("kubernetes.io/cluster/prod" in key for _, key, _ in conditions), (
                f"{action} reaches other clusters"
            )


@pytest.mark.parametrize("karpenter", [*READ, "1.15.1"])
def test_every_document_fits_in_a_managed_policy(karpenter: str) -> None:
    longest = iam.Place(
        cluster="c" * 46,
        region="us-gov-west-1",
        account="123456789012",
        partition="aws-us-gov",
        dns_suffix="amazonaws.com",
    )
    for kind, document in iam.controller_policies(
        longest, cluster=cluster(name="c" * 46, aws=AwsSettings(node_role="r" * 64)), karpenter=karpenter
    ).items():
        assert len(iam.render(document)) <= iam.MANAGED_POLICY_LIMIT, kind
        assert len(iam.policy_name(kind, longest.cluster)) <= 128


def test_rendered_documents_are_the_same_text_at_every_run() -> None:
    document = iam.queue_policy(PLACE)
    assert iam.render(document) == iam.render(json.loads(iam.render(document)))
    assert " " not in iam.render(iam.node_trust(PLACE))


def test_an_existing_node_role_is_passed_whatever_its_path_and_no_other_role_is() -> None:
    settings = cluster(aws=AwsSettings(node_role="nodes"))
    document = iam.controller_policies(PLACE, cluster=settings, karpenter="1.14.1")["IAMIntegration"]
    (passing,) = [statement for statement in document["Statement"] if statement["Action"] == "iam:PassRole"]
    assert passing["Resource"] == [
        "arn:aws:iam::123456789012:role/nodes",
        "arn:aws:iam::123456789012:role/*/nodes",
    ]
    assert passing["Condition"] == {
        "StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]}
    }


# --- trust, queue, events -------------------------------------------------------------------------------------------


def test_only_karpenters_service_account_in_this_cluster_gets_the_controller_role() -> None:
    """Upstream trusts every pod identity of the account: narrowed by the three session tags that name the pod."""
    (statement,) = iam.controller_trust(cluster(namespace="karpenter"))["Statement"]
    assert statement["Principal"] == {"Service": "pods.eks.amazonaws.com"}
    assert statement["Action"] == ["sts:AssumeRole", "sts:TagSession"]
    assert statement["Condition"] == {
        "StringEquals": {
            "aws:RequestTag/eks-cluster-name": "prod",
            "aws:RequestTag/kubernetes-namespace": "karpenter",
            "aws:RequestTag/kubernetes-service-account": "karpenter",
        }
    }


def test_nodes_run_under_a_role_that_ec2_may_assume() -> None:
    (statement,) = iam.node_trust(PLACE)["Statement"]
    assert statement["Principal"]["Service"] == UPSTREAM["node_role"]["service"].format(dns_suffix="amazonaws.com")
    assert statement["Action"] == "sts:AssumeRole"
    assert list(iam.NODE_POLICIES) == UPSTREAM["node_role"]["managed_policies"]
    assert iam.node_policy_arn("AmazonEKS_CNI_Policy", PLACE) == "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"


def test_the_queue_takes_messages_from_events_only_and_never_over_http() -> None:
    allow, deny = iam.queue_policy(PLACE)["Statement"]
    assert (allow["Effect"], allow["Action"]) == ("Allow", "sqs:SendMessage")
    assert allow["Principal"] == {"Service": ["events.amazonaws.com", "sqs.amazonaws.com"]}
    assert (deny["Effect"], deny["Principal"], deny["Action"]) == ("Deny", "*", "sqs:*")
    assert deny["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert allow["Resource"] == deny["Resource"] == "arn:aws:sqs:us-east-1:123456789012:prod"


@pytest.mark.parametrize(
    ("karpenter", "count"), [("1.9.2", 4), ("1.10.0", 5), ("1.12.1", 5), ("1.13.0", 5), ("1.14.1", 5), ("1.15.1", 5)]
)
def test_every_interruption_event_reaches_the_queue(karpenter: str, count: int) -> None:
    patterns = iam.interruption_events(karpenter)
    ours = {(p["source"][0], p["detail-type"][0]) for p in patterns.values()}
    theirs = {
        (source, detail.partition("@")[0])
        for source, detail in UPSTREAM["events"]
        if version_key(karpenter) >= version_key(detail.partition("@")[2] or "1.9")
    }
    assert ours == theirs
    assert len(patterns) == count
    assert all(set(p) == {"source", "detail-type"} for p in patterns.values())


# --- names and choices ----------------------------------------------------------------------------------------------


def test_names_follow_the_cluster() -> None:
    assert iam.node_role_name(cluster()) == "KarpenterNodeRole-prod"
    assert iam.node_role_name(cluster(aws=AwsSettings(node_role="mine"))) == "mine"
    assert iam.controller_role_name(cluster()) == "prod-karpenter"
    assert iam.queue_name("prod") == "prod"
    assert iam.policy_name("NodeLifecycle", "prod") == "KarpenterControllerNodeLifecyclePolicy-prod"


@pytest.mark.parametrize(("length", "node", "controller"), [(46, True, True), (47, False, True), (55, False, False)])
def test_a_role_name_longer_than_iam_allows_is_refused(length: int, node: bool, controller: bool) -> None:
    settings = cluster(name="c" * length)
    for fits, name in ((node, iam.node_role_name), (controller, iam.controller_role_name)):
        if fits:
            assert len(name(settings)) <= 64
        else:
            with pytest.raises(ManifestError, match=r"has \d+ characters, IAM allows 64"):
                name(settings)


@pytest.mark.parametrize("account", ["", "None", "12345678901", "1234567890123", None])
def test_an_account_that_was_not_found_is_never_written_into_an_arn(account: Any) -> None:
    with pytest.raises(ManifestError, match="12 digits"):
        iam.Place(cluster="prod", region="us-east-1", account=account)


@pytest.mark.parametrize(("partition", "suffix"), [(None, "amazonaws.com"), ("", "amazonaws.com"), ("aws", "")])
def test_a_partition_that_was_not_found_is_refused(partition: Any, suffix: str) -> None:
    with pytest.raises(ManifestError, match="no AWS partition"):
        iam.Place(cluster="prod", region="us-east-1", account="123456789012", partition=partition, dns_suffix=suffix)


@pytest.mark.parametrize(
    ("cloud", "dialect", "wanted"),
    [("eks", "aws", True), ("eks", "eks-auto", False), ("existing", "aws", False), ("existing", "eks-auto", False)],
)
def test_the_aws_side_belongs_to_self_managed_karpenter_on_eks(cloud: str, dialect: str, wanted: bool) -> None:
    assert iam.runs_on_aws(cluster(cloud=cloud, dialect=dialect)) is wanted


def pool(**settings: Any) -> PoolSettings:
    values = {"purpose": "training", "accelerator": "H100-SXM5", "gpus_per_node": 8, "nodes": NodeCount(max=4)}
    return PoolSettings(**(values | settings))


def test_placement_groups_are_declared_once_and_never_where_a_reservation_lives_in_one() -> None:
    reserved = CapacitySettings(reserved=("cr-0a1b2c3d4e5f67890",))
    pools = {
        "a": pool(placement_group="close"),
        "b": pool(placement_group="close"),
        "c": pool(placement_group="booked", capacity=reserved),
        "d": pool(placement_group="booked"),
        "e": pool(),
        "f": pool(capacity=reserved),
    }
    assert iam.own_placement_groups(pools) == ("close",)
    assert iam.own_placement_groups({}) == ()


def test_security_groups_get_efa_rules_only_when_a_pool_has_efa() -> None:
    groups = cluster(aws=AwsSettings(security_groups=("sg-1", "sg-2")))
    assert iam.efa_security_groups(groups, [pool(), pool(efa=True)]) == ("sg-1", "sg-2")
    assert iam.efa_security_groups(groups, [pool()]) == ()
    assert iam.efa_security_groups(cluster(), [pool(efa=True)]) == ()
