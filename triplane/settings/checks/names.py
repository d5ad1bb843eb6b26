"""How many of each, and that no name stands for two things."""

from collections.abc import Iterator, Mapping

from triplane.documents import Path
from triplane.settings.declared import Declared
from triplane.settings.wording import Finding

MOST_POOLS, MOST_QUEUES, MOST_ROLES = 200, 500, 200

# KEDA names its HPA after the ScaledObject, <model>-<role>, and a name that is also a label value has 63 characters.
_KEDA_PREFIX = "keda-hpa-"


def too_many(declared: Declared) -> Iterator[Finding]:
    """Beyond these numbers one stack is too large to deploy and to judge in one go: split it."""
    counts = {
        "pools": (_count(declared.written(("pools",))), MOST_POOLS, "pools"),
        "queues": (len(list(_queue_names(declared.written(("queues",)), ("queues",)))), MOST_QUEUES, "queues"),
        "models": (
            sum(_count(_get(model, "roles")) for model in _values(declared.written(("models",)))),
            MOST_ROLES,
            "roles",
        ),
    }
    for key, (count, most, what) in counts.items():
        if count > most:
            yield Finding((key,), f"{count} {what}, of at most {most} in one stack. Split it into several", at_key=True)


def queue_named_twice(declared: Declared) -> Iterator[Finding]:
    """KAI's queues are cluster-scoped: a name is taken wherever in the tree it stands."""
    first: dict[str, Path] = {}
    for name, path in _queue_names(declared.written(("queues",)), ("queues",)):
        if name in first:
            where = declared.line(first[name])
            message = f'queue "{name}" is already declared{where}. Queues are cluster-scoped: rename one'
            yield Finding(path, message, at_key=True)
        first.setdefault(name, path)


def role_name_too_long(declared: Declared) -> Iterator[Finding]:
    """`<model>-<role>` names the autoscaler, the budget and a label."""
    for role in declared.roles:
        name = f"{role.model_name}-{role.name}"
        full = _KEDA_PREFIX + name if role.settings.autoscaler == "keda" else name
        if len(full) > 63:
            message = f"{full} would have {len(full)} characters, of at most 63. Shorten the model's name"
            yield Finding(("models", role.model_name), message, at_key=True)


def _count(value: object) -> int:
    return len(value) if isinstance(value, Mapping) else 0


def _get(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, Mapping) else None


def _values(value: object) -> list[object]:
    return list(value.values()) if isinstance(value, Mapping) else []


def _queue_names(children: object, path: Path) -> Iterator[tuple[str, Path]]:
    if isinstance(children, Mapping):
        for name, queue in children.items():
            yield name, (*path, name)
            yield from _queue_names(_get(queue, "children"), (*path, name, "children"))


CHECKS = (too_many, queue_named_twice, role_name_too_long)
