"""Where the stack lives: one cluster, one kubeconfig context."""

from typing import Annotated, Literal

from pydantic import Field

from triplane.settings.base import Settings
from triplane.settings.values import Flag, Form, Name, Version


class AwsSettings(Settings):
    """What the AWS side of Karpenter attaches to. All optional: found by the `karpenter.sh/discovery` tag otherwise."""

    subnets: tuple[Annotated[str, Form(r"subnet-[0-9a-z]+", "a subnet id such as subnet-0a1b2c3d")], ...] = ()
    """Subnet ids that get the `karpenter.sh/discovery` tag; none: the tag is already there."""
    security_groups: tuple[Annotated[str, Form(r"sg-[0-9a-z]+", "a security group id such as sg-0a1b2c3d")], ...] = ()
    """Security group ids that get the `karpenter.sh/discovery` tag; none: the tag is already there."""
    node_role: Annotated[str, Form(r"[\w+=,.@-]{1,64}", "the name of an IAM role, not its ARN")] | None = None
    """Name of an existing IAM role for nodes; none: `KarpenterNodeRole-<cluster>` (created where cloud is eks)."""
    spot_service_linked_role: Flag = False
    """Create the spot service-linked role, which an account can hold only once."""


class ClusterSettings(Settings):
    """The cluster a stack may touch."""

    name: Annotated[str, Form(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", "a cluster name: up to 100 letters, digits, - and _")]
    """The cluster's name in its cloud."""
    context: str = Field(min_length=1)
    """The only kubeconfig context this stack may touch."""
    kubeconfig: str | None = Field(default=None, min_length=1)
    """Path of the kubeconfig file; none: KUBECONFIG, then ~/.kube/config."""
    cloud: Literal["eks", "existing"]
    """eks: also the AWS resources that Karpenter needs; existing: Kubernetes objects only."""
    dialect: Literal["aws", "eks-auto"] = "aws"
    """Which Karpenter runs here: the AWS provider installed in the cluster, or EKS Auto Mode."""
    region: Annotated[str, Form(r"[a-z]{2}(-[a-z]+)+-\d", "an AWS region such as us-east-1")] | None = None
    """AWS region; needed where cloud is eks."""
    kubernetes: Version
    """Version of the control plane, such as "1.35"."""
    adopt: Flag = False
    """Take over objects that already exist (server-side apply), instead of failing on them."""
    protect: Flag = True
    """Refuse to delete pools, which would drain their GPUs; false for clusters that are thrown away."""
    aws: AwsSettings = AwsSettings()
    """What the AWS side attaches to, where cloud is eks."""
    namespace: Name = "kube-system"
    """Where Karpenter runs."""
