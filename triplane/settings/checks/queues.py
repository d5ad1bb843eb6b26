"""The queue tree: what it promises, against what it holds and what the pools can give.

KAI accepts every one of these trees and then schedules nothing, too much, or never: a Queue has no schema rules, and
its webhook checks the presence of `resources` only (kai-scheduler/KAI-Scheduler#1783).
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Literal

from triplane import catalog
from triplane.settings.declared import Declared, Queue, Role
from triplane.settings.wording import Finding

Amount = int | Literal["unlimited"]


def limit_holds_the_quota(declared: Declared) -> Iterator[Finding]:
    """With limit < quota the fair share is the limit, and the rest of the quota is dead."""
    for queue in declared.queues:
        quota, limit = queue.settings.gpus.quota, queue.settings.gpus.limit
        if limit is not None and _above(quota, limit):
            message = (
                f"{limit} is below the quota, {quota}{_line(declared, queue, 'quota')}. Set limit: {quota} or more"
            )
            yield Finding((*queue.path, "gpus", "limit"), message)


def children_fit_their_parent(declared: Declared) -> Iterator[Finding]:
    """Guarantees of children come out of the parent's, and no child can pass its parent's limit."""
    for queue in declared.queues:
        children = [child for child in declared.queues if child.parent is queue]
        own = queue.settings.gpus.quota
        quotas = [child.settings.gpus.quota for child in children]
        if children and _above(total := _sum(quotas), own):
            parts = " + ".join(str(quota) for quota in quotas)
            message = f"{own} does not hold the quotas of its children: {parts} = {total}"
            yield Finding((*queue.path, "gpus", "quota"), f"{message}. Set quota: {total}, or lower theirs")
        for child in children:
            if _above(child.settings.gpu_limit, queue.settings.gpu_limit):
                most, where = queue.settings.gpu_limit, _line(declared, queue, "limit", "quota")
                message = f"{child.settings.gpu_limit} is above the limit of queue {queue.name}, {most}{where}"
                key = "quota" if child.settings.gpus.limit is None else "limit"
                yield Finding(
                    (*child.path, "gpus", key), f"{message}. Set {key}: {most} or less, or raise the parent's"
                )


def roles_fit_their_queues(declared: Declared) -> Iterator[Finding]:
    """Non-preemptible pods may use the quota only, of their queue and of every ancestor; preemptible ones the limit.

    A Deployment gets priority 125, which KAI never preempts, so its limit does not help it.
    """
    for queue in declared.queues:
        below = [role for role in declared.roles if queue in _line_up(declared, role)]
        firm = [role for role in below if not role.settings.preemptible]
        if firm and _above(sum(role.most_gpus for role in firm), queue.settings.gpus.quota):
            yield _does_not_fit(declared, queue, firm, "quota", "Non-preemptible pods may use quota only.")
        elif len(firm) < len(below) and _above(sum(role.most_gpus for role in below), queue.settings.gpu_limit):
            yield _does_not_fit(declared, queue, below, "limit", "KAI admits nothing above the limit.")


def _does_not_fit(
    declared: Declared, queue: Queue, roles: list[Role], bound: Literal["quota", "limit"], why: str
) -> Finding:
    most = queue.settings.gpus.quota if bound == "quota" else queue.settings.gpu_limit
    largest = max(roles, key=lambda role: role.most_gpus)
    need = sum(role.most_gpus for role in roles)
    each = largest.settings.gpus_per_replica
    fitting = (int(most) - (need - largest.most_gpus)) // each - largest.settings.surge
    remedy = (
        f"Set max: {fitting}, or {bound}: {need}"
        if fitting >= max(largest.settings.replicas.min, 1)
        else f"Set {bound}: {need}"
    )
    where = _line(declared, queue, bound, "quota")
    return Finding(
        (*largest.path, "replicas", "max"),
        f"{_arithmetic(roles)} = {need} > {bound} {most} of queue {queue.name}. {why} {remedy}{where}.",
    )


def _arithmetic(roles: list[Role]) -> str:
    """`8 x 4 GPUs`, or of several roles `8 x 4 (chat/decode) + 4 x 2 (chat/prefill) GPUs`."""

    def product(role: Role) -> str:
        replicas = (
            f"({role.settings.replicas.max} + {role.settings.surge} surge)"
            if role.settings.surge
            else str(role.most_replicas)
        )
        return f"{replicas} x {role.settings.gpus_per_replica}"

    if len(roles) == 1:
        return f"{product(roles[0])} GPUs"
    return " + ".join(f"{product(role)} ({role.label})" for role in roles) + " GPUs"


def pools_can_keep_the_promises(declared: Declared) -> Iterator[Finding]:
    """A quota is a promise that pools must be able to keep, and a limit above them buys nodes for nobody.

    Where every leaf below a queue has roles, its pods land on their pools only; else they may land on any.
    """
    if not declared.pools_are_whole or not declared.pools:
        return
    fleet = sum(pool.gpus for pool in declared.pools.values())
    for queue in declared.queues:
        names = _landing_pools(declared, queue)
        held = sum(declared.pools[name].gpus for name in names)
        if _above(queue.settings.gpu_limit, held) and queue.settings.gpu_limit != "unlimited":
            key = "quota" if queue.settings.gpus.limit is None else "limit"
            where = f"pool {names[0]} has" if len(names) == 1 else f"pools {', '.join(names)} together have"
            message = (
                f"{queue.settings.gpu_limit} GPUs, and {where} {held} at most. Set {key}: {held}, or raise nodes: max"
            )
            yield Finding((*queue.path, "gpus", key), message)
    top = [queue for queue in declared.queues if queue.parent is None]
    promised = _sum([queue.settings.gpus.quota for queue in top])
    if _above(promised, fleet):
        parts = " + ".join(f"{queue.settings.gpus.quota} ({queue.name})" for queue in top)
        message = (
            f"top-level quotas promise {parts} = {promised} GPUs, and all pools together have {fleet}. Lower a quota"
        )
        yield Finding(("queues",), message, at_key=True)


def pool_holds_the_quotas_bound_to_it(declared: Declared) -> Iterator[Finding]:
    """Queues whose roles all run on one pool share its nodes: together their quotas must fit."""
    if not declared.pools_are_whole:
        return
    bound: dict[str, list[Queue]] = defaultdict(list)
    for queue in declared.queues:
        names = _landing_pools(declared, queue)
        if queue.is_leaf and len(names) == 1 and _has_roles(declared, queue):
            bound[names[0]].append(queue)
    for name, queues in bound.items():
        promised, held = _sum([queue.settings.gpus.quota for queue in queues]), declared.pools[name].gpus
        if len(queues) > 1 and _above(promised, held):
            parts = " + ".join(f"{queue.settings.gpus.quota} ({queue.name})" for queue in queues)
            message = f"{held} GPUs do not hold the quotas of the queues that run here: {parts} = {promised}"
            yield Finding(("pools", name, "nodes", "max"), f"{message}. Raise max, or lower a quota")


def children_share_their_parents_shard(declared: Declared) -> Iterator[Finding]:
    """A shard's scheduler sees the queues of its shard only: a child elsewhere has no parent."""
    for queue in declared.queues:
        if queue.parent and queue.shard != queue.parent.shard:
            message = (
                f"{queue.shard}, but its parent {queue.parent.name} is in {queue.parent.shard or 'the default shard'}"
            )
            yield Finding((*queue.path, "shard"), f"{message}. Move the shard to the top of the tree")


def release_has_nested_queues(declared: Declared) -> Iterator[Finding]:
    """Before 0.13 KAI scheduled from exactly two levels."""
    if declared.platform is None or catalog.supports("kai", declared.platform.kai.version, "nested-queues"):
        return
    for queue in declared.queues:
        depth = len(list(queue.line_up))
        if depth != (2 if queue.is_leaf else 1):
            message = f"KAI {declared.platform.kai.version} schedules from exactly two levels: a parent and its leaves"
            yield Finding(queue.path, f"{message}. Any depth needs 0.13", at_key=True)


def _line_up(declared: Declared, role: Role) -> list[Queue]:
    queue = declared.queues_by_name.get(role.settings.queue)
    return list(queue.line_up) if queue else []


def _has_roles(declared: Declared, queue: Queue) -> bool:
    return any(role.settings.queue == queue.name for role in declared.roles)


def _landing_pools(declared: Declared, queue: Queue) -> list[str]:
    leaves = [leaf for leaf in declared.queues if leaf.is_leaf and queue in leaf.line_up]
    models_are_whole = not any(path[0] == "models" for path in declared.broken)
    if not models_are_whole or not all(_has_roles(declared, leaf) for leaf in leaves):
        return list(declared.pools)
    names = {leaf.name for leaf in leaves}
    pools = {role.settings.pool for role in declared.roles if role.settings.queue in names}
    return [name for name in declared.pools if name in pools] or list(declared.pools)


def _line(declared: Declared, queue: Queue, *keys: str) -> str:
    """The line of the first of these keys that is written."""
    return next((line for key in keys if (line := declared.line((*queue.path, "gpus", key)))), "")


def _above(amount: Amount, bound: Amount) -> bool:
    if bound == "unlimited":
        return False
    return amount == "unlimited" or amount > bound


def _sum(amounts: list[Amount]) -> Amount:
    total = 0
    for amount in amounts:
        if amount == "unlimited":
            return "unlimited"
        total += amount
    return total


CHECKS: tuple[Callable[[Declared], Iterator[Finding]], ...] = (
    limit_holds_the_quota,
    children_fit_their_parent,
    roles_fit_their_queues,
    pools_can_keep_the_promises,
    pool_holds_the_quotas_bound_to_it,
    children_share_their_parents_shard,
    release_has_nested_queues,
)
