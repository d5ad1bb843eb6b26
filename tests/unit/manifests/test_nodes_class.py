"""EC2NodeClasses: image, disks, metadata access, network and reservations."""

from collections.abc import Callable
from typing import Any

import pytest
from built_pools import build

CrdErrors = Callable[[dict[str, Any]], list[str]]


def node_class(*args: Any, **pool: Any) -> dict[str, Any]:
    first = build(*args, **pool)[0]
    assert first["kind"] == "EC2NodeClass"
    spec: dict[str, Any] = first["spec"]
    return spec


def test_a_bare_pool_is_written_out_in_full() -> None:
    discovery = [{"tags": {"karpenter.sh/discovery": "prod"}}]
    assert node_class() == {
        "amiSelectorTerms": [{"alias": "al2023@v20261115"}],
        "role": "KarpenterNodeRole-prod",
        "subnetSelectorTerms": discovery,
        "securityGroupSelectorTerms": discovery,
        "metadataOptions": {
            "httpEndpoint": "enabled",
            "httpProtocolIPv6": "disabled",
            "httpPutResponseHopLimit": 1,
            "httpTokens": "required",
        },
        "blockDeviceMappings": [
            {
                "deviceName": "/dev/xvda",
                "ebs": {
                    "volumeSize": "200Gi",
                    "volumeType": "gp3",
                    "encrypted": True,
                    "deleteOnTermination": True,
                },
                "rootVolume": True,
            }
        ],
        "instanceStorePolicy": "RAID0",
        "tags": {"triplane.dev/pool": "serving"},
    }


def test_bottlerocket_keeps_images_on_its_second_volume(crd_errors: CrdErrors) -> None:
    spec = node_class(ami="bottlerocket@v1.46.0", storage={"rootVolume": "500Gi"})
    volumes = [(d["deviceName"], d["ebs"]["volumeSize"], d.get("rootVolume")) for d in spec["blockDeviceMappings"]]
    assert volumes == [("/dev/xvda", "4Gi", None), ("/dev/xvdb", "500Gi", True)]
    assert crd_errors(build(ami="bottlerocket@v1.46.0")[0]) == []


def test_nvme_is_left_alone_where_asked() -> None:
    assert "instanceStorePolicy" not in node_class(storage={"localNvme": False})


def test_reservations_and_blocks_by_id(crd_errors: CrdErrors) -> None:
    capacity = {"reserved": ["cr-1", "cr-2", "cr-1"], "blocks": ["cr-3"]}
    first = build(capacity=capacity)[0]
    assert crd_errors(first) == []
    assert first["spec"]["capacityReservationSelectorTerms"] == [{"id": "cr-1"}, {"id": "cr-2"}, {"id": "cr-3"}]


@pytest.mark.parametrize(
    ("accelerator", "gpus", "devices", "last"),
    [
        ("H100-SXM5", 8, 32, (31, 0)),
        ("H100-SXM5", 1, 1, (0, 1)),
        ("H200-SXM", 8, 16, (15, 0)),  # p5e has 32, p5en 16: both take the smaller layout
        ("B200", 8, 8, (7, 0)),
        ("B300", 8, 16, (16, 0)),  # its first card has no EFA
        ("A100-80GB", 8, 4, (3, 0)),
        ("L40S", 8, 4, (3, 0)),
    ],
)
def test_every_efa_device_of_the_node(
    crd_errors: CrdErrors, accelerator: str, gpus: int, devices: int, last: tuple[int, int]
) -> None:
    first = build(accelerator=accelerator, gpusPerNode=gpus, efa=True, zones=["us-east-1b"])[0]
    assert crd_errors(first) == []
    interfaces = first["spec"]["networkInterfaces"]
    assert interfaces[0] == {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}
    efa = [(i["networkCardIndex"], i["deviceIndex"]) for i in interfaces[1:]]
    assert all(i["interfaceType"] == "efa-only" for i in interfaces[1:])
    assert len(efa) == devices
    assert efa[-1] == last
    # The schema's rules: no place twice, and one EFA device a card.
    assert len({(i["networkCardIndex"], i["deviceIndex"]) for i in interfaces}) == len(interfaces)
    assert len({card for card, _ in efa}) == devices


def test_before_1_11_pods_attach_efa_by_asking() -> None:
    spec = node_class("1.10.0", efa=True, zones=["us-east-1b"])
    assert "networkInterfaces" not in spec


def test_placement_group_and_tags(crd_errors: CrdErrors) -> None:
    first = build(placementGroup="gang", zones=["us-east-1b"], tags={"cost-centre": "42"})[0]
    assert crd_errors(first) == []
    assert first["spec"]["placementGroupSelector"] == {"name": "gang"}
    assert first["spec"]["tags"] == {"triplane.dev/pool": "serving", "cost-centre": "42"}
