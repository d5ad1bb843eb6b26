"""The stack's settings as the engine hands them to the program."""

import json
from pathlib import Path
from typing import Any

import pulumi
from pulumi.runtime.config import CONFIG, get_config_env

from triplane.manifests.fleet import FleetManifests, fleet_manifests
from triplane.manifests.identity import ManifestError
from triplane.manifests.patching import extra_manifests
from triplane.settings import SettingsError, StackSettings
from triplane.settings.source import stack_file


def declared_stack(root: Path) -> tuple[StackSettings, FleetManifests]:
    """The stack's settings and every Kubernetes object they declare; `root` is where Pulumi.yaml lies.

    Raises pulumi.RunError, which the engine prints without a traceback, with all mistakes at once.
    """
    try:
        stack = StackSettings.from_config(_values(), _source(root))
        return stack, fleet_manifests(stack, extra_manifests(stack.manifests, root))
    except (SettingsError, ManifestError) as error:
        raise pulumi.RunError(str(error)) from None


def _source(root: Path) -> Path | str:
    """The stack's file, which gives each mistake its line; only a name where the program runs without one."""
    try:
        file = stack_file(pulumi.get_stack(), root)
    except SettingsError:
        return f"stack {pulumi.get_stack()}"
    return file if file.is_file() else f"stack {pulumi.get_stack()}"


def _values() -> dict[str, Any]:
    """Every value under the project's own prefix. The engine hands over text: JSON for all but strings."""
    prefix = f"{pulumi.get_project()}:"
    everything = {**get_config_env(), **CONFIG.get()}
    return {
        key.removeprefix(prefix): _value(text) for key, text in sorted(everything.items()) if key.startswith(prefix)
    }


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
