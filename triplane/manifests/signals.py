"""What a role scales on: its signal as PromQL, with the target that belongs to the query's shape.

The shape decides the target's type. A sum of per-replica amounts (tokens, requests, KV fractions) takes AverageValue,
where the autoscaler proposes `ceil(sum / target)`. A latency takes Value, where it proposes `ceil(ratio x ready
replicas)`. Swapped, the first grows with the square of the fleet and the second never leaves two replicas.

No query ends in `or vector(0)`: with at least one replica a missing series is an outage, and an outage that reads as
zero scales a loaded fleet down.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from triplane import catalog
from triplane.manifests import labels
from triplane.manifests.identity import ManifestError
from triplane.settings.models import DynamoTarget, ModelSettings, RoleName, RoleSettings

# Prometheus writes the pods' labels on their series where the PodMonitor lists them in podTargetLabels, with every
# character outside [a-zA-Z0-9_] turned into an underscore.
MODEL_LABEL = re.sub(r"[^a-zA-Z0-9_]", "_", labels.MODEL)
ROLE_LABEL = re.sub(r"[^a-zA-Z0-9_]", "_", labels.ROLE)

# llm-d names the instance of its in-flight load producer so in every guide (llm-d guides, 2026-11). With two instances
# configured, each counts every request.
_PRODUCER = "inflight-load-producer"

# Wide enough that a 99th percentile has samples at one request a second; the lag is bounded by the capped scale-up.
_LATENCY_RANGE = "5m"


@dataclass(frozen=True)
class Trigger:
    """One query and the target it is compared with."""

    name: str
    query: str
    """PromQL that gives exactly one value."""
    series: str
    """Selector of the series that the query reads: present while the source is scraped."""
    target_type: Literal["AverageValue", "Value"]
    target: Decimal
    """In the query's unit: seconds, requests, or a share of one replica's KV cache."""


def role_triggers(
    model_name: str, model: ModelSettings, role_name: RoleName, target: Mapping[str, Any]
) -> tuple[Trigger, ...]:
    """The role's signal, and the TTFT objective beside it where the model has one. `target` is its scale target."""
    role = model.roles[role_name]
    triggers = [_signal(model_name, model, role_name, target)]
    if model.slo is not None and role_name != "decode" and role.signal.wva is None:
        triggers.append(_ttft(model_name, model, role_name))
    return tuple(triggers)


def _signal(model_name: str, model: ModelSettings, role_name: RoleName, target: Mapping[str, Any]) -> Trigger:
    role = model.roles[role_name]
    signal = role.signal
    place = f"models.{model_name}.roles.{role_name}.signal"
    pods = {"namespace": model.namespace, MODEL_LABEL: model_name, ROLE_LABEL: labels.role_label(role_name)}

    def engine(meaning: str, **more: str) -> str:
        return select(catalog.metric(model.engine.name, model.engine.version, meaning), {**pods, **more})

    if signal.backlog is not None:
        if signal.tokens_per_second is None:
            raise ManifestError(f"{place}: backlog needs tokensPerSecond, one replica's prefill rate")
        series = select(
            catalog.metric("epp", "", "inflight_tokens"),
            {"namespace": model.namespace, "producer_name": _PRODUCER},
            {"endpoint_name": endpoint_pattern(role, target)},
        )
        seconds = Decimal(str(signal.backlog.total_seconds()))
        return Trigger(
            "backlog", f"sum({series}) / {number(signal.tokens_per_second)}", series, "AverageValue", seconds
        )

    if signal.kv_usage is not None:
        series = engine("kv_usage")
        query = f"sum({_per_replica(series, role, target)})"
        return Trigger("kv-usage", query, series, "AverageValue", Decimal(str(signal.kv_usage)))

    if signal.queue_depth is not None:
        series = _waiting(model, engine)
        return Trigger("queue-depth", f"sum({series})", series, "AverageValue", Decimal(signal.queue_depth))

    if signal.concurrency is not None:
        series = engine("running")
        return Trigger("concurrency", f"sum({series})", series, "AverageValue", Decimal(signal.concurrency))

    if signal.flow_control_queue is not None:
        if signal.inference_pool is None:
            raise ManifestError(f"{place}: flowControlQueue needs inferencePool, which labels the EPP's queue")
        series = select(
            catalog.metric("epp", "", "flow_control_queue"),
            {"namespace": model.namespace, "inference_pool": signal.inference_pool},
        )
        return Trigger(
            "flow-control-queue", f"sum({series})", series, "AverageValue", Decimal(signal.flow_control_queue)
        )

    if signal.wva is not None:
        # WVA labels its decision with the name of the scaler that carries its annotations. max, not sum: two
        # controller installs publish one series each, and their sum doubles the fleet (llm-d-autoscaling #1044).
        series = select(
            catalog.metric("wva", "", "desired_replicas"),
            {"namespace": model.namespace, "variant_name": labels.role_name(model_name, role_name)},
        )
        return Trigger("wva", f"max({series})", series, "AverageValue", Decimal(1))

    raise ManifestError(f"{place}: no signal is set")


def _ttft(model_name: str, model: ModelSettings, role_name: RoleName) -> Trigger:
    """The 99th percentile of TTFT as a trigger that may add replicas, and never decides to remove one.

    An autoscaler takes the highest proposal of its triggers, so a trigger is silent when it proposes nothing: below the
    objective the query gives 0. Without requests the percentile is NaN, which KEDA counts as a failure and the
    HPA then removes nothing; the comparison drops it, and `0 * rate(count)` stands in while the series exist. Above the
    objective the value is at most twice the target: latency stays high while replicas load, and must not compound.
    Never the only trigger: with no ready pod, Value proposes 0 (kubernetes #130130).
    """
    assert model.slo is not None
    target = Decimal(str(model.slo.ttft_p99.total_seconds()))
    if any(role.signal.backlog or role.signal.flow_control_queue for role in model.roles.values()):
        # The EPP is in the path and sees its own queue. For a response that is not streamed it records the whole
        # duration as TTFT (llm-d-router 0.10, request_ttft_seconds).
        name = catalog.metric("epp", "", "ttft")
        requests = {"namespace": model.namespace, "model_name": model.served_name or model.model}
        streamed = {**requests, "streaming": "true"}
    else:
        # With prefill and decode apart, the first token leaves the decode engine: its histogram has the request's TTFT.
        name = catalog.metric(model.engine.name, model.engine.version, "ttft")
        first_token_role: RoleName = "decode" if "decode" in model.roles else role_name
        requests = streamed = {
            "namespace": model.namespace,
            MODEL_LABEL: model_name,
            ROLE_LABEL: labels.role_label(first_token_role),
        }
    percentile = f"histogram_quantile(0.99, sum by (le) (rate({select(name + '_bucket', streamed)}[{_LATENCY_RANGE}])))"
    count = select(name + "_count", requests)
    query = (
        f"clamp_max({percentile} > {number(target)}, {number(2 * target)}) or 0 * sum(rate({count}[{_LATENCY_RANGE}]))"
    )
    return Trigger("ttft-p99", query, count, "Value", target)


def _per_replica(series: str, role: RoleSettings, target: Mapping[str, Any]) -> str:
    """One KV usage for each replica, whatever number of engines it has.

    A data-parallel rank reports a usage of its own, in one pod under the label `engine` and in a LeaderWorkerSet from
    several pods; summed over ranks, a replica would count as many (llm-d-autoscaling #1469).
    """
    if target["kind"] == "LeaderWorkerSet" and role.hosts > 1:
        group = f'label_replace({series}, "group", "$1", "pod", "{target["name"]}-([0-9]+)(-[0-9]+)?")'
        return f"avg by (group) ({group})"
    return f"avg by (pod) ({series})"


def endpoint_pattern(role: RoleSettings, target: Mapping[str, Any]) -> str:
    """A regular expression for the EPP's names of the role's endpoints, `<pod>-rank-<index>` (llm-d-router 0.10).

    The EPP's series carry no role, so the pod's name must tell. It follows the name's grammar by kind: a bare prefix
    `chat-prefill-.*` would also take in the pods of a model `chat-prefill`. PromQL anchors it on both sides.
    """
    name = target["name"]
    if isinstance(role.target, DynamoTarget):
        # <deployment>-<component>-..., under Grove <deployment>-<replica>-<component>-...
        component = re.escape(role.target.component.lower()).replace(r"\-", "-")
        pod = f"{role.target.deployment}(-[0-9]+)?-{component}-.*"
    elif target["kind"] == "Deployment":
        # <name>-<hash>-<5 characters>; the API server cuts the part before the last five to 58 characters.
        pod = f"{(name + '-')[:58]}[a-z0-9]*-?[a-z0-9]{{5}}"
    elif target["kind"] in ("LeaderWorkerSet", "StatefulSet"):
        pod = f"{name}-[0-9]+(-[0-9]+)?"
    else:
        pod = f"{name}-.*"
    return f"{pod}-rank-[0-9]+"


def select(metric: str, equal: Mapping[str, str], match: Mapping[str, str] | None = None) -> str:
    """A PromQL selector: `metric{label="value",other=~"pattern"}`."""
    matchers = [f"{label}={_quoted(value)}" for label, value in equal.items()]
    matchers += [f"{label}=~{_quoted(pattern)}" for label, pattern in (match or {}).items()]
    return f"{metric}{{{','.join(matchers)}}}"


def number(value: float | Decimal) -> str:
    """A number as PromQL and KEDA read it, without an exponent: `1.2`, `10000`."""
    text = f"{Decimal(str(value)):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _waiting(model: ModelSettings, engine: Callable[..., str]) -> str:
    """Requests that wait for capacity. vLLM's total also counts those deferred until their KV cache arrives, which more
    replicas of the waiting role do not help; its split by reason came with vLLM PR #38435."""
    if catalog.supports(model.engine.name, model.engine.version, "waiting-by-reason"):
        return engine("waiting_by_reason", reason="capacity")
    return engine("waiting")
