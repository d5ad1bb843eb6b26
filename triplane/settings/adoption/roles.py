"""ScaledObjects and HorizontalPodAutoscalers as roles of models, as far as their targets say what they serve."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from triplane import catalog
from triplane.settings.adoption.objects import (
    Inexpressible,
    Object,
    get,
    label_of,
    listed,
    mapping,
    name_of,
    namespace_of,
    of_kind,
    title,
    whole,
)
from triplane.settings.values import format_duration, parse_duration

_ROLE_LABELS = ("llm-d.ai/role", "app.kubernetes.io/component")
_MODEL_LABELS = ("llm-d.ai/model", "app.kubernetes.io/part-of")
_POOL_LABELS = ("triplane.dev/pool", "karpenter.sh/nodepool")
_QUEUE_LABEL = "kai.scheduler/queue"
_ROLES = ("prefill", "decode", "aggregated")
_ENGINES = {"vllm": "vllm", "sglang": "sglang", "tensorrt": "trtllm", "trtllm": "trtllm"}
_METRIC = re.compile(r"[a-zA-Z_][a-zA-Z0-9_:]*")


def adopt_roles(objects: Iterable[Object], pools: set[str], notes: list[Inexpressible]) -> dict[str, Any]:
    """Models with the roles whose autoscaler, target and signal are all understood; each other scaler is noted."""
    found = list(objects)
    models: dict[str, Any] = {}
    scalers = [*of_kind(found, "ScaledObject", "keda.sh"), *of_kind(found, "HorizontalPodAutoscaler", "autoscaling")]
    for scaler in scalers:
        try:
            model_name, model, role_name, role = _role(scaler, found, pools)
        except ValueError as reason:
            message = f"{reason}: left as it is. Keep it under manifests:, or write its role by hand"
            notes.append(Inexpressible(title(scaler), "", message))
            continue
        roles = models.setdefault(model_name, {**model, "roles": {}})["roles"]
        roles[role_name] = role
        notes.append(Inexpressible(title(scaler), "", "windows and rate caps follow coldStart now, not what it says"))
        if name_of(scaler) != f"{model_name}-{role_name}":
            message = f"its successor is {model_name}-{role_name}: delete it first, or both scale one target"
            notes.append(Inexpressible(title(scaler), "metadata.name", message))
    return models


def _role(scaler: Object, objects: list[Object], pools: set[str]) -> tuple[str, dict[str, Any], str, dict[str, Any]]:
    spec = mapping(scaler.get("spec"))
    reference = mapping(spec.get("scaleTargetRef"))
    target = _target(scaler, reference, objects)
    pod = _pod(target)
    role_name = _role_name(scaler, target)
    engine, model = _served(pod)
    is_keda = scaler.get("kind") == "ScaledObject"
    least, most = (
        whole(spec.get(key))
        for key in (("minReplicaCount", "maxReplicaCount") if is_keda else ("minReplicas", "maxReplicas"))
    )
    if most is None:
        raise ValueError("it has no maximum")
    role = {
        "pool": _pool(pod, pools),
        "queue": _queue(target, pod),
        "gpus": _gpus(pod),
        "replicas": {"min": least if least is not None else (0 if is_keda else 1), "max": most},
        "signal": _signal(spec) if is_keda else _no_signal(),
        "target": {
            "apiVersion": str(reference.get("apiVersion", "apps/v1")),
            "kind": str(reference.get("kind", "Deployment")),
            "name": str(reference.get("name")),
        },
    }
    size = whole(get(target, "spec", "leaderWorkerTemplate", "size"))
    if size and size > 1:
        role["hosts"] = size
    model_name = next((str(label) for key in _MODEL_LABELS if (label := label_of(target, key))), None)
    model_name = model_name or name_of(target).removesuffix(f"-{role_name}")
    block = {
        "model": model,
        "engine": engine,
        "namespace": namespace_of(scaler),
        "coldStart": _cold_start(pod),
    }
    return model_name, block, role_name, role


def _target(scaler: Object, reference: Mapping[str, Any], objects: list[Object]) -> Object:
    kind, name = reference.get("kind", "Deployment"), reference.get("name")
    for item in objects:
        if item.get("kind") == kind and name_of(item) == name and namespace_of(item) == namespace_of(scaler):
            return item
    raise ValueError(f"its target, {kind} {name}, is not among the objects")


def _pod(target: Object) -> Mapping[str, Any]:
    template = get(target, "spec", "template") or get(target, "spec", "leaderWorkerTemplate", "workerTemplate")
    if not isinstance(template, Mapping):
        raise ValueError("its target has no pod template")  # noqa: TRY004 - a reason why not, as the others here
    return template


def _role_name(scaler: Object, target: Object) -> str:
    for item in (scaler, target):
        for label in (label_of(item, key) for key in _ROLE_LABELS):
            if label in _ROLES:
                return str(label)
    return next((role for role in _ROLES if name_of(target).endswith(f"-{role}")), "aggregated")


def _served(pod: Mapping[str, Any]) -> tuple[dict[str, str], str]:
    for container in listed(get(pod, "spec", "containers")):
        image = str(get(container, "image") or "")
        engine = next((engine for word, engine in _ENGINES.items() if word in image), None)
        version = re.search(r":v?(\d+\.\d+(?:\.\d+)?)", image)
        words = [str(word) for key in ("command", "args") for word in listed(get(container, key))]
        model = _model(words)
        if engine and version and model:
            return {"name": engine, "version": version[1]}, model
    raise ValueError("no container tells engine, version and model by its image and arguments")


def _model(words: list[str]) -> str | None:
    for index, word in enumerate(words):
        flag, _, value = word.partition("=")
        if flag in ("--model", "--model-path"):
            return value or (words[index + 1] if index + 1 < len(words) else None)
        if word == "serve" and index + 1 < len(words) and not words[index + 1].startswith("-"):
            return words[index + 1]
    return None


def _pool(pod: Mapping[str, Any], pools: set[str]) -> str:
    selector = mapping(get(pod, "spec", "nodeSelector"))
    for key in _POOL_LABELS:
        if selector.get(key) in pools:
            return str(selector[key])
    raise ValueError("its pods select none of the adopted pools")


def _queue(target: Object, pod: Mapping[str, Any]) -> str:
    queue = label_of(target, _QUEUE_LABEL) or label_of(pod, _QUEUE_LABEL)
    if not queue:
        raise ValueError(f"its pods carry no label {_QUEUE_LABEL}")
    return str(queue)


def _gpus(pod: Mapping[str, Any]) -> int:
    containers = listed(get(pod, "spec", "containers"))
    gpus = sum(whole(get(container, "resources", "limits", "nvidia.com/gpu")) or 0 for container in containers)
    if gpus < 1:
        raise ValueError("its pods ask for no whole GPU")
    return gpus


def _cold_start(pod: Mapping[str, Any]) -> str:
    """A startup probe's whole budget: the longest that somebody allowed a start to take."""
    for container in listed(get(pod, "spec", "containers")):
        probe = mapping(get(container, "startupProbe"))
        if probe:
            seconds = (whole(probe.get("failureThreshold", 3)) or 3) * (whole(probe.get("periodSeconds", 10)) or 10)
            return format_duration(parse_duration(f"{seconds}s"))
    raise ValueError("no startup probe tells how long its pods take to start")


def _signal(spec: Mapping[str, Any]) -> dict[str, Any]:
    triggers = [mapping(trigger) for trigger in listed(spec.get("triggers"))]
    if len(triggers) != 1 or triggers[0].get("type") != "prometheus":
        raise ValueError("it has not exactly one trigger of type prometheus")
    metadata = mapping(triggers[0].get("metadata"))
    facts = [catalog.metric_class(word) for word in _METRIC.findall(str(metadata.get("query", "")))]
    known = [fact for fact in facts if fact is not None and fact.exact]
    device = next((fact for fact in known if fact.kind in ("duty-cycle", "memory", "power")), None)
    if device is not None:
        raise ValueError(f"it scales on {device.name}, which says nothing of demand")
    meanings = {fact.meaning for fact in known}
    try:
        threshold = float(str(metadata.get("threshold")))
    except ValueError:
        raise ValueError("its trigger has no threshold") from None
    if meanings == {"kv_usage"} and 0 < threshold <= 1:
        return {"kvUsage": f"{threshold * 100:g}%"}
    for meaning, key in (("waiting", "queueDepth"), ("running", "concurrency")):
        if meanings == {meaning} and threshold >= 1:
            return {key: round(threshold)}
    raise ValueError("its query is none that a signal stands for")


def _no_signal() -> dict[str, Any]:
    raise ValueError("an HPA's metric is named by an adapter, which the stack file does not read")
