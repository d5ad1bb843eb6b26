"""Replicas: one role of a model, with its autoscaler."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi import Resource, ResourceOptions
from triplane.components.kubernetes import KubernetesObject, manifests_of


class ServingRole(pulumi.ComponentResource):
    """One role's PodDisruptionBudget, its workload where the stack declares it, and its autoscaler, in that order."""

    def __init__(
        self,
        name: str,
        objects: Sequence[Mapping[str, Any]],
        *,
        depends_on: Sequence[Resource] = (),
        opts: ResourceOptions | None = None,
    ) -> None:
        """`name` is <model>-<role>; `objects` come from `triplane.manifests.fleet`. It waits for its queue and pool."""
        super().__init__("triplane:replicas:ServingRole", name, None, opts)
        waited = depends_on
        for manifest in manifests_of("ServingRole", objects):
            waited = [KubernetesObject(manifest, depends_on=waited, opts=ResourceOptions(parent=self))]
        self.register_outputs({"objects": [f"{m['kind']}/{m['metadata']['name']}" for m in objects]})
