"""Facts about the outside world, as data files with source and date: hardware, controllers, metrics, models.

Nothing is read before it is asked for, and each file once. A name that is not here raises `UnknownName`.
"""

from triplane.catalog.controllers import (
    Feature,
    KnownIssue,
    RollingUpgrade,
    feature,
    features,
    known_issues,
    oldest_for_kubernetes,
    rolling_upgrades,
    supported_releases,
    supports,
)
from triplane.catalog.data import UnknownName, nearest_names, release
from triplane.catalog.hardware import (
    Accelerator,
    Dialect,
    InstanceType,
    accelerator,
    accelerators,
    dialects,
    every_instance_type,
    gpu_families,
    gpus_per_node,
    instance_type,
    instance_types,
)
from triplane.catalog.metrics import MetricFact, engines, metric, metric_class, metric_names, normalise
from triplane.catalog.shapes import ModelShape, model_shape

__all__ = [
    "Accelerator",
    "Dialect",
    "Feature",
    "InstanceType",
    "KnownIssue",
    "MetricFact",
    "ModelShape",
    "RollingUpgrade",
    "UnknownName",
    "accelerator",
    "accelerators",
    "dialects",
    "engines",
    "every_instance_type",
    "feature",
    "features",
    "gpu_families",
    "gpus_per_node",
    "instance_type",
    "instance_types",
    "known_issues",
    "metric",
    "metric_class",
    "metric_names",
    "model_shape",
    "nearest_names",
    "normalise",
    "oldest_for_kubernetes",
    "release",
    "rolling_upgrades",
    "supported_releases",
    "supports",
]
