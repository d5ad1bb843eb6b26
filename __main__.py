"""One stack file becomes three layers: nodes, gangs and queues, and replicas, on one cluster."""

from pathlib import Path

import pulumi
from triplane.components import (
    ExtraManifests,
    GpuNodePool,
    Platform,
    QueueTree,
    ServingRole,
    cluster_provider,
    declared_stack,
)

stack, fleet = declared_stack(Path(__file__).parent)
cluster = pulumi.ResourceOptions(provider=cluster_provider(stack.cluster))
aws = []
if stack.cluster.cloud == "eks":
    from triplane.components import KarpenterOnAws

    aws = [KarpenterOnAws("karpenter", cluster=stack.cluster, karpenter=stack.platform.karpenter, pools=stack.pools)]

platform = Platform("platform", platform=stack.platform, cluster=stack.cluster, nodes_after=aws, opts=cluster)
after = platform.dependencies

protect = stack.cluster.protect
pools = {
    name: GpuNodePool(name, objects, protect=protect, depends_on=after("nodes"), opts=cluster)
    for name, objects in fleet.pools.items()
}
queues = QueueTree("queues", fleet.queues, depends_on=after("queues"), opts=cluster)
for (model, role), objects in fleet.roles.items():
    pool = pools[stack.models[model].roles[role].pool]
    ServingRole(f"{model}-{role}", objects, depends_on=[pool, queues, *after("replicas")], opts=cluster)
if fleet.extra:
    ExtraManifests("manifests", fleet.extra, depends_on=[*pools.values(), queues], opts=cluster)

pulumi.export("pools", list(pools))
