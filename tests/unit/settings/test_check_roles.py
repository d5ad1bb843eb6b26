"""Each check of roles and of what they scale on: what it accepts and what it refuses."""

import pytest
from changed_stack import REMOVED, Changes, Check, found_by

from triplane.settings.checks import roles, signals

M = "models.chat"
P, D = f"{M}.roles.prefill", f"{M}.roles.decode"
L4 = {"purpose": "serving", "accelerator": "L4", "gpusPerNode": 1, "nodes": {"max": 3}, "ami": "al2023@v1"}
SPOT = {**L4, "purpose": "batch", "capacity": {"fallback": "spot"}}
WORKLOAD = {"image": "vllm/vllm-openai:v0.12.0"}
LWS = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": "chat-decode"}
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}

ACCEPTED: list[tuple[Check, Changes]] = [
    (roles.roles_make_a_model, {}),
    (roles.pool_and_queue_exist, {}),
    (roles.queue_and_pool_share_a_shard, {"queues.assistants.shard": "h100", "pools.serving.shard": "h100"}),
    (roles.objective_needs_steady_nodes, {"pools.spot": SPOT, f"{D}.pool": "spot", f"{M}.slo": REMOVED}),
    (roles.pods_divide_the_node, {f"{D}.gpus": 8}),
    (roles.gang_fits_one_domain, {f"{D}.gpus": 8, f"{D}.hosts": 6}),
    (
        roles.gang_fits_one_domain,
        {f"{D}.hosts": 2, "pools.serving.zones": [], "pools.serving.topology": ["zone", "host"]},
    ),
    (roles.pool_holds_its_roles, {"pools.serving.nodes.max": 5}),
    (roles.replica_range, {f"{D}.replicas": {"min": 6, "max": 6}}),
    (
        roles.replica_range,
        {
            f"{M}.slo": REMOVED,
            f"{D}.replicas.min": 0,
            f"{D}.signal": {"flowControlQueue": 1, "inferencePool": "chat"},
        },
    ),
    (roles.target_can_be_scaled, {f"{D}.hosts": 2, f"{D}.target": LWS}),
    (roles.target_can_be_scaled, {f"{D}.hosts": 2}),
    (roles.target_can_be_scaled, {f"{D}.target": {"deployment": "chat", "component": "decode"}}),
    (roles.engine_can_be_started, {f"{D}.workload": WORKLOAD, f"{D}.hosts": 2}),
    (
        roles.drain_fits_the_node,
        {
            f"{D}.workload": {**WORKLOAD, "terminationGrace": "10m"},
            "pools.serving.disruption": {"terminationGracePeriod": "10m"},
        },
    ),
    (roles.pods_fit_the_node, {f"{D}.workload": {**WORKLOAD, "cpu": 95, "memory": "900Gi"}}),
    (roles.efa_divides, {}),
    (roles.efa_divides, {"pools.serving.gpusPerNode": 1, f"{D}.gpus": 1}),
    (roles.weights_leave_room_for_cache, {}),
    (roles.weights_leave_room_for_cache, {f"{M}.model": "somebody/never-heard-of", f"{D}.gpus": 1}),
    (roles.weights_leave_room_for_cache, {f"{M}.model": "openai/gpt-oss-120b", f"{D}.gpus": 1, f"{P}.gpus": 1}),
    (
        roles.weights_leave_room_for_cache,
        {"pools.l4": L4, f"{M}.model": "meta-llama/Llama-3.1-8B-Instruct", f"{D}.pool": "l4", f"{D}.gpus": 1},
    ),
    (signals.one_measure, {}),
    (signals.companions, {f"{D}.signal": {"flowControlQueue": 1, "inferencePool": "chat"}}),
    (signals.measure_fits_the_role, {f"{D}.signal": {"kvUsage": "90%"}}),
    (signals.backlog_leaves_time_to_answer, {}),
    (signals.backlog_leaves_time_to_answer, {f"{M}.slo": REMOVED, f"{P}.signal.backlog": "9s"}),
]

REFUSED: list[tuple[Check, Changes, str]] = [
    (
        roles.roles_make_a_model,
        {D: REMOVED},
        "models.chat.roles: has prefill. Set prefill and decode together, or aggregated alone",
    ),
    (
        roles.pool_and_queue_exist,
        {f"{D}.pool": "servin"},
        "models.chat.roles.decode.pool: there is no pool servin. Did you mean serving? Declared: serving, training",
    ),
    (
        roles.pool_and_queue_exist,
        {f"{D}.queue": "chat-decod"},
        "models.chat.roles.decode.queue: there is no queue chat-decod. Did you mean chat-decode?",
    ),
    (
        roles.pool_and_queue_exist,
        {f"{D}.queue": "assistants"},
        "assistants has children, and only leaves take workloads. Set queue: chat-prefill or chat-decode or finetune",
    ),
    (
        roles.queue_and_pool_share_a_shard,
        {"pools.serving.shard": "h100"},
        "models.chat.roles.decode.queue: chat-decode is in the default shard, pool serving in shard h100",
    ),
    (
        roles.objective_needs_steady_nodes,
        {"pools.spot": SPOT, f"{D}.pool": "spot"},
        "models.chat.roles.decode.pool: pool spot is spot, and this model has an SLO",
    ),
    (
        roles.pods_divide_the_node,
        {f"{D}.gpus": 3},
        "3 does not divide the 8 GPUs of a node of pool serving: 2 would idle. Set 1, 2, 4, 8",
    ),
    (roles.pods_divide_the_node, {f"{D}.gpus": 16}, "16 GPUs are more than a node of pool serving has, 8"),
    (
        roles.gang_fits_one_domain,
        {f"{D}.gpus": 8, f"{D}.hosts": 7},
        "models.chat.roles.decode.hosts: 7 hosts need 7 nodes, and pool serving has 6 at most. Set hosts: 6, or max: 7",
    ),
    (
        roles.gang_fits_one_domain,
        {f"{D}.hosts": 2, "pools.serving.zones": []},
        "pool serving may spread 2 hosts over zones. Give it one zone, or topology: [zone, host]",
    ),
    (
        roles.pool_holds_its_roles,
        {"pools.serving.nodes.max": 4},
        "pools.serving.nodes.max: 4 x 8 = 32 GPUs do not hold its roles at max: "
        "16 (chat/prefill) + 24 (chat/decode) = 40. Set max: 5",
    ),
    (
        roles.replica_range,
        {f"{D}.replicas": {"min": 7, "max": 6}},
        "replicas.min: 7 is above max: 6. Set min: 6 or less",
    ),
    (
        roles.replica_range,
        {f"{D}.replicas.min": 0},
        "from 0 replicas the first request waits 7m, and this model has an SLO. Set min: 1",
    ),
    (roles.replica_range, {f"{D}.replicas.min": 0, f"{M}.slo": REMOVED}, "from 0 replicas nothing wakes this role"),
    (
        roles.replica_range,
        {
            f"{M}.slo": REMOVED,
            f"{D}.autoscaler": "hpa",
            f"{D}.replicas.min": 0,
            f"{D}.signal": {"flowControlQueue": 1, "inferencePool": "chat"},
        },
        "an HPA scales to 0 from Kubernetes 1.37 on",
    ),
    (
        roles.target_can_be_scaled,
        {f"{D}.target": LWS, f"{D}.workload": WORKLOAD},
        "decode.target: names what somebody else declares, and workload is declared here. Remove one",
    ),
    (
        roles.target_can_be_scaled,
        {f"{D}.hosts": 2, f"{D}.target": DEPLOYMENT},
        "decode.target.kind: KAI makes no gang of a Deployment: its 2 hosts would start one by one",
    ),
    (
        roles.target_can_be_scaled,
        {f"{P}.target": DEPLOYMENT, f"{D}.target": DEPLOYMENT},
        "models.chat.roles.decode.target: chat/prefill scales Deployment x too",
    ),
    (
        roles.engine_can_be_started,
        {f"{D}.workload": {**WORKLOAD, "args": ["--port=9000"]}},
        "decode.workload.args: --port would part from the probes. Set port: instead",
    ),
    (
        roles.engine_can_be_started,
        {f"{M}.engine": {"name": "trtllm", "version": "1.2.0"}, f"{D}.workload": WORKLOAD},
        "trtllm-serve runs decode on 1 host(s) with a configuration file or MPI only",
    ),
    (
        roles.engine_can_be_started,
        {f"{M}.engine.version": "0.11.0", f"{D}.hosts": 2, f"{D}.workload": WORKLOAD},
        "decode.hosts: vLLM 0.11.0 spans hosts only with a Ray cluster",
    ),
    (
        roles.drain_fits_the_node,
        {
            f"{D}.workload": {**WORKLOAD, "terminationGrace": "11m"},
            "pools.serving.disruption": {"terminationGracePeriod": "10m"},
        },
        "decode.workload.terminationGrace: 11m is longer than the pool's terminationGracePeriod, 10m. Set 10m or less",
    ),
    (
        roles.pods_fit_the_node,
        {f"{D}.workload": {**WORKLOAD, "cpu": 96}},
        "decode.workload.cpu: 2 pods a node ask for 192,000 millicores, of which a node gives 191,450. Set cpu: 95",
    ),
    (
        roles.pods_fit_the_node,
        {f"{D}.workload": {**WORKLOAD, "memory": "1Ti"}},
        "decode.workload.memory: 2 pods a node ask for 2,097,152 MiB, of which a node gives 1,938,410. "
        "Set memory: 946Gi",
    ),
    (
        roles.efa_divides,
        {"pools.serving.accelerator": "L40S", f"{D}.gpus": 1},
        "decode.gpus: 1 of 8 GPUs get none of the node's 4 EFA device(s)",
    ),
    (
        roles.weights_leave_room_for_cache,
        {f"{D}.gpus": 1},
        "models.chat.roles.decode.gpus: nvidia/Llama-3.3-70B-Instruct-FP8 has 67.7 GiB of weights a GPU, and H100-SXM5 "
        "gives an engine 0.9 x 80 = 72.0 GiB: 4.3 GiB are left for KV cache, 14,203 tokens, of at least "
        "16 x 2,048 = 32,768. Set gpus: 2",
    ),
    (
        roles.weights_leave_room_for_cache,
        {f"{M}.model": "meta-llama/Llama-3.3-70B-Instruct", f"{D}.gpus": 1},
        "-59.4 GiB are left for KV cache, 0 tokens",
    ),
    (
        roles.weights_leave_room_for_cache,
        {f"{M}.traffic": {"requestsPerSecond": 1, "inputTokens": 60000, "outputTokens": 4000}},
        "of at least 16 x 64,000 = 1,024,000. Set gpus: 8",
    ),
    (
        roles.weights_leave_room_for_cache,
        {f"{M}.model": "deepseek-ai/DeepSeek-V3"},
        "Set gpus: 8 and hosts: 2, or use a larger accelerator",
    ),
    (
        signals.one_measure,
        {f"{D}.signal": {}},
        "models.chat.roles.decode.signal: names no measure. Set exactly one of backlog, kvUsage, queueDepth, "
        "concurrency, flowControlQueue, wva; for decode: kvUsage",
    ),
    (signals.one_measure, {f"{D}.signal": {"kvUsage": "70%", "queueDepth": 5}}, "names kvUsage and queueDepth"),
    (signals.companions, {f"{P}.signal": {"backlog": "1s"}}, "prefill.signal.backlog: needs one replica's measured"),
    (
        signals.companions,
        {f"{P}.signal": {"tokensPerSecond": 5, "queueDepth": 5}},
        "tokensPerSecond: belongs to backlog",
    ),
    (signals.companions, {f"{D}.signal": {"flowControlQueue": 1}}, "needs the InferencePool whose queue it is"),
    (signals.companions, {f"{D}.signal": {"kvUsage": "70%", "inferencePool": "x"}}, "belongs to flowControlQueue"),
    (
        signals.measure_fits_the_role,
        {f"{P}.signal": {"kvUsage": "70%"}},
        "prefill.signal.kvUsage: a prefill replica's KV cache fills when decode is slow",
    ),
    (signals.measure_fits_the_role, {f"{D}.signal": {"kvUsage": "91%"}}, "must be above 0% and at most 90%"),
    (signals.measure_fits_the_role, {f"{D}.signal": {"kvUsage": "0%"}}, "must be above 0% and at most 90%"),
    (
        signals.measure_fits_the_role,
        {f"{D}.signal": {"backlog": "1s", "tokensPerSecond": 100}},
        "decode.signal.backlog: is prompt work, which decode does not do",
    ),
    (
        signals.backlog_leaves_time_to_answer,
        {f"{P}.signal.backlog": "2s"},
        "prefill.signal.backlog: 2s of waiting leaves nothing of ttftP99, 2s. Set 1200ms or less",
    ),
]


@pytest.mark.parametrize(("check", "changes"), ACCEPTED)
def test_accepted(check: Check, changes: Changes) -> None:
    assert found_by(check, changes) == []


@pytest.mark.parametrize(("check", "changes", "message"), REFUSED)
def test_refused(check: Check, changes: Changes, message: str) -> None:
    found = found_by(check, changes)
    assert any(message in line for line in found), found


def test_every_check_is_accepted_once_and_refused_once() -> None:
    checks = {*roles.CHECKS, *signals.CHECKS}
    assert checks == {check for check, _ in ACCEPTED}
    assert checks == {check for check, _, _ in REFUSED}
