"""The three layers as Pulumi components. On disk this is the folder `components/`.

from triplane.components import GpuNodePool, QueueTree, ServingRole
"""

import importlib
from typing import TYPE_CHECKING, Any

try:
    import pulumi as _required
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("the components need Pulumi: pip install 'triplane[pulumi]'") from error

del _required

if TYPE_CHECKING:
    from triplane.components.aws import KarpenterOnAws
    from triplane.components.cluster import cluster_provider
    from triplane.components.configuration import declared_stack
    from triplane.components.extra import ExtraManifests
    from triplane.components.nodes import GpuNodePool
    from triplane.components.platform import Platform
    from triplane.components.queues import QueueTree
    from triplane.components.replicas import ServingRole

_HOME = {
    "ExtraManifests": "extra",
    "GpuNodePool": "nodes",
    "KarpenterOnAws": "aws",
    "Platform": "platform",
    "QueueTree": "queues",
    "ServingRole": "replicas",
    "cluster_provider": "cluster",
    "declared_stack": "configuration",
}

__all__ = [
    "ExtraManifests",
    "GpuNodePool",
    "KarpenterOnAws",
    "Platform",
    "QueueTree",
    "ServingRole",
    "cluster_provider",
    "declared_stack",
]


def __getattr__(name: str) -> Any:
    """Each component is imported when it is first named: a stack without AWS never loads pulumi_aws."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"triplane.components.{_HOME[name]}"), name)
