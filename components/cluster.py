"""The one cluster a stack may touch, as an explicit provider."""

from importlib.metadata import version
from pathlib import Path

import pulumi
from pulumi import ProviderResource, ResourceOptions

from triplane.settings.cluster import ClusterSettings


def cluster_provider(cluster: ClusterSettings, opts: ResourceOptions | None = None) -> ProviderResource:
    """A Kubernetes provider for `cluster.context`, never for whatever context the kubeconfig has current.

    With the stack's config `kubernetes:renderYamlToDirectory` it writes YAML to that folder instead and contacts
    nothing.
    """
    render_to = pulumi.Config("kubernetes").get("renderYamlToDirectory")
    properties = {"renderYamlToDirectory": render_to} if render_to else _connection(cluster)
    # The provider's own settings travel as text: "true", not true (pulumi-kubernetes 4.34, Provider).
    properties["enableServerSideApply"] = "true"
    if cluster.adopt and not render_to:
        properties["upsertExistingObjects"] = "true"
    pinned = ResourceOptions(version=version("pulumi-kubernetes"))
    return ProviderResource("kubernetes", cluster.name, dict(properties), ResourceOptions.merge(pinned, opts))


def _connection(cluster: ClusterSettings) -> dict[str, str]:
    connection = {"context": cluster.context}
    if cluster.kubeconfig:
        connection["kubeconfig"] = str(Path(cluster.kubeconfig).expanduser())
    return connection
