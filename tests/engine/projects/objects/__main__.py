import json
from pathlib import Path

import pulumi
import pulumi_kubernetes as k8s

cluster = k8s.Provider("cluster")
for item in json.loads(Path("objects.json").read_text()):
    k8s.apiextensions.CustomResource(
        f"{item['kind']}-{item['metadata']['name']}".lower(),
        api_version=item["apiVersion"],
        kind=item["kind"],
        metadata=item["metadata"],
        spec=item["spec"],
        opts=pulumi.ResourceOptions(provider=cluster),
    )
