"""The rules of KAI's queues: admission against limit and quota, reclaim between queues, and which queue comes first.

Source: kai-scheduler pkg/scheduler/plugins/proportion/{capacity_policy,reclaimable,queue_order,resource_share} (commit
d5bc503, after v0.17.0). Amounts are triples of GPU devices, CPU millicores and memory bytes.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from triplane.simulation.fair_share import UNLIMITED, ZERO, Queue, Triple, minus, plus, total

_NO_SHARE_FACTOR = 1000
"""What stands in for a division by a share of 0 in the dominant share."""


def _exceeds(amount: float, bound: float) -> bool:
    if bound == UNLIMITED:
        return False
    return amount == UNLIMITED or amount > bound


def fits(amounts: Triple, bounds: Triple) -> bool:
    """Whether no amount exceeds its bound, where -1 on either side stands for unlimited."""
    return not any(map(_exceeds, amounts, bounds))


@dataclass(slots=True)
class QueueState:
    """A queue with its fair share and what it and all queues below hold."""

    queue: Queue
    fair_share: Triple = ZERO
    allocated: Triple = ZERO
    non_preemptible: Triple = ZERO

    @property
    def allocatable(self) -> Triple:
        """What it may hold without being taken from: the greater of quota and fair share, within the limit."""
        gpu, cpu, memory = map(_allocatable, self.queue.quota, self.queue.limit, self.fair_share)
        return (gpu, cpu, memory)

    @property
    def over_fair_share(self) -> bool:
        """Whether it holds more than its fair share of every resource."""
        return all(share < held for share, held in zip(self.fair_share, self.allocated, strict=True))

    def dominant_share(self, totals: Triple, change: Triple = ZERO) -> float:
        """Greatest of allocated (with a change) over allocatable among the resources."""
        dominant = 0.0
        for share, held, more, whole in zip(self.allocatable, self.allocated, change, totals, strict=True):
            bound = whole if share == UNLIMITED else share
            dominant = max(dominant, (held + more) / bound if bound else (held + more) * _NO_SHARE_FACTOR)
        return dominant

    def within_quota(self, request: Triple) -> bool:
        """Whether it stays within its quota of every resource with the request."""
        return fits(plus(self.allocated, request), self.queue.quota)


def _allocatable(quota: float, limit: float, fair_share: float) -> float:
    if quota == UNLIMITED:
        return limit
    share = max(quota, fair_share)
    return share if limit == UNLIMITED else min(limit, share)


Tree = Mapping[str, QueueState]


def ancestry(tree: Tree, queue: str) -> Iterator[QueueState]:
    """The queue and its ancestors, leaf upwards."""
    name: str | None = queue
    while name is not None and (state := tree.get(name)) is not None:
        yield state
        name = state.queue.parent


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a job may not start, and the first queue, leaf upwards, that says so."""

    reason: Literal["over_limit", "non_preemptible_over_quota"]
    queue: str


def over_limit(tree: Tree, queue: str, request: Triple) -> Refusal | None:
    """Whether the queue or an ancestor would exceed its limit in a resource that is asked for."""
    for state in ancestry(tree, queue):
        if _over(request, state.allocated, state.queue.limit):
            return Refusal("over_limit", state.queue.name)
    return None


def over_quota(tree: Tree, queue: str, request: Triple) -> Refusal | None:
    """Whether the queue or an ancestor would hold more that cannot be preempted than its quota."""
    for state in ancestry(tree, queue):
        if _over(request, state.non_preemptible, state.queue.quota):
            return Refusal("non_preemptible_over_quota", state.queue.name)
    return None


def _over(request: Triple, held: Triple, bounds: Triple) -> bool:
    return any(
        asked != 0 and bound != UNLIMITED and bound < has + asked
        for asked, has, bound in zip(request, held, bounds, strict=True)
    )


def admission(tree: Tree, queue: str, request: Triple, preemptible: bool) -> Refusal | None:
    """Why the job may not start, or None. The fair share is no bound: idle GPUs may be used beyond it."""
    return over_limit(tree, queue, request) or (None if preemptible else over_quota(tree, queue, request))


def can_reclaim(tree: Tree, queue: str, request: Triple, preemptible: bool) -> bool:
    """Whether the queue may try to take from others: it stays within its fair share, and what cannot be preempted
    within its quota. All three resources count, so that a queue without CPU quota and weight never reclaims a GPU."""
    state = tree[queue]
    if not fits(plus(state.allocated, request), state.fair_share):
        return False
    return preemptible or fits(plus(state.non_preemptible, request), state.queue.quota)


def rivals(tree: Tree, reclaimer: str, victim: str) -> tuple[QueueState, QueueState]:
    """The ancestors of two queues just below their lowest common one: the queues between which the rules decide."""
    above = list(ancestry(tree, reclaimer))[::-1]
    beside = list(ancestry(tree, victim))[::-1]
    pairs = list(zip(above, beside, strict=False))
    return next((pair for pair in pairs if pair[0] is not pair[1]), pairs[-1])


def maintains_fair_share(victim: QueueState, remaining: Triple) -> bool:
    """First reason to take: the victim's queue still stands above what it may hold in some resource."""
    return not fits(remaining, victim.allocatable)


def guarantees_quota(reclaimer: QueueState, request: Triple, victim: QueueState, remaining: Triple) -> bool:
    """Second reason to take: the taker stays within its quota, the victim is above its own in some resource."""
    return reclaimer.within_quota(request) and not fits(remaining, victim.queue.quota)


def is_candidate(tree: Tree, reclaimer: str, request: Triple, victim: str) -> bool:
    """Whether jobs of the victim's queue are worth looking at."""
    taker, giver = rivals(tree, reclaimer, victim)
    if not taker.within_quota(request):
        return maintains_fair_share(giver, giver.allocated)
    below = False
    for asked, held, quota in zip(request, giver.allocated, giver.queue.quota, strict=True):
        if asked <= 0 or quota == UNLIMITED:
            continue
        if held > quota:
            return True
        below = below or held < quota
    return not below


def reclaim_allowed(
    tree: Tree,
    reclaimer: str,
    request: Triple,
    preemptible: bool,
    victims: Mapping[str, Sequence[Triple]],
    saturation_multiplier: float = 1.0,
) -> bool:
    """Whether these victims may be taken for the request: per victim's queue the chunks in the order of taking (a
    gang's core is one chunk, pods beyond its minimum are one each).

    Every chunk needs one of the two reasons at the time it is taken. Afterwards no ancestor of the taker may be above
    its fair share and as saturated as a sibling that gave.
    """
    remaining: dict[str, Triple] = {}
    involved: dict[str, set[int]] = {}
    for queue, chunks in victims.items():
        taker, giver = rivals(tree, reclaimer, queue)
        touched = {index for chunk in chunks for index, amount in enumerate(chunk) if amount > 0}
        for chunk in chunks:
            left = remaining.get(giver.queue.name, giver.allocated)
            if not maintains_fair_share(giver, left) and not guarantees_quota(taker, request, giver, left):
                return False
            for state in ancestry(tree, queue):
                name = state.queue.name
                remaining[name] = minus(remaining.get(name, state.allocated), chunk)
                involved.setdefault(name, set()).update(touched)

    asked = {index for index, amount in enumerate(request) if amount > 0}
    for state in ancestry(tree, reclaimer):
        held = plus(remaining.get(state.queue.name, state.allocated), request)
        for name, left in remaining.items():
            sibling = tree[name]
            if sibling is state or sibling.queue.parent != state.queue.parent:
                continue
            if not _less_saturated(
                involved[name] | asked, held, state.fair_share, left, sibling.fair_share, saturation_multiplier
            ):
                return False
        if not preemptible and not fits(plus(state.non_preemptible, request), state.queue.quota):
            return False
    return True


def _less_saturated(
    resources: set[int], held: Triple, fair: Triple, left: Triple, sibling_fair: Triple, multiplier: float
) -> bool:
    for index in resources:
        if fair[index] == UNLIMITED and sibling_fair[index] == UNLIMITED:
            continue
        ratio = _saturation(held[index], fair[index])
        if (
            ratio > 1
            and sibling_fair[index] > 0
            and ratio * multiplier >= _saturation(left[index], sibling_fair[index])
        ):
            return False
    return True


def _saturation(held: float, fair: float) -> float:
    if fair == 0:
        return math.inf if held > 0 else 0.0
    return 0.0 if fair == UNLIMITED else held / fair


@dataclass(frozen=True, slots=True)
class Contender:
    """A queue in the order, with the request of its first job, and what its jobs would give where they are victims."""

    state: QueueState
    request: Triple = ZERO
    victims: tuple[Triple, ...] = ()


def compare(left: Contender, right: Contender, totals: Triple) -> int:
    """-1 if the left queue is served before the right one, 1 if after. The first difference decides."""
    for criterion in _CRITERIA:
        mine, yours = criterion(left, totals), criterion(right, totals)
        if mine != yours:
            return -1 if mine < yours else 1
    mine_share, your_share = left.state.allocatable, right.state.allocatable
    if mine_share != your_share:
        if fits(mine_share, your_share):
            return -1
        if fits(your_share, mine_share):
            return 1
    return -1 if left.state.queue.created < right.state.queue.created else 1


def _holds_without_share(contender: Contender) -> bool:
    held = plus(contender.state.allocated, contender.request)
    return any(share == 0 and has > 0 for share, has in zip(contender.state.allocatable, held, strict=True))


def _share_after(contender: Contender, totals: Triple) -> float:
    change = minus(contender.request, total(contender.victims))
    return contender.state.dominant_share(totals, change)


_CRITERIA: tuple[Callable[[Contender, Triple], float], ...] = (
    lambda contender, totals: contender.state.over_fair_share,
    lambda contender, totals: not contender.state.within_quota(contender.request),
    lambda contender, totals: -contender.state.queue.priority,
    lambda contender, totals: _holds_without_share(contender),
    _share_after,
    lambda contender, totals: contender.state.dominant_share(totals),
)
"""What is compared, lower first: over its fair share of everything, over quota with its job, priority, holding what it
has no share of, dominant share with its job (less what its victims give), and without."""
