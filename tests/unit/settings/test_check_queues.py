"""Each check of the queue tree: what it accepts and what it refuses."""

import pytest
from changed_stack import REMOVED, Changes, Check, found_by

from triplane.settings.checks import queues

A, R = "queues.assistants", "queues.research"
PREFILL, DECODE = f"{A}.children.chat-prefill.gpus", f"{A}.children.chat-decode.gpus"
ROLES = "models.chat.roles"

ACCEPTED: list[tuple[Check, Changes]] = [
    (queues.limit_holds_the_quota, {DECODE: {"quota": 24}}),
    (queues.limit_holds_the_quota, {DECODE: {"quota": 24, "limit": "unlimited"}}),
    (queues.children_fit_their_parent, {}),
    (queues.children_fit_their_parent, {f"{A}.gpus": {"quota": "unlimited", "limit": -1}}),
    (queues.roles_fit_their_queues, {}),
    (queues.roles_fit_their_queues, {f"{ROLES}.decode.replicas.max": 5, f"{ROLES}.decode.surge": 1}),
    (  # above the quota, which only preemptible replicas may be
        queues.roles_fit_their_queues,
        {f"{ROLES}.decode.preemptible": True, DECODE: {"quota": 8, "limit": 24}},
    ),
    (queues.roles_fit_their_queues, {DECODE: {"quota": "unlimited"}, f"{A}.gpus": {"quota": "unlimited"}}),
    (queues.pools_can_keep_the_promises, {}),
    (queues.pools_can_keep_the_promises, {f"{A}.gpus": {"quota": 56, "limit": "unlimited"}}),
    (queues.pools_can_keep_the_promises, {f"{A}.gpus.limit": 80}),
    (queues.pool_holds_the_quotas_bound_to_it, {"pools.serving.nodes.max": 5}),
    (queues.children_share_their_parents_shard, {f"{A}.shard": "h100"}),
    (queues.children_share_their_parents_shard, {f"{A}.shard": "h100", f"{A}.children.finetune.shard": "h100"}),
    (queues.release_has_nested_queues, {"platform.kai.version": "0.12.0"}),
    (queues.release_has_nested_queues, {f"{R}.children.pretrain.children": {"big": {"gpus": {"quota": 0}}}}),
]

REFUSED: list[tuple[Check, Changes, str]] = [
    (
        queues.limit_holds_the_quota,
        {f"{A}.gpus.limit": 48},
        "queues.assistants.gpus.limit: 48 is below the quota, 56. Set limit: 56 or more",
    ),
    (
        queues.limit_holds_the_quota,
        {f"{A}.gpus": {"quota": "unlimited", "limit": 8}},
        "8 is below the quota, unlimited",
    ),
    (
        queues.children_fit_their_parent,
        {f"{A}.gpus.quota": 40},
        "queues.assistants.gpus.quota: 40 does not hold the quotas of its children: 16 + 24 + 16 = 56. Set quota: 56",
    ),
    (queues.children_fit_their_parent, {DECODE: {"quota": "unlimited"}}, "16 + unlimited + 16 = unlimited"),
    (
        queues.children_fit_their_parent,
        {f"{A}.children.finetune.gpus.limit": 80},
        "finetune.gpus.limit: 80 is above the limit of queue assistants, 72. Set limit: 72 or less",
    ),
    (
        queues.children_fit_their_parent,
        {f"{A}.gpus": {"quota": 56}, f"{A}.children.finetune.gpus": {"quota": 57}},
        "finetune.gpus.quota: 57 is above the limit of queue assistants, 56. Set quota: 56 or less",
    ),
    (
        queues.roles_fit_their_queues,
        {f"{ROLES}.decode.replicas.max": 8},
        "models.chat.roles.decode.replicas.max: 8 x 4 GPUs = 32 > quota 24 of queue chat-decode. "
        "Non-preemptible pods may use quota only. Set max: 6, or quota: 32.",
    ),
    (
        queues.roles_fit_their_queues,
        {f"{ROLES}.decode.surge": 1},
        "(6 + 1 surge) x 4 GPUs = 28 > quota 24 of queue chat-decode. "
        "Non-preemptible pods may use quota only. Set max: 5, or quota: 28.",
    ),
    (  # two roles in one queue
        queues.roles_fit_their_queues,
        {f"{ROLES}.prefill.queue": "chat-decode"},
        "decode.replicas.max: 8 x 2 (chat/prefill) + 6 x 4 (chat/decode) GPUs = 40 > quota 24 of queue chat-decode. "
        "Non-preemptible pods may use quota only. Set max: 2, or quota: 40.",
    ),
    (  # the leaf holds it and the parent does not
        queues.roles_fit_their_queues,
        {f"{A}.gpus.quota": 32},
        "8 x 2 (chat/prefill) + 6 x 4 (chat/decode) GPUs = 40 > quota 32 of queue assistants",
    ),
    (
        queues.roles_fit_their_queues,
        {f"{ROLES}.decode.preemptible": True, f"{ROLES}.decode.replicas.max": 8},
        "8 x 4 GPUs = 32 > limit 24 of queue chat-decode. KAI admits nothing above the limit. "
        "Set max: 6, or limit: 32.",
    ),
    (  # no smaller max helps
        queues.roles_fit_their_queues,
        {DECODE: {"quota": 2}},
        "6 x 4 GPUs = 24 > quota 2 of queue chat-decode. Non-preemptible pods may use quota only. Set quota: 24.",
    ),
    (
        queues.pools_can_keep_the_promises,
        {f"{A}.gpus.limit": 88},
        "queues.assistants.gpus.limit: 88 GPUs, and pools serving, training together have 80 at most. Set limit: 80",
    ),
    (
        queues.pools_can_keep_the_promises,
        {PREFILL: {"quota": 16, "limit": 64}},
        "chat-prefill.gpus.limit: 64 GPUs, and pool serving has 48 at most. Set limit: 48",
    ),
    (
        queues.pools_can_keep_the_promises,
        {f"{R}.gpus": {"quota": 32}},
        "queues: top-level quotas promise 56 (assistants) + 32 (research) = 88 GPUs, and all pools together have 80",
    ),
    (queues.pools_can_keep_the_promises, {f"{R}.gpus": {"quota": "unlimited"}}, "= unlimited GPUs"),
    (
        queues.pool_holds_the_quotas_bound_to_it,
        {"pools.serving.nodes.max": 4},
        "pools.serving.nodes.max: 32 GPUs do not hold the quotas of the queues that run here: "
        "16 (chat-prefill) + 24 (chat-decode) = 40",
    ),
    (
        queues.children_share_their_parents_shard,
        {f"{A}.children.finetune.shard": "h100"},
        "queues.assistants.children.finetune.shard: h100, but its parent assistants is in the default shard",
    ),
    (
        queues.release_has_nested_queues,
        {"platform.kai.version": "0.12.0", f"{R}.children": REMOVED},
        "queues.research: KAI 0.12.0 schedules from exactly two levels",
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
    assert set(queues.CHECKS) == {check for check, _ in ACCEPTED}
    assert set(queues.CHECKS) == {check for check, _, _ in REFUSED}
