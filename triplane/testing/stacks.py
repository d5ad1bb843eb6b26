"""Running a stack in a test, and finding what it declared."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triplane.program import Answers, Recording, Resource, run_function, run_program
from triplane.program.projects import as_the_engine_hands_over, find_project, stack_config
from triplane.settings.overrides import Override, override
from triplane.settings.source import read_stack

Object = dict[str, Any]


@dataclass(frozen=True)
class StackRun:
    """What one run declared. Every selector takes what it should match; what is left out matches everything."""

    recording: Recording

    @property
    def outputs(self) -> Mapping[str, Any]:
        """What the program exports."""
        return self.recording.outputs

    def resources(self, type: str | None = None, name: str | None = None) -> list[Resource]:
        """Resources by type (`NodePool`, or the whole `kubernetes:karpenter.sh/v1:NodePool`) and name."""
        return [
            resource
            for resource in self.recording.resources
            if type in (None, resource.type, resource.type.rpartition(":")[2]) and name in (None, resource.name)
        ]

    def resource(self, type: str, name: str | None = None) -> Resource:
        """The one resource of that type and name. Raises LookupError where there are none or several."""
        found = self.resources(type, name)
        if len(found) != 1:
            there = ", ".join(sorted(f"{r.type.rpartition(':')[2]} {r.name}" for r in found or self.resources(type)))
            raise LookupError(f"{len(found)} resources {_words(type, name)}; there are: {there or 'none of this type'}")
        return found[0]

    def children(self, parent: Resource) -> list[Resource]:
        """The resources whose parent that is."""
        return list(self.recording.by_parent.get(parent.urn, ()))

    def objects(self, kind: str | None = None, name: str | None = None, namespace: str | None = None) -> list[Object]:
        """Kubernetes objects, as manifests."""
        return [
            manifest
            for _, manifest in self.recording.manifests()
            if kind in (None, manifest["kind"])
            and name in (None, manifest["metadata"].get("name"))
            and namespace in (None, manifest["metadata"].get("namespace"))
        ]

    def object(self, kind: str, name: str | None = None, namespace: str | None = None) -> Object:
        """The one Kubernetes object of that kind and name. Raises LookupError where there are none or several."""
        found = self.objects(kind, name, namespace)
        if len(found) != 1:
            there = ", ".join(sorted(str(manifest["metadata"].get("name")) for manifest in self.objects(kind)))
            raise LookupError(f"{len(found)} objects {_words(kind, name)}; there are: {there or 'none of this kind'}")
        return found[0]


def run_stack(
    stack: str,
    project_dir: Path | str | None = None,
    *,
    set: Mapping[str, Any] | None = None,
    preview: bool = True,
    answers: Answers | None = None,
) -> StackRun:
    """Runs a project's program with the configuration of one of its stacks.

    The project is that of `project_dir` or above it (left out: the current folder). `set` changes settings first, by
    path: `{"pools.serving.nodes.max": 8}`. `preview` false runs as an update does: outputs are known. `answers` are
    results of provider functions by token. Raises SettingsError for a stack that cannot be read, ProgramError for what
    the program refuses.
    """
    project = find_project(project_dir)
    overrides = [Override.of(path, value) for path, value in (set or {}).items()]
    config, secrets = stack_config(project, override(read_stack(stack, project.root), overrides))
    return StackRun(
        run_program(
            project.program,
            project=project.name,
            stack=stack,
            config=config,
            secrets=secrets,
            preview=preview,
            answers=answers,
        )
    )


def run_components(
    declare: Callable[[], object],
    *,
    config: Mapping[str, Any] | None = None,
    preview: bool = True,
    answers: Answers | None = None,
) -> StackRun:
    """Runs a function that declares a few resources, as if it were a whole program.

    `config` holds values by full key, such as `{"project:pools": {...}}`. The rest is as in `run_stack`.
    """
    values, secrets = as_the_engine_hands_over(config or {})
    return StackRun(run_function(declare, config=values, secrets=secrets, preview=preview, answers=answers))


def _words(kind: str, name: str | None) -> str:
    return f"{kind} {name}" if name else kind
