"""The KAI objects: written out in full, in KAI's units, parents first."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triplane.manifests.identity import ManifestError
from triplane.manifests.queues import megabytes, millicores, queue_manifests, topology_levels, topology_name
from triplane.settings.platform import KaiSettings, PlatformSettings
from triplane.settings.pools import PoolSettings
from triplane.settings.queues import QueueSettings
from triplane.settings.values import quantity_value

CrdErrors = Callable[[dict[str, Any]], list[str]]


def platform(kai: str = "0.16.8") -> PlatformSettings:
    return PlatformSettings(kai=KaiSettings(version=kai))


def pool(**overrides: Any) -> PoolSettings:
    values = {"purpose": "training", "accelerator": "H100-SXM5", "gpusPerNode": 8, "nodes": {"max": 4}, **overrides}
    return PoolSettings.model_validate(values)


def build(
    queues: dict[str, Any], pools: dict[str, PoolSettings] | None = None, kai: str = "0.16.8"
) -> list[dict[str, Any]]:
    settings = {name: QueueSettings.model_validate(queue) for name, queue in queues.items()}
    return queue_manifests(settings, pools or {}, platform(kai))


def of_kind(manifests: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [m for m in manifests if m["kind"] == kind]


TREE: dict[str, Any] = {
    "assistants": {
        "gpus": {"quota": 56, "limit": 72},
        "children": {
            "chat-prefill": {"gpus": {"quota": 16, "limit": 16}},
            "finetune": {
                "gpus": {"quota": 16, "limit": 32, "weight": 3},
                "minRuntime": {"reclaim": "30m", "preempt": "90s"},
            },
        },
    },
    "research": {"gpus": {"quota": 16}, "priority": 200, "displayName": "Research team"},
}


def test_the_tree_is_written_with_parents_before_children_and_every_block_in_full() -> None:
    queues = build(TREE)
    assert [(q["metadata"]["name"], q["spec"].get("parentQueue")) for q in queues] == [
        ("assistants", None),
        ("chat-prefill", "assistants"),
        ("finetune", "assistants"),
        ("research", None),
    ]
    unlimited = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    assert queues[2] == {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": "finetune"},
        "spec": {
            "parentQueue": "assistants",
            "priority": 100,
            "preemptMinRuntime": "1m30s",
            "reclaimMinRuntime": "30m",
            "resources": {
                "gpu": {"quota": 16, "limit": 32, "overQuotaWeight": 3},
                "cpu": unlimited,
                "memory": unlimited,
            },
        },
    }
    assert queues[3]["spec"]["displayName"] == "Research team"
    assert queues[3]["spec"]["priority"] == 200


def test_a_limit_left_out_is_the_quota_since_kai_reads_none_as_zero() -> None:
    (queue,) = build({"a": {"gpus": {"quota": 16}}})
    assert queue["spec"]["resources"]["gpu"] == {"quota": 16, "limit": 16, "overQuotaWeight": 1}


@pytest.mark.parametrize("written", ["unlimited", -1])
def test_unlimited_is_minus_one_everywhere(written: Any) -> None:
    share = {"quota": written, "limit": written, "weight": 2}
    (queue,) = build({"a": {"gpus": share, "cpu": share, "memory": share}})
    assert queue["spec"]["resources"] == {
        r: {"quota": -1, "limit": -1, "overQuotaWeight": 2} for r in ("gpu", "cpu", "memory")
    }


def test_cpu_is_millicores_and_memory_megabytes() -> None:
    (queue,) = build(
        {
            "a": {
                "gpus": {"quota": 1},
                "cpu": {"quota": 16, "limit": "500m"},
                "memory": {"quota": "64Gi", "limit": "64G"},
            }
        }
    )
    assert queue["spec"]["resources"]["cpu"] == {"quota": 16000, "limit": 500, "overQuotaWeight": 1}
    assert queue["spec"]["resources"]["memory"] == {"quota": 68719.476736, "limit": 64000, "overQuotaWeight": 1}


@given(st.integers(1, 10**6), st.sampled_from(["Ki", "Mi", "Gi", "Ti", "k", "M", "G", "T"]))
def test_a_pod_as_large_as_the_limit_fits_it_in_kais_own_arithmetic(amount: int, suffix: str) -> None:
    quantity = f"{amount}{suffix}"
    size = quantity_value(quantity)
    admitted = Decimal(megabytes(quantity) * 1e6)  # proportion.go multiplies by 1000 * 1000 in float64, then compares
    assert size <= admitted <= size * Decimal("1.000000000001")


@given(st.integers(1, 10**6))
def test_whole_cores_stay_whole_numbers(cores: int) -> None:
    assert millicores(str(cores)) == cores * 1000
    assert isinstance(millicores(str(cores)), int)


@pytest.mark.parametrize(
    ("queues", "message"),
    [
        (
            {"a": {"gpus": {"quota": 1}, "children": {"b": {"gpus": {"quota": 1}}}}, "b": {"gpus": {"quota": 1}}},
            "b is declared twice",
        ),
        (
            {"a": {"gpus": {"quota": 1}, "children": {"b": {"gpus": {"quota": 1}, "shard": "x"}}}},
            "shard x, its parent a in None",
        ),
        (
            {"a": {"gpus": {"quota": 1}, "shard": "y", "children": {"b": {"gpus": {"quota": 1}, "shard": "x"}}}},
            "shard x, its parent a in y",
        ),
    ],
)
def test_a_tree_that_would_never_schedule_is_refused(queues: dict[str, Any], message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        build(queues)


LEAF: dict[str, Any] = {"gpus": {"quota": 1}}
TWO_LEVELS = {"team": {**LEAF, "children": {"leaf": LEAF}}}
THREE_LEVELS = {"org": {**LEAF, "children": TWO_LEVELS}}


@pytest.mark.parametrize(
    ("kai", "queues", "accepted"),
    [
        ("0.12.23", TWO_LEVELS, True),
        ("0.12.23", {"leaf": LEAF}, False),
        ("0.12.23", THREE_LEVELS, False),
        ("0.13.0", {"leaf": LEAF}, True),
        ("0.13.0", THREE_LEVELS, True),
        ("0.17.0", THREE_LEVELS, True),
    ],
)
def test_other_depths_than_two_need_kai_0_13(kai: str, queues: dict[str, Any], accepted: bool) -> None:
    if accepted:
        assert build(queues, kai=kai)
    else:
        with pytest.raises(ManifestError, match="exactly two levels"):
            build(queues, kai=kai)


def test_children_stand_in_their_parents_shard_and_each_shard_is_declared_once() -> None:
    manifests = build(
        {"a": {**LEAF, "shard": "h100", "children": {"b": LEAF}}, "c": LEAF},
        {"p": pool(shard="h100"), "q": pool(shard="l4"), "r": pool()},
    )
    assert [
        (s["metadata"]["name"], s["spec"]["partitionLabelValue"]) for s in of_kind(manifests, "SchedulingShard")
    ] == [
        ("h100", "h100"),
        ("l4", "l4"),
    ]
    labels = {q["metadata"]["name"]: q["metadata"].get("labels") for q in of_kind(manifests, "Queue")}
    shard = {"kai.scheduler/node-pool": "h100"}
    assert labels == {"a": shard, "b": shard, "c": None}


def test_a_shard_is_not_called_default() -> None:
    with pytest.raises(ManifestError, match="default"):
        build({"a": {**LEAF, "shard": "default"}})


def test_pools_with_equal_levels_share_one_topology() -> None:
    manifests = build(
        {"a": LEAF},
        {
            "p": pool(topology=["zone", "host"]),
            "q": pool(topology=["topology.kubernetes.io/zone", "kubernetes.io/hostname"]),
            "r": pool(topology=["zone"]),
            "s": pool(),
        },
    )
    levels = {
        t["metadata"]["name"]: [lv["nodeLabel"] for lv in t["spec"]["levels"]] for t in of_kind(manifests, "Topology")
    }
    assert levels == {
        "zone": ["topology.kubernetes.io/zone"],
        "zone-host": ["topology.kubernetes.io/zone", "kubernetes.io/hostname"],
    }


def test_labels_that_end_alike_give_different_topologies() -> None:
    first, second = topology_name(["a.example/rack", "host"]), topology_name(["b.example/rack", "host"])
    assert first != second
    assert first.startswith("rack-host-")
    assert first == topology_name(("a.example/rack", "kubernetes.io/hostname"))


@pytest.mark.parametrize("levels", [["host", "zone"], ["zone", "zone"], ["zone", "topology.kubernetes.io/zone"]])
def test_levels_that_kai_refuses_are_refused(levels: list[str]) -> None:
    with pytest.raises(ManifestError):
        topology_levels(levels)


@pytest.mark.parametrize(("kai", "aliases"), [("0.16.8", [None, None]), ("0.17.0", ["zone", "host"])])
def test_level_aliases_are_written_from_kai_0_17_on(kai: str, aliases: list[str | None]) -> None:
    (topology,) = of_kind(build({"a": LEAF}, {"p": pool(topology=["zone", "host"])}, kai), "Topology")
    assert [level.get("alias") for level in topology["spec"]["levels"]] == aliases


def test_no_priority_class_is_declared_kais_own_suffice() -> None:
    assert not of_kind(build(TREE, {"p": pool(topology=["zone"], shard="x")}), "PriorityClass")


# Any valid settings

amounts = st.one_of(st.just("unlimited"), st.integers(0, 10_000))
quantities = st.one_of(
    st.just("unlimited"), st.integers(0, 10**6).map(str), st.integers(1, 10**6).map(lambda n: f"{n}Mi")
)
shares = st.fixed_dictionaries({"quota": quantities, "limit": quantities, "weight": st.integers(0, 100)})


def queue_settings(depth: int) -> st.SearchStrategy[dict[str, Any]]:
    """A queue and its children, `depth` levels in all, each child under a placeholder name."""
    children = st.lists(queue_settings(depth - 1), max_size=3) if depth > 1 else st.just([])
    return st.fixed_dictionaries(
        {
            "gpus": st.fixed_dictionaries(
                {"quota": amounts}, optional={"limit": amounts, "weight": st.integers(0, 100)}
            ),
            "children": children,
        },
        optional={
            "cpu": shares,
            "memory": shares,
            "priority": st.integers(0, 1000),
            "displayName": st.text("abc ", min_size=1, max_size=8),
            "minRuntime": st.fixed_dictionaries(
                {}, optional={"preempt": st.just("0s"), "reclaim": st.sampled_from(["30m", "1h30m"])}
            ),
        },
    )


def named(queues: list[dict[str, Any]], prefix: str = "q") -> dict[str, Any]:
    return {f"{prefix}{i}": {**q, "children": named(q["children"], f"{prefix}{i}-")} for i, q in enumerate(queues)}


@given(
    queues=st.lists(queue_settings(3), min_size=1, max_size=3).map(named),
    kai=st.sampled_from(["0.13.0", "0.16.8", "0.17.0"]),
)
def test_any_valid_tree_gives_complete_queues_that_fit_the_crd(
    queues: dict[str, Any], kai: str, crd_errors: CrdErrors
) -> None:
    pools = {"p": pool(shard="x", topology=["zone", "example.com/rack", "host"])}
    manifests = build(queues, pools, kai)
    assert [crd_errors(m) for m in manifests] == [[]] * len(manifests)
    seen: set[str] = set()
    for queue in of_kind(manifests, "Queue"):
        assert queue["spec"].get("parentQueue", "") in seen | {""}
        seen.add(queue["metadata"]["name"])
        for resource in ("gpu", "cpu", "memory"):
            block = queue["spec"]["resources"][resource]
            assert set(block) == {"quota", "limit", "overQuotaWeight"}
            assert all(amount == -1 or amount >= 0 for amount in block.values())


def test_the_crd_check_itself_refuses(crd_errors: CrdErrors) -> None:
    (queue,) = build({"a": LEAF})
    queue["spec"]["resources"]["gpu"]["limits"] = 1
    assert crd_errors(queue)
