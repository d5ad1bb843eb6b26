"""What the serving kernel remembers: engines, replicas, pools, the client and every request.

The kernel is one source for two ways of running. Compiled, a table such as `replicas` is a numpy record array and a
column such as `first` a numpy array. Plain, the same names are lists of small objects and memoryviews over the very
same arrays, because plain Python indexes those several times faster than numpy. Both read `table[i].field` and
`column[i]`, so the kernel does not know which one it has.

Times are seconds, counts are 64-bit integers. A request is its row number, a replica its slot number.
"""

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

AGGREGATED, PREFILL, DECODE = 0, 1, 2
"""What a replica does: whole requests, prompts only, or answers whose prompt's KV cache is sent to it."""

NEVER_SENT, WAITING, RUNNING, TRANSFER, DONE, TIMED_OUT, LOST, REJECTED = range(8)
"""Where a request is. Its last state is its outcome: WAITING, RUNNING and TRANSFER mean unfinished."""

IDLE, STEP, RUN, GONE = range(4)
"""What a replica is in: nothing, one step with prompt work or admission, a run of pure decode steps; or no replica."""

FUSED, DYNOSIM = 0, 1
"""Step time of a batch with prompts and decodes: one pass over both, or DynoSim 1.4.2's prefill plus decode."""

ROUND_ROBIN, LEAST_LOADED, QUEUE_AND_KV = range(3)
"""How a request finds its replica."""

TIE = 1e-9
"""Seconds. A request that arrives this close after a step border still joins the step that starts there: a border
computed in closed form and one summed step by step differ in the last bits, and must admit the same requests."""


@dataclass(slots=True)
class Engine:
    """One role's engine and its step-time coefficients (seconds)."""

    blocks: int = 0
    block_size: int = 16
    max_num_seqs: int = 256
    token_budget: int = 8192
    caching: int = 1
    timing: int = FUSED
    prefill_base: float = 0.0
    prefill_token: float = 0.0
    prefill_square: float = 0.0
    decode_base: float = 0.0
    decode_sequence: float = 0.0
    decode_token: float = 0.0
    graph_batch: int = 0
    eager_base: float = 0.0
    transfer_base: float = 0.0
    transfer_token: float = 0.0
    shared: int = 0
    hash_block: int = 0
    index_size: int = 0
    nodes: int = 0


@dataclass(slots=True)
class Replica:
    """One replica between two borders of its steps: `start` of what it is in, and `next`, its end."""

    start: float = 0.0
    next: float = 0.0
    busy: float = 0.0
    first_step: float = 0.0
    role: int = 0
    mode: int = GONE
    steps: int = 0
    more: int = 0
    step: int = 0
    running: int = 0
    decoding: int = 0
    waiting: int = 0
    load: int = 0
    lengths: int = 0
    used: int = 0
    free: int = 0
    evicted: int = 0
    partial: int = -1
    fresh: int = -1
    aborts: int = 0
    heap: int = 0
    prompt_tokens: int = 0
    preemptions: int = 0
    prefilled: int = 0
    generated: int = 0
    reused: int = 0
    served: int = 0
    oldest: int = -1
    newest: int = -1
    spare: int = -1


@dataclass(slots=True)
class Pool:
    """The replicas of one role that take requests: how many, and where the rotation stands."""

    members: int = 0
    turn: int = 0
    policy: int = ROUND_ROBIN
    skew: float = 0.0


@dataclass(slots=True)
class Client:
    """The load generator and what is on its way."""

    requests: int = 0
    slots: int = 0
    next: int = 0
    in_flight: int = 0
    concurrency: int = 0
    timeout: float = 0.0
    retries: int = 0
    backoff: float = 0.0
    free_at: float = 0.0
    due: int = 0
    sent: int = 0
    expired: int = 0
    firsts: int = 0
    alive: int = 0
    prefill: int = 0
    routed_prompt: int = 0
    done: int = 0
    done_output: int = 0
    itl_count: int = 0
    itl_sum: float = 0.0


Ints = list[int]
Floats = list[float]


class World(NamedTuple):
    """Everything the kernel reads and writes. R slots, n requests. Typed as what they are like: see above."""

    engines: list[Engine]  # Engine by role
    replicas: list[Replica]  # Replica by slot
    pools: list[Pool]  # Pool: 0 where requests arrive, 1 where prompts go on as decodes
    client: list[Client]  # one Client
    members: Ints  # int64 (2 R): slots that take requests, pool by pool
    alive: Ints  # int64 (R): slots that exist, drained ones included
    ends: Ints  # int64: head and tail of every list of requests
    heaps: Ints  # int64 (R * max_num_seqs): per slot a heap of (last step, request)
    phases: Ints  # int64 (R * block_size): per slot, decodes by the step modulo block size in which they need a block
    arrival: Floats  # float64 (n): when a request is offered
    input: Ints  # int64 (n): prompt tokens
    output: Ints  # int64 (n): tokens it will generate
    draw: Floats  # float64 (n): uniform random number for routing
    sent: Floats  # float64 (n): when the last attempt left the client
    first: Floats  # float64 (n): end of the step that emitted its first token; -1 before
    finish: Floats  # float64 (n): end of its last step, or when it was given up; -1 before
    due: Floats  # float64 (n): when a retry or a transferred prompt is due
    last: Floats  # float64 (n): last token before a preemption
    status: Ints  # int64 (n)
    replica: Ints  # int64 (n): its slot; -1 none, -2 waiting for a replica to exist
    attempts: Ints  # int64 (n)
    nxt: Ints  # int64 (n): next in its list
    prv: Ints  # int64 (n): previous in its list
    computed: Ints  # int64 (n): tokens scheduled so far, while not decoding
    generated: Ints  # int64 (n): tokens emitted so far, while not decoding
    last_step: Ints  # int64 (n): step after which it is finished; -1 while not decoding
    mark: Ints  # int64 (n): eviction at which its own cached blocks begin to go, after a preemption; -1: not preempted
    kept: Ints  # int64 (n): its own cached blocks at that preemption; -1: its prompt's KV arrives by transfer
    dues: Ints  # int64 (n): heap of requests by `due`
    log: Ints  # int64: every send in order, as (request, attempt), for time-outs
    firsts: Ints  # int64: requests in the order of their first tokens
    seen: Ints  # int64 (R * SEEN): the last observation
    seen_busy: Floats  # float64 (R): busy seconds in it
    itl: Ints  # int64: decode gaps by size
    hash_start: Ints  # int64 (n + 1): where a request's prefix ids begin in `hashes`; empty without prefix ids
    hashes: Ints  # int64: prefix ids, one for each `hash_block` tokens of a prompt
    places: Ints  # int64 (R * index_size): open-addressed table from a block's key to its node, -1 empty
    keys: Ints  # int64 (R * nodes): key of a node
    refs: Ints  # int64 (R * nodes): requests that use the node's block
    older: Ints  # int64 (R * nodes): neighbour among the cached blocks in the order of release
    newer: Ints  # int64 (R * nodes): the other one; for spare nodes, the next spare
    copies: Ints  # int64 (n): index of the block a request holds a second copy of; -1 none


Record = type[Engine] | type[Replica] | type[Pool] | type[Client]


def dtype_of(record: Record) -> np.dtype[Any]:
    """The numpy record with a dataclass's fields."""
    return np.dtype([(f.name, np.float64 if f.type is float else np.int64) for f in fields(record)])


def table(rows: list[Any], compiled: bool) -> Any:
    """Rows of one dataclass as a record array, or as they are."""
    if not compiled:
        return list(rows)
    names = [f.name for f in fields(rows[0])]
    return np.array([tuple(getattr(row, n) for n in names) for row in rows], dtype=dtype_of(type(rows[0])))


def rows_of(table: Any) -> Any:
    """The rows of a table for reading and writing their fields outside the kernel."""
    return table if isinstance(table, list) else table.view(np.recarray)


def column(array: npt.NDArray[Any], compiled: bool) -> Any:
    """An array for the compiled kernel, or a view of the same memory for the plain one."""
    return array if compiled else memoryview(array)  # type: ignore[arg-type]
