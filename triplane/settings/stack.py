"""The whole stack file."""

import datetime as dt
from typing import Any, Literal

from pydantic import Field

from triplane.settings.base import Settings
from triplane.settings.cluster import ClusterSettings
from triplane.settings.models import ModelSettings
from triplane.settings.platform import PlatformSettings
from triplane.settings.pools import PoolSettings
from triplane.settings.queues import QueueSettings
from triplane.settings.values import Name


class ObservabilitySettings(Settings):
    """Dashboards and alerts for the three layers."""

    dashboards: bool = False
    alerts: bool = False


class PolicySettings(Settings):
    """Which rules judge the stack."""

    profile: Literal["core", "recommended", "all"] = "core"


class FreezeSettings(Settings):
    """Hold everything still during an incident: scalers pinned, no node replaced or removed."""

    since: dt.datetime
    reason: str = Field(min_length=1)
    replicas: dict[str, int] = {}
    """Replicas to hold, by <model>/<role>."""


class PatchTarget(Settings):
    """Which generated object a patch changes."""

    kind: str = Field(min_length=1)
    name: str = Field(min_length=1)
    namespace: str | None = None


class PatchSettings(Settings):
    """A deep merge into one generated object, after generation. Judged like everything else."""

    target: PatchTarget
    merge: dict[str, Any]
    """Merged key by key (RFC 7386): null removes a key, a list replaces a list."""


class StackSettings(Settings):
    """Everything one environment declares."""

    cluster: ClusterSettings
    platform: PlatformSettings = PlatformSettings()
    pools: dict[Name, PoolSettings] = Field(min_length=1)
    queues: dict[Name, QueueSettings] = {}
    models: dict[Name, ModelSettings] = {}
    observability: ObservabilitySettings = ObservabilitySettings()
    policy: PolicySettings = PolicySettings()
    patches: tuple[PatchSettings, ...] = ()
    manifests: tuple[str, ...] = ()
    """Paths or globs of further Kubernetes manifests, relative to Pulumi.yaml. Judged like everything else."""
    freeze: FreezeSettings | None = None
