"""Judgements on what autoscalers look at."""

from triplane import catalog
from triplane.inventory import Scaler
from triplane.inventory.metrics import MetricAliases
from triplane.inventory.queries import UnparsableQuery
from triplane.inventory.scalers import ResourceSignal, Signal
from triplane.inventory.scaling import Scaling
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Verdicts, fail, unknown


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
        # The profiling counters (DCGM_FI_PROF_*) are AS405's: time-active ratios too, but finer ones that some accept.
        if names := [name for name in busy if not catalog.normalise(name).startswith("dcgm_fi_prof_")]:
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


def names_of_kind(signal: Signal, kind: str) -> list[str]:
    """The metrics of one kind (catalog.MetricFact.kind) that a signal reads by name. Raises UnparsableQuery."""
    facts = ((name, catalog.metric_class(name)) for name in sorted(signal.names))
    return [name for name, fact in facts if fact is not None and fact.kind == kind]
