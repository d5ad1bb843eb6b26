"""Gangs and queues: the KAI queue tree, with topologies and scheduling shards."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi import Resource, ResourceOptions
from pydantic import TypeAdapter
from triplane.components.kubernetes import KubernetesObject, manifests_of

from triplane.manifests import queues as manifests
from triplane.settings.platform import PlatformSettings
from triplane.settings.pools import PoolSettings
from triplane.settings.queues import QueueSettings
from triplane.settings.values import Name


class QueueTree(pulumi.ComponentResource):
    """Every queue of a stack, each after its parent: a queue whose parent is missing is dropped with all below it."""

    def __init__(
        self,
        name: str,
        objects: Sequence[Mapping[str, Any]],
        *,
        depends_on: Sequence[Resource] = (),
        opts: ResourceOptions | None = None,
    ) -> None:
        """`objects` are manifests, parents before their children; see `of` for making them from settings."""
        super().__init__("triplane:queues:QueueTree", name, None, opts)
        self._queues: dict[str, Resource] = {}
        self._others: list[Resource] = []
        for manifest in manifests_of("QueueTree", objects):
            parent = self._queues.get(manifest.get("spec", {}).get("parentQueue", ""))
            declared = KubernetesObject(
                manifest,
                depends_on=[*depends_on, *([parent] if parent else [])],
                opts=ResourceOptions(parent=self),
            )
            if manifest["kind"] == "Queue":
                self._queues[manifest["metadata"]["name"]] = declared
            else:
                self._others.append(declared)
        self.register_outputs({"queues": sorted(self._queues)})

    def needed_by(self, queue: str) -> list[Resource]:
        """What workloads of a queue wait for: the queue, which waits for its parents, and all topologies and shards.

        (To depend on the whole tree would cost an edge for each queue and each workload.) Raises KeyError.
        """
        return [self._queues[queue], *self._others]

    @classmethod
    def of(
        cls,
        name: str,
        queues: Mapping[str, QueueSettings | Mapping[str, Any]],
        *,
        pools: Mapping[str, PoolSettings | Mapping[str, Any]] | None = None,
        platform: PlatformSettings | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> "QueueTree":
        """A tree from its settings, in the words of a stack file:

            QueueTree.of("queues", {"chat": {"gpus": {"quota": 16}}})

        `pools` adds their topologies and shards. Raises pydantic.ValidationError and ManifestError.
        """
        objects = manifests.queue_manifests(
            TypeAdapter(dict[Name, QueueSettings]).validate_python(dict(queues)),
            {pool: PoolSettings.model_validate(settings) for pool, settings in (pools or {}).items()},
            PlatformSettings.model_validate(platform or {}),
        )
        return cls(name, objects, **options)
