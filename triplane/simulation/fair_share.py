"""KAI's fair share: how a cluster's GPUs, CPU and memory are divided among a tree of queues.

Each resource is divided on its own, level by level: a parent's fair share is the total of its children. Source:
kai-scheduler pkg/scheduler/plugins/proportion/resource_division/resource_division.go (commit d5bc503, after v0.17.0).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

RESOURCES = ("gpu", "cpu", "memory")
"""Order of every triple: GPU devices, CPU millicores, memory bytes."""

UNLIMITED = -1.0
"""As a quota: the whole total. As a limit: none."""

Triple = tuple[float, float, float]

ZERO: Triple = (0.0, 0.0, 0.0)


def plus(left: Triple, right: Triple) -> Triple:
    """Sum of two amounts."""
    return (left[0] + right[0], left[1] + right[1], left[2] + right[2])


def minus(left: Triple, right: Triple) -> Triple:
    """Difference of two amounts."""
    return (left[0] - right[0], left[1] - right[1], left[2] - right[2])


def total(amounts: Sequence[Triple]) -> Triple:
    """Sum of any number of amounts."""
    result = ZERO
    for amount in amounts:
        result = plus(result, amount)
    return result


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue as declared. created is a rank or time, lower is older; weight is the over-quota weight.

    The minimum run times, seconds, shield younger jobs from other queues (reclaim) and from their own queue's higher
    priorities (preempt); None takes over what the parent says.
    """

    name: str
    parent: str | None = None
    quota: Triple = ZERO
    limit: Triple = (UNLIMITED, UNLIMITED, UNLIMITED)
    weight: Triple = (1.0, 1.0, 1.0)
    priority: int = 100
    created: float = 0
    preempt_min_runtime_s: float | None = None
    reclaim_min_runtime_s: float | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """One queue's part in the division of one resource.

    request: allocated and pending of the queue and all below it. usage: past use over capacity, 0 to 1; 0 where no
    usage is recorded. share: what it has been given already.
    """

    name: str
    quota: float
    limit: float
    weight: float
    request: float
    priority: int = 100
    created: float = 0
    usage: float = 0
    share: float = 0

    @property
    def requestable(self) -> float:
        """The request, as far as the limit lets it go."""
        return self.request if self.limit == UNLIMITED else min(self.limit, self.request)


def divide(total: float, claims: Sequence[Claim], k_value: float = 1.0) -> tuple[dict[str, float], float]:
    """Fair share of each claim in one resource, and what nobody got. Quotas may add up to more than the total."""
    shares = {
        claim.name: claim.share + min(total if claim.quota == UNLIMITED else claim.quota, claim.requestable)
        for claim in claims
    }
    left = total - sum(shares[claim.name] - claim.share for claim in claims)
    return divide_surplus(left, claims, shares, k_value) if left > 0 else (shares, 0.0)


def divide_surplus(
    left: float, claims: Sequence[Claim], shares: Mapping[str, float], k_value: float = 1.0
) -> tuple[dict[str, float], float]:
    """Divide what the quotas left over by weight, priorities from high to low; then hand out what rounding withheld."""
    result = dict(shares)
    groups: dict[int, list[Claim]] = {}
    # The original goes through a map, in random order; ours is fixed, so that the order of the input does not matter.
    for claim in sorted(claims, key=lambda claim: (claim.created, claim.name)):
        groups.setdefault(claim.priority, []).append(claim)
    remainders: dict[int, dict[str, float]] = {}
    by_priority = sorted(groups, reverse=True)
    for priority in by_priority:
        left, remainders[priority] = _divide_group(left, groups[priority], result, k_value)
    for priority in by_priority:
        withheld = remainders[priority]
        # The sort keeps the order of age and name among equal remainders.
        queue_up = sorted((c for c in groups[priority] if c.name in withheld), key=lambda c: -withheld[c.name])
        for claim in queue_up:
            if left <= 0:
                break
            given = min(1.0, left)
            result[claim.name] += given
            left -= given
    return result, left


def _divide_group(
    left: float, claims: list[Claim], shares: dict[str, float], k_value: float
) -> tuple[float, dict[str, float]]:
    """Rounds among queues of one priority, into `shares`: what is left, and the fraction withheld from each."""
    withheld: dict[str, float] = {}
    while True:
        base = left
        weights = _share_weights(claims, shares, k_value)
        # One by one, as the original adds them up; since Python 3.12 sum() compensates and may round the other way.
        total_weight = 0.0
        for weight in weights.values():
            total_weight += weight
        if total_weight == 0:
            return left, withheld
        again = False
        for claim in claims:
            if left == 0:
                break
            if claim.name not in weights or claim.weight == 0:
                continue
            want = max(0.0, claim.requestable - shares[claim.name])
            share = base * (weights[claim.name] / total_weight)
            if want <= share:
                given = want
                withheld.pop(claim.name, None)
            else:
                given = max(0.0, math.floor(share))  # whole units, except where that satisfies
                if share > given:
                    withheld[claim.name] = share - given
            shares[claim.name] += given
            left -= given
            # A queue that wants nothing any more and got nothing starts no further round.
            again = again or (given != 0 and want < share)
        if not again or left == 0:
            return left, withheld


def _share_weights(claims: list[Claim], shares: Mapping[str, float], k_value: float) -> dict[str, float]:
    """Weight of every queue that is not satisfied: its part of all weights, corrected by what it used before."""
    wanting = 0.0
    for claim in claims:
        if claim.requestable > shares[claim.name]:
            wanting += claim.weight
    if wanting == 0:
        return {}
    weights = {}
    for claim in claims:
        held = shares[claim.name]
        if claim.request <= held or (claim.limit != UNLIMITED and claim.limit <= held):
            continue
        part = claim.weight / wanting
        weights[claim.name] = max(0.0, part + k_value * (part - claim.usage))
    return weights


def fair_shares(
    queues: Iterable[Queue],
    requests: Mapping[str, Triple],
    totals: Triple,
    k_value: float = 1.0,
    usage: Mapping[str, Triple] | None = None,
) -> dict[str, Triple]:
    """Fair share of every queue of a tree. A queue whose parent is not there has none, nor has what is below it."""
    children: dict[str | None, list[Queue]] = {}
    for queue in queues:
        children.setdefault(queue.parent, []).append(queue)
    shares: dict[str, Triple] = {}
    pending: list[tuple[str | None, Triple]] = [(None, totals)]
    while pending:
        parent, total = pending.pop()
        siblings = children.get(parent, [])
        columns = [
            divide(total[index], [_claim(queue, index, requests, usage or {}) for queue in siblings], k_value)[0]
            for index in range(len(RESOURCES))
        ]
        for queue in siblings:
            gpu, cpu, memory = (column[queue.name] for column in columns)
            shares[queue.name] = (gpu, cpu, memory)
            pending.append((queue.name, shares[queue.name]))
    return shares


def _claim(queue: Queue, index: int, requests: Mapping[str, Triple], usage: Mapping[str, Triple]) -> Claim:
    return Claim(
        name=queue.name,
        quota=queue.quota[index],
        limit=queue.limit[index],
        weight=queue.weight[index],
        request=requests.get(queue.name, ZERO)[index],
        priority=queue.priority,
        created=queue.created,
        usage=usage.get(queue.name, ZERO)[index],
    )
