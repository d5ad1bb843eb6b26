"""Metric names by engine version, and what kind of quantity a name is."""

import pytest

from triplane import catalog
from triplane.catalog.data import load


@pytest.mark.parametrize(
    ("engine", "version", "meaning", "name"),
    [
        ("vllm", "0.12.0", "kv_usage", "vllm:kv_cache_usage_perc"),
        ("vllm", "0.9.1", "kv_usage", "vllm:gpu_cache_usage_perc"),
        ("vllm", "0.10.1", "itl", "vllm:time_per_output_token_seconds"),
        ("vllm", "0.11.0", "itl", "vllm:inter_token_latency_seconds"),
        ("vllm", "", "waiting", "vllm:num_requests_waiting"),
        ("sglang", "0.5.1", "kv_usage", "sglang:token_usage"),
        ("trtllm", "1.0.0", "waiting", "trtllm_num_requests_waiting"),
        ("epp", "", "inflight_tokens", "llm_d_epp_inflight_tokens"),
    ],
)
def test_the_name_at_a_version(engine: str, version: str, meaning: str, name: str) -> None:
    assert catalog.metric(engine, version, meaning) == name


def test_unknown_engine_meaning_and_version() -> None:
    with pytest.raises(catalog.UnknownName, match="unknown engine 'vlm': did you mean vllm"):
        catalog.metric("vlm", "0.12", "waiting")
    with pytest.raises(catalog.UnknownName, match="unknown vllm metric 'wating': did you mean waiting"):
        catalog.metric("vllm", "0.12", "wating")
    with pytest.raises(catalog.UnknownName, match=r"vllm 0\.12 has no series for it"):
        catalog.metric("vllm", "0.12", "waiting_by_reason")


NOT_DEMAND = {
    "DCGM_FI_DEV_GPU_UTIL": "duty-cycle",
    "dcgm_gpu_utilization": "duty-cycle",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": "duty-cycle",
    "DCGM_FI_PROF_PIPE_TENSOR_IMMA_ACTIVE": "duty-cycle",
    "DCGM_FI_DEV_FB_USED": "memory",
    "DCGM_FI_DEV_FB_USED_PERCENT": "memory",
    "DCGM_FI_DEV_POWER_USAGE": "power",
    "DCGM_CUSTOM_PROCESS_SM_UTIL": "duty-cycle",
    "DCGM_CUSTOM_CONTAINER_MEM_USED": "memory",
    "kubernetes.io|container|accelerator|duty_cycle": "duty-cycle",
    "kubernetes.io/container/accelerator/memory_used": "memory",
    "prometheus.googleapis.com|dcgm_fi_dev_gpu_util|unknown": "duty-cycle",
    "autoscaling.gke.io|gpu-signal|dcgm_fi_dev_gpu_util": "duty-cycle",
    "pod_gpu_utilization": "duty-cycle",
    "container_gpu_memory_utilization": "memory",
    "node_gpu_power_draw": "power",
    "GPUUtilization": "duty-cycle",
    "dcgm.gpu_utilization": "duty-cycle",
    "gpu.sm_active": "duty-cycle",
    "hw.gpu.utilization": "duty-cycle",
    "cluster:gpu_utilization:avg": "duty-cycle",
    "team_accelerator_busy_ratio": "duty-cycle",
    "vram_mem_used_ratio": "memory",
}
DEMAND = [
    "vllm:num_requests_waiting",
    "vllm_num_requests_waiting",
    "ray_vllm_num_requests_running",
    "vllm:num_requests_waiting_by_reason",
    "vllm:kv_cache_usage_perc",
    "vllm:gpu_cache_usage_perc",
    "vllm:gpu_prefix_cache_hits_total",
    "dynamo_component_gpu_cache_usage_percent",
    "trtllm_kv_cache_utilization",
    "llm_d_epp_average_kv_cache_utilization",
    "inference_pool_average_queue_size",
    "llm_d_epp_flow_control_queue_size",
    "sglang:num_queue_reqs",
    "my_team_kv_cache_utilization",
    "vllm:prompt_tokens_total",
    "wva_desired_replicas",
]


@pytest.mark.parametrize(("name", "kind"), NOT_DEMAND.items())
def test_device_quantities(name: str, kind: str) -> None:
    fact = catalog.metric_class(name)
    assert fact is not None
    assert fact.kind == kind


@pytest.mark.parametrize("name", DEMAND)
def test_demand_is_never_taken_for_a_device_quantity(name: str) -> None:
    fact = catalog.metric_class(name)
    assert fact is not None
    assert fact.kind == "demand"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("vllm:time_to_first_token_seconds_bucket", "latency"),
        ("llm_d_epp_request_ttft_seconds_count", "latency"),
        ("vllm:request_queue_time_seconds", "latency"),
        ("dynamo_frontend_request_duration_seconds_sum", "latency"),
        ("kube_deployment_status_replicas", "state"),
    ],
)
def test_latency_and_state(name: str, kind: str) -> None:
    fact = catalog.metric_class(name)
    assert fact is not None
    assert fact.kind == kind


@pytest.mark.parametrize("name", ["up", "http_requests_total", "node_load1", "s0-prometheus", "cluster_small_things"])
def test_a_name_nobody_knows_is_unknown(name: str) -> None:
    assert catalog.metric_class(name) is None


def test_a_guess_says_so() -> None:
    known, guessed = catalog.metric_class("DCGM_FI_DEV_GPU_UTIL"), catalog.metric_class("acme_gpu_util_avg")
    assert known is not None and guessed is not None
    assert known.exact
    assert not guessed.exact


def test_renames_carry_their_releases() -> None:
    fact = catalog.metric_class("vllm:gpu_cache_usage_perc")
    assert fact is not None
    assert (fact.engine, fact.deprecated, fact.hidden, fact.removed) == ("vllm", "0.9.2", "0.11", "0.12")
    assert fact.replaced_by == "vllm:kv_cache_usage_perc"
    assert fact.meaning == "kv_usage"


def test_every_listed_name_has_one_kind() -> None:
    data = load("metrics")
    listed: dict[str, str] = {}
    for kind, groups in data["kinds"].items():
        for group in groups:
            assert group["source"]
            for name in group["names"]:
                assert listed.setdefault(catalog.normalise(name), kind) == kind
    for engine, rows in data["engines"].items():
        for meaning in rows.keys() - {"source"}:
            assert meaning in data["meanings"], (engine, meaning)
            fact = catalog.metric_class(catalog.metric(engine, "", meaning))
            assert fact is not None
            assert fact.kind == data["meanings"][meaning]
    for row in data["renamed"]:
        replacement = catalog.metric_class(row["replaced_by"])
        assert replacement is not None
        assert replacement.kind == row["kind"]
        assert replacement.removed is None
