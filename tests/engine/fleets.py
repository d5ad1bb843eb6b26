"""Any valid stack file, for Hypothesis: pools, a queue tree and models that fit one another."""

from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from triplane import catalog
from triplane.settings import SettingsError, StackSettings

Block = dict[str, Any]

SHAPES = [
    (accelerator, gpus)
    for accelerator in catalog.accelerators()
    for gpus in (1, 2, 4, 8)
    if catalog.instance_types(accelerator, gpus)
]
"""Accelerators with the GPUs of one node that can be bought together."""

REGION = "us-east-1"
ZONES = ("us-east-1a", "us-east-1b")

maintenance_windows = st.fixed_dictionaries(
    {
        "days": st.lists(st.sampled_from(["mon", "wed", "sat", "sun"]), min_size=1, max_size=3, unique=True),
        "from": st.just("02:00"),
        "to": st.just("06:00"),
    }
)
ANY_ROLE = [
    {"queueDepth": 4},
    {"concurrency": 32},
    {"flowControlQueue": 8, "inferencePool": "chat"},
    {"wva": {"variantCost": 12.5}},
]
PROMPT_WORK = {"backlog": "1.2s", "tokensPerSecond": 10000.0}
KV_CACHE = {"kvUsage": "70%"}
SIGNALS: dict[str, list[Block]] = {
    "prefill": [*ANY_ROLE, PROMPT_WORK],
    "decode": [*ANY_ROLE, KV_CACHE],
    "aggregated": [*ANY_ROLE, PROMPT_WORK, KV_CACHE],
}


@st.composite
def pools(draw: st.DrawFn) -> Block:
    """One pool with room for at least eight GPUs."""
    accelerator, gpus = draw(st.sampled_from(SHAPES))
    purpose = draw(st.sampled_from(["serving", "training", "batch"]))
    fallback = draw(st.sampled_from(["on-demand", "spot"] if purpose == "batch" else ["on-demand"]))
    pool: Block = {
        "purpose": purpose,
        "accelerator": accelerator,
        "gpusPerNode": gpus,
        "zones": list(draw(st.sampled_from([(), ZONES[:1], ZONES]))),
        "nodes": {"max": max(draw(st.integers(1, 40)), 8 // gpus)},
        "capacity": {"fallback": fallback},
        "topology": list(draw(st.sampled_from([(), ("zone",), ("zone", "host")]))),
        "ami": draw(st.sampled_from(["al2023@v20261115", "bottlerocket@v1.60.0"])),
    }
    if draw(st.booleans()):
        pool["maintenance"] = draw(maintenance_windows)
    if purpose != "batch" and draw(st.booleans()):
        pool["capacity"]["reserved"] = ["cr-0a1b2c3d4e5f67890"]
    if draw(st.booleans()):
        pool["startupTaints"] = [{"key": "example.com/agent-not-ready", "value": "true"}]
    if draw(st.booleans()):
        pool["weight"] = draw(st.integers(1, 100))
    if draw(st.booleans()):
        pool["labels"] = {"example.com/team": "serving"}
    return pool


@st.composite
def roles(draw: st.DrawFn, pool_name: str, pool: Block, name: str, autoscaler: str) -> Block:
    """One role whose pods fit a node of the pool."""
    gpus = draw(st.sampled_from([count for count in (1, 2, 4, 8) if pool["gpusPerNode"] % count == 0]))
    minimum = draw(st.integers(1, 3))
    role: Block = {
        "pool": pool_name,
        "queue": f"leaf-{name}",
        "gpus": gpus,
        # A gang over several hosts stays in one zone.
        "hosts": draw(st.integers(1, 3)) if len(pool["zones"]) == 1 else 1,
        "autoscaler": autoscaler,
        "replicas": {"min": minimum, "max": minimum + draw(st.integers(0, 3))},
        "signal": draw(st.sampled_from(SIGNALS[name])),
    }
    if draw(st.booleans()):
        role["workload"] = {"image": "registry.example/vllm:0.12.0", "args": ["--max-model-len=8192"]}
    return role


@st.composite
def valid_stacks(draw: st.DrawFn) -> StackSettings:
    """A stack that settings accept. Hypothesis itself complains if they refuse too many."""
    try:
        return StackSettings.from_config(draw(configurations()), "generated")
    except SettingsError:
        assume(False)
        raise


@st.composite
def configurations(draw: st.DrawFn) -> Block:
    """The configuration of a stack, as its file has it: nearly always valid."""
    fleet = {f"pool-{number}": draw(pools()) for number in range(draw(st.integers(1, 3)))}
    names = draw(st.sampled_from([("aggregated",), ("prefill", "decode")]))
    serving = [name for name, pool in fleet.items() if pool["purpose"] == "serving"]
    blocks = {}
    autoscaler = draw(st.sampled_from(["keda", "hpa"]))
    if serving:
        for name in names:
            pool_name = draw(st.sampled_from(serving))
            blocks[name] = draw(roles(pool_name, fleet[pool_name], name, autoscaler))
    leaves = {}
    for name, role in blocks.items():
        quota = role["replicas"]["max"] * role["gpus"] * role["hosts"]
        pool = fleet[role["pool"]]
        # A queue's limit must fit the pools that its pods can land on.
        pool["nodes"]["max"] = max(pool["nodes"]["max"], -(-2 * quota // pool["gpusPerNode"]))
        leaves[f"leaf-{name}"] = {"gpus": {"quota": quota, "weight": draw(st.integers(0, 5))}}
    total = sum(leaf["gpus"]["quota"] for leaf in leaves.values())
    stack: Block = {
        "cluster": {
            "name": "prod",
            "context": "prod",
            "cloud": "eks",
            "region": REGION,
            "kubernetes": draw(st.sampled_from(["1.33", "1.35"])),
        },
        "platform": {
            # The definitions in tests/crds are of Karpenter 1.14: they refuse the disruption reason that 1.15 added.
            "karpenter": {"version": draw(st.sampled_from(["1.9.0", "1.12.0", "1.14.1"]))},
            "kai": {"version": draw(st.sampled_from(["0.16.8", "0.17.1"]))},
        },
        "pools": fleet,
    }
    if leaves:
        stack["queues"] = {"team": {"gpus": {"quota": total, "limit": total}, "children": leaves}}
        stack["models"] = {
            "chat": {
                "model": "acme/chat-8b",
                "engine": {"name": "vllm", "version": "0.12.0"},
                "namespace": "default",
                "slo": {"ttftP99": "2s", "itlP99": "50ms"},
                "coldStart": draw(st.sampled_from(["45s", "7m", "25m"])),
                "roles": blocks,
            }
        }
    if draw(st.booleans()):
        stack["freeze"] = {"since": "2026-12-01T03:10:00Z", "reason": "P99 TTFT 14 s"}
    return stack
