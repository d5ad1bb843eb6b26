"""Where in a stack file each generated object is declared, for findings of a preview."""

from collections.abc import Iterator

from triplane.documents import Path, Position
from triplane.manifests.fleet import FleetManifests
from triplane.manifests.identity import identify
from triplane.settings.queues import QueueSettings
from triplane.settings.source import Source
from triplane.settings.stack import StackSettings

SameObject = tuple[str, str, str, str]


def declared_places(stack: StackSettings, fleet: FleetManifests, source: Source) -> dict[SameObject, Position]:
    """By object: its pool, queue or role in the stack file, or the list of further manifests; for a patched object its
    last patch. Others are absent."""
    queues = dict(_queue_paths(stack))
    paths: dict[SameObject, Path] = {identify(manifest).same_object: ("manifests",) for manifest in fleet.extra}
    for pool, objects in fleet.pools.items():
        paths |= {identify(manifest).same_object: ("pools", pool) for manifest in objects}
    for manifest in fleet.queues:
        if manifest["kind"] == "Queue" and manifest["metadata"]["name"] in queues:
            paths[identify(manifest).same_object] = queues[manifest["metadata"]["name"]]
    for (model, role), objects in fleet.roles.items():
        paths |= {identify(manifest).same_object: ("models", model, "roles", role) for manifest in objects}
    for identity in fleet.patched:
        for index, patch in enumerate(stack.patches):
            if (patch.target.kind, patch.target.name) == (identity.kind, identity.name) and patch.target.namespace in (
                None,
                identity.namespace,
            ):
                paths[identity.same_object] = ("patches", index)
    return {same_object: source.position(path, key=True) for same_object, path in paths.items()}


def _queue_paths(stack: StackSettings) -> Iterator[tuple[str, Path]]:
    pending: list[tuple[Path, str, QueueSettings]] = [
        (("queues",), name, queue) for name, queue in stack.queues.items()
    ]
    while pending:
        above, name, queue = pending.pop()
        path = (*above, name)
        yield name, path
        pending += [((*path, "children"), child, settings) for child, settings in queue.children.items()]
