"""Any source of objects (files, Helm output, a recorded program, state, a live cluster) as one indexed inventory.

inventory = Inventory(resources_of(document, "pool.yaml"))
for pool in inventory.views(NodePool):
    print(pool.resource.name, pool.gpu)
"""

from triplane.inventory.fields import Unknown, UnknownValue
from triplane.inventory.inventory import Inventory
from triplane.inventory.nodepools import NodePool
from triplane.inventory.resource import Origin, Resource
from triplane.inventory.scalers import Scaler
from triplane.inventory.sources import pulumi_resource, resources_of

__all__ = [
    "Inventory",
    "NodePool",
    "Origin",
    "Resource",
    "Scaler",
    "Unknown",
    "UnknownValue",
    "pulumi_resource",
    "resources_of",
]
