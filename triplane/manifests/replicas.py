"""One autoscaler a role: a KEDA ScaledObject, or a HorizontalPodAutoscaler with the adapter rules it needs.

Every bound is written out. KEDA's own defaults are 0 to 100 replicas and a missing series that reads as zero; the
HPA's double the fleet every 15 seconds, while a replica needs minutes to load.

A component of Dynamo is scaled through its DynamoGraphDeploymentScalingAdapter, which Dynamo's operator makes from the
marker `scalingAdapter` on the component and deletes without it (dynamo 1.5, reconcileScalingAdapters): it is a target
here and never declared, since a second declaration would write `spec.replicas` back at each deployment.
"""

from decimal import ROUND_CEILING, Decimal
from typing import Any, Final, NamedTuple

import yaml

from triplane import catalog
from triplane.manifests import labels, workloads
from triplane.manifests.identity import ManifestError
from triplane.manifests.signals import Trigger, number, role_triggers
from triplane.settings.cluster import ClusterSettings
from triplane.settings.models import ModelSettings, RoleName, RoleSettings
from triplane.settings.platform import PlatformSettings

Manifest = dict[str, Any]

PAUSED: Final = "autoscaling.keda.sh/paused"
PAUSED_REPLICAS: Final = "autoscaling.keda.sh/paused-replicas"

# Bounds of autoscaling/v2, in seconds.
_LONGEST_PERIOD: Final = 1800
_LONGEST_WINDOW: Final = 3600


def role_manifests(
    model_name: str,
    model: ModelSettings,
    role_name: RoleName,
    *,
    platform: PlatformSettings,
    cluster: ClusterSettings,
    frozen: bool = False,
    frozen_replicas: int | None = None,
) -> list[Manifest]:
    """The role's autoscaler.

    `frozen` holds the replicas that run now; `frozen_replicas` moves to that number and holds it. A replica is a pod of
    a Deployment and a group of a LeaderWorkerSet. Raises ManifestError for what KEDA or the HPA would refuse.
    """
    role = model.roles[role_name]
    place = f"models.{model_name}.roles.{role_name}"
    name = labels.role_name(model_name, role_name)
    metadata: Manifest = {
        "name": name,
        "namespace": model.namespace,
        "labels": {labels.APP: name, labels.MODEL: model_name, labels.ROLE: labels.role_label(role_name)},
    }
    target = workloads.scale_target(model_name, model, role_name)
    triggers = role_triggers(model_name, model, role_name, target)
    if role.replicas.min == 0 and not (role.signal.flow_control_queue or role.signal.wva):
        raise ManifestError(
            f"{place}.replicas.min: from 0 replicas nothing wakes this role: only running replicas report its signal. "
            "Set min: 1, or signal.flowControlQueue"
        )
    if frozen_replicas is not None and frozen_replicas < 0:
        raise ManifestError(f"freeze.replicas: {frozen_replicas} is no number of replicas for {model_name}/{role_name}")
    hold = Hold(frozen or frozen_replicas is not None, frozen_replicas)
    if role.autoscaler == "hpa":
        rules = adapter_rules(metadata, role, triggers)
        return [_horizontal_pod_autoscaler(place, metadata, model, role, target, triggers, cluster, hold), *rules]
    return [_scaled_object(place, metadata, model, role, target, triggers, platform, cluster, hold)]


class Hold(NamedTuple):
    """Whether a freeze holds the role, and at which number; None: at the number that runs."""

    frozen: bool
    replicas: int | None


def _scaled_object(
    place: str,
    metadata: Manifest,
    model: ModelSettings,
    role: RoleSettings,
    target: Manifest,
    triggers: tuple[Trigger, ...],
    platform: PlatformSettings,
    cluster: ClusterSettings,
    hold: Hold,
) -> Manifest:
    hpa_name = f"keda-hpa-{metadata['name']}"
    if len(hpa_name) > 63:
        raise ManifestError(
            f"{place}: KEDA would name its HPA {hpa_name}: {len(hpa_name)} characters, of at most 63. "
            "Shorten the model's name, or set autoscaler: hpa"
        )
    annotations = _wva_annotations(model, role)
    if hold.frozen:
        annotations[PAUSED] = "true"
    if hold.replicas is not None:
        annotations[PAUSED_REPLICAS] = str(hold.replicas)

    spec: Manifest = {
        "scaleTargetRef": target,
        "minReplicaCount": role.replicas.min,
        "maxReplicaCount": role.replicas.max,
    }
    if role.replicas.min == 0:
        # Both act between 0 and 1 only: with a floor above 0 the HPA asks every 15 s, and KEDA 2.20 warns about them.
        spec["pollingInterval"] = 15
        spec["cooldownPeriod"] = max(300, 3 * _cold_start(model))
    if catalog.supports("keda", platform.keda.version, "fallback-behavior"):
        # Blind, hold what runs: a restart of Prometheus must neither shrink the fleet nor buy nodes for it. Before this
        # behaviour a fallback was a fixed number, which shrinks a larger fleet; without one the HPA holds.
        spec["fallback"] = {
            "failureThreshold": 3,
            "replicas": max(1, role.replicas.min),
            "behavior": "currentReplicasIfHigher",
        }
    tolerance = _tolerance(cluster) and catalog.supports("keda", platform.keda.version, "hpa-tolerance")
    spec["advanced"] = {"horizontalPodAutoscalerConfig": {"behavior": _behavior(model, role, tolerance=tolerance)}}
    spec["triggers"] = [_keda_trigger(trigger, platform.prometheus) for trigger in triggers]
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {**metadata, **({"annotations": annotations} if annotations else {})},
        "spec": spec,
    }


def _keda_trigger(trigger: Trigger, prometheus: str) -> Manifest:
    return {
        "type": "prometheus",
        "name": trigger.name,
        # Beside metadata, not inside it, where KEDA ignores it and AverageValue applies.
        "metricType": trigger.target_type,
        "metadata": {
            "serverAddress": prometheus,
            "query": trigger.query,
            "threshold": number(trigger.target),
            # KEDA's default is true: no series reads as 0, the fewest replicas at the worst moment (keda #3065).
            "ignoreNullValues": "false",
        },
    }


def _horizontal_pod_autoscaler(
    place: str,
    metadata: Manifest,
    model: ModelSettings,
    role: RoleSettings,
    target: Manifest,
    triggers: tuple[Trigger, ...],
    cluster: ClusterSettings,
    hold: Hold,
) -> Manifest:
    bounds = (role.replicas.min, role.replicas.max) if hold.replicas is None else (hold.replicas, hold.replicas)
    if bounds[1] == 0:
        raise ManifestError(
            f"freeze.replicas: an HPA cannot hold {place} at 0 replicas. Set 1 or more, or autoscaler: keda"
        )
    if bounds[0] == 0 and not catalog.supports("kubernetes", cluster.kubernetes, "hpa-scale-to-zero"):
        raise ManifestError(
            f"{place}.replicas.min: an HPA scales to 0 since Kubernetes 1.37; this cluster is {cluster.kubernetes}. "
            "Set min: 1, or autoscaler: keda"
        )
    annotations = _wva_annotations(model, role)
    behavior = _behavior(model, role, tolerance=_tolerance(cluster))
    if hold.frozen:
        for direction in behavior.values():
            direction["selectPolicy"] = "Disabled"
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {**metadata, **({"annotations": annotations} if annotations else {})},
        "spec": {
            "scaleTargetRef": target,
            "minReplicas": bounds[0],
            "maxReplicas": bounds[1],
            "behavior": behavior,
            "metrics": [_external_metric(metadata, role, trigger) for trigger in triggers],
        },
    }


def _external_metric(metadata: Manifest, role: RoleSettings, trigger: Trigger) -> Manifest:
    value = {"value" if trigger.target_type == "Value" else "averageValue": _quantity(trigger.target)}
    metric: Manifest = {"name": external_metric_name(metadata, role, trigger)}
    if role.signal.wva is not None:
        metric["selector"] = {
            "matchLabels": {"variant_name": metadata["name"], "exported_namespace": metadata["namespace"]}
        }
    return {"type": "External", "external": {"metric": metric, "target": {"type": trigger.target_type, **value}}}


def external_metric_name(metadata: Manifest, role: RoleSettings, trigger: Trigger) -> str:
    """The external metric that the HPA of this `metadata` asks for: `<namespace>_<name>_<trigger>`, since an adapter
    knows a name once in a cluster. For WVA, the one that its own adapter rule gives."""
    if role.signal.wva is not None:
        return catalog.metric("wva", "", "desired_replicas")
    return f"{metadata['namespace']}_{metadata['name']}_{trigger.name}"


def adapter_rules(metadata: Manifest, role: RoleSettings, triggers: tuple[Trigger, ...]) -> list[Manifest]:
    """What makes the HPA's metrics exist: a ConfigMap with prometheus-adapter's `externalRules`.

    Mount it as the adapter's configuration (`rules.existing` of its Helm chart) or merge its rules into the one there.
    None for WVA, whose own installation has the rule.
    """
    if role.signal.wva is not None:
        return []
    rules = [
        {
            "seriesQuery": trigger.series,
            "name": {"as": external_metric_name(metadata, role, trigger)},
            # The query names its namespace itself; the adapter would look for a place to add the HPA's.
            "resources": {"namespaced": False},
            "metricsQuery": trigger.query,
        }
        for trigger in triggers
    ]
    text = yaml.safe_dump({"externalRules": rules}, sort_keys=False, width=1000)
    own = {**metadata, "name": f"{metadata['name']}-adapter-rules"}
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": own, "data": {"config.yaml": text}}]


def _behavior(model: ModelSettings, role: RoleSettings, *, tolerance: bool) -> Manifest:
    """How fast the replicas may move, from the cold start.

    Up: at once, and at most a quarter of the maximum for each cold start. The backlog keeps growing while ordered
    replicas load, so that an uncapped autoscaler orders the maximum (aibrix #2670: 2, 4, 8, 16). Down: one replica in
    five minutes, after a window longer than it would take to win the replica back.
    """
    cold_start = _cold_start(model)
    up: Manifest = {
        "stabilizationWindowSeconds": 0,
        "policies": [
            {
                "type": "Pods",
                "value": max(1, role.replicas.max // 4),
                "periodSeconds": min(_LONGEST_PERIOD, max(1, cold_start)),
            }
        ],
    }
    down: Manifest = {
        "stabilizationWindowSeconds": min(_LONGEST_WINDOW, max(300, -(-cold_start * 3 // 2))),
        "policies": [{"type": "Pods", "value": 1, "periodSeconds": 300}],
    }
    if tolerance:
        # The cluster's 10 % both ways is late upwards, and downwards gives up a replica that takes minutes to return.
        up["tolerance"] = "50m"
        down["tolerance"] = "200m"
    return {"scaleUp": up, "scaleDown": down}


def _tolerance(cluster: ClusterSettings) -> bool:
    """Whether an HPA may set its own tolerance: beta and on since Kubernetes 1.35 (KEP-4951)."""
    return catalog.supports("kubernetes", cluster.kubernetes, "hpa-tolerance")


def _cold_start(model: ModelSettings) -> int:
    """Seconds, rounded up."""
    return -int(-model.cold_start.total_seconds() // 1)


def _wva_annotations(model: ModelSettings, role: RoleSettings) -> dict[str, str]:
    """How the Workload Variant Autoscaler finds a scaler. Without the model id it passes over it silently (0.9)."""
    if role.signal.wva is None:
        return {}
    return {
        "llm-d.ai/managed": "true",
        "llm-d.ai/model-id": model.served_name or model.model,
        "llm-d.ai/variant-cost": number(role.signal.wva.variant_cost),
    }


def _quantity(value: Decimal) -> str:
    """In the API server's own spelling, so that what it stores equals what was written: `5`, `1200m`."""
    milli = (value * 1000).to_integral_value(ROUND_CEILING)
    return number(milli / 1000) if milli % 1000 == 0 else f"{number(milli)}m"
