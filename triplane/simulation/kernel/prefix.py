"""Prefix cache for prompts that say which blocks they share: one table of cached blocks per replica.

A block becomes shareable when it is full and scheduled. A block nobody uses any more stays cached until its place is
needed; the block released first goes first, and of one request the last block. A prompt's blocks are named by the
trace's prefix ids, a block with generated tokens or beyond those ids by its request alone.
"""

from triplane.simulation.kernel.state import World

OWN = 1 << 52
"""Keys from here on belong to one attempt of one request: prefix ids stay below."""


def block_key(w: World, slot: int, r: int, i: int) -> int:
    """Key of the i-th block of a request."""
    e = w.engines[w.replicas[slot].role]
    if (i + 1) * e.block_size <= w.input[r]:
        at = w.hash_start[r] + i * e.block_size // e.hash_block
        if at < w.hash_start[r + 1]:
            per = e.hash_block // e.block_size
            return w.hashes[at] * per + i % per
    return OWN + (r << 28) + (w.attempts[r] << 20) + i


def place_of(w: World, slot: int, key: int) -> int:
    """Where in the table a key is, or the empty place where it would go."""
    size = w.engines[w.replicas[slot].role].index_size
    base = slot * size
    at = (key % 2147483647) * 48271 % 2147483647 % size
    nodes = slot * w.engines[w.replicas[slot].role].nodes
    while w.places[base + at] >= 0 and w.keys[nodes + w.places[base + at]] != key:
        at += 1
        if at == size:
            at = 0
    return base + at


def node_of(w: World, slot: int, key: int) -> int:
    """The node of a cached or used block; -1: not there."""
    return w.places[place_of(w, slot, key)]


def insert(w: World, slot: int, key: int, refs: int) -> int:
    """A node for a new key."""
    rep = w.replicas[slot]
    nodes = slot * w.engines[rep.role].nodes
    node = rep.spare
    rep.spare = w.newer[nodes + node]
    w.places[place_of(w, slot, key)] = node
    w.keys[nodes + node] = key
    w.refs[nodes + node] = refs
    return node


def forget(w: World, slot: int, node: int) -> None:
    """Take a node's key out of the table; entries behind it move up so that no search stops short."""
    rep = w.replicas[slot]
    e = w.engines[rep.role]
    nodes, size, base = slot * e.nodes, e.index_size, slot * e.index_size
    hole = place_of(w, slot, w.keys[nodes + node]) - base
    at = hole
    while True:
        at = at + 1 if at + 1 < size else 0
        moved = w.places[base + at]
        if moved < 0:
            break
        home = (w.keys[nodes + moved] % 2147483647) * 48271 % 2147483647 % size
        if (at - home) % size >= (at - hole) % size:
            w.places[base + hole] = moved
            hole = at
    w.places[base + hole] = -1
    w.newer[nodes + node] = rep.spare
    rep.spare = node


def cache(w: World, slot: int, node: int) -> None:
    """Put a node nobody uses behind all cached ones."""
    rep = w.replicas[slot]
    nodes = slot * w.engines[rep.role].nodes
    w.older[nodes + node] = rep.newest
    w.newer[nodes + node] = -1
    if rep.newest < 0:
        rep.oldest = node
    else:
        w.newer[nodes + rep.newest] = node
    rep.newest = node


def uncache(w: World, slot: int, node: int) -> None:
    """Take a node out of the cached ones."""
    rep = w.replicas[slot]
    nodes = slot * w.engines[rep.role].nodes
    before, after = w.older[nodes + node], w.newer[nodes + node]
    if before < 0:
        rep.oldest = after
    else:
        w.newer[nodes + before] = after
    if after < 0:
        rep.newest = before
    else:
        w.older[nodes + after] = before


def evict(w: World, slot: int, count: int) -> None:
    """Forget the oldest cached blocks."""
    rep = w.replicas[slot]
    for _ in range(count):
        node = rep.oldest
        uncache(w, slot, node)
        forget(w, slot, node)


def leading_blocks(w: World, slot: int, r: int, limit: int, used_only: int) -> int:
    """How many of a request's first blocks are there one after the other, or how many of those are in use."""
    nodes = slot * w.engines[w.replicas[slot].role].nodes
    found = 0
    used = 0
    while found < limit:
        node = node_of(w, slot, block_key(w, slot, r, found))
        if node < 0:
            break
        if w.refs[nodes + node] > 0:
            used += 1
        found += 1
    return used if used_only else found


def share(w: World, slot: int, r: int, hits: int) -> None:
    """A request enters with its first `hits` blocks found."""
    rep = w.replicas[slot]
    nodes = slot * w.engines[rep.role].nodes
    w.copies[r] = -1
    for i in range(hits):
        node = node_of(w, slot, block_key(w, slot, r, i))
        if w.refs[nodes + node] == 0:
            uncache(w, slot, node)
            rep.used += 1
        w.refs[nodes + node] += 1
    again = block_key(w, slot, r, hits)
    node = node_of(w, slot, again)
    if again >= OWN and node >= 0:  # its own, but to be computed again
        uncache(w, slot, node)
        forget(w, slot, node)
        rep.free += 1


def publish(w: World, slot: int, r: int, first: int, end: int) -> None:
    """Blocks first..end-1 of a request are full and scheduled. One that another request also computed stays a copy."""
    for i in range(first, end):
        key = block_key(w, slot, r, i)
        if node_of(w, slot, key) < 0:
            insert(w, slot, key, 1)
        else:
            w.copies[r] = i


def leave_shared(w: World, slot: int, r: int, full: int, published: int) -> None:
    """A request releases its full blocks, the last one first; those from `published` on were not named yet."""
    rep = w.replicas[slot]
    nodes = slot * w.engines[rep.role].nodes
    for back in range(full):
        i = full - 1 - back
        key = block_key(w, slot, r, i)
        node = node_of(w, slot, key)
        if i == w.copies[r] or (i >= published and node >= 0):
            rep.used -= 1
            rep.free += 1
        elif i >= published:
            cache(w, slot, insert(w, slot, key, 0))
            rep.used -= 1
        else:
            w.refs[nodes + node] -= 1
            if w.refs[nodes + node] == 0:
                cache(w, slot, node)
                rep.used -= 1
