"""The serving kernel as the other layers use it: replicas come and go between calls of `advance`.

serving = Serving(requests, {"aggregated": engine})
slot = serving.add("aggregated")
serving.advance(15.0)
serving.signals()   # what an autoscaler can see at 15 s
serving.outcomes()  # what became of every request
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from triplane.simulation.kernel import compile as kernel
from triplane.simulation.kernel import state
from triplane.simulation.kernel.events import SEEN
from triplane.simulation.kernel.gapcounts import GapCounts
from triplane.simulation.kernel.gaps import GAP_CUTS, GAP_OCTAVES
from triplane.simulation.requests import Floats, Ints, Requests

Role = Literal["aggregated", "prefill", "decode"]
Routing = Literal["roundRobin", "leastLoaded", "queueAndKv"]

ROLES: dict[Role, int] = {"aggregated": state.AGGREGATED, "prefill": state.PREFILL, "decode": state.DECODE}
ROUTINGS: dict[Routing, int] = {
    "roundRobin": state.ROUND_ROBIN,
    "leastLoaded": state.LEAST_LOADED,
    "queueAndKv": state.QUEUE_AND_KV,
}
NEVER = 1 << 60


@dataclass(frozen=True, kw_only=True)
class StepTimes:
    """Coefficients of an engine's step time, in seconds.

    Prompt work from token s to e: base + token (e - s) + square (e^2 - s^2). Decode: base + sequence B + token K of B
    sequences with K KV tokens; beyond `graph_batch` sequences `eager_base` more, because no CUDA graph is captured.
    """

    prefill_base: float
    prefill_token: float
    prefill_square: float
    decode_base: float
    decode_sequence: float
    decode_token: float
    graph_batch: int = NEVER
    eager_base: float = 0.0
    semantics: Literal["fused", "dynosim"] = "fused"
    """How a step with prompts and decodes adds up: one pass, or as DynoSim 1.4.2 does."""


@dataclass(frozen=True, kw_only=True)
class EngineLimits:
    """One role's engine: its speed and what it holds."""

    times: StepTimes
    kv_blocks: int
    """KV cache blocks of one replica."""
    block_size: int = 16
    """Tokens a block holds; vLLM's default."""
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    prefix_caching: bool = True
    transfer_seconds: float = 0.0
    """Prefill only: latency of handing one prompt's KV cache to a decode replica."""
    transfer_seconds_per_token: float = 0.0
    """Prefill only: KV bytes of a token over the bandwidth of the link."""

    def __post_init__(self) -> None:
        """Raise ValueError for limits no engine accepts."""
        if self.kv_blocks < 1 or self.block_size < 1 or self.max_num_seqs < 1:
            raise ValueError("kv_blocks, block_size and max_num_seqs must be at least 1")
        if self.max_num_batched_tokens < self.max_num_seqs:
            # vLLM refuses it too: every running request must get its token in every step.
            raise ValueError("max_num_batched_tokens must be at least max_num_seqs")


@dataclass(frozen=True, kw_only=True)
class ClientModel:
    """How the load generator behaves. Left out: an open loop that waits for ever."""

    concurrency: int | None = None
    """Most requests on their way at once; others wait in the client and may never be sent."""
    timeout: float = math.inf
    """Seconds after sending when the client gives an attempt up."""
    retries: int = 0
    """Further attempts after a time-out or a lost replica, at most 200."""
    backoff: float = 1.0
    """Seconds before the first retry; doubled each time."""

    def __post_init__(self) -> None:
        """Raise ValueError for a client that cannot be."""
        if (self.concurrency is not None and self.concurrency < 1) or not self.timeout > 0 or self.backoff < 0:
            raise ValueError("concurrency must be at least 1, timeout above 0 and backoff not negative")
        if not 0 <= self.retries <= 200:
            raise ValueError("retries must be between 0 and 200")


@dataclass(frozen=True)
class ReplicaSignals:
    """What can be read from each replica at a moment; arrays over the replicas in `slots`."""

    slots: Ints
    roles: Ints
    waiting: Ints
    """Requests queued in the engine."""
    running: Ints
    kv_usage: Floats
    """Used share of the KV blocks, 0 to 1."""
    kv_tokens: Ints
    """Tokens that the used blocks hold."""
    prompt_tokens: Ints
    """Prompt tokens of requests without their first token: an endpoint picker's in-flight tokens."""
    busy: Floats
    """Seconds it has worked so far: the change over a window, divided by the window, is the duty cycle."""
    preemptions: Ints
    generated: Ints
    prefilled: Ints
    reused: Ints
    load: Ints
    """Requests on the replica."""


@dataclass(frozen=True)
class Outcomes:
    """What became of every request; arrays of n. Times in seconds, NaN where it did not happen."""

    status: Ints
    """One of NEVER_SENT, WAITING, RUNNING, TRANSFER, DONE, TIMED_OUT, LOST, REJECTED."""
    arrival: Floats
    sent: Floats
    """When the last attempt left the client."""
    first_token: Floats
    finish: Floats
    attempts: Ints

    @property
    def ttft(self) -> Floats:
        """Time to first token as the user sees it: from the offer, with waiting in the client and lost attempts."""
        return self.first_token - self.arrival

    @property
    def e2e(self) -> Floats:
        """Time to the last token, NaN for requests that were not served."""
        served = np.where(self.status == state.DONE, self.finish, np.nan)
        return np.asarray(served - self.arrival)


class Serving:
    """A model's replicas and the requests they serve.

    Raises ValueError for contradictory roles. `compiled` chooses the kernel; left out: compiled from
    COMPILE_FROM requests on where numba is installed. Both give the same bits.
    """

    def __init__(
        self,
        requests: Requests,
        engines: Mapping[Role, EngineLimits],
        *,
        routing: Routing = "roundRobin",
        decode_routing: Routing | None = None,
        skew: float = 0.0,
        client: ClientModel | None = None,
        seed: int = 0,
        compiled: bool | None = None,
    ) -> None:
        if set(engines) not in ({"aggregated"}, {"prefill", "decode"}):
            raise ValueError("engines: one aggregated role, or prefill and decode")
        if len({e.block_size for e in engines.values()}) > 1:
            raise ValueError("prefill and decode must have the same block_size: KV is transferred by blocks")
        if not 0.0 <= skew < 1.0:
            raise ValueError("skew must be between 0 and 1")
        if compiled is None:
            compiled = len(requests) >= kernel.COMPILE_FROM and kernel.numba_available()
        self.requests = requests
        self.engines = dict(engines)
        self.compiled = compiled
        self.now = 0.0
        self._run = kernel.functions(compiled)
        self._client = client or ClientModel()
        self._starting: list[tuple[float, int]] = []
        self._members: tuple[list[int], list[int]] = ([], [])
        self._alive: list[int] = []
        self._spare: list[int] = []
        self._slots = 0
        self._arrays: dict[str, Any] = {}
        self.world: state.World
        policies = (ROUTINGS[routing], ROUTINGS[decode_routing or routing])
        self._tables: dict[str, list[Any]] = {
            "engines": self._engine_rows(),
            "pools": [state.Pool(policy=p, skew=skew if i == 0 else 0.0) for i, p in enumerate(policies)],
            "client": [
                state.Client(
                    requests=len(requests),
                    concurrency=self._client.concurrency or NEVER,
                    timeout=self._client.timeout,
                    retries=self._client.retries,
                    backoff=self._client.backoff,
                )
            ],
        }
        self._blocks = np.array([e.blocks or 1 for e in self._tables["engines"]])
        self._block_size = next(iter(engines.values())).block_size
        self._request_arrays(np.random.default_rng(seed).random(len(requests)) if skew > 0 else None)
        self._grow(4)

    # --- the world ----------------------------------------------------------------------------------------------

    def _engine_rows(self) -> list[state.Engine]:
        rows = [state.Engine(), state.Engine(), state.Engine()]
        nodes = max(e.kv_blocks for e in self.engines.values())
        shared = self.requests.has_prefixes
        for role, limits in self.engines.items():
            t = limits.times
            if shared and self.requests.prefix_block % limits.block_size:
                raise ValueError(
                    f"{role}: a prefix id stands for {self.requests.prefix_block} tokens, "
                    f"which is not a multiple of block_size {limits.block_size}"
                )
            rows[ROLES[role]] = state.Engine(
                blocks=limits.kv_blocks,
                block_size=limits.block_size,
                max_num_seqs=limits.max_num_seqs,
                token_budget=limits.max_num_batched_tokens,
                caching=int(limits.prefix_caching),
                timing=state.DYNOSIM if t.semantics == "dynosim" else state.FUSED,
                prefill_base=t.prefill_base,
                prefill_token=t.prefill_token,
                prefill_square=t.prefill_square,
                decode_base=t.decode_base,
                decode_sequence=t.decode_sequence,
                decode_token=t.decode_token,
                graph_batch=t.graph_batch,
                eager_base=t.eager_base,
                transfer_base=limits.transfer_seconds,
                transfer_token=limits.transfer_seconds_per_token,
                shared=int(shared and limits.prefix_caching),
                hash_block=self.requests.prefix_block,
                index_size=1 << (2 * nodes).bit_length() if shared else 0,
                nodes=nodes,
            )
        return rows

    def _request_arrays(self, draw: Floats | None) -> None:
        r, n = self.requests, len(self.requests)
        timed = self._client.timeout < math.inf
        attempts = (self._client.retries + 1) * n
        a = self._arrays
        a.update(arrival=r.arrival, input=r.input_tokens, output=r.output_tokens)
        a["draw"] = np.zeros(0) if draw is None else draw
        for name in ("sent", "first", "finish"):
            a[name] = np.full(n, -1.0)
        for name in ("due", "last"):
            a[name] = np.zeros(n)
        for name in ("status", "attempts", "computed", "generated", "last_step", "kept", "dues"):
            a[name] = np.zeros(n, np.int64)
        for name in ("replica", "nxt", "prv", "mark", "copies"):
            a[name] = np.full(n, -1, np.int64)
        a["log"] = np.zeros(attempts if timed else 0, np.int64)
        a["firsts"] = np.zeros(attempts, np.int64)
        a["itl"] = np.zeros(GAP_CUTS * GAP_OCTAVES, np.int64)
        a["hash_start"] = r.prefix_start
        a["hashes"] = r.prefix_ids

    def _grow(self, slots: int) -> None:
        """Make room for so many replicas."""
        old, a = self._slots, self._arrays
        rows = self._tables["engines"]
        limit = max(e.max_num_seqs for e in rows if e.blocks)
        size = max(e.block_size for e in rows if e.blocks)
        nodes = max(e.nodes for e in rows) if self.requests.has_prefixes else 0
        index = max(e.index_size for e in rows)
        added = slots - old
        ends = 2 * (2 + 2 * slots)
        for name, fill, length in (
            ("alive", 0, added),
            ("heaps", 0, added * limit),
            ("phases", 0, added * size),
            ("places", -1, added * index),
            ("keys", 0, added * nodes),
            ("refs", 0, added * nodes),
            ("older", -1, added * nodes),
            ("newer", -1, added * nodes),
        ):
            a[name] = np.concatenate([a.get(name, np.zeros(0, np.int64)), np.full(length, fill, np.int64)])
        a["ends"] = np.concatenate(
            [old_ends := a.get("ends", np.zeros(0, np.int64)), np.full(ends - len(old_ends), -1)]
        )
        a["members"] = np.zeros(2 * slots, np.int64)
        a["seen"], a["seen_busy"] = np.zeros(slots * SEEN, np.int64), np.zeros(slots)
        fresh = [state.Replica(heap=(old + i) * limit, next=math.inf) for i in range(added)]
        table = state.table(fresh, self.compiled)
        if old:
            replicas = self.world.replicas
            table = np.concatenate([replicas, table]) if self.compiled else replicas + table
        self._spare += range(slots - 1, old - 1, -1)
        self._slots = slots
        if old:
            tables = {name: getattr(self.world, name) for name in self._tables}
        else:
            tables = {name: state.table(rows, self.compiled) for name, rows in self._tables.items()}
        columns = {name: state.column(array, self.compiled) for name, array in a.items()}
        self.world = state.World(replicas=table, **tables, **columns)
        self._replicas = state.rows_of(table)
        self._pools, self._totals = state.rows_of(tables["pools"]), state.rows_of(tables["client"])[0]
        self._totals.slots = slots
        self._world = kernel.world_for(self.world, self.compiled)
        self._publish_members()

    def _publish_members(self) -> None:
        w = self.world
        for pool, slots in enumerate(self._members):
            self._pools[pool].members = len(slots)
            for i, slot in enumerate(slots):
                w.members[pool * self._slots + i] = slot
        self._totals.alive = len(self._alive)
        for i, slot in enumerate(self._alive):
            w.alive[i] = slot

    # --- replicas -----------------------------------------------------------------------------------------------

    def add(self, role: Role, *, ready_at: float | None = None) -> int:
        """Start a replica that takes requests from `ready_at` (left out: now) on; returns its slot."""
        if role not in self.engines:
            raise ValueError(f"no engine for role {role}")
        if not self._spare:
            self._grow(2 * self._slots)
        slot = self._spare.pop()
        self._reset(slot, role)
        self._starting.append((max(self.now, self.now if ready_at is None else ready_at), slot))
        self._start_ready()
        return slot

    def _reset(self, slot: int, role: Role) -> None:
        rep = self._replicas[slot]
        blank = state.Replica(heap=rep.heap, next=math.inf, role=ROLES[role])
        for name in (f.name for f in dataclasses.fields(blank)):
            setattr(rep, name, getattr(blank, name))
        engine, a = self._tables["engines"][ROLES[role]], self._arrays
        rep.free = engine.blocks
        a["phases"][slot * engine.block_size : (slot + 1) * engine.block_size] = 0
        if engine.shared:
            first = slot * engine.nodes
            a["places"][slot * engine.index_size : (slot + 1) * engine.index_size] = -1
            a["newer"][first : first + engine.blocks] = np.append(np.arange(1, engine.blocks), -1)
            rep.spare = 0

    def _start_ready(self) -> None:
        for at, slot in sorted(self._starting):
            if at <= self.now:
                self._starting.remove((at, slot))
                pool = 1 if self._replicas[slot].role == state.DECODE else 0
                self._replicas[slot].mode = state.IDLE
                self._alive = sorted([*self._alive, slot])
                self._members[pool].append(slot)
                self._publish_members()
                self._run.admit_held(self._world, pool, self.now)

    def drain(self, slot: int) -> None:
        """Give a replica no further requests. It is `removable` once its own are done."""
        starting = [(at, s) for at, s in self._starting if s != slot]
        if len(starting) < len(self._starting):
            self._starting = starting
            self._spare.append(slot)
            return
        for members in self._members:
            if slot in members:
                members.remove(slot)
        self._publish_members()

    def removable(self, slot: int) -> bool:
        """Whether a drained replica has nothing left to do."""
        return slot in self._alive and not any(slot in m for m in self._members) and self._replicas[slot].load == 0

    def kill(self, slot: int) -> None:
        """End a replica now. Requests on it are lost, or tried again where the client does."""
        self.drain(slot)
        if slot in self._alive:
            self._run.kill(self._world, slot, self.now)
            self._alive.remove(slot)
            self._publish_members()
            self._spare.append(slot)

    # --- time ---------------------------------------------------------------------------------------------------

    def advance(self, until: float) -> None:
        """Simulate up to `until` seconds."""
        if until < self.now:
            raise ValueError(f"time runs forward: {until} is before {self.now}")
        while self._starting and min(self._starting)[0] < until:
            at = min(self._starting)[0]
            self._run.advance(self._world, at)
            self.now = at
            self._start_ready()
        self._run.advance(self._world, until)
        self.now = until
        self._start_ready()

    def run(self, horizon: float = math.inf) -> Outcomes:
        """Advance to the horizon (left out: until nothing is left to do) and return the outcomes."""
        self.advance(min(horizon, 1e15))
        return self.outcomes()

    # --- what can be seen ---------------------------------------------------------------------------------------

    def signals(self) -> ReplicaSignals:
        """Every living replica as it is now."""
        self._run.observe(self._world, self.now)
        alive = len(self._alive)
        seen = self._arrays["seen"][: alive * SEEN].reshape(alive, SEEN).T.copy()
        role, waiting, running, used, prompt_tokens, preemptions, generated, prefilled, reused, load = seen
        return ReplicaSignals(
            slots=np.array(self._alive, np.int64),
            roles=role,
            waiting=waiting,
            running=running,
            kv_usage=used / self._blocks[role],
            kv_tokens=used * self._block_size,
            prompt_tokens=prompt_tokens,
            busy=self._arrays["seen_busy"][:alive].copy(),
            preemptions=preemptions,
            generated=generated,
            prefilled=prefilled,
            reused=reused,
            load=load,
        )

    @property
    def held(self) -> int:
        """Requests that wait because no replica is ready to take them."""
        count = 0
        for pool in (0, 1):
            r = self.world.ends[2 * pool]
            while r >= 0:
                count += 1
                r = self.world.nxt[r]
        return count

    @property
    def in_flight(self) -> int:
        """Requests that left their client and have no outcome yet."""
        return int(self._totals.in_flight)

    @property
    def first_tokens(self) -> int:
        """First tokens so far; `recent_first_tokens` returns those from a count on."""
        return int(self._totals.firsts)

    def recent_first_tokens(self, since: int) -> Ints:
        """Requests whose first token came after the first `since` of them, in order of processing."""
        return np.asarray(self._arrays["firsts"][since : self.first_tokens])

    def outcomes(self) -> Outcomes:
        """What has become of every request until now."""
        a = self._arrays

        def happened(name: str) -> Floats:
            return np.where(a[name] < 0.0, np.nan, a[name])

        return Outcomes(
            status=a["status"].copy(),
            arrival=self.requests.arrival,
            sent=happened("sent"),
            first_token=happened("first"),
            finish=happened("finish"),
            attempts=a["attempts"].copy(),
        )

    def itl(self) -> GapCounts:
        """Decode gaps of all requests so far."""
        c = self._totals
        return GapCounts(self._arrays["itl"].copy(), int(c.itl_count), float(c.itl_sum))
