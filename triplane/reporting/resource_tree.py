"""The resources of a recorded program as a tree: kind, name, and what a reader must know of each."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from triplane.manifests.identity import identify
from triplane.program import Recording, Resource

if TYPE_CHECKING:
    from rich.tree import Tree

SameObject = tuple[str, str, str, str]
"""What `Identity.same_object` gives."""

_COLOURS = {"protected": "green", "patched": "yellow", "your manifest": "cyan"}


@dataclass(frozen=True)
class Branch:
    """One resource with those below it."""

    kind: str
    name: str
    marks: tuple[str, ...]
    below: tuple["Branch", ...]


def branches(
    recording: Recording, patched: Collection[SameObject] = (), added: Collection[SameObject] = ()
) -> tuple[Branch, ...]:
    """The resources at the top. `patched` and `added` name Kubernetes objects to mark so."""
    below: dict[str, list[Resource]] = {}
    queues = {r.manifest["metadata"]["name"]: r.urn for r in recording.resources if _is_queue(r) and r.manifest}
    for resource in recording.resources:
        above = _queue_above(resource, queues) or (resource.parent if resource.parent in recording.by_urn else "")
        below.setdefault(above, []).append(resource)

    def grow(resource: Resource) -> Branch:
        return Branch(
            kind_of(resource),
            f"{resource.name} {resource.inputs['version']}" if _is_release(resource) else resource.name,
            tuple(_marks(resource, patched, added)),
            tuple(grow(child) for child in below.get(resource.urn, ())),
        )

    return tuple(grow(resource) for resource in below.get("", ()))


def kind_of(resource: Resource) -> str:
    """`NodePool` for Kubernetes and for components, `aws:iam:Role` and `Provider kubernetes` for the rest."""
    package, _, rest = resource.type.partition(":")
    module, _, kind = rest.rpartition(":")
    if package == "pulumi":
        return f"Provider {kind}" if module == "providers" else kind
    return f"{package}:{module.partition('/')[0]}:{kind}" if resource.custom and package != "kubernetes" else kind


def _is_queue(resource: Resource) -> bool:
    return resource.type.startswith("kubernetes:scheduling.run.ai/") and resource.type.endswith(":Queue")


def _is_release(resource: Resource) -> bool:
    return resource.type == "kubernetes:helm.sh/v3:Release" and isinstance(resource.inputs.get("version"), str)


def _queue_above(resource: Resource, queues: Mapping[str, str]) -> str | None:
    """KAI's tree reads better than a list: a queue stands below the queue that it belongs to."""
    if not _is_queue(resource):
        return None
    above = queues.get(resource.inputs.get("spec", {}).get("parentQueue", ""))
    return above if above != resource.urn else None


def _marks(resource: Resource, patched: Collection[SameObject], added: Collection[SameObject]) -> Iterator[str]:
    if resource.protect:
        yield "protected"
    if resource.manifest is not None:
        same_object = identify(resource.manifest).same_object
        if same_object in patched:
            yield "patched"
        if same_object in added:
            yield "your manifest"


def plain_lines(trees: Collection[Branch], depth: int = 0) -> Iterator[str]:
    """One line a resource, two spaces a level."""
    for branch in trees:
        marks = f"  [{', '.join(branch.marks)}]" if branch.marks else ""
        yield f"{'  ' * depth}{branch.kind} {branch.name}{marks}"
        yield from plain_lines(branch.below, depth + 1)


def rich_tree(title: str, trees: Collection[Branch]) -> "Tree":
    """The same for a terminal."""
    from rich.text import Text
    from rich.tree import Tree

    def grow(tree: Tree, branches: Collection[Branch]) -> None:
        for branch in branches:
            label = Text.assemble((branch.kind, "dim"), " ", (branch.name, "bold" if branch.below else ""))
            for mark in branch.marks:
                label.append(f"  {mark}", _COLOURS[mark])
            grow(tree.add(label), branch.below)

    root = Tree(Text(title, "bold"), guide_style="dim")
    grow(root, trees)
    return root
