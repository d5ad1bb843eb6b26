"""What a pool's instances are made of: AMI, disks, network, reservations. EC2NodeClass, and Auto Mode's NodeClass."""

import re
from collections.abc import Sequence
from typing import Any, Final

from triplane import catalog
from triplane.manifests.iam import node_role_name
from triplane.manifests.identity import ManifestError
from triplane.settings.cluster import ClusterSettings
from triplane.settings.platform import PlatformSettings
from triplane.settings.pools import PoolSettings

DISCOVERY: Final = "karpenter.sh/discovery"
"""Tag of the subnets and security groups of a cluster's nodes."""

_FORBIDDEN_TAGS: Final = re.compile(
    r"eks:eks-cluster-name|kubernetes\.io/cluster.*|karpenter\.sh/.*|karpenter\.k8s\.aws/.*"
)
"""Karpenter finds its own instances by these."""


def ec2_node_class(
    name: str,
    pool: PoolSettings,
    cluster: ClusterSettings,
    platform: PlatformSettings,
    types: Sequence[catalog.InstanceType],
) -> dict[str, Any]:
    """The EC2NodeClass of one pool. `types`: the instance types that the pool may launch. Raises ManifestError."""
    place = f"pools.{name}"
    if pool.ami is None:
        raise ManifestError(
            f"{place}.ami: name a release, such as al2023@v20261115; the newest would drift every node it replaces"
        )
    version = platform.karpenter.version
    spec: dict[str, Any] = {
        "amiSelectorTerms": [{"alias": pool.ami}],
        "role": node_role_name(cluster),
        **_network_terms(cluster),
        "metadataOptions": {
            "httpEndpoint": "enabled",
            "httpProtocolIPv6": "disabled",
            "httpPutResponseHopLimit": 1,  # pods without host network cannot reach the node's credentials
            "httpTokens": "required",
        },
        "blockDeviceMappings": _block_devices(pool, pool.ami.partition("@")[0]),
    }
    if pool.storage.local_nvme and all(it.nvme_gb for it in types):
        spec["instanceStorePolicy"] = "RAID0"
    if terms := _reservation_terms(pool):
        spec["capacityReservationSelectorTerms"] = terms
    if pool.efa:
        interfaces = _network_interfaces(place, pool, types)
        if catalog.supports("karpenter", version, "network-interfaces"):
            spec["networkInterfaces"] = interfaces
        elif pool.nodes.static is not None:
            since = catalog.feature("karpenter", "network-interfaces").since
            raise ManifestError(
                f"{place}.efa: before Karpenter {since} only a pod's request attaches EFA, and a static pool "
                "never looks at pods"
            )
    if pool.placement_group is not None:
        since = catalog.feature("karpenter", "placement-group").since
        if not catalog.supports("karpenter", version, "placement-group"):
            raise ManifestError(f"{place}.placementGroup: needs Karpenter {since}, the stack declares {version}")
        spec["placementGroupSelector"] = {"name": pool.placement_group}
    spec["tags"] = _tags(name, pool)
    return {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": name}, "spec": spec}


def eks_auto_node_class(
    name: str,
    pool: PoolSettings,
    cluster: ClusterSettings,
    platform: PlatformSettings,
    types: Sequence[catalog.InstanceType],
) -> dict[str, Any]:
    """The NodeClass of one pool under EKS Auto Mode, which chooses AMI, NVMe layout and metadata access itself.

    Raises ManifestError for what it leaves no say in.
    """
    place = f"pools.{name}"
    refused = {
        "ami": pool.ami is not None,
        "efa": pool.efa,
        "placementGroup": pool.placement_group is not None,
        "storage.localNvme": not pool.storage.local_nvme,
    }
    for field, is_set in refused.items():
        if is_set:
            raise ManifestError(
                f"{place}.{field}: not expressed here for EKS Auto Mode; declare a NodeClass yourself and name "
                "it in nodeClass"
            )
    if cluster.aws.node_role is None:
        raise ManifestError("cluster.aws.nodeRole: EKS Auto Mode needs the name of its node role")
    spec: dict[str, Any] = {
        "role": cluster.aws.node_role,
        **_network_terms(cluster),
        "ephemeralStorage": {"size": pool.storage.root_volume},
    }
    if terms := _reservation_terms(pool):
        spec["capacityReservationSelectorTerms"] = terms
    spec["tags"] = _tags(name, pool)
    return {"apiVersion": "eks.amazonaws.com/v1", "kind": "NodeClass", "metadata": {"name": name}, "spec": spec}


def _network_terms(cluster: ClusterSettings) -> dict[str, Any]:
    by_tag = [{"tags": {DISCOVERY: cluster.name}}]
    return {"subnetSelectorTerms": by_tag, "securityGroupSelectorTerms": [{"tags": {DISCOVERY: cluster.name}}]}


def _reservation_terms(pool: PoolSettings) -> list[dict[str, str]]:
    """One term an id; terms are alternatives. One launch takes either reservations or one block, never both: with
    both kinds selected Karpenter (1.6) tries them one after the other."""
    return [{"id": reservation} for reservation in dict.fromkeys((*pool.capacity.reserved, *pool.capacity.blocks))]


def _block_devices(pool: PoolSettings, ami_family: str) -> list[dict[str, Any]]:
    """Encrypted gp3. Bottlerocket keeps its system on a small first volume; images and pods' files are on the
    second."""

    def volume(device: str, size: str) -> dict[str, Any]:
        ebs = {"volumeSize": size, "volumeType": "gp3", "encrypted": True, "deleteOnTermination": True}
        return {"deviceName": device, "ebs": ebs}

    size = pool.storage.root_volume
    if ami_family == "bottlerocket":
        return [volume("/dev/xvda", "4Gi"), {**volume("/dev/xvdb", size), "rootVolume": True}]
    return [{**volume("/dev/xvda", size), "rootVolume": True}]


def _network_interfaces(place: str, pool: PoolSettings, types: Sequence[catalog.InstanceType]) -> list[dict[str, Any]]:
    """One ENA interface and every EFA device as EFA-only, which takes no IP address: EC2's basic layout.

    The EFA devices sit on device 1 of card 0 (which ENA shares) and on device 0 of each further card. Where a first
    card has no EFA (p6-b300), they start on card 1. On card 0 the EFA device takes the place of one interface for
    pods, so a p5.48xlarge keeps about half of its pods; ENA on further cards would restore them and IP bandwidth, at
    an address each. Several instance types of one pool get the layout of the one with the fewest devices.
    """
    least = min(types, key=lambda it: (it.efa, it.network_cards))
    if least.efa == 0:
        without = ", ".join(it.name for it in types if it.efa == 0)
        raise ManifestError(
            f"{place}.efa: {without} among the instance types with {pool.gpus_per_node} {pool.accelerator} have no EFA"
        )
    first = least.network_cards - least.efa
    ena = {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}
    return [
        ena,
        *(
            {"networkCardIndex": card, "deviceIndex": 0 if card else 1, "interfaceType": "efa-only"}
            for card in range(first, first + least.efa)
        ),
    ]


def _tags(name: str, pool: PoolSettings) -> dict[str, str]:
    if taken := [key for key in pool.tags if not key or _FORBIDDEN_TAGS.fullmatch(key)]:
        raise ManifestError(
            f"pools.{name}.tags: {', '.join(map(repr, taken))} cannot be set: Karpenter finds its instances by them"
        )
    return {"triplane.dev/pool": name, **pool.tags}
