"""What a role scales on: one measure of waiting or held work, and never what a device reports of itself."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from triplane import catalog
from triplane.documents import Path
from triplane.settings.declared import Declared
from triplane.settings.models import SignalSettings
from triplane.settings.values import format_duration
from triplane.settings.wording import Finding

MEASURES = {
    "backlog": "backlog",
    "kv_usage": "kvUsage",
    "queue_depth": "queueDepth",
    "concurrency": "concurrency",
    "flow_control_queue": "flowControlQueue",
    "wva": "wva",
}
"""Fields of a signal of which exactly one is set, with their keys."""

# Words that name the device or the container rather than its work, where the catalogue knows no metric of that name.
_DEVICE = re.compile(
    r"dcgm|nvml|duty.?cycle|gpu.?util|util.*gpu|gpu.?mem|vram|fb.?used|frame.?buffer|sm.?(active|occupancy)"
    r"|tensor.?active|gr.?engine|power|^(cpu|memory|gpu|utili[sz]ation|gpu.?usage|cpu.?utili[sz]ation)$",
    re.IGNORECASE,
)

_KEYS = {field.alias or name for name, field in SignalSettings.model_fields.items()}
# The name of an object, which may be anything.
_NAMES = {"inferencePool"}

# vLLM preempts sequences above about 0.9 of its KV cache, and computes them again.
MOST_KV_USAGE = 0.9


def device_metrics(values: Mapping[str, Any]) -> Iterator[Finding]:
    """Every duty cycle, memory or power figure in a role's `signal`, whatever key it stands under."""
    for model_name, model in _items(values.get("models")):
        for role_name, role in _items(_get(model, "roles")):
            path = ("models", model_name, "roles", role_name, "signal")
            for place, at_key, word in _words(_get(role, "signal"), path):
                if _is_device(word):
                    yield Finding(place, _refusal(word, role_name), at_key)
                    break


def _refusal(word: str, role_name: str) -> str:
    instead = {
        "prefill": "signal: {backlog: 1.2s, tokensPerSecond: 10000}, seconds of waiting prompt work",
        "decode": "signal: {kvUsage: 70%}, KV cache in use summed over the role",
    }.get(role_name, "signal: {queueDepth: 5}, requests waiting per replica, or kvUsage: 70%")
    why = "a GPU that serves reads near 100 % at any load, and its memory is full from the start"
    return f"{word} says nothing of demand: {why}. Use {instead}"


def _is_device(word: str) -> bool:
    fact = catalog.metric_class(word)
    if fact is not None and fact.exact:
        return fact.kind in ("duty-cycle", "memory", "power")
    return (fact is not None and fact.kind in ("duty-cycle", "memory", "power")) or _DEVICE.search(word) is not None


def _words(value: Any, path: Path) -> Iterator[tuple[Path, bool, str]]:
    """Keys that no signal has, and texts, with where they stand."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in _KEYS:
                yield (*path, key), True, str(key)
            if key not in _NAMES:
                yield from _words(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _words(inner, (*path, index))
    elif isinstance(value, str):
        yield path, False, value


def one_measure(declared: Declared) -> Iterator[Finding]:
    """Two measures of one role would propose against each other."""
    for role in declared.roles:
        chosen = [key for field, key in MEASURES.items() if getattr(role.settings.signal, field) is not None]
        if len(chosen) == 1:
            continue
        what = f"names {' and '.join(chosen)}" if chosen else "names no measure"
        advice = {"prefill": "backlog with tokensPerSecond", "decode": "kvUsage"}.get(
            role.name, "queueDepth or kvUsage"
        )
        message = f"{what}. Set exactly one of {', '.join(MEASURES.values())}; for {role.name}: {advice}"
        yield Finding((*role.path, "signal"), message, at_key=True)


def companions(declared: Declared) -> Iterator[Finding]:
    """Figures that make sense together only."""
    for role in declared.roles:
        signal, path = role.settings.signal, (*role.path, "signal")
        if signal.backlog is not None and signal.tokens_per_second is None:
            message = (
                "needs one replica's measured prefill rate beside it. Set tokensPerSecond: 10000 or what you measured"
            )
            yield Finding((*path, "backlog"), message)
        if signal.tokens_per_second is not None and signal.backlog is None:
            yield Finding((*path, "tokensPerSecond"), "belongs to backlog, which is not set. Set backlog, or remove it")
        if signal.flow_control_queue is not None and signal.inference_pool is None:
            message = "needs the InferencePool whose queue it is. Set inferencePool: its name"
            yield Finding((*path, "flowControlQueue"), message)
        if signal.inference_pool is not None and signal.flow_control_queue is None:
            yield Finding((*path, "inferencePool"), "belongs to flowControlQueue, which is not set. Remove it")


def measure_fits_the_role(declared: Declared) -> Iterator[Finding]:
    """Each role waits for something else: prefill for prompt work, decode for KV cache."""
    for role in declared.roles:
        signal, path = role.settings.signal, (*role.path, "signal")
        if role.name == "prefill" and signal.kv_usage is not None:
            # vLLM keeps the blocks of finished prefills until decode has fetched them (vLLM pull request 58004).
            message = "a prefill replica's KV cache fills when decode is slow, not when prefill is short of replicas"
            yield Finding((*path, "kvUsage"), f"{message}. Use backlog with tokensPerSecond, or queueDepth")
        elif signal.kv_usage is not None and not 0 < signal.kv_usage <= MOST_KV_USAGE:
            most = f"{MOST_KV_USAGE:.0%}"
            message = f"must be above 0% and at most {most}, where the engine starts to preempt requests. Set 70%"
            yield Finding((*path, "kvUsage"), message)
        if role.name == "decode" and signal.backlog is not None:
            yield Finding((*path, "backlog"), "is prompt work, which decode does not do. Use kvUsage: 70%")


def backlog_leaves_time_to_answer(declared: Declared) -> Iterator[Finding]:
    """Work that waits as long as the objective has missed it when it starts."""
    for role in declared.roles:
        backlog, slo = role.settings.signal.backlog, role.model.slo
        if backlog is not None and slo is not None and backlog >= slo.ttft_p99:
            limit, where = format_duration(slo.ttft_p99), declared.line(("models", role.model_name, "slo", "ttftP99"))
            half = format_duration(slo.ttft_p99 * 0.6)
            message = (
                f"{format_duration(backlog)} of waiting leaves nothing of ttftP99, {limit}{where}. Set {half} or less"
            )
            yield Finding((*role.path, "signal", "backlog"), message)


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else None


CHECKS = (
    one_measure,
    companions,
    measure_fits_the_role,
    backlog_leaves_time_to_answer,
)
