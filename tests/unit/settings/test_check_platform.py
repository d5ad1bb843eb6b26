"""Each check of versions and cluster, of names and counts, and of the stack's own blocks."""

from typing import Any

import pytest
from changed_stack import REMOVED, Changes, Check, found_by

from triplane.settings.checks import names, platform, stack

ROLES = "models.chat.roles"
KARPENTER, KAI, KEDA = (f"platform.{name}.version" for name in ("karpenter", "kai", "keda"))


def queues(count: int) -> dict[str, Any]:
    return {f"q{number}": {"gpus": {"quota": 0}} for number in range(count)}


def pools(count: int) -> dict[str, Any]:
    pool = {"purpose": "batch", "accelerator": "L4", "gpusPerNode": 1, "nodes": {"max": 1}, "ami": "al2023@v1"}
    return {f"p{number}": pool for number in range(count)}


def models(count: int) -> dict[str, Any]:
    role = {
        "pool": "serving",
        "queue": "chat-decode",
        "gpus": 1,
        "replicas": {"min": 1, "max": 1},
        "signal": {"queueDepth": 5},
    }
    model = {
        "model": "x",
        "engine": {"version": "0.12.0"},
        "namespace": "x",
        "coldStart": "1m",
        "roles": {"aggregated": role},
    }
    return {f"m{number}": model for number in range(count)}


FREEZE = {"since": "2026-12-01T03:10Z", "reason": "P99 TTFT 14 s"}

ACCEPTED: list[tuple[Check, Changes]] = [
    (platform.region_for_eks, {}),
    (platform.region_for_eks, {"cluster.cloud": "existing", "cluster.region": REMOVED}),
    (platform.auto_mode_brings_its_own_karpenter, {}),
    (platform.known_release, {KARPENTER: "1.9.0"}),
    (platform.known_release, {KARPENTER: "1.15.1"}),
    (platform.known_release, {KAI: "0.17.0"}),
    (platform.known_kubernetes, {"cluster.kubernetes": "1.36"}),
    (platform.known_kubernetes, {"cluster.kubernetes": "1.37", KARPENTER: "1.15.0"}),
    (platform.gates_exist, {"platform.karpenter.gates": ["StaticCapacity", "NodeRepair"]}),
    (platform.gates_exist, {"platform.karpenter": {"version": "1.15.0", "gates": ["TerminateFirstDrift"]}}),
    (platform.one_server_of_external_metrics, {}),
    (
        platform.one_server_of_external_metrics,
        {
            "platform.keda.install": False,
            f"{ROLES}.prefill.autoscaler": "hpa",
            f"{ROLES}.decode.autoscaler": "hpa",
        },
    ),
    (names.too_many, {"queues": queues(500), "pools": pools(200), "models": models(200)}),
    (names.queue_named_twice, {}),
    (names.role_name_too_long, {"models": {"m" * 43: models(1)["m0"]}}),
    (stack.frozen_roles_exist, {"freeze": {**FREEZE, "replicas": {"chat/decode": 5}}}),
    (stack.frozen_replicas_fit, {"freeze": {**FREEZE, "replicas": {"chat/decode": 6}}}),
    (
        stack.patch_keeps_its_target,
        {"patches": [{"target": {"kind": "NodePool", "name": "serving"}, "merge": {"a": 1}}]},
    ),
    (stack.manifest_paths_stay_inside, {"manifests": ["extra/*.yaml", "more/one.json"]}),
]

REFUSED: list[tuple[Check, Changes, str]] = [
    (platform.region_for_eks, {"cluster.region": REMOVED}, "cluster: cloud: eks needs a region. Set region: us-east-1"),
    (
        platform.auto_mode_brings_its_own_karpenter,
        {"cluster.dialect": "eks-auto"},
        "cluster.cloud: eks declares what a Karpenter of one's own needs",
    ),
    (platform.auto_mode_brings_its_own_karpenter, {"cluster.dialect": "eks-auto"}, "needs the name of its node role"),
    (
        platform.auto_mode_brings_its_own_karpenter,
        {"cluster.dialect": "eks-auto"},
        "install: EKS Auto Mode runs Karpenter",
    ),
    (
        platform.known_release,
        {KARPENTER: "1.8.1"},
        'platform.karpenter.version: karpenter 1.8.1 is not known here: 1.9 to 1.15 are. Set version: "1.14.1"',
    ),
    (platform.known_release, {KARPENTER: "1.16.0"}, "karpenter 1.16.0 is not known here"),
    (platform.known_release, {KAI: "0.20.1"}, "platform.kai.version: kai 0.20.1 was withdrawn: "),
    (platform.known_release, {KAI: "0.18.0"}, 'kai 0.18.0 is not known here: 0.12 to 0.17 are. Set version: "0.16.8"'),
    (platform.known_release, {KEDA: "2.10.0"}, "platform.keda.version: keda 2.10.0 is not known here"),
    (
        platform.known_kubernetes,
        {"cluster.kubernetes": "1.30"},
        "cluster.kubernetes: Kubernetes 1.30 is not known here",
    ),
    (
        platform.known_kubernetes,
        {"cluster.kubernetes": "1.37"},
        "platform.karpenter.version: Karpenter 1.14.1 does not run on Kubernetes 1.37, which needs 1.15. "
        'Set version: "1.15"',
    ),
    (
        platform.gates_exist,
        {"platform.karpenter.gates": ["TerminateFirstDrift"]},
        "platform.karpenter.gates: gate TerminateFirstDrift is there from Karpenter 1.15 on, and this is 1.14.1",
    ),
    (
        platform.one_server_of_external_metrics,
        {f"{ROLES}.prefill.autoscaler": "hpa"},
        "models.chat.roles.prefill.autoscaler: hpa reads external metrics from an adapter, and chat/decode uses KEDA",
    ),
    (
        platform.one_server_of_external_metrics,
        {f"{ROLES}.prefill.autoscaler": "hpa", f"{ROLES}.decode.autoscaler": "hpa"},
        "platform.keda.install brings KEDA",
    ),
    (names.too_many, {"queues": queues(501)}, "queues: 501 queues, of at most 500"),
    (names.too_many, {"pools": pools(201)}, "pools: 201 pools, of at most 200"),
    (names.too_many, {"models": models(201)}, "models: 201 roles, of at most 200"),
    (
        names.queue_named_twice,
        {"queues.research.children.finetune": {"gpus": {"quota": 0}}},
        'queues.research.children.finetune: queue "finetune" is already declared',
    ),
    (names.queue_named_twice, {"queues.pretrain": {"gpus": {"quota": 0}}}, 'queue "pretrain" is already declared'),
    (names.role_name_too_long, {"models": {"m" * 44: models(1)["m0"]}}, "would have 64 characters, of at most 63"),
    (
        stack.frozen_roles_exist,
        {"freeze": {**FREEZE, "replicas": {"chat/decod": 5}}},
        'freeze.replicas["chat/decod"]: there is no role chat/decod. Did you mean chat/decode? '
        "Roles: chat/prefill, chat/decode",
    ),
    (
        stack.frozen_replicas_fit,
        {"freeze": {**FREEZE, "replicas": {"chat/decode": 7}}},
        "7 x 4 GPUs = 28 > quota 24 of queue chat-decode. Set 6 or less",
    ),
    (
        stack.frozen_replicas_fit,
        {f"{ROLES}.decode.autoscaler": "hpa", "freeze": {**FREEZE, "replicas": {"chat/decode": 0}}},
        "an HPA cannot hold 0 replicas",
    ),
    (
        stack.patch_keeps_its_target,
        {"patches": [{"target": {"kind": "NodePool", "name": "serving"}, "merge": {}}]},
        "patches[0].merge: is empty",
    ),
    (
        stack.patch_keeps_its_target,
        {"patches": [{"target": {"kind": "NodePool", "name": "serving"}, "merge": {"metadata": {"name": "x"}}}]},
        "patches[0].merge.metadata.name: would make it another object",
    ),
    (stack.manifest_paths_stay_inside, {"manifests": ["/etc/x.yaml"]}, "manifests[0]: /etc/x.yaml leaves the project"),
    (stack.manifest_paths_stay_inside, {"manifests": ["a/../../x.yaml"]}, "leaves the project"),
    (stack.manifest_paths_stay_inside, {"manifests": ["extra"]}, "names no .yaml, .yml or .json files"),
]


@pytest.mark.parametrize(("check", "changes"), ACCEPTED)
def test_accepted(check: Check, changes: Changes) -> None:
    assert found_by(check, changes) == []


@pytest.mark.parametrize(("check", "changes", "message"), REFUSED)
def test_refused(check: Check, changes: Changes, message: str) -> None:
    found = found_by(check, changes)
    assert any(message in line for line in found), found


def test_every_check_is_accepted_once_and_refused_once() -> None:
    checks = {*platform.CHECKS, *names.CHECKS, *stack.CHECKS}
    assert checks == {check for check, _ in ACCEPTED}
    assert checks == {check for check, _, _ in REFUSED}
