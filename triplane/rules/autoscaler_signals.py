"""Judgements on what autoscalers look at."""

from triplane import catalog
from triplane.inventory import Scaler
from triplane.inventory.queries import UnparsableQuery
from triplane.inventory.scalers import Signal
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


def names_of_kind(signal: Signal, kind: str) -> list[str]:
    """The metrics of one kind (catalog.MetricFact.kind) that a signal reads by name. Raises UnparsableQuery."""
    facts = ((name, catalog.metric_class(name)) for name in sorted(signal.names))
    return [name for name, fact in facts if fact is not None and fact.kind == kind]
