"""Judgements on what autoscalers look at."""

import re

from triplane import catalog
from triplane.inventory import Scaler
from triplane.inventory.metrics import MetricAliases
from triplane.inventory.queries import UnparsableQuery
from triplane.inventory.roles import ServingRoles
from triplane.inventory.scalers import ResourceSignal, Signal
from triplane.inventory.scaling import Scaling
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Verdicts, fail, unknown

# Ratios of time as well, but of single units of the GPU (DCGM's profiling counters, in any exporter's spelling).
PROFILING = re.compile(r".*(gr_engine|sm|tensor|fp16|fp32|fp64|dram)_(active|occupancy)(_\w+)?")


@rule(
    "AS401",
    "scaler-follows-demand-not-gpu-busyness",
    on=Scaler,
    severity=Severity.ERROR,
    profile=Profile.CORE,
    fix=(
        "Scale on demand: requests waiting at the endpoint picker, vllm:num_requests_waiting for prefill, "
        "summed KV-cache usage for decode."
    ),
    sources=(
        "https://cloud.google.com/kubernetes-engine/docs/best-practices/machine-learning/inference/autoscaling",
        "https://github.com/NVIDIA/dcgm-exporter/issues/301",
        "https://github.com/bentoml/Yatai/issues/500",
    ),
)
def scaler_follows_demand_not_gpu_busyness(scaler: Scaler, context: Context) -> Verdicts:
    """An autoscaler must not follow how busy a GPU is.

    A GPU's duty cycle (DCGM_FI_DEV_GPU_UTIL and its many names) is the share of time in which any kernel ran. A single
    request with continuous batching holds it near 100 %, so the signal says nothing about how much more work would fit:
    the scaler runs to its maximum at the first request and never comes back, at the price of a GPU each step.

    Read are metric names of every HPA version, KEDA queries and formulas, KServe and AIBrix blocks. A name that hides a
    duty cycle behind a recording rule, an adapter or a relabelling is judged by AS402.
    """
    for signal in scaler.signals:
        if not isinstance(signal, Signal):
            continue
        try:
            busy = names_of_kind(signal, "duty-cycle")
        except UnparsableQuery as error:
            yield unknown(signal.path, f"the query is no PromQL ({error})")
            continue
        # The profiling counters are AS405's.
        if names := [name for name in busy if not PROFILING.fullmatch(catalog.normalise(name))]:
            what = "a GPU's duty cycle" if names == [signal.text] else f"{', '.join(names)}, a GPU's duty cycle,"
            yield fail(
                signal.path, signal.text, f"{what} is near 100 % at any load, so replicas go to the maximum and stay"
            )


@rule(
    "AS402",
    "no-alias-hides-a-gpu-busyness-signal",
    on=Scaler,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    fix="Let the alias, or the scaler, read a demand metric: waiting requests or KV-cache usage.",
    sources=(
        "https://github.com/kubernetes/examples/pull/570",
        "https://github.com/kubernetes-sigs/prometheus-adapter/blob/master/docs/config.md",
    ),
)
def no_alias_hides_a_gpu_busyness_signal(scaler: Scaler, context: Context) -> Verdicts:
    """An autoscaler must not follow a GPU's duty cycle under another name.

    Recording rules, prometheus-adapter rules and relabelings rename DCGM's utilisation into names that look harmless,
    and nobody reading the scaler sees what it follows. The chain is resolved through all objects of the input, however
    many hops it has, and told in the message.
    """
    aliases = context.inventory.relation(MetricAliases)
    for signal in scaler.signals:
        if not isinstance(signal, Signal):
            continue
        try:
            names = sorted(signal.names)
        except UnparsableQuery:
            continue  # AS401 says so
        direct = names_of_kind(signal, "duty-cycle")
        for name in names:
            chain = None if name in direct else aliases.chain(name, "duty-cycle")
            if chain is not None:
                yield fail(
                    signal.path,
                    signal.text,
                    f"{chain} is a GPU's duty cycle: near 100 % at any load",
                    related=chain.through,
                )


@rule(
    "AS403",
    "scaler-does-not-follow-preallocated-memory",
    on=Scaler,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    fix="Scale on demand: waiting requests or KV-cache usage.",
    sources=(
        "https://cloud.google.com/kubernetes-engine/docs/best-practices/machine-learning/inference/autoscaling",
        "https://docs.vllm.ai/en/latest/configuration/conserving_memory.html",
        "https://github.com/argoproj/argo-rollouts/issues/2857",
    ),
)
def scaler_does_not_follow_preallocated_memory(scaler: Scaler, context: Context) -> Verdicts:
    """An autoscaler of GPU pods must not follow memory.

    An inference engine takes its GPU memory at start and keeps it, and loads its weights through host memory that it
    keeps as well. The signal is constant and close to the limit: it can only scale up, and never comes back. Memory of
    pods without a GPU (a router, a gateway) is an ordinary signal and passes.
    """
    aliases, scaling = context.inventory.relation(MetricAliases), context.inventory.relation(Scaling)
    for signal in scaler.signals:
        if isinstance(signal, ResourceSignal):
            if signal.resource != "memory":
                continue
            target = scaling.target_workload(scaler)
            if target is None:
                yield unknown(signal.path, "its target is not in the input, so whether it uses GPUs cannot be told")
            elif target.uses_gpu:
                consequence = "an engine keeps what it took at start, so this only ever scales up"
                yield fail(signal.path, "memory", consequence, related=(target.resource,))
            continue
        try:
            names = sorted(signal.names)
        except UnparsableQuery:
            continue  # AS401 says so
        direct = names_of_kind(signal, "memory")
        for name in names:
            chain = None if name in direct else aliases.chain(name, "memory")
            if name in direct or chain is not None:
                consequence = (
                    f"{chain or name} is memory that the engine takes at start and keeps: this only ever scales up"
                )
                yield fail(signal.path, signal.text, consequence, related=chain.through if chain else ())


@rule(
    "AS404",
    "gpu-scaler-reads-more-than-cpu",
    on=Scaler,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    fix="Add a demand metric: waiting requests or KV-cache usage. CPU may stay beside it.",
    sources=("https://cloud.google.com/kubernetes-engine/docs/best-practices/machine-learning/inference/autoscaling",),
)
def gpu_scaler_reads_more_than_cpu(scaler: Scaler, context: Context) -> Verdicts:
    """A scaler of GPU pods must not follow their CPU alone.

    The CPU of an inference server says little about its load: most engines poll in a busy loop, and work waits on the
    GPU. Beside a demand metric it does no harm, since an HPA takes the largest proposal.
    """
    first = next(iter(scaler.signals), None)
    if not isinstance(first, ResourceSignal) or not all(
        isinstance(signal, ResourceSignal) and signal.resource == "cpu" for signal in scaler.signals
    ):
        return
    gpus = context.inventory.relation(ServingRoles).uses_gpu(scaler)
    if gpus is None:
        yield unknown(first.path, "its target is not in the input, so whether it uses GPUs cannot be told")
    elif gpus:
        yield fail(first.path, "cpu", "the CPU of a GPU server is no measure of its load, so replicas do not follow it")


@rule(
    "AS405",
    "scaler-follows-demand-not-gpu-profiling-counters",
    on=Scaler,
    severity=Severity.INFO,
    profile=Profile.ALL,
    fix="Scale on demand: waiting requests or KV-cache usage.",
    sources=(
        "https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/feature-overview.html#profiling-metrics",
        "https://github.com/NVIDIA/dcgm-exporter/issues/301",
    ),
)
def scaler_follows_demand_not_gpu_profiling_counters(scaler: Scaler, context: Context) -> Verdicts:
    """An autoscaler should not follow the activity of a GPU's units.

    DCGM's profiling counters (engine, SM, tensor and memory activity) are finer than the duty cycle, and still shares
    of time: one request with continuous batching holds some of them high. Some accept them, so this only informs.
    """
    for signal in scaler.signals:
        if not isinstance(signal, Signal):
            continue
        try:
            busy = names_of_kind(signal, "duty-cycle")
        except UnparsableQuery:
            continue  # AS401 says so
        if any(PROFILING.fullmatch(catalog.normalise(name)) for name in busy):
            yield fail(signal.path, signal.text, "a share of active time, which one request may hold high")


@rule(
    "AS429",
    "resource-metric-is-cpu-or-memory",
    on=Scaler,
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    fix="Use a Pods or External metric for anything but cpu and memory.",
    sources=(
        "https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#support-for-resource-metrics",
        "https://github.com/kubernetes/kubernetes/issues/59633",
    ),
)
def resource_metric_is_cpu_or_memory(scaler: Scaler, context: Context) -> Verdicts:
    """A Resource metric must be cpu or memory.

    The resource metrics API (metrics-server) knows these two. For nvidia.com/gpu or ephemeral-storage the HPA reports
    that it cannot compute replicas, and holds the count for ever.
    """
    for signal in scaler.signals:
        if isinstance(signal, ResourceSignal) and signal.resource not in ("cpu", "memory"):
            yield fail(signal.path, signal.resource, "no metrics API serves it, so the count never changes")


def names_of_kind(signal: Signal, kind: str) -> list[str]:
    """The metrics of one kind (catalog.MetricFact.kind) that a signal reads by name. Raises UnparsableQuery."""
    facts = ((name, catalog.metric_class(name)) for name in sorted(signal.names))
    return [name for name, fact in facts if fact is not None and fact.kind == kind]
