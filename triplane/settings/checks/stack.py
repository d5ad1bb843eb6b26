"""The stack's own blocks: freeze, patches, manifests."""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from triplane.settings.declared import Declared, Role
from triplane.settings.wording import Finding, did_you_mean


def frozen_roles_exist(declared: Declared) -> Iterator[Finding]:
    """`freeze.replicas` names roles as <model>/<role>."""
    if declared.freeze is None or any(path[0] == "models" for path in declared.broken):
        return
    known = [role.label for role in declared.roles]
    for label in declared.freeze.replicas:
        if label not in known:
            listed = f" Roles: {', '.join(known)}" if known else " This stack has no roles"
            message = f"there is no role {label}.{did_you_mean(label, known)}{listed}"
            yield Finding(("freeze", "replicas", label), message, at_key=True)


def frozen_replicas_fit(declared: Declared) -> Iterator[Finding]:
    """Frozen replicas obey the queue as scaled ones do."""
    if declared.freeze is None:
        return
    for role in declared.roles:
        held = declared.freeze.replicas.get(role.label)
        queue = declared.queues_by_name.get(role.settings.queue)
        if held is None or queue is None:
            continue
        path, each = ("freeze", "replicas", role.label), role.settings.gpus_per_replica
        bound, what = _bound(role, queue.settings.gpus.quota, queue.settings.gpu_limit)
        if bound != "unlimited" and held * each > bound:
            message = f"{held} x {each} GPUs = {held * each} > {what} {bound} of queue {queue.name}"
            yield Finding(path, f"{message}. Set {bound // each} or less")
        if held == 0 and role.settings.autoscaler == "hpa":
            yield Finding(path, "an HPA cannot hold 0 replicas. Set 1 or more, or autoscaler: keda")


def _bound(role: Role, quota: int | str, limit: int | str) -> tuple[Any, str]:
    return (limit, "limit") if role.settings.preemptible else (quota, "quota")


def patch_keeps_its_target(declared: Declared) -> Iterator[Finding]:
    """A patch changes an object; under another identity it would be another object."""
    for index, patch in declared.patches.items():
        path = ("patches", index, "merge")
        if not patch.merge:
            yield Finding(path, "is empty: it changes nothing. Remove the patch")
        for key in ("apiVersion", "kind"):
            if key in patch.merge:
                yield Finding(
                    (*path, key), "would make it another object. Declare one of your own under manifests:", True
                )
        metadata = patch.merge.get("metadata")
        for key in ("name", "namespace"):
            if isinstance(metadata, Mapping) and key in metadata:
                message = "would make it another object. Declare one of your own under manifests:"
                yield Finding((*path, "metadata", key), message, at_key=True)


def manifest_paths_stay_inside(declared: Declared) -> Iterator[Finding]:
    """Paths relative to Pulumi.yaml, so that a checkout holds all that is deployed."""
    paths = declared.written(("manifests",))
    for index, path in enumerate(paths if isinstance(paths, list) else ()):
        if not isinstance(path, str) or not path:
            continue
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            yield Finding(("manifests", index), f"{path} leaves the project. Write a path relative to Pulumi.yaml")
        elif not path.endswith((".yaml", ".yml", ".json")):
            yield Finding(
                ("manifests", index), f"{path} names no .yaml, .yml or .json files. Write extra/*.yaml or the like"
            )


CHECKS = (frozen_roles_exist, frozen_replicas_fit, patch_keeps_its_target, manifest_paths_stay_inside)
