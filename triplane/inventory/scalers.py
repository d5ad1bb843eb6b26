"""Everything that sets a replica count: what it scales, between which bounds, and on which signals.

One table for HorizontalPodAutoscaler (all versions), KEDA's ScaledObject and ScaledJob, AIBrix's PodAutoscaler, llm-d's
VariantAutoscaling, and the scaling blocks inside KServe's InferenceService and LLMInferenceService and in Grove's
PodCliqueSet.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, ClassVar

from triplane.documents import Path
from triplane.inventory import kinds
from triplane.inventory.fields import at, known, mapping, number, quantity, sequence, text
from triplane.inventory.queries import promql_series, words
from triplane.inventory.resource import Resource


class Language(Enum):
    """How the text of a signal is to be read."""

    NAME = "name"  # a metric's name, as it stands
    PROMQL = "promql"
    WORDS = "words"  # another query language: words that may be metric names


@dataclass(frozen=True, slots=True)
class Goal:
    """What a signal is held against. `type` is AverageValue (a replica's share), Value or Utilization.

    `amount` is None where it is no number.
    """

    path: Path
    type: str
    amount: float | None


@dataclass(frozen=True, slots=True)
class Signal:
    """One thing a scaler looks at. `path` is the field that carries `text`."""

    path: Path
    language: Language
    text: str
    goal: Goal | None = None

    @property
    def names(self) -> frozenset[str]:
        """Metric names it reads by name. Raises UnparsableQuery for PromQL that no parser accepts."""
        if self.language is Language.PROMQL:
            return promql_series(self.text).names
        return frozenset((self.text,)) if self.language is Language.NAME else words(self.text)

    @property
    def patterns(self) -> frozenset[str]:
        """Regular expressions on metric names (`{__name__=~"..."}`)."""
        return promql_series(self.text).patterns if self.language is Language.PROMQL else frozenset()


@dataclass(frozen=True, slots=True)
class ResourceSignal:
    """A CPU or memory signal of the target's own pods (HPA `Resource`, KEDA `cpu`/`memory`)."""

    path: Path
    resource: str


@dataclass(frozen=True, slots=True)
class Target:
    """What a scaler scales: kind as kubectl writes it. `kind` is empty when the reference does not say it."""

    kind: str
    name: str
    namespace: str
    path: Path


@dataclass(frozen=True, slots=True)
class Trigger:
    """One KEDA trigger: `metadata` is its free map of text."""

    path: Path
    type: str
    name: str
    metric_type: str
    metadata: dict[str, Any]

    def says(self, key: str) -> str | None:
        """The value of a metadata key as KEDA reads it: text, also where somebody wrote a bare boolean or number."""
        value = known(self.metadata.get(key))
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value) if isinstance(value, str | int | float) else None


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of one scaled thing. None where none is written: the default of the kind then holds."""

    minimum_path: Path
    maximum_path: Path
    minimum: int | None
    maximum: int | None


class Scaler:
    """An object that sets the replica count of something. Absent bounds are None; the kind's default then holds."""

    KINDS: ClassVar[tuple[str, ...]] = (
        kinds.HPA,
        kinds.SCALED_OBJECT,
        kinds.SCALED_JOB,
        kinds.INFERENCE_SERVICE,
        kinds.LLM_INFERENCE_SERVICE,
        kinds.POD_AUTOSCALER,
        kinds.POD_CLIQUE_SET,
        kinds.VARIANT_AUTOSCALING,
    )

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.kind = resource.kind
        self.spec = mapping(resource.data.get("spec"))

    @property
    def keda(self) -> bool:
        return self.kind in (kinds.SCALED_OBJECT, kinds.SCALED_JOB)

    @cached_property
    def target(self) -> Target | None:
        """The reference it scales, with its kind's default filled in (KEDA: apps/v1 Deployment)."""
        reference = at(self.spec, "scaleTargetRef")
        name = text(at(reference, "name"))
        if not isinstance(reference, dict) or not name or self.kind == kinds.SCALED_JOB:
            return None
        kind = text(reference.get("kind"))
        group = (text(reference.get("apiVersion")) or "").rpartition("/")[0]
        if kind is None:
            # KEDA takes a Deployment where the kind is left out, HPA requires the kind.
            kind, group = ("Deployment", "apps") if self.keda else ("", "")
        elif not group and kind in _APPS_KINDS:
            group = "apps"
        return Target(f"{kind}.{group}" if group else kind, name, self.resource.namespace, ("spec", "scaleTargetRef"))

    @cached_property
    def triggers(self) -> tuple[Trigger, ...]:
        """KEDA's triggers, also those inside an LLMInferenceService; empty for other kinds."""
        if self.kind == kinds.LLM_INFERENCE_SERVICE:
            lists: list[Path] = [(*block, "keda", "triggers") for block in _kserve_llm_blocks(self)]
        else:
            lists = [("spec", "triggers")] if self.keda else []
        return tuple(trigger for path in lists for trigger in _triggers(self.resource.data, path))

    @cached_property
    def signals(self) -> tuple[Signal | ResourceSignal, ...]:
        """Everything it scales on."""
        read = _SIGNALS.get(self.kind)
        return tuple(read(self)) if read else ()

    @cached_property
    def bounds(self) -> tuple[Bounds, ...]:
        """The bounds of each thing it scales: one, or one for each scaling block inside the kind."""
        return tuple(self._bounds())

    def _bounds(self) -> Iterator[Bounds]:
        for block in _BLOCKS[self.kind](self) if self.kind in _BLOCKS else (("spec",),):
            low: Path = (*block, self.minimum_path[-1])
            high: Path = (*block, self.maximum_path[-1])
            written = (at(self.resource.data, *low), at(self.resource.data, *high))
            yield Bounds(low, high, _whole(written[0]), _whole(written[1]))

    @property
    def behavior_path(self) -> Path:
        """Where the rates and windows of its HPA stand."""
        return ("spec", *(("advanced", "horizontalPodAutoscalerConfig") if self.keda else ()), "behavior")

    @property
    def made_by(self) -> str:
        """Kind of the controller that made it, such as KEDA's HPA of a ScaledObject; empty: somebody wrote it."""
        for reference in sequence(at(self.resource.data, "metadata", "ownerReferences")):
            if at(reference, "controller") is True:
                return text(at(reference, "kind")) or ""
        return ""

    @property
    def minimum_path(self) -> Path:
        return ("spec", "minReplicaCount" if self.keda else "minReplicas")

    @property
    def maximum_path(self) -> Path:
        return ("spec", "maxReplicaCount" if self.keda else "maxReplicas")

    @property
    def minimum(self) -> int | None:
        return _whole(at(self.spec, *self.minimum_path[1:]))

    @property
    def maximum(self) -> int | None:
        return _whole(at(self.spec, *self.maximum_path[1:]))


_APPS_KINDS = {"Deployment", "StatefulSet", "ReplicaSet"}


def _whole(value: Any) -> int | None:
    amount = quantity(value) if isinstance(value, str) else number(value)
    return int(amount) if amount is not None and amount == int(amount) else None


def _triggers(data: Mapping[str, Any], path: Path) -> Iterator[Trigger]:
    for index, entry in enumerate(sequence(at(data, *path))):
        fields = mapping(entry)
        yield Trigger(
            (*path, index),
            text(fields.get("type")) or "",
            text(fields.get("name")) or "",
            text(fields.get("metricType")) or "",
            dict(mapping(fields.get("metadata"))),
        )


# The metadata keys of KEDA's scalers (2.20) that name a metric or hold a query.
_TRIGGER_TEXTS: dict[str, tuple[tuple[str, Language], ...]] = {
    "prometheus": (("query", Language.PROMQL),),
    "datadog": (("query", Language.WORDS), ("datadogMetricName", Language.NAME)),
    "aws-cloudwatch": (("metricName", Language.NAME), ("expression", Language.WORDS)),
    "gcp-stackdriver": (("filter", Language.WORDS),),
    "azure-monitor": (("metricName", Language.NAME),),
    "azure-log-analytics": (("query", Language.WORDS),),
    "new-relic": (("nrql", Language.WORDS),),
    "dynatrace": (("metricSelector", Language.WORDS), ("query", Language.WORDS)),
    "graphite": (("query", Language.WORDS),),
    "influxdb": (("query", Language.WORDS),),
    "loki": (("query", Language.WORDS),),
    "metrics-api": (("url", Language.WORDS), ("valueLocation", Language.WORDS)),
    "external": (("metricName", Language.NAME), ("metricType", Language.NAME), ("query", Language.WORDS)),
    "external-push": (("metricName", Language.NAME), ("metricType", Language.NAME), ("query", Language.WORDS)),
    "splunk-observability": (("query", Language.WORDS),),
    "sumologic": (("query", Language.WORDS),),
    "huawei-cloudeye": (("metricName", Language.NAME),),
}


def _keda_signals(scaler: Scaler) -> Iterator[Signal | ResourceSignal]:
    for trigger in scaler.triggers:
        if trigger.type in ("cpu", "memory"):
            yield ResourceSignal((*trigger.path, "type"), trigger.type)
        for key, language in _TRIGGER_TEXTS.get(trigger.type, ()):
            if written := text(trigger.metadata.get(key)):
                yield Signal((*trigger.path, "metadata", key), language, written, _threshold(trigger))


def _threshold(trigger: Trigger) -> Goal | None:
    """The target of a Prometheus trigger; KEDA takes AverageValue where no metricType is written."""
    if trigger.type != "prometheus":
        return None
    path: Path = (*trigger.path, "metadata", "threshold")
    return Goal(path, trigger.metric_type or "AverageValue", quantity(trigger.says("threshold")))


def _hpa_signals(scaler: Scaler) -> Iterator[Signal | ResourceSignal]:
    if known(scaler.spec.get("targetCPUUtilizationPercentage")) is not None:
        yield ResourceSignal(("spec", "targetCPUUtilizationPercentage"), "cpu")
    yield from _metric_list(scaler.spec.get("metrics"), ("spec", "metrics"))


def _metric_list(written: Any, path: Path) -> Iterator[Signal | ResourceSignal]:
    """HPA's list of metrics: v2 (`pods.metric.name`) and v2beta1 (`pods.metricName`)."""
    for index, entry in enumerate(sequence(written)):
        fields = mapping(entry)
        for source in ("resource", "containerResource"):
            if name := text(at(fields, source, "name")):
                yield ResourceSignal((*path, index, source, "name"), name)
        for source in ("pods", "object", "external"):
            if name := text(at(fields, source, "metric", "name")):
                goal = _metric_target(at(fields, source, "target"), (*path, index, source, "target"))
                yield Signal((*path, index, source, "metric", "name"), Language.NAME, name, goal)
            if name := text(at(fields, source, "metricName")):
                yield Signal((*path, index, source, "metricName"), Language.NAME, name)


def _metric_target(written: Any, path: Path) -> Goal | None:
    """HPA v2 `target: {type: AverageValue, averageValue: "4"}`."""
    kind = text(at(written, "type")) or ""
    amount = at(written, {"AverageValue": "averageValue", "Value": "value"}.get(kind, "averageUtilization"))
    return Goal(path, kind, quantity(amount)) if isinstance(written, dict) else None


def _kserve_signals(scaler: Scaler) -> Iterator[Signal | ResourceSignal]:
    """InferenceService `spec.<component>.autoScaling.metrics` (KServe 0.15)."""
    for component in ("predictor", "transformer", "explainer"):
        if (metric := text(at(scaler.spec, component, "scaleMetric"))) in ("cpu", "memory"):
            yield ResourceSignal(("spec", component, "scaleMetric"), metric)
        path: Path = ("spec", component, "autoScaling", "metrics")
        for index, entry in enumerate(sequence(at(scaler.resource.data, *path))):
            if name := text(at(entry, "resource", "name")):
                yield ResourceSignal((*path, index, "resource", "name"), name)
            for source in ("external", "podmetric"):
                if query := text(at(entry, source, "metric", "query")):
                    prometheus = (text(at(entry, source, "metric", "backend")) or "prometheus") in (
                        "prometheus",
                        "opentelemetry",
                    )
                    yield Signal(
                        (*path, index, source, "metric", "query"),
                        Language.PROMQL if prometheus else Language.WORDS,
                        query,
                    )
                for position, name in enumerate(sequence(at(entry, source, "metric", "metricNames"))):
                    if text(name):
                        yield Signal((*path, index, source, "metric", "metricNames", position), Language.NAME, name)


def _aibrix_signals(scaler: Scaler) -> Iterator[Signal | ResourceSignal]:
    for index, entry in enumerate(sequence(scaler.spec.get("metricsSources"))):
        if name := text(at(entry, "targetMetric")):
            yield Signal(("spec", "metricsSources", index, "targetMetric"), Language.NAME, name)


def _grove_signals(scaler: Scaler) -> Iterator[Signal | ResourceSignal]:
    template: Path = ("spec", "template")
    for index, entry in enumerate(sequence(at(scaler.resource.data, *template, "cliques"))):
        metrics = at(entry, "spec", "autoScalingConfig", "metrics")
        yield from _metric_list(metrics, (*template, "cliques", index, "spec", "autoScalingConfig", "metrics"))
    for index, entry in enumerate(sequence(at(scaler.resource.data, *template, "podCliqueScalingGroups"))):
        yield from _metric_list(
            at(entry, "scaleConfig", "metrics"), (*template, "podCliqueScalingGroups", index, "scaleConfig", "metrics")
        )


_SIGNALS: dict[str, Callable[[Scaler], Iterator[Signal | ResourceSignal]]] = {
    kinds.HPA: _hpa_signals,
    kinds.SCALED_OBJECT: _keda_signals,
    kinds.SCALED_JOB: _keda_signals,
    kinds.INFERENCE_SERVICE: _kserve_signals,
    kinds.LLM_INFERENCE_SERVICE: _keda_signals,
    kinds.POD_AUTOSCALER: _aibrix_signals,
    kinds.POD_CLIQUE_SET: _grove_signals,
}


def _kserve_blocks(scaler: Scaler) -> Iterator[Path]:
    return (("spec", part) for part in ("predictor", "transformer", "explainer") if part in scaler.spec)


def _kserve_llm_blocks(scaler: Scaler) -> Iterator[Path]:
    for block in (("spec", "scaling"), ("spec", "prefill", "scaling")):
        if isinstance(at(scaler.resource.data, *block), dict):
            yield block


def _grove_blocks(scaler: Scaler) -> Iterator[Path]:
    for listing, block in (("cliques", ("spec", "autoScalingConfig")), ("podCliqueScalingGroups", ("scaleConfig",))):
        for index, entry in enumerate(sequence(at(scaler.spec, "template", listing))):
            if isinstance(at(entry, *block), dict):
                yield ("spec", "template", listing, index, *block)


# Where kinds that scale themselves write their bounds; all others write them in `spec`.
_BLOCKS: dict[str, Callable[[Scaler], Iterator[Path]]] = {
    kinds.INFERENCE_SERVICE: _kserve_blocks,
    kinds.LLM_INFERENCE_SERVICE: _kserve_llm_blocks,
    kinds.POD_CLIQUE_SET: _grove_blocks,
}
