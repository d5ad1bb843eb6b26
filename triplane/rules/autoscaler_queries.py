"""Judgements on queries and their targets: what they mean when pods are gone, roles differ or numbers have bounds."""

import re
from collections.abc import Iterator

from triplane import catalog
from triplane.documents import Path
from triplane.inventory import Scaler, kinds
from triplane.inventory.fields import at, quantity, text
from triplane.inventory.metrics import MetricAliases
from triplane.inventory.queries import UnparsableQuery, promql_series
from triplane.inventory.roles import (
    DECODE,
    PREFILL,
    ServingRoles,
    from_serving_pods,
    names_read,
    origin_of,
    what_is_asked,
)
from triplane.inventory.scalers import Language, Signal
from triplane.inventory.scaling import Scaling, minimum
from triplane.inventory.workloads import ROLE_LABEL, Workload
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Edit, Verdicts, fail, unknown

# An HPA leaves the count alone while usage is within a tenth of the target (its cluster-wide default).
TOLERANCE = 0.1


@rule(
    "AS407",
    "each-role-follows-its-own-load",
    on=Scaler,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    fix='Give each role a scaler of its own and its query a selector of the role: {llm_d_ai_role="decode"}.',
    sources=(
        "https://github.com/llm-d/llm-d-autoscaling/issues/1213",
        "https://github.com/llm-d/llm-d-autoscaling/issues/1325",
    ),
)
def each_role_follows_its_own_load(scaler: Scaler, context: Context) -> Verdicts:
    """Prefill and decode must each be scaled on their own pods' load.

    A long prompt loads prefill, a long answer decode. If both scalers ask one and the same question, a burst of either
    kind grows both, and what one of them takes too much is missing to the other; the same if one scaler multiplies a
    set that holds both roles. Queries are compared by their meaning, not their layout.

    Only series of the serving pods, and the endpoint picker's sums over a pool, are judged: requests as they arrive at
    the router are demand on both roles, and either may be scaled on them with a target of its own.
    """
    roles = context.inventory.relation(ServingRoles)
    workload = context.inventory.relation(Scaling).target_workload(scaler) if scaler.target else None
    if workload is not None and scaler.target is not None and {PREFILL, DECODE} <= _roles_within(workload):
        what = f"{workload.resource}"
        consequence = "it holds both roles, so prefill grows whenever decode must"
        yield fail(scaler.target.path, what, consequence, related=(workload.resource,))
    if roles.role(scaler) != DECODE:
        return
    for signal, names in names_read(scaler):
        asked = what_is_asked(scaler, signal)
        others = roles.readers(asked, PREFILL) if asked else []
        if others and any(from_serving_pods(name) for name in names):
            consequence = f"{others[0].resource} asks the same for prefill, so a burst of either kind grows both"
            yield fail(signal.path, signal.text, consequence, related=(others[0].resource,))


def _roles_within(workload: Workload) -> set[str]:
    return {text(template.labels.get(ROLE_LABEL)) or template.role for template in workload.templates}


@rule(
    "AS416",
    "missing-series-is-not-read-as-zero-load",
    on=Scaler,
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    fix='Write ignoreNullValues: "false", and a fallback with behavior currentReplicasIfHigher.',
    autofix=True,
    versions="fallback.behavior: KEDA 2.18 and later.",
    sources=(
        "https://keda.sh/docs/2.20/scalers/prometheus/",
        "https://github.com/kedacore/keda/issues/3065",
        "https://github.com/kedacore/keda/issues/4249",
    ),
)
def missing_series_is_not_read_as_zero_load(scaler: Scaler, context: Context) -> Verdicts:
    """A series that is missing must not be read as no load.

    KEDA takes an empty answer of Prometheus for 0 unless ignoreNullValues is "false": a renamed metric, a broken scrape
    or a label that changed scales down to the minimum at peak.

    A fallback does not help by itself, although one might think so: it counts errors, and an empty answer read as 0 is
    none. With "false" the error makes the HPA hold the count, and the fallback can act.
    """
    for trigger in scaler.triggers:
        if trigger.type != "prometheus" or (trigger.says("ignoreNullValues") or "true").lower() in _FALSE:
            continue
        path: Path = (*trigger.path, "metadata", "ignoreNullValues")
        # At zero replicas the series may rightly be missing, and an error would keep the count there.
        edits = (Edit(path, "false"),) if minimum(scaler) > 0 else ()
        consequence = "an outage of the scrape reads as no load, and replicas go to the minimum"
        yield fail(path, trigger.metadata.get("ignoreNullValues"), consequence, default='"true"', edits=edits)


_FALSE = frozenset(("false", "f", "0"))  # Go's strconv.ParseBool


@rule(
    "AS417",
    "scale-from-zero-has-a-signal-that-exists-at-zero",
    on=Scaler,
    severity=Severity.ERROR,
    profile=Profile.CORE,
    fix="Write a minimum of 1, or add a trigger on requests counted before the pods: a gateway's, a broker's.",
    sources=(
        "https://github.com/llm-d/llm-d/pull/2492",
        "https://github.com/vllm-project/production-stack/pull/679",
        "https://github.com/kedacore/keda/issues/7239",
    ),
)
def scale_from_zero_has_a_signal_that_exists_at_zero(scaler: Scaler, context: Context) -> Verdicts:
    """A scaler that may go to zero must have a signal that exists while nothing runs.

    An engine's own series ends with its last pod, and so do the endpoint picker's sums over a pool. Nothing then raises
    the count again: the model is off until somebody notices. A fallback does not lift a count from zero either. The
    endpoint picker's flow-control queue exists only once a pod was ready, which cannot be told from here.
    """
    if scaler.kind not in (kinds.HPA, kinds.SCALED_OBJECT) or scaler.made_by or minimum(scaler) > 0:
        return
    read = list(names_read(scaler))
    # CPU and memory are read from running pods, too.
    waking = [trigger for trigger in scaler.triggers if trigger.type not in ("cpu", "memory")]
    others = len(waking) - len({signal.path[2] for signal, _ in read}) if scaler.keda else 0
    if others or not read:
        return  # a trigger on something else, such as a broker's queue or the clock, wakes it
    if all(names and all(from_serving_pods(name) for name in names) for _, names in read):
        for signal, _ in read:
            yield fail(signal.path, signal.text, "only running pods export it, so nothing brings the count back from 0")
    elif all(any(origin_of(name) == "epp" for name in names) for _, names in read):
        yield unknown(read[0][0].path, "the endpoint picker has this series only once a pod was ready")


@rule(
    "AS419",
    "custom-metric-is-served-by-an-adapter",
    on=Scaler,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("external", "missing_references"),
    fix="Add the adapter's rule, correct the name, or list it under `external` as Metric/<name>.",
    sources=(
        "https://github.com/triton-inference-server/server/issues/3897",
        "https://github.com/NVIDIA/gpu-monitoring-tools/issues/179",
        "https://github.com/kubernetes-sigs/prometheus-adapter/blob/master/docs/config.md",
    ),
)
def custom_metric_is_served_by_an_adapter(scaler: Scaler, context: Context) -> Verdicts:
    """A custom metric of an HPA must be served under that very name.

    Custom and external metrics come from an adapter, which serves the names in its rules and no others; they are often
    not the names in Prometheus (colons become underscores). For any other name the HPA reads <unknown> and holds the
    count. KEDA's queries need no adapter.
    """
    if scaler.kind != kinds.HPA or scaler.made_by:
        return
    aliases = context.inventory.relation(MetricAliases)
    for signal in scaler.signals:
        # Stackdriver's adapter serves every metric of Google's, with bars for slashes.
        if not isinstance(signal, Signal) or "|" in signal.text or signal.text in aliases.exposed:
            continue
        if aliases.exposes_by_pattern or context.parameters.is_external("Metric", signal.text):
            continue
        if aliases.exposed or context.parameters.missing_references == "fail":
            yield fail(signal.path, signal.text, "no adapter here serves this name, so the count never changes")
        else:
            yield unknown(signal.path, f"no adapter is in the input that serves {signal.text}")


@rule(
    "AS421",
    "custom-metric-has-an-absolute-target",
    on=Scaler,
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    fix="Use AverageValue (a total, shared by the replicas) or Value (a ratio that is already per replica).",
    sources=(
        "https://github.com/NVIDIA/dcgm-exporter/issues/269",
        "https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/horizontal-pod-autoscaler-v2/",
        "https://keda.sh/docs/2.20/reference/scaledobject-spec/#triggers",
    ),
)
def custom_metric_has_an_absolute_target(scaler: Scaler, context: Context) -> Verdicts:
    """Only cpu and memory can have a target in percent.

    Utilization is a share of what a container requests, and nobody requests queue length. The API server refuses such a
    Pods, Object or External metric, KEDA such a trigger, or the HPA reports an invalid metric and holds the count.
    """
    for signal in scaler.signals:
        if isinstance(signal, Signal) and not scaler.keda and signal.goal and signal.goal.type == "Utilization":
            yield fail((*signal.goal.path, "type"), "Utilization", "there is no request to take a share of")
    for trigger in scaler.triggers:
        if trigger.metric_type == "Utilization" and trigger.type not in ("cpu", "memory"):
            consequence = f"KEDA knows it for cpu and memory only, so the {trigger.type} trigger fails"
            yield fail((*trigger.path, "metricType"), "Utilization", consequence)


@rule(
    "AS423",
    "target-can-be-exceeded",
    on=Scaler,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    fix="Set the target to about 80 % of the most that a replica can reach.",
    sources=(
        "https://github.com/defilantech/LLMKube/issues/482",
        "https://docs.vllm.ai/en/latest/configuration/optimization.html",
    ),
)
def target_can_be_exceeded(scaler: Scaler, context: Context) -> Verdicts:
    """A target must lie below what the metric can reach in a replica.

    A server runs at most --max-num-seqs requests at once (SGLang: --max-running-requests), and the fill of a KV cache
    ends at 1, also where its name says percent. With a target at that bound, or within the tenth an HPA tolerates, the
    scaler never scales up: requests wait in front of full servers.

    Judged are names as they stand and plain aggregations of one series; a computed value may have any range.
    """
    for signal, names in names_read(scaler):
        goal = signal.goal
        if goal is None or goal.amount is None or goal.type != "AverageValue" or not _plain(signal) or len(names) != 1:
            continue
        (name,) = names
        if context.inventory.relation(MetricAliases).defines(name):
            continue
        most, why = _most(name, context.inventory.relation(Scaling).target_workload(scaler))
        tolerance = quantity(at(scaler.resource.data, *scaler.behavior_path, "scaleUp", "tolerance"))
        if most and goal.amount * (1 + (TOLERANCE if tolerance is None else tolerance)) >= most:
            yield fail(_amount_path(goal.path, scaler), goal.amount, f"{why}, so it never scales up")


def _amount_path(path: Path, scaler: Scaler) -> Path:
    return path if scaler.keda else (*path, "averageValue")


_AGGREGATED = re.compile(r"(?:(?:sum|avg|max|min)(?: (?:by|without) \([^()]*\))?\s*\(\s*)?[\w:]+\)?")
_SELECTOR = re.compile(r"\{(?:[^{}\"]|\"(?:[^\"\\]|\\.)*\")*\}")


def _plain(signal: Signal) -> bool:
    """Whether the value is one series, summed or averaged at most."""
    if signal.language is not Language.PROMQL:
        return signal.language is Language.NAME
    try:
        return _AGGREGATED.fullmatch(_SELECTOR.sub("", promql_series(signal.text).canonical)) is not None
    except UnparsableQuery:
        return False


_CONCURRENCY = re.compile(r"--(?:max[-_]num[-_]seqs|max[-_]running[-_]requests)[= ](\d{1,6})\b")


def _most(name: str, workload: Workload | None) -> tuple[float, str]:
    """The most that a replica's value of a series can be, and why; 0 where it has no bound or that is not known."""
    fact = catalog.metric_class(name)
    if fact is not None and fact.meaning == "kv_usage":
        return 1.0, "a KV cache is full at 1"
    if fact is not None and fact.meaning == "running" and workload is not None:
        bounds = list(_concurrency(workload))
        if len(bounds) == 1:
            return bounds[0], f"a replica runs at most {bounds[0]:g} requests at once"
    return 0.0, ""


def _concurrency(workload: Workload) -> Iterator[float]:
    for template in workload.templates:
        for container in template.containers:
            words = " ".join(container.words)
            # With several engines in a pod each has the bound for itself.
            if "--data-parallel" not in words:
                yield from (float(bound) for bound in _CONCURRENCY.findall(words))
