"""One replica: which requests the next step holds, and what has happened when it ends.

Scheduling follows vLLM v1. Running requests first, in the order they entered: one token for a decode, a chunk for an
unfinished prompt. One that finds no block preempts the request that entered last, possibly itself; it is put at the
head of the queue and will be computed again. Then, unless something was preempted, the queue from its head, while the
token budget, max_num_seqs and the blocks allow; a request enters only if all tokens it knows fit
(scheduler_reserve_full_isl), and nothing is reserved for tokens to come. The first that does not enter blocks the rest.

Only the last running request can have an unfinished prompt: it is unfinished because it used up the budget, so nothing
entered after it. While no prompt is unfinished and nothing can enter, steps hold decodes only and are done as one run,
up to the next end of an answer, arrival or block shortage.
"""

import math

from triplane.simulation.kernel.blocks import blocks_for, cached_blocks, release, reuse, take
from triplane.simulation.kernel.gaps import add_gap, add_gaps
from triplane.simulation.kernel.heaps import due_push, heap_pop, heap_push, heap_remove
from triplane.simulation.kernel.lists import append, prepend, running_list, unlink, waiting_list
from triplane.simulation.kernel.prefix import publish
from triplane.simulation.kernel.state import (
    DONE,
    DYNOSIM,
    IDLE,
    PREFILL,
    RUN,
    RUNNING,
    STEP,
    TIE,
    TRANSFER,
    WAITING,
    World,
)
from triplane.simulation.kernel.timing import (
    blocks_needed,
    decode_time,
    dynosim_decode,
    nanoseconds,
    run_end,
    steps_that_fit,
)


def settle(w: World, r: int, status: int, t: float) -> None:
    """A request reached its outcome at t: its client may send another one."""
    c = w.client[0]
    w.status[r] = status
    w.finish[r] = t
    if c.in_flight == c.concurrency:
        c.free_at = t
    c.in_flight -= 1


def phase_of(w: World, slot: int, r: int) -> int:
    """In which steps, modulo the block size, a decoding request needs a block."""
    return (w.input[r] + w.output[r] - 1 - w.last_step[r]) % w.engines[w.replicas[slot].role].block_size


def start_decoding(w: World, slot: int, r: int) -> None:
    """A request whose known tokens are all computed takes part in every step from now on."""
    rep = w.replicas[slot]
    e = w.engines[rep.role]
    w.last_step[r] = rep.step + w.output[r] - w.generated[r]
    rep.lengths += w.input[r] + w.generated[r]
    w.phases[slot * e.block_size + phase_of(w, slot, r)] += 1
    heap_push(w, rep.heap, rep.decoding, (w.last_step[r] << 32) + r)
    rep.decoding += 1


def stop_decoding(w: World, slot: int, r: int) -> None:
    """Take a decoding request out of the steps to come; its heap entry is the caller's."""
    rep = w.replicas[slot]
    w.generated[r] = w.output[r] - (w.last_step[r] - rep.step)
    rep.lengths -= w.input[r] + w.generated[r]
    w.phases[slot * w.engines[rep.role].block_size + phase_of(w, slot, r)] -= 1
    w.last_step[r] = -1
    rep.decoding -= 1


def depart(w: World, slot: int, r: int) -> None:
    """A running request leaves its replica."""
    rep = w.replicas[slot]
    unlink(w, running_list(slot), r)
    rep.running -= 1
    rep.load -= 1
    w.replica[r] = -1


def complete(w: World, slot: int, r: int, t: float) -> None:
    """The last token is out. Its own KV was never stored."""
    release(w, slot, r, w.input[r] + w.output[r] - 1, 0)
    depart(w, slot, r)
    w.generated[r] = w.output[r]
    c = w.client[0]
    w.replicas[slot].served += 1
    c.done += 1
    c.done_output += w.output[r]
    settle(w, r, DONE, t)


def emit(w: World, slot: int, r: int, t: float) -> None:
    """A request's known tokens are all computed: this step gives it a token."""
    rep = w.replicas[slot]
    e = w.engines[rep.role]
    if rep.role == PREFILL:
        rep.prompt_tokens -= w.input[r]
        release(w, slot, r, w.input[r], 0)
        depart(w, slot, r)
        rep.served += 1
        w.status[r] = TRANSFER
        w.due[r] = t + (e.transfer_base + e.transfer_token * w.input[r])
        due_push(w, r)
        return
    rep.generated += 1
    w.generated[r] += 1
    if w.generated[r] == 1:
        c = w.client[0]
        rep.prompt_tokens -= w.input[r]
        w.first[r] = t
        w.firsts[c.firsts] = r
        c.firsts += 1
    else:
        add_gap(w, t - w.last[r], 1)
    if w.generated[r] >= w.output[r]:
        complete(w, slot, r, t)
    else:
        start_decoding(w, slot, r)


def preempt(w: World, slot: int, r: int) -> None:
    """Take the blocks of a running request away: it waits at the head and will be computed again."""
    rep = w.replicas[slot]
    if r == rep.partial:
        rep.partial = -1
        release(w, slot, r, w.computed[r], 1)
    else:
        heap_remove(w, rep.heap, rep.decoding, (w.last_step[r] << 32) + r)
        stop_decoding(w, slot, r)
        release(w, slot, r, w.input[r] + w.generated[r] - 1, 1)
        w.last[r] = rep.start
    w.computed[r] = 0
    w.status[r] = WAITING
    unlink(w, running_list(slot), r)
    rep.running -= 1
    prepend(w, waiting_list(slot), r)
    rep.waiting += 1
    rep.preemptions += 1


def abandon(w: World, slot: int) -> None:
    """Requests their clients gave up leave at the border of a step."""
    rep = w.replicas[slot]
    r = w.ends[2 * running_list(slot)]
    while r >= 0:
        after = w.nxt[r]
        if w.status[r] != RUNNING:
            if w.last_step[r] < 0:  # not decoding
                if r == rep.partial:
                    rep.partial = -1
                release(w, slot, r, w.computed[r], 0)
            else:
                heap_remove(w, rep.heap, rep.decoding, (w.last_step[r] << 32) + r)
                stop_decoding(w, slot, r)
                release(w, slot, r, w.input[r] + w.generated[r] - 1, 0)
            if w.first[r] < 0.0:
                rep.prompt_tokens -= w.input[r]
            depart(w, slot, r)
        r = after
    rep.aborts = 0


def make_room(w: World, slot: int) -> int:
    """Blocks are short: give each decode its block in order, preempting from the end. Returns how many that cost."""
    rep = w.replicas[slot]
    e = w.engines[rep.role]
    phase = -rep.step % e.block_size
    preempted = 0
    r = w.ends[2 * running_list(slot)]
    while r >= 0 and r != rep.partial:
        if phase_of(w, slot, r) == phase:
            while rep.used == e.blocks:
                last = w.ends[2 * running_list(slot) + 1]
                preempt(w, slot, last)
                preempted += 1
                if last == r:
                    return preempted
            take(w, slot, 1)
        r = w.nxt[r]
    return preempted


def can_enter(w: World, slot: int) -> bool:
    """Whether the head of the queue may enter now."""
    rep = w.replicas[slot]
    e = w.engines[rep.role]
    r = w.ends[2 * waiting_list(slot)]
    if r < 0 or rep.running >= e.max_num_seqs:
        return False
    known = w.input[r] + w.generated[r]
    need = blocks_for(known, e.block_size)
    available = e.blocks - rep.used
    return need <= available or need - cached_blocks(w, slot, r, known, 1) <= available


def schedule(w: World, slot: int, budget: int, r: int, begin: int) -> int:
    """Give a request its share of the budget: known tokens from `begin` on. Returns how many."""
    rep = w.replicas[slot]
    e = w.engines[rep.role]
    count = min(w.input[r] + w.generated[r] - begin, budget)
    end = begin + count
    take(w, slot, blocks_for(end, e.block_size) - blocks_for(begin, e.block_size))
    if e.shared:
        publish(w, slot, r, begin // e.block_size, end // e.block_size)
    w.computed[r] = end
    if rep.fresh < 0:
        rep.fresh = r
    return count


def plan_step(w: World, slot: int) -> None:
    """Form one step with prompt work, admission or preemption."""
    rep = w.replicas[slot]
    e = w.engines[rep.role]
    rep.mode = STEP
    rep.fresh = -1
    preempted = 0
    need = blocks_needed(w, slot, 1)
    if need <= e.blocks - rep.used:
        take(w, slot, need)
    else:
        preempted = make_room(w, slot)
    budget = e.token_budget - rep.decoding
    prompts = 0
    reached = 0
    before = 0
    new = 0
    square = 0.0
    sequences = rep.decoding
    lengths = rep.lengths
    while True:
        r = rep.partial
        begin = 0
        sent = False
        if rep.fresh < 0 and r >= 0:  # the unfinished prompt comes first
            begin = w.computed[r]
            end = min(w.input[r] + w.generated[r], begin + budget)
            if blocks_for(end, e.block_size) - blocks_for(begin, e.block_size) > e.blocks - rep.used:
                preempt(w, slot, r)
                preempted += 1
                break
        else:
            if preempted or budget <= 0 or not can_enter(w, slot):
                break
            r = w.ends[2 * waiting_list(slot)]
            unlink(w, waiting_list(slot), r)
            rep.waiting -= 1
            known = w.input[r] + w.generated[r]
            hits = cached_blocks(w, slot, r, known, 0)
            sent = w.kept[r] < 0
            reuse(w, slot, r, hits)
            begin = hits * e.block_size
            rep.reused += begin
            append(w, running_list(slot), r)
            rep.running += 1
            w.status[r] = RUNNING
        # A prompt whose KV was sent here is all there but for its last token, which this step computes as a decode.
        count = schedule(w, slot, e.blocks * e.block_size if sent else budget, r, begin)
        known = w.input[r] + w.generated[r]
        end = begin + count
        budget -= 1 if sent else count
        if sent or (e.timing == DYNOSIM and end == known):
            sequences += 1
            lengths += known
        if not sent:
            new += count
            square += float(end) * end - float(begin) * begin
            stop = min(end, w.input[r])
            if begin < stop:
                prompts += 1
                before += begin
                reached += stop
        rep.partial = r if end < known else -1
        if budget <= 0:
            break
    rep.prefilled += new
    seconds = 0.0
    if e.timing == DYNOSIM:
        if prompts > 0:
            n = prompts * (reached // prompts - before // prompts)
            seconds = nanoseconds(e.prefill_base + e.prefill_token * n + e.prefill_square * (float(n) * n))
        if sequences > 0:
            seconds += dynosim_decode(w, slot, sequences, lengths, rep.used)
    elif new > 0:
        seconds = e.prefill_base + e.prefill_token * new + e.prefill_square * square
        seconds += e.decode_sequence * sequences + e.decode_token * lengths
    elif sequences > 0:
        seconds = decode_time(w, slot, sequences, lengths)
    rep.next = rep.start + seconds


def plan(w: World, slot: int) -> None:
    """Decide at a border what the replica does next."""
    rep = w.replicas[slot]
    e = w.engines[rep.role]
    rep.start = rep.next
    if rep.aborts:
        abandon(w, slot)
    if rep.running + rep.waiting == 0:
        rep.mode = IDLE
        rep.next = math.inf
        return
    if rep.partial < 0 and rep.decoding > 0 and not (rep.waiting > 0 and can_enter(w, slot)):
        limit = (w.heaps[rep.heap] >> 32) - rep.step
        steps = steps_that_fit(w, slot, e.blocks - rep.used, limit)
        if steps > 0:
            rep.mode = RUN
            if e.timing == DYNOSIM:
                used = rep.used + blocks_needed(w, slot, 1)
                rep.first_step = dynosim_decode(w, slot, rep.decoding, rep.lengths, used)
                rep.more = steps - 1
                steps = 1
            else:
                rep.first_step = decode_time(w, slot, rep.decoding, rep.lengths)
            rep.steps = steps
            rep.next = run_end(w, slot, steps)
            return
    plan_step(w, slot)


def finish_answers(w: World, slot: int, t: float) -> None:
    """Answers whose last token came with the step that just ended."""
    rep = w.replicas[slot]
    while rep.decoding > 0 and w.heaps[rep.heap] >> 32 <= rep.step:
        r = heap_pop(w, rep.heap, rep.decoding) & 0xFFFFFFFF
        stop_decoding(w, slot, r)
        if w.status[r] != RUNNING:  # given up during its last step
            release(w, slot, r, w.input[r] + w.output[r] - 1, 0)
            depart(w, slot, r)
        else:
            complete(w, slot, r, t)


def commit(w: World, slot: int) -> None:
    """What the step or run that ends at `next` has done."""
    rep = w.replicas[slot]
    e = w.engines[rep.role]
    t = rep.next
    rep.busy += t - rep.start
    if rep.mode == RUN:
        k, sequences = rep.steps, rep.decoding
        add_gaps(w, rep.first_step, e.decode_token * sequences, k, sequences, t - rep.start)
        take(w, slot, blocks_needed(w, slot, k))
        rep.step += k
        rep.lengths += sequences * k
        rep.generated += sequences * k
        finish_answers(w, slot, t)
        return
    rep.step += 1
    if rep.decoding > 0:
        add_gap(w, t - rep.start, rep.decoding)
        rep.lengths += rep.decoding
        rep.generated += rep.decoding
        finish_answers(w, slot, t)
    r = rep.fresh
    while r >= 0:
        after = w.nxt[r]
        if r != rep.partial and w.status[r] == RUNNING:
            emit(w, slot, r, t)
        r = after


def cruise(w: World, slot: int, t: float) -> None:
    """Go on with a run of DynoSim's decode steps, one by one, up to the step in which t lies."""
    rep = w.replicas[slot]
    size = w.engines[rep.role].block_size
    base, sequences, begin = slot * size, rep.decoding, rep.start
    used, lengths = rep.used + blocks_needed(w, slot, 1), rep.lengths
    done = 0
    while rep.more > 0 and rep.next + TIE < t:
        add_gap(w, rep.first_step, sequences)
        done += 1
        lengths += sequences
        used += w.phases[base + -(rep.step + done) % size]
        rep.start = rep.next
        rep.first_step = dynosim_decode(w, slot, sequences, lengths, used)
        rep.next = rep.start + rep.first_step
        rep.more -= 1
    take(w, slot, blocks_needed(w, slot, done))
    rep.step += done
    rep.lengths = lengths
    rep.generated += sequences * done
    rep.busy += rep.start - begin


def proceed(w: World, slot: int, t: float) -> None:
    """Work off every border that no request arriving at t or later can join."""
    rep = w.replicas[slot]
    while rep.next + TIE < t:
        if rep.more > 0:
            cruise(w, slot, t)
            continue
        if rep.mode != IDLE:
            commit(w, slot)
        plan(w, slot)
