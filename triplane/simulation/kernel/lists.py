"""Doubly linked lists of requests: what waits in front of a pool, what waits in a replica, what runs there.

A request is in at most one list, so one `nxt` and one `prv` per request serve them all.
"""

from triplane.simulation.kernel.state import World


def waiting_list(slot: int) -> int:
    """Queue of a replica. Lists 0 and 1 are the pools' own."""
    return 2 + 2 * slot


def running_list(slot: int) -> int:
    """Requests running on a replica, in the order they entered."""
    return 3 + 2 * slot


def append(w: World, which: int, r: int) -> None:
    """Put a request at the end of a list."""
    tail = w.ends[2 * which + 1]
    w.prv[r] = tail
    w.nxt[r] = -1
    if tail < 0:
        w.ends[2 * which] = r
    else:
        w.nxt[tail] = r
    w.ends[2 * which + 1] = r


def prepend(w: World, which: int, r: int) -> None:
    """Put a request at the head of a list."""
    head = w.ends[2 * which]
    w.nxt[r] = head
    w.prv[r] = -1
    if head < 0:
        w.ends[2 * which + 1] = r
    else:
        w.prv[head] = r
    w.ends[2 * which] = r


def unlink(w: World, which: int, r: int) -> None:
    """Take a request out of the list it is in."""
    before, after = w.prv[r], w.nxt[r]
    if before < 0:
        w.ends[2 * which] = after
    else:
        w.nxt[before] = after
    if after < 0:
        w.ends[2 * which + 1] = before
    else:
        w.prv[after] = before
