"""What scalers mean for serving: which role of which model they scale, on GPUs or not, and on whose series."""

from collections.abc import Iterator

from triplane import catalog
from triplane.inventory.fields import at, text
from triplane.inventory.inventory import Inventory
from triplane.inventory.queries import UnparsableQuery, promql_series
from triplane.inventory.scalers import Language, Scaler, Signal
from triplane.inventory.scaling import Scaling
from triplane.inventory.workloads import ROLE_LABEL, Workload

MODEL_LABEL = "llm-d.ai/model"
PREFILL, DECODE = "prefill", "decode"
# Prefixes by which each project names its series, once folded by catalog.normalise.
_SERIES = {
    "vllm_": "vllm",
    "sglang_": "sglang",
    "trtllm_": "trtllm",
    "nv_inference_": "triton",
    "nv_trt_llm_": "triton",
    "tgi_": "tgi",
    "dynamo_": "dynamo",
    "llm_d_epp_": "epp",
    "inference_pool_": "epp",
    "inference_extension_": "epp",
    "inference_objective_": "epp",
    "inference_model_": "epp",
}
# Those whose series come out of the serving pods themselves.
ENGINES = frozenset(("vllm", "sglang", "trtllm", "triton", "tgi"))
# What the endpoint picker computes over the pods of a pool; its other series count requests as they arrive.
_EPP_POOL_MEANINGS = frozenset(("waiting", "running", "kv_usage", "inflight_tokens", "saturation", "ready"))


def origin_of(name: str) -> str:
    """The engine or router that emits a series (vllm, sglang, trtllm, triton, tgi, dynamo, epp); empty: none known."""
    folded = catalog.normalise(name)
    return next((origin for prefix, origin in _SERIES.items() if folded.startswith(prefix)), "")


def from_serving_pods(name: str) -> bool:
    """Whether a series exists only while pods serve: an engine's own, or the endpoint picker's sums over a pool."""
    origin = origin_of(name)
    if origin != "epp":
        return origin in ENGINES
    fact = catalog.metric_class(name)
    return (fact is not None and fact.meaning in _EPP_POOL_MEANINGS) or "inference_pool_" in catalog.normalise(name)


def names_read(scaler: Scaler) -> Iterator[tuple[Signal, frozenset[str]]]:
    """Each signal with the names it reads; without those no parser accepts."""
    for signal in scaler.signals:
        if isinstance(signal, Signal):
            try:
                yield signal, signal.names
            except UnparsableQuery:
                continue


class ServingRoles:
    """Scalers by role and model. Use `inventory.relation(ServingRoles)`."""

    def __init__(self, inventory: Inventory) -> None:
        self._scaling = inventory.relation(Scaling)
        self._by_model: dict[tuple[str, str], list[Scaler]] = {}
        self._readers: dict[tuple[str, str], list[Scaler]] = {}
        for scaler in inventory.views(Scaler):
            if role := self.role(scaler):
                self._by_model.setdefault((self.model(scaler), role), []).append(scaler)
                for signal, _ in names_read(scaler):
                    if asked := what_is_asked(scaler, signal):
                        self._readers.setdefault((asked, role), []).append(scaler)

    def workload(self, scaler: Scaler) -> Workload | None:
        """What it scales, if that is here and its pods can be read."""
        found = self._scaling.target_workload(scaler)
        return found if found is not None and found.templates else None

    def label(self, scaler: Scaler, key: str) -> str:
        """A label of the scaler, else of what it scales."""
        own = text(at(scaler.resource.data, "metadata", "labels", key))
        workload = self.workload(scaler)
        return own or (workload.label(key) if workload else "")

    def role(self, scaler: Scaler) -> str:
        """prefill or decode, by label or by the name of what it scales; empty: neither."""
        said = self.label(scaler, ROLE_LABEL)
        if said or scaler.target is None:
            return said if said in (PREFILL, DECODE) else ""
        words = scaler.target.name.split("-")
        found = [role for role in (PREFILL, DECODE) if role in words]
        return found[0] if len(found) == 1 else ""

    def model(self, scaler: Scaler) -> str:
        """The model it serves, with the namespace: by label, else what is left of the name without the role."""
        name = scaler.target.name if scaler.target else scaler.resource.name
        rest = "-".join(word for word in name.split("-") if word not in (PREFILL, DECODE))
        return f"{scaler.resource.namespace}/{self.label(scaler, MODEL_LABEL) or rest}"

    def scalers(self, model: str, role: str) -> list[Scaler]:
        """The scalers of one role of a model."""
        return self._by_model.get((model, role), [])

    def readers(self, asked: str, role: str) -> list[Scaler]:
        """The scalers of a role that ask the same (`what_is_asked`)."""
        return self._readers.get((asked, role), [])

    def uses_gpu(self, scaler: Scaler) -> bool | None:
        """Whether what it scales runs on GPUs. Where that is not here: whether it follows an engine, else None."""
        workload = self.workload(scaler)
        if workload is not None:
            return workload.uses_gpu
        if self.label(scaler, ROLE_LABEL):
            return True
        return True if any(origin_of(name) in ENGINES for _, names in names_read(scaler) for name in names) else None


def what_is_asked(scaler: Scaler, signal: Signal) -> str:
    """One text for all signals that get the same answer whoever asks; empty where the answer depends on the asker."""
    if signal.language is Language.PROMQL:
        return promql_series(signal.text).canonical
    if signal.language is Language.WORDS:
        return " ".join(signal.text.split())
    if "external" in signal.path:  # an External metric of an HPA: its name and selector, in the namespace of the HPA
        selector = at(scaler.resource.data, *signal.path[:-1], "selector")
        return f"{scaler.resource.namespace} {signal.text} {selector!r}"
    return ""
