"""One stack file becomes three layers: nodes, gangs and queues, and replicas, on one cluster."""

from pathlib import Path

import pulumi

from triplane import components

stack, fleet = components.declared_stack(Path(__file__).parent)
cluster = pulumi.ResourceOptions(provider=components.cluster_provider(stack.cluster))

aws = []
if stack.cluster.cloud == "eks":
    karpenter = stack.platform.karpenter
    aws = [components.KarpenterOnAws("karpenter", cluster=stack.cluster, karpenter=karpenter, pools=stack.pools)]
platform = components.Platform(
    "platform", platform=stack.platform, cluster=stack.cluster, nodes_after=aws, opts=cluster
)
first = [components.ExtraManifests("foundations", fleet.first, opts=cluster)] if fleet.first else []
nodes, gangs, scalers = ([*first, *platform.dependencies(layer)] for layer in ("nodes", "queues", "replicas"))

pools = {
    name: components.GpuNodePool(name, objects, protect=stack.cluster.protect, depends_on=nodes, opts=cluster)
    for name, objects in fleet.pools.items()
}
queues = components.QueueTree("queues", fleet.queues, depends_on=gangs, opts=cluster)
for (model, role), objects in fleet.roles.items():
    place = stack.models[model].roles[role]
    waited = [pools[place.pool], *queues.needed_by(place.queue), *scalers]
    components.ServingRole(f"{model}-{role}", objects, depends_on=waited, opts=cluster)
if fleet.last:
    components.ExtraManifests("manifests", fleet.last, depends_on=[*nodes, *gangs, *scalers], opts=cluster)

pulumi.export("pools", list(pools))
