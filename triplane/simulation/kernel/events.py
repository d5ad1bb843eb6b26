"""What happens outside the replicas: requests are sent, find a replica, move on, are given up and tried again.

Between two such events replicas do not affect each other, so each is worked off alone up to the next event, and only
those that have a border before it. Where one replica's progress decides when the next event happens (a prompt that goes
on to a decode replica, a client at its concurrency limit), the events are taken in the order of time.
"""

import math

from triplane.simulation.kernel.blocks import blocks_for
from triplane.simulation.kernel.heaps import due_pop, due_push
from triplane.simulation.kernel.lists import append, running_list, unlink, waiting_list
from triplane.simulation.kernel.state import (
    DECODE,
    GONE,
    IDLE,
    LEAST_LOADED,
    LOST,
    PREFILL,
    QUEUE_AND_KV,
    REJECTED,
    ROUND_ROBIN,
    RUN,
    RUNNING,
    TIE,
    TIMED_OUT,
    TRANSFER,
    WAITING,
    World,
)
from triplane.simulation.kernel.steps import commit, proceed, settle
from triplane.simulation.kernel.timing import blocks_needed, run_end, steps_until

NOTHING, SEND, DUE, EXPIRE, BORDER = range(5)

SEEN = 10
"""Numbers that `observe` writes down for a replica, beside its busy time."""


def used_now(w: World, slot: int, t: float) -> int:
    """Blocks in use at t, in the middle of a run too."""
    rep = w.replicas[slot]
    if rep.mode == RUN:
        return rep.used + blocks_needed(w, slot, steps_until(w, slot, t, rep.steps))
    return rep.used


def choose(w: World, pool: int, r: int, t: float) -> int:
    """The slot that takes a request. Ties go to the next in turn."""
    p = w.pools[pool]
    base = pool * w.client[0].slots
    if p.skew > 0.0 and w.draw[r] < p.skew:
        return w.members[base]
    best = p.turn % p.members
    if p.policy == LEAST_LOADED:
        best = least_loaded(w, base, p.members, best)
    elif p.policy == QUEUE_AND_KV:
        best = best_scored(w, base, p.members, best, t)
    p.turn = best + 1
    return w.members[base + best]


def least_loaded(w: World, base: int, members: int, begin: int) -> int:
    """The member with the fewest requests, waiting and running."""
    replicas, slots = w.replicas, w.members
    best = begin
    least = replicas[slots[base + begin]].load
    for i in range(begin + 1, members):
        load = replicas[slots[base + i]].load
        if load < least:
            least = load
            best = i
    for i in range(begin):
        load = replicas[slots[base + i]].load
        if load < least:
            least = load
            best = i
    return best


def best_scored(w: World, base: int, members: int, begin: int, t: float) -> int:
    """The member with the best sum of two scores of an endpoint picker: short queue among its peers, and free KV."""
    shortest = 1 << 60
    longest = 0
    for i in range(members):
        waiting = w.replicas[w.members[base + i]].waiting
        shortest = min(shortest, waiting)
        longest = max(longest, waiting)
    best = begin
    top = -math.inf
    for k in range(members):
        i = begin + k
        if i >= members:
            i -= members
        rep = w.replicas[w.members[base + i]]
        score = 1.0 - used_now(w, w.members[base + i], t) / w.engines[rep.role].blocks
        score += (longest - rep.waiting) / (longest - shortest) if longest > shortest else 1.0
        if score > top:
            top = score
            best = i
    return best


def interrupt(w: World, slot: int, t: float) -> None:
    """End a run of decodes at its first border from t on: its queue has changed."""
    rep = w.replicas[slot]
    rep.more = 0
    if rep.mode == RUN and rep.next > t:
        steps = steps_until(w, slot, t, rep.steps)
        if steps < rep.steps:
            rep.steps = steps
            rep.next = run_end(w, slot, steps)


def assign(w: World, slot: int, r: int, t: float) -> None:
    """Put a request into a replica's queue."""
    rep = w.replicas[slot]
    w.replica[r] = slot
    w.status[r] = WAITING
    append(w, waiting_list(slot), r)
    rep.waiting += 1
    rep.load += 1
    rep.prompt_tokens += w.input[r]
    if rep.mode == IDLE:
        rep.next = min(rep.next, t)
    elif rep.waiting == 1 and rep.running < w.engines[rep.role].max_num_seqs:
        interrupt(w, slot, t)


def route(w: World, pool: int, r: int, t: float) -> None:
    """Give a request to a replica of the pool, or keep it in front of the pool while there is none."""
    p = w.pools[pool]
    if p.members == 0:
        w.status[r] = WAITING
        w.replica[r] = -2 - pool
        append(w, pool, r)
        return
    slot = choose(w, pool, r, t)
    proceed(w, slot, t)
    assign(w, slot, r, t)


def too_long(w: World, r: int) -> bool:
    """Whether a request could not fit into an empty replica of every role it needs."""
    for i in range(3):
        e = w.engines[i]
        if e.blocks > 0 and blocks_for(w.input[r] + w.output[r] - 1, e.block_size) > e.blocks:
            return True
    return False


def send(w: World, r: int, t: float) -> None:
    """One attempt of a request leaves its client."""
    c = w.client[0]
    w.sent[r] = t
    w.first[r] = -1.0
    w.generated[r] = 0
    w.computed[r] = 0
    w.kept[r] = 0
    w.mark[r] = -1
    w.last_step[r] = -1
    w.attempts[r] += 1
    if c.timeout < math.inf:
        w.log[c.sent] = (r << 8) + w.attempts[r]
    c.sent += 1
    c.routed_prompt += w.input[r]
    if too_long(w, r):
        settle(w, r, REJECTED, t)
        return
    route(w, 0, r, t)


def fail(w: World, r: int, outcome: int, t: float, gone: float) -> None:
    """An attempt failed at t; its replica lets go of it at `gone`. The client tries again, or this is the outcome."""
    c = w.client[0]
    w.status[r] = outcome
    if w.attempts[r] > c.retries:
        settle(w, r, outcome, t)
        return
    wait = c.backoff
    for _ in range(w.attempts[r] - 1):
        wait *= 2.0
    w.due[r] = max(t + wait, gone + 2.0 * TIE)
    due_push(w, r)


def next_deadline(w: World) -> float:
    """When the oldest send still on its way times out; inf: never."""
    c = w.client[0]
    if c.timeout == math.inf:
        return math.inf
    while c.expired < c.sent:
        r = w.log[c.expired] >> 8
        status = w.status[r]
        underway = status in (WAITING, RUNNING, TRANSFER)
        if underway and w.attempts[r] == w.log[c.expired] & 255:
            return w.sent[r] + c.timeout
        c.expired += 1
    return math.inf


def expire(w: World, t: float) -> None:
    """The oldest send has reached the client's time-out."""
    c = w.client[0]
    r = w.log[c.expired] >> 8
    c.expired += 1
    status = w.status[r]
    slot = w.replica[r]
    if slot >= 0:
        proceed(w, slot, t)
        status = w.status[r]
    if status == TRANSFER:
        w.status[r] = TIMED_OUT  # it is given up when the transfer is through
    elif status == WAITING:
        if slot >= 0:
            rep = w.replicas[slot]
            unlink(w, waiting_list(slot), r)
            rep.waiting -= 1
            rep.load -= 1
            if w.first[r] < 0.0:
                rep.prompt_tokens -= w.input[r]
            interrupt(w, slot, t)
        else:
            unlink(w, -2 - slot, r)
        w.replica[r] = -1
        fail(w, r, TIMED_OUT, t, t)
    elif status == RUNNING:
        interrupt(w, slot, t)
        w.replicas[slot].aborts += 1
        fail(w, r, TIMED_OUT, t, w.replicas[slot].next)


def arrive(w: World, t: float) -> None:
    """A prompt's KV has reached the decode side, or a retry is due."""
    r = due_pop(w)
    status = w.status[r]
    if status == TRANSFER:
        w.kept[r] = -1
        w.mark[r] = -1
        w.last_step[r] = -1
        w.computed[r] = 0
        route(w, 1, r, t)
    elif w.attempts[r] > w.client[0].retries:  # given up while its KV was on the way
        settle(w, r, status, t)
    else:
        if w.replica[r] >= 0:  # the replica it was given up on has yet to let go of it
            proceed(w, w.replica[r], t)
        send(w, r, t)


def work_off(w: World, t: float, role: int) -> None:
    """Bring all replicas, or those of one role, up to t."""
    replicas, alive = w.replicas, w.alive
    limit = t - TIE
    for i in range(w.client[0].alive):
        slot = alive[i]
        rep = replicas[slot]
        if rep.next < limit and (role < 0 or rep.role == role):
            proceed(w, slot, t)


def advance(w: World, until: float) -> None:
    """Simulate everything before `until`."""
    c = w.client[0]
    n = c.requests
    split = w.engines[PREFILL].blocks > 0
    entry_needs_state = w.pools[0].policy != ROUND_ROBIN
    decode_needs_state = w.pools[1].policy != ROUND_ROBIN
    while True:
        t = until
        kind = NOTHING
        if c.next < n:
            offered = w.arrival[c.next]
            if c.in_flight < c.concurrency:
                offered = max(offered, c.free_at)
                if offered < t:
                    t = offered
                    kind = SEND
            else:
                for i in range(c.alive):
                    border = w.replicas[w.alive[i]].next + 2.0 * TIE
                    if border < t:
                        t = border
                        kind = BORDER
        if c.due > 0 and w.due[w.dues[0]] < t:
            t = w.due[w.dues[0]]
            kind = DUE
        deadline = next_deadline(w)
        if deadline < t:
            t = deadline
            kind = EXPIRE
        if split:
            work_off(w, t, PREFILL)
            if c.due > 0 and w.due[w.dues[0]] < t:
                t = w.due[w.dues[0]]
                kind = DUE
        if kind == NOTHING:
            work_off(w, until, -1)
            if (c.due > 0 and w.due[w.dues[0]] < until) or (c.in_flight < c.concurrency and kind_left(w, until)):
                continue
            return
        if kind == SEND:
            if entry_needs_state:
                work_off(w, t, -1)
            r = c.next
            c.next += 1
            c.in_flight += 1
            send(w, r, t)
        elif kind == DUE:
            if w.status[w.dues[0]] == TRANSFER:
                if decode_needs_state:
                    work_off(w, t, DECODE)
            elif entry_needs_state:
                work_off(w, t, -1)
            arrive(w, t)
        elif kind == EXPIRE:
            expire(w, t)
        else:
            work_off(w, t, -1)


def kind_left(w: World, until: float) -> bool:
    """Whether a request can leave its client before `until` after all."""
    c = w.client[0]
    return c.next < c.requests and max(w.arrival[c.next], c.free_at) < until


def admit_held(w: World, pool: int, t: float) -> None:
    """Requests that waited for a replica to exist go to the ones there are now."""
    while w.ends[2 * pool] >= 0 and w.pools[pool].members > 0:
        r = w.ends[2 * pool]
        unlink(w, pool, r)
        work_off(w, t, -1)
        route(w, pool, r, t)


def kill(w: World, slot: int, t: float) -> None:
    """A replica is gone at t, and with it what it was working on."""
    rep = w.replicas[slot]
    if rep.mode == RUN:  # tokens of the steps it has finished are out
        steps = steps_until(w, slot, t, rep.steps) - 1
        if steps > 0:
            rep.steps = steps
            rep.next = run_end(w, slot, steps)
            commit(w, slot)
    rep.mode = GONE
    rep.more = 0
    rep.next = math.inf
    for which in (running_list(slot), waiting_list(slot)):
        r = w.ends[2 * which]
        while r >= 0:
            after = w.nxt[r]
            unlink(w, which, r)
            w.replica[r] = -1
            if w.status[r] == RUNNING or w.status[r] == WAITING:
                fail(w, r, LOST, t, t)
            r = after
    rep.load = 0
    rep.running = 0
    rep.waiting = 0
    rep.decoding = 0
    rep.lengths = 0
    rep.prompt_tokens = 0
    rep.used = 0
    rep.partial = -1


def observe(w: World, t: float) -> None:
    """Write down what can be seen of every living replica at t, without changing anything."""
    c = w.client[0]
    for i in range(c.alive):
        slot = w.alive[i]
        rep = w.replicas[slot]
        busy, generated = rep.busy, rep.generated
        if rep.mode != IDLE and rep.start < t:
            busy += min(t, rep.next) - rep.start
            if rep.mode == RUN:
                generated += (steps_until(w, slot, t, rep.steps) - 1) * rep.decoding
        w.seen_busy[i] = busy
        at = i * SEEN
        w.seen[at] = rep.role
        w.seen[at + 1] = rep.waiting
        w.seen[at + 2] = rep.running
        w.seen[at + 3] = used_now(w, slot, t)
        w.seen[at + 4] = rep.prompt_tokens
        w.seen[at + 5] = rep.preemptions
        w.seen[at + 6] = generated
        w.seen[at + 7] = rep.prefilled
        w.seen[at + 8] = rep.reused
        w.seen[at + 9] = rep.load
