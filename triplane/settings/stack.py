"""The whole stack file."""

from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from pydantic import Field

from triplane.settings.base import Settings
from triplane.settings.cluster import ClusterSettings
from triplane.settings.models import ModelSettings
from triplane.settings.platform import PlatformSettings
from triplane.settings.pools import PoolSettings
from triplane.settings.queues import QueueSettings
from triplane.settings.values import Flag, Moment, Name


class ObservabilitySettings(Settings):
    """Dashboards and alerts for the three layers."""

    dashboards: Flag = False
    """Grafana dashboards."""
    alerts: Flag = False
    """Prometheus alerts."""


class PolicySettings(Settings):
    """Which rules judge the stack."""

    profile: Literal["core", "recommended", "all"] = "core"
    """core: what breaks production; recommended: more; all: everything."""


class FreezeSettings(Settings):
    """Hold everything still during an incident: scalers pinned, no node replaced or removed."""

    since: Moment
    """When the freeze began, in UTC."""
    reason: str = Field(min_length=1)
    """Why, for whoever finds it."""
    replicas: dict[str, Annotated[int, Field(ge=0, le=10_000, strict=True)]] = Field(default_factory=dict)
    """Replicas to hold, by <model>/<role>."""


class PatchTarget(Settings):
    """Which generated object a patch changes."""

    kind: str = Field(min_length=1)
    """Such as NodePool."""
    name: str = Field(min_length=1)
    """The object's name."""
    namespace: Name | None = None
    """Needed where two namespaces hold one of this kind and name."""


class PatchSettings(Settings):
    """A deep merge into one generated object, after generation. Judged like everything else."""

    target: PatchTarget
    """Which object."""
    merge: dict[str, Any]
    """Merged key by key (RFC 7386): null removes a key, a list replaces a list."""


class StackSettings(Settings):
    """Everything one environment declares."""

    cluster: ClusterSettings
    """The one cluster this stack may touch."""
    platform: PlatformSettings = PlatformSettings()
    """Controllers and Prometheus: versions, and what to install."""
    pools: dict[Name, PoolSettings] = Field(min_length=1)
    """GPU node pools by name."""
    queues: dict[Name, QueueSettings] = Field(default_factory=dict)
    """The tree of KAI queues by name."""
    models: dict[Name, ModelSettings] = Field(default_factory=dict)
    """Models to serve by name."""
    observability: ObservabilitySettings = ObservabilitySettings()
    """Dashboards and alerts."""
    policy: PolicySettings = PolicySettings()
    """How strictly the stack is judged."""
    patches: tuple[PatchSettings, ...] = ()
    """Changes to generated objects, applied last."""
    manifests: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Paths or globs of further Kubernetes manifests, relative to Pulumi.yaml. Judged like everything else."""
    freeze: FreezeSettings | None = None
    """Hold everything still; left out: no freeze."""

    @classmethod
    def load(cls, stack: str, project_dir: FilePath | str | None = None) -> "StackSettings":
        """Reads `Pulumi.<stack>.yaml` of the project in `project_dir` or above it (left out: the current folder).

        The values are those the engine would hand to the program, defaults of Pulumi.yaml included; no passphrase is
        needed. Raises SettingsError with every mistake in the file.
        """
        from triplane.settings import validation  # which needs this class

        return validation.load(stack, project_dir)

    @classmethod
    def from_config(cls, values: Mapping[str, Any], source: FilePath | str) -> "StackSettings":
        """The stack of values by key, as `pulumi.Config` gives them, without the project's prefix.

        `source` is the stack file, which gives each mistake its line, or a text that names where values came from.
        Raises SettingsError with every mistake.
        """
        from triplane.settings import validation  # which needs this class

        return validation.from_config(values, source)
