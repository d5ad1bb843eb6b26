"""What Karpenter may do in AWS: policy documents, trust, queue and events, for each Karpenter version from 1.9.

Permissions follow the CloudFormation template that Karpenter's getting-started guide ships with each release
(aws/karpenter-provider-aws, read at v1.9.0 to v1.14.1). Three things it leaves wider are narrowed here: the controller
role trusts one service account of one cluster, statements appear only from the version that calls them, and nothing is
granted for what this project never switches on.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from triplane.manifests.identity import ManifestError
from triplane.settings.cluster import ClusterSettings
from triplane.settings.pools import PoolSettings
from triplane.settings.values import version_key

Document = dict[str, Any]
"""An IAM policy document, ready for JSON."""

OLDEST: Final = "1.9"
"""The controller's policy was split at 1.9 because one document no longer fitted MANAGED_POLICY_LIMIT."""
MANAGED_POLICY_LIMIT: Final = 6144
"""Characters IAM accepts in one managed policy, not counting whitespace."""
SERVICE_ACCOUNT: Final = "karpenter"
"""Name of the controller's service account, which the pod identity association names."""
DISCOVERY_TAG: Final = "karpenter.sh/discovery"
"""Tag of the subnets and security groups that an EC2NodeClass selects; its value is the cluster's name."""

NODE_POLICIES: Final = (
    "AmazonEKS_CNI_Policy",
    "AmazonEKSWorkerNodePolicy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",
)
"""Policies of the node role; AWS keeps them."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the documents apply. `partition` and `dns_suffix` as AWS names them (`aws`, `amazonaws.com`)."""

    cluster: str
    region: str
    account: str
    partition: str = "aws"
    dns_suffix: str = "amazonaws.com"

    def __post_init__(self) -> None:
        # A lookup that answered nothing would otherwise be written into every ARN.
        if not re.fullmatch(r"\d{12}", str(self.account)):
            raise ManifestError(f"{self.account!r} is no AWS account: an account id has 12 digits")
        if not re.fullmatch(r"aws(-[a-z]+)*", str(self.partition)) or not self.dns_suffix:
            raise ManifestError(f"{self.partition!r}, {self.dns_suffix!r} are no AWS partition and DNS suffix")

    def ec2(self, *kinds: str, account: str = "*") -> list[str]:
        """`instance` -> every instance of the region. Images and snapshots have no account in their ARN."""
        return [f"arn:{self.partition}:ec2:{self.region}:{account}:{kind}/*" for kind in kinds]

    @property
    def cluster_arn(self) -> str:
        return f"arn:{self.partition}:eks:{self.region}:{self.account}:cluster/{self.cluster}"

    @property
    def queue_arn(self) -> str:
        return f"arn:{self.partition}:sqs:{self.region}:{self.account}:{queue_name(self.cluster)}"

    @property
    def instance_profiles(self) -> str:
        return f"arn:{self.partition}:iam::{self.account}:instance-profile/*"

    def roles(self, *names: str) -> list[str]:
        """ARNs of roles; a name may start with a path."""
        return [f"arn:{self.partition}:iam::{self.account}:role/{name}" for name in names]


def runs_on_aws(cluster: ClusterSettings) -> bool:
    """Whether the stack declares Karpenter's AWS side. EKS Auto Mode has its own, which AWS keeps."""
    return cluster.cloud == "eks" and cluster.dialect == "aws"


def queue_name(cluster: str) -> str:
    """Name of the interruption queue."""
    return cluster


def node_role_name(cluster: ClusterSettings) -> str:
    """Name of the role that nodes run under: the one that exists, or the one the stack creates."""
    return cluster.aws.node_role or _short_enough(
        f"KarpenterNodeRole-{cluster.name}", cluster.name, "aws.nodeRole names another"
    )


def controller_role_name(cluster: ClusterSettings) -> str:
    """Name of the role that Karpenter itself runs under."""
    return _short_enough(f"{cluster.name}-karpenter", cluster.name, "an IAM role cannot be longer")


def _short_enough(role: str, cluster: str, remedy: str) -> str:
    if len(role) > 64:
        raise ManifestError(f"cluster {cluster}: role {role} has {len(role)} characters, IAM allows 64: {remedy}")
    return role


def policy_name(kind: str, cluster: str) -> str:
    """`NodeLifecycle`, `prod` -> the managed policy's name, as upstream names it."""
    return f"KarpenterController{kind}Policy-{cluster}"


def render(document: Document) -> str:
    """One line of JSON without spaces, keys in order: the same text at every run."""
    return json.dumps(document, separators=(",", ":"), sort_keys=True)


def node_trust(place: Place) -> Document:
    """EC2 instances may run under the node role."""
    return _document(
        {"Effect": "Allow", "Principal": {"Service": f"ec2.{place.dns_suffix}"}, "Action": "sts:AssumeRole"}
    )


def node_policy_arn(policy: str, place: Place) -> str:
    """ARN of one of NODE_POLICIES."""
    return f"arn:{place.partition}:iam::aws:policy/{policy}"


def controller_trust(cluster: ClusterSettings) -> Document:
    """EKS Pod Identity may hand the controller role to Karpenter's service account in this cluster, to no other pod.

    The three request tags are session tags that Pod Identity always sends, unless an association switches them off.
    """
    tags = {
        "aws:RequestTag/eks-cluster-name": cluster.name,
        "aws:RequestTag/kubernetes-namespace": cluster.namespace,
        "aws:RequestTag/kubernetes-service-account": SERVICE_ACCOUNT,
    }
    principal = {"Service": "pods.eks.amazonaws.com"}
    actions = ["sts:AssumeRole", "sts:TagSession"]
    return _document(
        {"Effect": "Allow", "Principal": principal, "Action": actions, "Condition": {"StringEquals": tags}}
    )


def controller_policy_kinds(karpenter: str) -> tuple[str, ...]:
    """Kinds of managed policy of the controller role, split as upstream splits them. `karpenter` is its version."""
    _check_version(karpenter)
    zonal_shift = ("ZonalShift",) if _since("1.12", karpenter) else ()
    return ("NodeLifecycle", "IAMIntegration", "EKSIntegration", "Interruption", *zonal_shift, "ResourceDiscovery")


def controller_policies(place: Place, *, cluster: ClusterSettings, karpenter: str) -> dict[str, Document]:
    """Kind -> document of each managed policy of the controller role. `karpenter` is its version."""
    write: dict[str, Callable[[], Document]] = {
        "NodeLifecycle": lambda: _node_lifecycle(place, karpenter),
        "IAMIntegration": lambda: _iam_integration(place, cluster),
        "EKSIntegration": lambda: _document(
            _allow("AllowAPIServerEndpointDiscovery", "eks:DescribeCluster", place.cluster_arn)
        ),
        "Interruption": lambda: _interruption(place),
        "ZonalShift": lambda: _zonal_shift(place),
        "ResourceDiscovery": lambda: _resource_discovery(place, karpenter),
    }
    return {kind: write[kind]() for kind in controller_policy_kinds(karpenter)}


def _node_lifecycle(place: Place, karpenter: str) -> Document:
    launch = ["ec2:RunInstances", "ec2:CreateFleet"]
    created = place.ec2("fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request")
    used = [
        *place.ec2("image", "snapshot", account=""),
        *place.ec2("security-group", "subnet", "capacity-reservation"),
        # A launch into a placement group is authorised on the group too (1.11).
        *(place.ec2("placement-group") if _since("1.11", karpenter) else ()),
    ]
    owned = f"kubernetes.io/cluster/{place.cluster}"
    asked = {f"aws:RequestTag/{owned}": "owned", "aws:RequestTag/eks:eks-cluster-name": place.cluster}
    asked_of_a_pool = {"aws:RequestTag/karpenter.sh/nodepool": "*"}
    ours = {
        "StringEquals": {f"aws:ResourceTag/{owned}": "owned"},
        "StringLike": {"aws:ResourceTag/karpenter.sh/nodepool": "*"},
    }
    on_create = {"ec2:CreateAction": ["RunInstances", "CreateFleet", "CreateLaunchTemplate"]}
    only_these_tags = {
        "StringEqualsIfExists": {"aws:RequestTag/eks:eks-cluster-name": place.cluster},
        "ForAllValues:StringEquals": {"aws:TagKeys": ["eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name"]},
    }
    return _document(
        _allow("AllowScopedEC2InstanceAccessActions", launch, used),
        _allow("AllowScopedEC2LaunchTemplateAccessActions", launch, place.ec2("launch-template"), ours),
        _allow(
            "AllowScopedEC2InstanceActionsWithTags",
            [*launch, "ec2:CreateLaunchTemplate"],
            created,
            {"StringEquals": asked, "StringLike": asked_of_a_pool},
        ),
        _allow(
            "AllowScopedResourceCreationTagging",
            "ec2:CreateTags",
            created,
            {"StringEquals": asked | on_create, "StringLike": asked_of_a_pool},
        ),
        _allow("AllowScopedResourceTagging", "ec2:CreateTags", place.ec2("instance"), ours | only_these_tags),
        _allow(
            "AllowScopedDeletion",
            ["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"],
            place.ec2("instance", "launch-template"),
            ours,
        ),
    )


def _iam_integration(place: Place, cluster: ClusterSettings) -> Document:
    owned = f"kubernetes.io/cluster/{place.cluster}"
    region = "topology.kubernetes.io/region"
    of_a_class = "karpenter.k8s.aws/ec2nodeclass"
    asked = {
        f"aws:RequestTag/{owned}": "owned",
        "aws:RequestTag/eks:eks-cluster-name": place.cluster,
        f"aws:RequestTag/{region}": place.region,
    }
    ours = {f"aws:ResourceTag/{owned}": "owned", f"aws:ResourceTag/{region}": place.region}
    asked_of_a_class, ours_of_a_class = {f"aws:RequestTag/{of_a_class}": "*"}, {f"aws:ResourceTag/{of_a_class}": "*"}
    node_role = node_role_name(cluster)
    # A role that exists may lie under a path, which its name does not tell. Names are unique in an account whatever
    # their path, so the two patterns together still mean this one role.
    passed = place.roles(node_role, f"*/{node_role}") if cluster.aws.node_role else place.roles(node_role)
    to_ec2 = {"StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]}}
    return _document(
        _allow("AllowPassingInstanceRole", "iam:PassRole", passed, to_ec2),
        _allow(
            "AllowScopedInstanceProfileCreationActions",
            "iam:CreateInstanceProfile",
            place.instance_profiles,
            {"StringEquals": asked, "StringLike": asked_of_a_class},
        ),
        _allow(
            "AllowScopedInstanceProfileTagActions",
            "iam:TagInstanceProfile",
            place.instance_profiles,
            {"StringEquals": ours | asked, "StringLike": ours_of_a_class | asked_of_a_class},
        ),
        _allow(
            "AllowScopedInstanceProfileActions",
            ["iam:AddRoleToInstanceProfile", "iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile"],
            place.instance_profiles,
            {"StringEquals": ours, "StringLike": ours_of_a_class},
        ),
    )


def _interruption(place: Place) -> Document:
    actions = ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"]
    return _document(_allow("AllowInterruptionQueueActions", actions, place.queue_arn))


def _zonal_shift(place: Place) -> Document:
    # The action takes no resource: the cluster stands in the condition.
    here = {"StringEquals": {"arc-zonal-shift:ResourceIdentifier": place.cluster_arn}}
    return _document(_allow("AllowZonalShiftStatusReadOnly", "arc-zonal-shift:GetManagedResource", "*", here))


def _resource_discovery(place: Place, karpenter: str) -> Document:
    described = [
        "CapacityReservations",
        "Images",
        "Instances",
        *(["InstanceStatus"] if _since("1.12", karpenter) else []),  # health checks of the interruption controller
        "InstanceTypeOfferings",
        "InstanceTypes",
        "LaunchTemplates",
        *(["PlacementGroups"] if _since("1.11", karpenter) else []),
        "SecurityGroups",
        "SpotPriceHistory",
        "Subnets",
    ]
    return _document(
        _allow(
            "AllowRegionalReadActions",
            [f"ec2:Describe{what}" for what in described],
            "*",
            {"StringEquals": {"aws:RequestedRegion": place.region}},
        ),
        _allow(
            "AllowSSMReadActions",
            "ssm:GetParameter",
            f"arn:{place.partition}:ssm:{place.region}::parameter/aws/service/*",
        ),
        _allow("AllowPricingReadActions", "pricing:GetProducts", "*"),
        _allow("AllowUnscopedInstanceProfileListAction", "iam:ListInstanceProfiles", "*"),
        _allow("AllowInstanceProfileReadActions", "iam:GetInstanceProfile", place.instance_profiles),
    )


def queue_policy(place: Place) -> Document:
    """Who may send to the interruption queue; and nobody over plain HTTP."""
    senders = {"Service": ["events.amazonaws.com", "sqs.amazonaws.com"]}
    return _document(
        {"Effect": "Allow", "Principal": senders, "Action": "sqs:SendMessage", "Resource": place.queue_arn},
        {
            "Sid": "DenyHTTP",
            "Effect": "Deny",
            "Principal": "*",
            "Action": "sqs:*",
            "Resource": place.queue_arn,
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        },
    )


def interruption_events(karpenter: str) -> dict[str, Document]:
    """Name -> event pattern of each EventBridge rule that feeds the interruption queue."""
    _check_version(karpenter)
    events = {
        "scheduled-change": ("aws.health", "AWS Health Event"),
        "spot-interruption": ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
        "rebalance": ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
        "state-change": ("aws.ec2", "EC2 Instance State-change Notification"),
    }
    if _since("1.10", karpenter):  # interruptible capacity reservations
        events["reservation-interruption"] = ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning")
    return {name: {"source": [source], "detail-type": [kind]} for name, (source, kind) in events.items()}


def own_placement_groups(pools: Mapping[str, PoolSettings]) -> tuple[str, ...]:
    """Names of the cluster placement groups that the stack declares.

    A group that a pool with capacity reservations names is not among them: such a reservation was made inside a group,
    which therefore exists already.
    """
    existing = {pool.placement_group for pool in pools.values() if pool.capacity.reserved or pool.capacity.blocks}
    return tuple(sorted({pool.placement_group for pool in pools.values() if pool.placement_group} - existing))


def efa_security_groups(cluster: ClusterSettings, pools: Iterable[PoolSettings]) -> tuple[str, ...]:
    """Security groups that need rules from and to themselves: EFA is no IP traffic, so 0.0.0.0/0 does not cover it."""
    return cluster.aws.security_groups if any(pool.efa for pool in pools) else ()


def _document(*statements: Document) -> Document:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def _allow(
    sid: str, actions: str | list[str], resources: str | list[str], condition: Document | None = None
) -> Document:
    statement = {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resources}
    return statement | ({"Condition": condition} if condition else {})


def _since(first: str, version: str) -> bool:
    return version_key(version) >= version_key(first)


def _check_version(karpenter: str) -> None:
    if not _since(OLDEST, karpenter):
        raise ManifestError(f"Karpenter {karpenter}: the AWS side is known from {OLDEST}")
