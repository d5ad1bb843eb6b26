"""A stack as far as it validated: what the cross-field checks see, so that one run reports everything it can."""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from pydantic import ValidationError

from triplane.documents import Path
from triplane.settings.base import Settings
from triplane.settings.cluster import ClusterSettings
from triplane.settings.models import ModelSettings, RoleName, RoleSettings
from triplane.settings.platform import PlatformSettings
from triplane.settings.pools import PoolSettings
from triplane.settings.queues import QueueSettings
from triplane.settings.source import Source
from triplane.settings.stack import FreezeSettings, PatchSettings, StackSettings
from triplane.settings.wording import real_path

Model = TypeVar("Model", bound=Settings)


@dataclass(frozen=True)
class Queue:
    """A queue with its place in the tree."""

    name: str
    path: Path
    settings: QueueSettings
    parent: "Queue | None"

    @property
    def is_leaf(self) -> bool:
        return not self.settings.children

    @property
    def line_up(self) -> Iterator["Queue"]:
        """The queue itself, then its ancestors."""
        queue: Queue | None = self
        while queue is not None:
            yield queue
            queue = queue.parent

    @property
    def shard(self) -> str | None:
        """The KAI shard it belongs to, inherited from its ancestors."""
        return next((queue.settings.shard for queue in self.line_up if queue.settings.shard), None)


@dataclass(frozen=True)
class Role:
    """A role with its model."""

    model_name: str
    model: ModelSettings
    name: RoleName
    settings: RoleSettings

    @property
    def path(self) -> Path:
        return ("models", self.model_name, "roles", self.name)

    @property
    def label(self) -> str:
        """`chat/decode`: as `freeze:` names it."""
        return f"{self.model_name}/{self.name}"

    @property
    def most_replicas(self) -> int:
        """Replicas at the ceiling, with a rollout's surge."""
        return self.settings.replicas.max + self.settings.surge

    @property
    def most_gpus(self) -> int:
        return self.most_replicas * self.settings.gpus_per_replica


@dataclass(frozen=True)
class Declared:
    """The parts of a stack that validated by themselves. Another is None or absent, and named in `broken`."""

    source: Source
    cluster: ClusterSettings | None
    platform: PlatformSettings | None
    pools: Mapping[str, PoolSettings]
    queue_tree: Mapping[str, QueueSettings]
    models: Mapping[str, ModelSettings]
    patches: Mapping[int, PatchSettings]
    freeze: FreezeSettings | None
    broken: frozenset[Path]

    @cached_property
    def queues(self) -> tuple[Queue, ...]:
        """All queues, parents before their children."""

        def walk(children: Mapping[str, QueueSettings], path: Path, parent: Queue | None) -> Iterator[Queue]:
            for name, settings in children.items():
                queue = Queue(name, (*path, name), settings, parent)
                yield queue
                yield from walk(settings.children, (*path, name, "children"), queue)

        return tuple(walk(self.queue_tree, ("queues",), None))

    @cached_property
    def queues_by_name(self) -> Mapping[str, Queue]:
        return {queue.name: queue for queue in reversed(self.queues)}

    @cached_property
    def roles(self) -> tuple[Role, ...]:
        return tuple(
            Role(model_name, model, role_name, role)
            for model_name, model in self.models.items()
            for role_name, role in model.roles.items()
        )

    def written(self, path: Path) -> Any:
        """What the file says at `path`, validated or not; None where it says nothing."""
        value: Any = self.source.values
        for part in path:
            if isinstance(value, Mapping):
                value = value.get(str(part))
            elif isinstance(value, list) and isinstance(part, int) and part < len(value):
                value = value[part]
            else:
                return None
        return value

    def line(self, path: Path) -> str:
        """` (line 33)`, or nothing where the value is not written."""
        position = self.source.position(path)
        if self.written(path) is None or not position.line:
            return ""
        elsewhere = f"{position.file}, " if position.file != self.source.file else ""
        return f" ({elsewhere}line {position.line})"

    @property
    def pools_are_whole(self) -> bool:
        """Whether every pool that is written validated: only then can one say what they hold together."""
        return not any(path[0] == "pools" for path in self.broken)


def declared(stack: StackSettings, source: Source) -> Declared:
    """All of a valid stack."""
    return Declared(
        source,
        stack.cluster,
        stack.platform,
        stack.pools,
        stack.queues,
        stack.models,
        dict(enumerate(stack.patches)),
        stack.freeze,
        frozenset(),
    )


def salvage(source: Source) -> Declared:
    """What can be used of values that did not validate as a whole."""
    broken: set[Path] = set()

    def part(model: type[Model], value: Any, path: Path) -> Model | None:
        try:
            return model.model_validate(value, by_alias=True, by_name=False)
        except ValidationError as error:
            known = _without_unknown_keys(error, value)
            if known is not None:
                return part(model, known, path)
            broken.add(path)
            return None

    def parts(model: type[Model], values: Any, path: Path) -> dict[str, Model]:
        found = {name: part(model, value, (*path, name)) for name, value in _mapping(values).items()}
        return {name: value for name, value in found.items() if value is not None}

    def queues(values: Any, path: Path) -> dict[str, QueueSettings]:
        result: dict[str, QueueSettings] = {}
        for name, value in _mapping(values).items():
            alone = (
                {key: inner for key, inner in value.items() if key != "children"} if isinstance(value, dict) else value
            )
            queue = part(QueueSettings, alone, (*path, name))
            if queue is not None:
                children = queues(_mapping(value).get("children"), (*path, name, "children"))
                result[name] = queue.model_copy(update={"children": children})
        return result

    def models(values: Any) -> dict[str, ModelSettings]:
        result: dict[str, ModelSettings] = {}
        for name, value in _mapping(values).items():
            roles = parts(RoleSettings, _mapping(value).get("roles"), ("models", name, "roles"))
            whole = {**_mapping(value), "roles": {role: value["roles"][role] for role in roles}}
            model = part(ModelSettings, whole, ("models", name))
            if model is not None:
                result[name] = model
        return result

    values = source.values
    patches = values.get("patches")
    found = {
        index: part(PatchSettings, patch, ("patches", index))
        for index, patch in enumerate(patches if isinstance(patches, list) else ())
    }
    return Declared(
        source,
        part(ClusterSettings, values.get("cluster"), ("cluster",)),
        part(PlatformSettings, values.get("platform", {}), ("platform",)),
        parts(PoolSettings, values.get("pools"), ("pools",)),
        queues(values.get("queues"), ("queues",)),
        models(values.get("models")),
        {index: patch for index, patch in found.items() if patch is not None},
        part(FreezeSettings, values["freeze"], ("freeze",)) if "freeze" in values else None,
        frozenset(broken),
    )


def _without_unknown_keys(error: ValidationError, value: Any) -> Any:
    """A copy without the keys that no model has; None where something else is wrong too."""
    details = error.errors(include_url=False, include_context=False, include_input=False)
    if any(detail["type"] != "extra_forbidden" for detail in details):
        return None
    copied = copy.deepcopy(value)
    for detail in details:
        *parents, key = real_path(detail["loc"], value)
        inner = copied
        for parent in parents:
            inner = inner[parent]
        del inner[key]
    return copied


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
