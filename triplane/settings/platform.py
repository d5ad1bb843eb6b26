"""The three controllers and Prometheus: which versions run, and which this stack installs."""

from typing import Annotated, Literal

from triplane.settings.base import Settings
from triplane.settings.values import Flag, Form, Version


class ControllerSettings(Settings):
    """One controller. Its version decides which fields of its objects may be used."""

    version: Version
    """The release that runs in the cluster, such as "1.14.1"."""
    install: Flag = False
    """Install it with this stack as a Helm release; false: it is already there."""


class KarpenterSettings(ControllerSettings):
    """Karpenter, with the feature gates that are on."""

    version: Version = "1.14.1"
    """The release that runs in the cluster."""
    gates: frozenset[
        Literal[
            "StaticCapacity",
            "NodeRepair",
            "NodeOverlay",
            "CapacityBuffer",
            "SpotToSpotConsolidation",
            "TerminateFirstDrift",
        ]
    ] = frozenset()
    """Feature gates switched on. ReservedCapacity is on by default since 1.6."""


class KaiSettings(ControllerSettings):
    """KAI Scheduler."""

    version: Version = "0.16.8"
    """The release that runs in the cluster."""
    gpu_sharing: Flag = False
    """Allow fractions of a GPU (Helm `global.gpuSharing` and `global.clusterAutoscaling`)."""


class KedaSettings(ControllerSettings):
    """KEDA."""

    version: Version = "2.20.2"
    """The release that runs in the cluster."""


class PlatformSettings(Settings):
    """What runs in the cluster beside the workloads."""

    karpenter: KarpenterSettings = KarpenterSettings()
    """Buys and removes nodes."""
    kai: KaiSettings = KaiSettings()
    """Places gangs and shares GPUs between queues."""
    keda: KedaSettings = KedaSettings()
    """Scales roles."""
    prometheus: Annotated[str, Form(r"https?://[^\s/]\S*", "an address such as http://prometheus.monitoring:9090")] = (
        "http://prometheus.monitoring:9090"
    )
    """Address of Prometheus as KEDA reaches it from inside the cluster."""
