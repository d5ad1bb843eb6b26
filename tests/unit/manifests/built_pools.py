"""The manifests of one pool, from a few overrides of a plain one."""

from typing import Any

from triplane.manifests.nodes import pool_manifests
from triplane.settings.cluster import ClusterSettings
from triplane.settings.platform import PlatformSettings
from triplane.settings.pools import PoolSettings


def build(
    karpenter: str = "1.14.1", gates: tuple[str, ...] = (), dialect: str = "aws", *, frozen: bool = False, **pool: Any
) -> list[dict[str, Any]]:
    """The manifests of a pool `serving` with the overrides; a value of None leaves the key out."""
    values = {
        "purpose": "serving",
        "accelerator": "H100-SXM5",
        "gpusPerNode": 8,
        "nodes": {"max": 4},
        "ami": None if dialect == "eks-auto" else "al2023@v20261115",
        **pool,
    }
    cluster = ClusterSettings.model_validate(
        {
            "name": "prod",
            "context": "prod",
            "cloud": "eks",
            "region": "us-east-1",
            "kubernetes": "1.35",
            "dialect": dialect,
            "aws": {"nodeRole": "AutoNodes"} if dialect == "eks-auto" else {},
        }
    )
    platform = PlatformSettings.model_validate({"karpenter": {"version": karpenter, "gates": list(gates)}})
    settings = PoolSettings.model_validate({key: value for key, value in values.items() if value is not None})
    return pool_manifests("serving", settings, cluster, platform, frozen=frozen)
