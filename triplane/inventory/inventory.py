"""All objects of one input, indexed; whatever source they came from."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Protocol, TypeVar

from triplane.inventory.comments import Comment
from triplane.inventory.resource import Resource


class _Viewed(Protocol):
    KINDS: ClassVar[tuple[str, ...]]

    def __init__(self, resource: Resource) -> None: ...


ViewOf = TypeVar("ViewOf", bound=_Viewed)
Relation = TypeVar("Relation")


class Inventory:
    """Objects by kind, name and namespace. Built once; relations are worked out when they are asked for."""

    def __init__(self, resources: Iterable[Resource], comments: Iterable[Comment] = ()) -> None:
        self.resources: tuple[Resource, ...] = tuple(resources)
        self.comments: tuple[Comment, ...] = tuple(comments)
        self._by_kind: dict[str, list[Resource]] = {}
        self._by_name: dict[tuple[str, str, str], Resource] = {}
        self._relations: dict[Any, Any] = {}
        for resource in self.resources:
            self._by_kind.setdefault(resource.kind, []).append(resource)
            if resource.name:
                self._by_name[(resource.kind, resource.namespace, resource.name)] = resource

    def __len__(self) -> int:
        return len(self.resources)

    def of_kind(self, *kinds: str) -> Iterator[Resource]:
        """The objects of these kinds (`NodePool.karpenter.sh`), in input order a kind."""
        for kind in kinds:
            yield from self._by_kind.get(kind, ())

    def views(self, view: type[ViewOf]) -> Iterator[ViewOf]:
        """Every object a view reads, as that view: `inventory.views(NodePool)`."""
        for resource in self.of_kind(*view.KINDS):
            yield resource.view(view)

    def find(self, kind: str, name: str, namespace: str = "") -> Resource | None:
        """The object of that name. An empty namespace is the one kubectl would fill in: it matches `default` too."""
        found = self._by_name.get((kind, namespace, name))
        if found is None and namespace in ("", "default"):
            found = self._by_name.get((kind, "" if namespace else "default", name))
        return found

    def relation(self, build: Callable[["Inventory"], Relation]) -> Relation:
        """What relates objects to one another (Scaling, QueueTree, MetricAliases ...); built when first asked for."""
        found = self._relations.get(build)
        if found is None:
            found = self._relations[build] = build(self)
        return found
