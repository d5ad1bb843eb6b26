"""Any valid pool becomes objects that Karpenter's schema takes, and that are safe whatever the pool leaves out."""

from collections.abc import Callable
from typing import Any

from built_pools import build
from hypothesis import given, settings
from hypothesis import strategies as st

from triplane import catalog
from triplane.manifests.drift import rolls_every_node

CrdErrors = Callable[[dict[str, Any]], list[str]]
VERSIONS = ("1.9.0", "1.10.2", "1.11.0", "1.12.1", "1.13.0", "1.14.1", "1.15.1")
SHAPES = [(name, count) for name in catalog.accelerators() for count in catalog.gpus_per_node(name)]
WITH_EFA = [shape for shape in SHAPES if all(it.efa for it in catalog.instance_types(*shape))]


@st.composite
def pools(draw: st.DrawFn) -> dict[str, Any]:
    """Keyword arguments of `build`: a valid pool, each key present or left out."""

    def maybe(key: str, values: st.SearchStrategy[Any]) -> dict[str, Any]:
        return {key: draw(values)} if draw(st.booleans()) else {}

    version = draw(st.sampled_from(VERSIONS))
    at_least_1_11 = catalog.supports("karpenter", version, "network-interfaces")
    purpose = draw(st.sampled_from(["serving", "training", "batch"]))
    efa = draw(st.booleans())
    static = draw(st.booleans()) and (at_least_1_11 or not efa)
    accelerator, gpus = draw(st.sampled_from(WITH_EFA if efa else SHAPES))
    most = draw(st.integers(2, 50))
    fallbacks = ["on-demand", "spot"] if purpose == "batch" else ["on-demand"]
    reserved = draw(st.lists(st.from_regex(r"cr-[0-9a-f]{17}", fullmatch=True), max_size=3))
    lifetimes = {} if purpose == "training" else {"expireAfter": "30d", "terminationGracePeriod": "1h"}
    group = at_least_1_11 and draw(st.booleans())
    zones = st.lists(st.sampled_from(["us-east-1a", "us-east-1b", "us-east-1d"]), max_size=3)
    return {
        "karpenter": version,
        "gates": ("StaticCapacity",) if static else (),
        "purpose": purpose,
        "accelerator": accelerator,
        "gpusPerNode": gpus,
        "nodes": {"max": most, **({"static": draw(st.integers(1, most - 1))} if static else {})},
        "capacity": {
            "reserved": reserved,
            **({"fallback": draw(st.sampled_from(fallbacks))} if not reserved or draw(st.booleans()) else {}),
        },
        "zones": ["us-east-1b"] if efa or group else draw(zones),
        "efa": efa,
        "ami": draw(st.sampled_from(["al2023@v20261115", "bottlerocket@v1.46.0"])),
        "placementGroup": "gang" if group else None,
        **maybe("maintenance", st.just({"days": ["sat", "wed"], "from": "22:00", "to": "04:00"})),
        **maybe("labels", st.dictionaries(st.sampled_from(["team", "example.com/rack"]), st.just("a"))),
        **maybe("taints", st.just([{"key": "team", "value": "a"}, {"key": "nvidia.com/gpu", "value": "present"}])),
        **maybe("startupTaints", st.just([{"key": "agent", "effect": "NoExecute"}])),
        **maybe("disruption", st.sampled_from([{"consolidateAfter": "2h"}, {"consolidateAfter": "Never"}, lifetimes])),
        **maybe("storage", st.fixed_dictionaries({"localNvme": st.booleans(), "rootVolume": st.just("500Gi")})),
        **maybe("shard", st.just("h100")),
        **maybe("tags", st.just({"team": "a"})),
        **({} if static else maybe("weight", st.integers(1, 100))),
    }


@settings(max_examples=120)
@given(pools(), st.booleans())
def test_any_valid_pool_fits_the_schema_and_is_safe(crd_errors: CrdErrors, pool: dict[str, Any], frozen: bool) -> None:
    node_class, node_pool = build(**pool, frozen=frozen)
    assert crd_errors(node_class) == []
    known = [b for b in node_pool["spec"]["disruption"]["budgets"] if b.get("reasons") != ["Unhealthy"]]
    # The schema at hand is that of 1.14.1; 1.15 adds the reason Unhealthy.
    disruption = {**node_pool["spec"]["disruption"], "budgets": known}
    assert crd_errors({**node_pool, "spec": {**node_pool["spec"], "disruption": disruption}}) == []

    spec, template = node_pool["spec"], node_pool["spec"]["template"]["spec"]
    assert disruption["consolidationPolicy"] == "WhenEmpty"
    assert disruption["consolidateAfter"]
    assert all(("schedule" in budget) == ("duration" in budget) for budget in disruption["budgets"])
    assert all(budget["nodes"] in ("0", "1") for budget in disruption["budgets"])
    always = [budget for budget in disruption["budgets"] if "schedule" not in budget]
    for reason in ("Underutilized", "Empty", "Drifted"):
        assert any(reason in budget.get("reasons", [reason]) for budget in always)
    assert template["expireAfter"] == "Never" or template["terminationGracePeriod"]
    assert any(taint["key"] == "nvidia.com/gpu" and taint["effect"] == "NoSchedule" for taint in template["taints"])

    wanted = {r["key"]: r["values"] for r in template["requirements"]}
    assert all(wanted.values())
    capacity_types = wanted["karpenter.sh/capacity-type"]
    assert ("reserved" in capacity_types) == ("capacityReservationSelectorTerms" in node_class["spec"])
    assert pool["purpose"] == "batch" or "spot" not in capacity_types
    if "replicas" in spec:
        assert set(spec["limits"]) == {"nodes"}
        assert "weight" not in spec
        assert spec["replicas"] < int(spec["limits"]["nodes"])
    else:
        assert int(spec["limits"]["nvidia.com/gpu"]) == int(spec["limits"]["nodes"]) * pool["gpusPerNode"]
    old = not catalog.supports("karpenter", pool["karpenter"], "network-interfaces")
    assert not (old and {"networkInterfaces", "placementGroupSelector"} & set(node_class["spec"]))

    for before, after in zip(build(**pool), build(**pool, frozen=True), strict=True):
        assert rolls_every_node(before, after) == ()
