"""KV cache blocks of a replica: used, free, and cached ones that count as available.

Without prefix ids the only blocks anyone can find again are a preempted request's own. They are kept in the order of
release and lost from the last block on, so counting evictions is enough to know how many are left:
`mark` is the eviction that takes the first of them.
"""

from triplane.simulation.kernel.lists import waiting_list
from triplane.simulation.kernel.prefix import evict, leading_blocks, leave_shared, share
from triplane.simulation.kernel.state import World


def blocks_for(tokens: int, block_size: int) -> int:
    """Blocks that hold so many tokens."""
    return (tokens + block_size - 1) // block_size


def take(w: World, slot: int, count: int) -> None:
    """Use more blocks: free ones first, then those of the oldest cached."""
    rep = w.replicas[slot]
    rep.used += count
    if count <= rep.free:
        rep.free -= count
        return
    lost = count - rep.free
    rep.free = 0
    rep.evicted += lost
    if w.engines[rep.role].shared:
        evict(w, slot, lost)


def release(w: World, slot: int, r: int, tokens: int, again: int) -> None:
    """A request gives back the blocks of its computed tokens; `again`: it was preempted and will look for them."""
    rep = w.replicas[slot]
    e = w.engines[rep.role]
    full = tokens // e.block_size
    part = 1 if full * e.block_size < tokens else 0
    rep.used -= part
    rep.free += part
    if not e.caching:
        rep.used -= full
        rep.free += full
        return
    if e.shared:
        leave_shared(w, slot, r, full, min(w.computed[r] // e.block_size, full))
        return
    if again:
        w.mark[r] = rep.evicted + e.blocks - rep.used - rep.free
        w.kept[r] = full
    rep.used -= full


def own_blocks(w: World, slot: int, r: int) -> int:
    """How many of the blocks a preempted request left behind are still cached."""
    lost = max(w.replicas[slot].evicted - w.mark[r], 0)
    return max(w.kept[r] - lost, 0) if w.mark[r] >= 0 else 0


def cached_blocks(w: World, slot: int, r: int, known: int, used_only: int) -> int:
    """Leading blocks of a waiting request that need not be computed again, all or only those others use.

    At least its last token must be computed, so never all of its blocks.
    """
    e = w.engines[w.replicas[slot].role]
    if not e.caching:
        return 0
    limit = (known - 1) // e.block_size
    if e.shared:
        return leading_blocks(w, slot, r, limit, used_only)
    return 0 if used_only else min(own_blocks(w, slot, r), limit)


def reuse(w: World, slot: int, r: int, hits: int) -> None:
    """A request enters with its first `hits` blocks found: they are used again, and of no help to others.

    A block of its own that it must compute again all the same replaces the cached one.
    """
    rep = w.replicas[slot]
    if w.engines[rep.role].shared:
        share(w, slot, r, hits)
    elif w.mark[r] >= 0:
        left = own_blocks(w, slot, r)
        rep.used += hits
        rep.free += left - hits
        other = w.ends[2 * waiting_list(slot)]
        while other >= 0 and w.mark[other] >= 0:  # preempted requests wait at the head
            if w.mark[other] > w.mark[r]:
                w.mark[other] -= left
            other = w.nxt[other]
    w.kept[r] = 0
    w.mark[r] = -1
