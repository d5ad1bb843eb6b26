"""Two binary heaps in flat arrays: whole numbers per replica, and requests by the time they are due."""

from triplane.simulation.kernel.state import World


def heap_push(w: World, base: int, size: int, value: int) -> None:
    """Add a value to the heap of `size` values that begins at `base`."""
    heap = w.heaps
    i = size
    while i > 0:
        parent = (i - 1) >> 1
        above = heap[base + parent]
        if above <= value:
            break
        heap[base + i] = above
        i = parent
    heap[base + i] = value


def heap_settle(w: World, base: int, size: int, hole: int, value: int) -> None:
    """Put a value at a hole and move it down, then up, to where it belongs."""
    heap = w.heaps
    i = hole
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and heap[base + child + 1] < heap[base + child]:
            child += 1
        if heap[base + child] >= value:
            break
        heap[base + i] = heap[base + child]
        i = child
    while i > 0:
        parent = (i - 1) >> 1
        if heap[base + parent] <= value:
            break
        heap[base + i] = heap[base + parent]
        i = parent
    heap[base + i] = value


def heap_pop(w: World, base: int, size: int) -> int:
    """Take the smallest value; the caller counts one less."""
    heap = w.heaps
    value = heap[base]
    if size > 1:
        heap_settle(w, base, size - 1, 0, heap[base + size - 1])
    return value


def heap_remove(w: World, base: int, size: int, value: int) -> None:
    """Take a given value out; the caller counts one less."""
    heap = w.heaps
    hole = 0
    while heap[base + hole] != value:
        hole += 1
    if hole < size - 1:
        heap_settle(w, base, size - 1, hole, heap[base + size - 1])


def due_before(w: World, a: int, b: int) -> bool:
    """Order of the due heap: time, then request."""
    return w.due[a] < w.due[b] or (w.due[a] == w.due[b] and a < b)


def due_push(w: World, r: int) -> None:
    """Add a request whose `due` is set."""
    c = w.client[0]
    i = c.due
    c.due = i + 1
    while i > 0:
        parent = (i - 1) >> 1
        if not due_before(w, r, w.dues[parent]):
            break
        w.dues[i] = w.dues[parent]
        i = parent
    w.dues[i] = r


def due_pop(w: World) -> int:
    """Take the request that is due first."""
    c = w.client[0]
    top = w.dues[0]
    size = c.due - 1
    c.due = size
    if size > 0:
        r = w.dues[size]
        i = 0
        while True:
            child = 2 * i + 1
            if child >= size:
                break
            if child + 1 < size and due_before(w, w.dues[child + 1], w.dues[child]):
                child += 1
            if not due_before(w, w.dues[child], r):
                break
            w.dues[i] = w.dues[child]
            i = child
        w.dues[i] = r
    return top
