"""Judgements on what a node class makes of a machine: AMI, disks, metadata access."""

from triplane.documents import Path
from triplane.inventory.fields import at, quantity, sequence, text
from triplane.inventory.kinds import EC2_NODE_CLASS
from triplane.inventory.nodeclasses import NodeClass, NodeClasses
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Edit, Verdicts, fail, unknown

DEVICES: Path = ("spec", "blockDeviceMappings")
_GIB = 1024.0**3
# What Karpenter gives a data volume that nobody describes (AL2, AL2023, Bottlerocket); other AMIs bring their own.
_DEFAULT_GIB = 20.0
_FAMILIES_WITH_DEFAULT = ("al2", "al2023", "bottlerocket")


def _for_gpus(node_class: NodeClass, context: Context) -> bool:
    """Whether a GPU pool of the input uses the class. A class alone does not say what it is for."""
    return any(pool.gpu for pool in context.inventory.relation(NodeClasses).pools(node_class))


@rule(
    "NC205",
    "ami-of-gpu-nodes-is-pinned",
    on=NodeClass,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("environment",),
    fix="Pin a release: alias: al2023@v20261115, and raise it on purpose.",
    sources=(
        "https://karpenter.sh/docs/tasks/managing-amis/",
        "https://github.com/aws/karpenter-provider-aws/issues/5373",
    ),
)
def ami_of_gpu_nodes_is_pinned(node_class: NodeClass, context: Context) -> Verdicts:
    """The AMI of GPU nodes must be a named release in production.

    With `@latest`, a recommended SSM parameter or a name with a wildcard, each new AMI that AWS publishes drifts every
    GPU node at once, with another driver branch perhaps, on a day nobody chose. Karpenter's documentation advises
    against it for production. Windows has only @latest. Other environments than `prod` are left alone.
    """
    if node_class.kind != EC2_NODE_CLASS or context.parameters.environment != "prod":
        return
    if not _for_gpus(node_class, context):
        return
    for index, term in enumerate(sequence(node_class.spec.get("amiSelectorTerms"))):
        for key in ("alias", "ssmParameter", "name"):
            value = text(at(term, key)) or ""
            if _moves(key, value):
                path = ("spec", "amiSelectorTerms", index, key)
                yield fail(path, value, "every new AMI drifts all GPU nodes of the class, on the day it is published")


def _moves(key: str, value: str) -> bool:
    if key == "alias":
        return value.endswith("@latest") and not value.startswith("windows")
    return "/recommended" in value or "/latest" in value if key == "ssmParameter" else "*" in value


@rule(
    "NC206",
    "gpu-node-has-room-for-an-image-and-a-model",
    on=NodeClass,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("min_root_volume_gib",),
    fix="Write instanceStorePolicy: RAID0, or enlarge the volume that holds images and pods' files.",
    sources=(
        "https://github.com/aws/karpenter-provider-aws/issues/4149",
        "https://github.com/aws-ia/terraform-aws-eks-blueprints/issues/1610",
    ),
)
def gpu_node_has_room_for_an_image_and_a_model(node_class: NodeClass, context: Context) -> Verdicts:
    """The disk of a GPU node must hold the engine's image and the model's weights.

    Karpenter's default is 20 GiB, also beside 30 TB of local NVMe. One vLLM image and one set of weights overflow it:
    the pull fails, or the kubelet evicts the pod for disk pressure, after minutes of download. RAID0 puts pods' files
    on the local NVMe, which every GPU type of the catalogue has. On Bottlerocket images and files live on /dev/xvdb;
    /dev/xvda holds only the system. Weights on shared storage need less: lower `min_root_volume_gib`. EKS Auto Mode
    uses local NVMe by itself.
    """
    if node_class.kind != EC2_NODE_CLASS or text(node_class.spec.get("instanceStorePolicy")) == "RAID0":
        return
    if not _for_gpus(node_class, context):
        return
    device, least = node_class.data_device, context.parameters.min_root_volume_gib
    too_small = f"an image and a model's weights do not fit; at least {least}Gi"
    for index, entry in enumerate(node_class.block_devices):
        if text(at(entry, "deviceName")) == device:
            path: Path = (*DEVICES, index, "ebs", "volumeSize")
            size = quantity(at(entry, "ebs", "volumeSize"))
            if size is None:
                yield unknown(path, "the volume has its snapshot's size")
            elif size < least * _GIB:
                yield fail(path, at(entry, "ebs", "volumeSize"), too_small)
            return
    if node_class.ami_family not in _FAMILIES_WITH_DEFAULT:
        yield unknown(DEVICES, "the volume has the size of the AMI's own")
    elif least > _DEFAULT_GIB:
        found = f"without {device}" if node_class.block_devices else None
        yield fail(DEVICES, found, f"{device} has 20Gi: {too_small}")


@rule(
    "NC210",
    "instance-metadata-needs-a-token",
    on=NodeClass,
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    fix="Write httpTokens: required, or leave it out.",
    autofix=True,
    sources=("https://karpenter.sh/docs/concepts/nodeclasses/#specmetadataoptions",),
)
def instance_metadata_needs_a_token(node_class: NodeClass, context: Context) -> Verdicts:
    """A node class must not open the instance metadata service to requests without a token.

    With httpTokens optional, one request that a pod is tricked into sending reads the node role's credentials.
    Karpenter's default is required.
    """
    path: Path = ("spec", "metadataOptions", "httpTokens")
    tokens = text(at(node_class.resource.data, *path))
    if node_class.kind == EC2_NODE_CLASS and tokens not in (None, "required"):
        consequence = "any pod that can be made to send a request reads the node role's credentials"
        yield fail(path, tokens, consequence, edits=(Edit(path, "required"),))


# Karpenter gives Bottlerocket's system volume 4Gi; nobody needs much more for the system.
_SYSTEM_GIB = 20.0


@rule(
    "NC211",
    "bottlerocket-data-disk-is-the-one-enlarged",
    on=NodeClass,
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    fix="Describe /dev/xvdb with the size you mean, and leave /dev/xvda at 4Gi.",
    sources=(
        "https://github.com/aws/karpenter-provider-aws/issues/5283",
        "https://github.com/aws-ia/terraform-aws-eks-blueprints/issues/1610",
        "https://bottlerocket.dev/en/os/latest/concepts/variants/",
    ),
)
def bottlerocket_data_disk_is_the_one_enlarged(node_class: NodeClass, context: Context) -> Verdicts:
    """Enlarge Bottlerocket's data volume, /dev/xvdb, not the one with the system.

    Images, logs and pods' files live on /dev/xvdb. A large /dev/xvda is paid for and holds nothing, and the nodes run
    into disk pressure at 20 GiB although their owner gave them hundreds.
    """
    if node_class.kind != EC2_NODE_CLASS or node_class.ami_family != "bottlerocket":
        return
    devices = {text(at(entry, "deviceName")): (index, entry) for index, entry in enumerate(node_class.block_devices)}
    index, entry = devices.get("/dev/xvda", (0, None))
    size = quantity(at(entry, "ebs", "volumeSize"))
    if size is not None and size > _SYSTEM_GIB * _GIB and "/dev/xvdb" not in devices:
        consequence = "images and pods' files are on /dev/xvdb, which stays at 20Gi"
        yield fail((*DEVICES, index, "ebs", "volumeSize"), at(entry, "ebs", "volumeSize"), consequence)
