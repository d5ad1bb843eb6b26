"""The three controllers and Prometheus: which versions run, and which this stack installs."""

from typing import Literal

from pydantic import Field

from triplane.settings.base import Settings
from triplane.settings.values import Version


class ControllerSettings(Settings):
    """One controller. Its version decides which fields of its objects may be used."""

    version: Version
    install: bool = False
    """Install it with this stack as a Helm release; false: it is already there."""


class KarpenterSettings(ControllerSettings):
    """Karpenter, with the feature gates that are on."""

    version: Version = "1.14.1"
    gates: frozenset[
        Literal["StaticCapacity", "NodeRepair", "NodeOverlay", "CapacityBuffer", "SpotToSpotConsolidation", "TerminateFirstDrift"]
    ] = frozenset()
    """Feature gates switched on. ReservedCapacity is on by default since 1.6."""


class KaiSettings(ControllerSettings):
    """KAI Scheduler."""

    version: Version = "0.16.8"
    gpu_sharing: bool = False
    """Allow fractions of a GPU (Helm `global.gpuSharing` and `global.clusterAutoscaling`)."""


class KedaSettings(ControllerSettings):
    """KEDA."""

    version: Version = "2.20.2"


class PlatformSettings(Settings):
    """What runs in the cluster beside the workloads."""

    karpenter: KarpenterSettings = KarpenterSettings()
    kai: KaiSettings = KaiSettings()
    keda: KedaSettings = KedaSettings()
    prometheus: str = Field(default="http://prometheus.monitoring:9090", pattern=r"^https?://[^\s/]+")
    """Address of Prometheus as KEDA reaches it from inside the cluster."""
