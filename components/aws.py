"""The AWS side of Karpenter: roles, policies, interruption queue and events. It creates no VPC and no EKS cluster.

pulumi_aws is imported when a component is made, not with this module: a stack without AWS never loads it.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi import Output, ResourceOptions

from triplane.manifests import iam
from triplane.manifests.identity import ManifestError
from triplane.settings.cluster import ClusterSettings
from triplane.settings.platform import KarpenterSettings
from triplane.settings.pools import PoolSettings

if TYPE_CHECKING:
    import pulumi_aws as aws


class KarpenterOnAws(pulumi.ComponentResource):
    """Everything in AWS that self-managed Karpenter needs on a cluster that exists.

    The cluster must have the add-on eks-pod-identity-agent, an authentication mode with access entries (API or
    API_AND_CONFIG_MAP), and nodes for Karpenter itself to run on.

    Karpenter's Helm release waits for the whole component: a pod gets its identity when it is created, so that a
    controller older than its pod identity association would run without one until it is restarted.

    Two lookups are made, `aws:index/getCallerIdentity:getCallerIdentity` and `aws:index/getPartition:getPartition`. A
    mock answers them with `accountId`, and with `partition` and `dnsSuffix`: an empty answer is an error, not an ARN.
    """

    interruption_queue_name: Output[str]
    node_role_name: Output[str]

    def __init__(
        self,
        name: str,
        *,
        cluster: ClusterSettings,
        karpenter: KarpenterSettings,
        pools: Mapping[str, PoolSettings],
        opts: ResourceOptions | None = None,
    ) -> None:
        """Pass an AWS provider in `opts` to use it; else one is made for `cluster.region`.

        Raises ManifestError where the region is missing, a role's name would be too long, or Karpenter is before 1.9.
        """
        super().__init__("triplane:aws:KarpenterOnAws", name, None, opts)
        if cluster.region is None:
            raise ManifestError(f"cluster.region: Karpenter on {cluster.name} needs the cluster's AWS region")
        self._prefix = name
        self._cluster = cluster
        self._region = cluster.region
        self._karpenter_version = karpenter.version
        self._account_provider = self.get_provider("aws:index:Provider") or self._make_provider()
        self._place = self._find_place()

        if not cluster.aws.node_role:  # a role that exists keeps its owner, and so does its access entry
            self._node_role()
        queue = self._interruption_queue()
        self._controller_role()
        self._discovery_tags()
        self._efa_rules(pools)
        self._placement_groups(pools)
        self._spot_role()

        self.interruption_queue_name = queue.name
        self.node_role_name = Output.from_input(iam.node_role_name(cluster))
        self.register_outputs(
            {"interruptionQueueName": self.interruption_queue_name, "nodeRoleName": self.node_role_name}
        )

    def _child(self, **options: Any) -> ResourceOptions:
        return ResourceOptions(parent=self, provider=self._account_provider, **options)

    def _document(self, write: Callable[[iam.Place], iam.Document]) -> Output[str]:
        """The text of the document that `write` makes of the place."""
        return self._place.apply(lambda place: iam.render(write(place)))

    def _make_provider(self) -> "aws.Provider":
        import pulumi_aws as aws

        # An explicit provider does not read the stack's aws:* keys: what chooses or guards the account is passed on.
        config = pulumi.Config("aws")
        return aws.Provider(
            f"{self._prefix}-aws",
            region=self._region,
            profile=config.get("profile"),
            allowed_account_ids=config.get_object("allowedAccountIds"),
            forbidden_account_ids=config.get_object("forbiddenAccountIds"),
            assume_roles=config.get_object("assumeRoles"),
            default_tags={"tags": {"triplane.dev/cluster": self._cluster.name}},
            opts=ResourceOptions(parent=self),
        )

    def _find_place(self) -> Output[iam.Place]:
        import pulumi_aws as aws

        lookup = pulumi.InvokeOutputOptions(parent=self, provider=self._account_provider)
        partition = aws.get_partition_output(opts=lookup)
        found = Output.all(
            account=aws.get_caller_identity_output(opts=lookup).account_id,
            partition=partition.partition,
            dns_suffix=partition.dns_suffix,
        )
        return found.apply(lambda values: iam.Place(cluster=self._cluster.name, region=self._region, **values))

    def _node_role(self) -> None:
        import pulumi_aws as aws

        # Without it a running node can neither pull an image nor reach the API server.
        protected = self._child(protect=self._cluster.protect or None)
        role = aws.iam.Role(
            f"{self._prefix}-node-role",
            name=iam.node_role_name(self._cluster),
            assume_role_policy=self._document(iam.node_trust),
            opts=protected,
        )
        for policy in iam.NODE_POLICIES:
            aws.iam.RolePolicyAttachment(
                f"{self._prefix}-node-role-{policy}",
                role=role.name,
                policy_arn=self._place.apply(partial(iam.node_policy_arn, policy)),
                opts=protected,
            )
        aws.eks.AccessEntry(
            f"{self._prefix}-node-access",
            cluster_name=self._cluster.name,
            principal_arn=role.arn,
            type="EC2_LINUX",
            opts=protected,
        )

    def _controller_role(self) -> None:
        import pulumi_aws as aws

        role = aws.iam.Role(
            f"{self._prefix}-controller-role",
            name=iam.controller_role_name(self._cluster),
            assume_role_policy=iam.render(iam.controller_trust(self._cluster)),
            opts=self._child(),
        )
        documents = self._place.apply(
            lambda place: iam.controller_policies(place, cluster=self._cluster, karpenter=self._karpenter_version)
        )
        attachments = []
        for kind in iam.controller_policy_kinds(self._karpenter_version):
            policy = aws.iam.Policy(
                f"{self._prefix}-{kind}",
                name=iam.policy_name(kind, self._cluster.name),
                policy=documents.apply(partial(_text_of, kind)),
                opts=self._child(),
            )
            attachments.append(
                aws.iam.RolePolicyAttachment(
                    f"{self._prefix}-controller-role-{kind}", role=role.name, policy_arn=policy.arn, opts=self._child()
                )
            )
        aws.eks.PodIdentityAssociation(
            f"{self._prefix}-pod-identity",
            cluster_name=self._cluster.name,
            namespace=self._cluster.namespace,
            service_account=iam.SERVICE_ACCOUNT,
            role_arn=role.arn,
            opts=self._child(depends_on=attachments),
        )

    def _interruption_queue(self) -> "aws.sqs.Queue":
        import pulumi_aws as aws

        queue = aws.sqs.Queue(
            f"{self._prefix}-interruption",
            name=iam.queue_name(self._cluster.name),
            message_retention_seconds=300,  # a warning older than five minutes is about a node that is gone
            sqs_managed_sse_enabled=True,
            opts=self._child(),
        )
        aws.sqs.QueuePolicy(
            f"{self._prefix}-interruption",
            queue_url=queue.url,
            policy=self._document(iam.queue_policy),
            opts=self._child(),
        )
        for event, pattern in iam.interruption_events(self._karpenter_version).items():
            rule = aws.cloudwatch.EventRule(
                f"{self._prefix}-{event}",
                description=f"Karpenter on {self._cluster.name}: {pattern['detail-type'][0]}",
                event_pattern=iam.render(pattern),
                opts=self._child(),
            )
            aws.cloudwatch.EventTarget(
                f"{self._prefix}-{event}",
                rule=rule.name,
                target_id="KarpenterInterruptionQueueTarget",
                arn=queue.arn,
                opts=self._child(),
            )
        return queue

    def _discovery_tags(self) -> None:
        import pulumi_aws as aws

        for resource in (*self._cluster.aws.subnets, *self._cluster.aws.security_groups):
            aws.ec2.Tag(
                f"{self._prefix}-discovery-{resource}",
                resource_id=resource,
                key=iam.DISCOVERY_TAG,
                value=self._cluster.name,
                opts=self._child(),
            )

    def _efa_rules(self, pools: Mapping[str, PoolSettings]) -> None:
        import pulumi_aws as aws

        for group in iam.efa_security_groups(self._cluster, pools.values()):
            for rule in (aws.vpc.SecurityGroupIngressRule, aws.vpc.SecurityGroupEgressRule):
                rule(
                    f"{self._prefix}-efa-{group}",
                    security_group_id=group,
                    referenced_security_group_id=group,
                    ip_protocol="-1",  # every protocol
                    opts=self._child(),
                )

    def _placement_groups(self, pools: Mapping[str, PoolSettings]) -> None:
        import pulumi_aws as aws

        for group in iam.own_placement_groups(pools):
            aws.ec2.PlacementGroup(
                f"{self._prefix}-placement-{group}", name=group, strategy="cluster", opts=self._child()
            )

    def _spot_role(self) -> None:
        import pulumi_aws as aws

        if self._cluster.aws.spot_service_linked_role:
            # One an account, shared by whatever else uses spot there: it outlives the stack.
            aws.iam.ServiceLinkedRole(
                f"{self._prefix}-spot", aws_service_name="spot.amazonaws.com", opts=self._child(retain_on_delete=True)
            )


def _text_of(kind: str, documents: Mapping[str, iam.Document]) -> str:
    return iam.render(documents[kind])
