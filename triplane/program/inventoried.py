"""A recorded program as resources of an inventory, for the rules."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

from triplane.documents import Path, Position
from triplane.inventory import Origin, Resource, Unknown, pulumi_resource
from triplane.program import recorded, run_program
from triplane.program.projects import Project, find_project, stack_config
from triplane.settings.problems import Problem, SettingsError
from triplane.settings.source import read_stack, stack_names


def inventory_resources(recording: recorded.Recording) -> Iterator[Resource]:
    """Every resource but components and providers, with the line of the program that made it."""
    for resource in recording.resources:
        if resource.custom and not resource.type.startswith("pulumi:"):
            ignored = tuple(resource.options.get("ignoreChanges", ()))
            origin = Origin(file=resource.file, urn=resource.urn, line=resource.line, ignored=ignored)
            properties = {key: _plain(value, (key,)) for key, value in resource.inputs.items()}
            yield pulumi_resource(resource.type, properties, origin)


def _plain(value: Any, path: Path) -> Any:
    """The marks of a recording as the inventory's. A secret is read like any value, since rules judge it too."""
    match value:
        case recorded.Unknown():
            return Unknown(path)
        case recorded.Secret():
            return _plain(value.value, path)
        case dict():
            return {key: _plain(item, (*path, key)) for key, item in value.items()}
        case list():
            return [_plain(item, (*path, index)) for index, item in enumerate(value)]
        case _:
            return value


def program_resources(folder: FilePath | str, stack: str | None = None) -> list[Resource]:
    """The resources that a Pulumi program in Python declares, run offline; places are relative to the current folder.

    Without `stack` the only stack file there is gives the configuration, or none does. Raises SettingsError,
    ProgramError, DocumentError.
    """
    project = find_project(folder)
    name = stack or _only_stack(project)
    if name is None:
        recording = run_program(project.program, project=project.name, stack="check", config={})
    else:
        config, secrets = stack_config(project, read_stack(name, project.root))
        recording = run_program(project.program, project=project.name, stack=name, config=config, secrets=secrets)
    resources = list(inventory_resources(recording))
    for resource in resources:
        if resource.origin.file:
            file = os.path.relpath(project.program / resource.origin.file)
            resource.origin = replace(resource.origin, file=file)
    return resources


def _only_stack(project: Project) -> str | None:
    stacks = stack_names(project.root)
    if len(stacks) > 1:
        message = f"there are several stacks: say which by --stack {', --stack '.join(stacks)}"
        raise SettingsError([Problem((), Position(str(project.root)), message)])
    return stacks[0] if stacks else None
