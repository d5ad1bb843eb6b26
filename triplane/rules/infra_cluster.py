"""Judgements on the cluster below: its version, and its security groups."""

from triplane import catalog
from triplane.inventory import NodePool, Resource, kinds
from triplane.inventory.fields import at, text
from triplane.inventory.nodeclasses import NodeClass, NodeClasses
from triplane.inventory.security_groups import Direction, OwnTraffic, SecurityGroup
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.tenants import efa_user_on
from triplane.rules.verdicts import Verdicts, fail, unknown

# What an object of a kind and version needs of the API server.
_NEEDS = {
    ("ValidatingAdmissionPolicy", "admissionregistration.k8s.io/v1"): "validating-admission-policy",
    ("ValidatingAdmissionPolicyBinding", "admissionregistration.k8s.io/v1"): "validating-admission-policy",
    ("MutatingAdmissionPolicy", "admissionregistration.k8s.io/v1"): "mutating-admission-policy",
    ("MutatingAdmissionPolicyBinding", "admissionregistration.k8s.io/v1"): "mutating-admission-policy",
    ("ResourceClaim", "resource.k8s.io/v1"): "dra",
    ("ResourceClaimTemplate", "resource.k8s.io/v1"): "dra",
}


class Versioned:
    """An object of a kind that not every API server serves."""

    KINDS = tuple(sorted({f"{kind}.{version.partition('/')[0]}" for kind, version in _NEEDS}))

    def __init__(self, resource: Resource) -> None:
        self.resource = resource

    @property
    def feature(self) -> str | None:
        """The catalogue's name of what it needs; None where it needs nothing new."""
        return _NEEDS.get((self.resource.kind_name, self.resource.api_version))


@rule(
    "IN703",
    "cluster-serves-the-kinds-it-is-given",
    on=Versioned,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    parameters=("kubernetes",),
    fix="Upgrade the cluster first, or write the object for the version it serves.",
    versions="Judged against an EKS cluster of the input, else the parameter `kubernetes`.",
    sources=(
        "https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/",
        "https://kubernetes.io/docs/reference/access-authn-authz/mutating-admission-policy/",
    ),
)
def cluster_serves_the_kinds_it_is_given(found: Versioned, context: Context) -> Verdicts:
    """The cluster must be new enough for the admission policies and claims it is given.

    ValidatingAdmissionPolicy v1 is served since Kubernetes 1.30, MutatingAdmissionPolicy v1 since 1.36, ResourceClaims
    v1 since 1.34. An older API server refuses the object as an unknown kind, in the middle of an update; until then the
    guard that it was to be is not there.
    """
    feature = found.feature
    clusters = context.inventory.of_kind(kinds.EKS_CLUSTER)
    declared = next((version for cluster in clusters if (version := text(at(cluster.data, "spec", "version")))), None)
    version = declared or context.parameters.kubernetes
    if feature is None:
        return
    try:
        served = catalog.supports("kubernetes", version, feature)
    except ValueError as error:  # what the input calls the cluster's version may be anything
        yield unknown(("apiVersion",), f"the cluster's version cannot be read: {error}")
        return
    if not served:
        since = catalog.feature("kubernetes", feature).since
        yield fail(("apiVersion",), found.resource.api_version, f"Kubernetes {version} does not serve it; {since} does")


@rule(
    "IN704",
    "security-group-of-efa-nodes-lets-them-talk",
    on=SecurityGroup,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    fix="Allow all traffic from and to the group itself, in and out.",
    sources=("https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html",),
)
def security_group_of_efa_nodes_lets_them_talk(group: SecurityGroup, context: Context) -> Verdicts:
    """A security group of EFA nodes must allow everything between its own members, in both directions.

    EFA traffic is no IP: a rule for addresses, 0.0.0.0/0 too, does not cover it; only rules that name the group itself
    do. Without them NCCL times out at the first collective, on nodes that look healthy. Judged for groups of the
    program that a node class selects whose nodes use EFA.
    """
    if not any(group.selected_by(c) and _uses_efa(c, context) for c in context.inventory.views(NodeClass)):
        return
    directions: tuple[Direction, Direction] = ("ingress", "egress")
    for direction in directions:
        allowed = context.inventory.relation(OwnTraffic).allowed(group, direction)
        if allowed is None:
            yield unknown(("spec", direction), "a rule of this program may allow it; its group is not known yet")
        elif not allowed:
            yield fail(
                ("spec", direction), "without the group itself", "EFA between the nodes is dropped, NCCL times out"
            )


def _uses_efa(node_class: NodeClass, context: Context) -> bool:
    pools: list[NodePool] = context.inventory.relation(NodeClasses).pools(node_class)
    return node_class.attaches_efa or any(efa_user_on(pool, context) is not None for pool in pools)
