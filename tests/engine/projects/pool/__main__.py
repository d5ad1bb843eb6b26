import json
import os

import pulumi
import pulumi_kubernetes as k8s

config = pulumi.Config()
if message := config.get("fail"):
    raise pulumi.RunError(message)
if message := config.get("crash"):
    raise ValueError(message)

cluster = k8s.Provider("cluster", context=os.environ["POOL_CONTEXT"])
k8s.apiextensions.CustomResource(
    "l4",
    api_version="karpenter.sh/v1",
    kind="NodePool",
    metadata={"name": "engine-l4"},
    spec={
        "disruption": {
            "budgets": [{"nodes": "1"}],
            "consolidateAfter": "1h",
            "consolidationPolicy": config.require("consolidationPolicy"),
        },
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "l4"},
                "requirements": [
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                    {"key": "karpenter.k8s.aws/instance-gpu-name", "operator": "In", "values": ["l4"]},
                ],
            }
        },
    },
    opts=pulumi.ResourceOptions(provider=cluster, protect=config.get_bool("protect")),
)
pulumi.export("shape", json.dumps(config.require_object("shape"), sort_keys=True))
