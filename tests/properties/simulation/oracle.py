"""The serving engine done naively: every step of every replica, every block by name, plain lists and sums.

Written from the rules, not from the kernel: it shares no code with it. Slow on purpose.
"""

import math
from collections import OrderedDict
from dataclasses import dataclass, field

TIE = 1e-9


@dataclass
class Request:
    number: int
    arrival: float
    prompt: int
    output: int
    ids: list = field(default_factory=list)
    sent: float = math.nan
    first: float = math.nan
    finish: float = math.nan
    status: str = "never sent"
    attempts: int = 0
    generated: int = 0
    computed: int = 0
    transferred: bool = False
    in_transfer: bool = False
    decoding: bool = False  # all it knows was computed, and it got a token, in the step before
    keys: list = field(default_factory=list)  # its blocks by name; None: not shareable, or a second copy
    last_token: float = math.nan
    due: float = math.nan
    replica: "Replica | None" = None

    @property
    def known(self):
        return self.prompt + self.generated


class Replica:
    def __init__(self, world, engine, role):
        self.world, self.engine, self.role = world, engine, role
        self.queue, self.running = [], []
        self.border = math.inf  # end of the present step
        self.start = 0.0
        self.chosen = None  # (prompts, decodes) of the present step; None: idle
        self.busy = 0.0
        self.preemptions = 0
        self.used = {}  # named blocks in use -> users
        self.unnamed = 0  # blocks in use that cannot be shared
        self.cached = OrderedDict()  # named blocks nobody uses, in the order of release

    def available(self):
        return self.engine.kv_blocks - self.in_use()

    def in_use(self):
        return len(self.used) + self.unnamed

    def name(self, r, i):
        size, per = self.engine.block_size, self.world.prefix_block
        if (i + 1) * size <= r.prompt and per and i * size // per < len(r.ids):
            return (r.ids[i * size // per], i % (per // size))
        return ("own", r.number, r.attempts, i)

    def hits(self, r):
        if not self.engine.prefix_caching:
            return []
        found = []
        while len(found) < (r.known - 1) // self.engine.block_size:
            name = self.name(r, len(found))
            if name not in self.used and name not in self.cached:
                break
            found.append(name)
        return found

    def grow(self, r, tokens):
        """Blocks for the first `tokens` tokens; False: there are not enough."""
        size = self.engine.block_size
        need = -(-tokens // size) - len(r.keys)
        if need > self.available():
            return False
        for _ in range(need):
            if self.in_use() + len(self.cached) == self.engine.kv_blocks:
                self.cached.popitem(last=False)
            self.unnamed += 1
            r.keys.append(None)
        if self.engine.prefix_caching:
            for i in range(tokens // size):
                if r.keys[i] is None and (name := self.name(r, i)) not in self.used and name not in self.cached:
                    self.unnamed -= 1
                    self.used[name] = 1
                    r.keys[i] = name
        return True

    def release(self, r):
        for name in reversed(r.keys):
            if name is None:
                self.unnamed -= 1
            else:
                self.used[name] -= 1
                if not self.used[name]:
                    del self.used[name]
                    self.cached[name] = None
        r.keys = []

    def preempt(self, r, now):
        self.running.remove(r)
        self.release(r)
        if r.decoding:  # its last token came at this border
            r.last_token = now
        r.computed, r.decoding = 0, False
        r.status = "waiting"
        self.queue.insert(0, r)
        self.preemptions += 1

    def plan(self, now):
        """Form the next step."""
        e, t = self.engine, self.engine.times
        for r in [r for r in self.running if r.status != "running"]:
            self.running.remove(r)
            self.release(r)
            r.replica = None
        self.start = now
        if not self.running and not self.queue:
            self.chosen, self.border = None, math.inf
            return
        budget, preempted, prompts, decodes = e.max_num_batched_tokens, False, [], []
        for r in list(self.running):
            if r not in self.running:
                continue
            assert r.decoding or r is self.running[-1]  # only the last can have an unfinished prompt
            end = r.computed + min(r.known - r.computed, budget)
            while not self.grow(r, end):
                victim = self.running[-1]
                self.preempt(victim, now)
                preempted = True
                if victim is r:
                    break
            else:
                if r.decoding:
                    decodes.append(r)
                else:
                    prompts.append((r, r.computed, end))
                budget -= end - r.computed
                r.computed = end
        while not preempted and self.queue and len(self.running) < e.max_num_seqs and budget > 0:
            r = self.queue[0]
            hits = self.hits(r)
            need = -(-r.known // e.block_size) - sum(name in self.used for name in hits)
            if need > self.available():
                break
            self.queue.pop(0)
            self.running.append(r)
            r.status = "running"
            for name in hits:
                self.cached.pop(name, None)
                self.used[name] = self.used.get(name, 0) + 1
            r.keys = list(hits)
            own = self.name(r, len(hits))
            if own[0] == "own":  # computed again: the new block replaces the cached one
                self.cached.pop(own, None)
            begin = len(hits) * e.block_size
            sent, r.transferred = r.transferred, False
            end = r.known if sent else min(r.known, begin + budget)
            assert self.grow(r, end)
            if sent:
                decodes.append(r)
            else:
                prompts.append((r, begin, end))
            budget -= 1 if sent else end - begin
            r.computed = end
        self.chosen = (prompts, decodes)
        self.border = now + (dynosim_time if t.semantics == "dynosim" else fused_time)(self, prompts, decodes)

    def end_step(self, now):
        decodes = self.chosen[1]
        self.busy += now - self.start
        # Answers that end with the same step leave first, in order of their numbers.
        ending = sorted((r for r in decodes if r.decoding and r.generated + 1 == r.output), key=lambda r: r.number)
        for r in ending + [r for r in self.running if r not in ending]:
            if r.computed < r.known:
                continue
            if r.status != "running":  # its client gave up during the step; the engine did not know yet
                if r.decoding:
                    self.world.gaps.append(now - self.start)
                if r in ending:
                    self.leave(r)
                continue
            if self.role == "prefill":
                self.leave(r)
                r.status, r.in_transfer = "transfer", True
                r.due = now + (self.engine.transfer_seconds + self.engine.transfer_seconds_per_token * r.prompt)
                self.world.due.append(r)
                continue
            r.generated += 1
            if r.generated == 1:
                r.first = now
            else:
                self.world.gaps.append(now - (self.start if r.decoding else r.last_token))
            r.decoding = True
            if r.generated == r.output:
                self.leave(r)
                self.world.settle(r, "done", now)

    def leave(self, r):
        self.running.remove(r)
        self.release(r)
        r.replica = None


def fused_time(replica, prompts, decodes):
    t = replica.engine.times
    batch, tokens = len(decodes), sum(r.known for r in decodes)
    if prompts:
        new = sum(end - begin for _, begin, end in prompts)
        square = sum(end * end - begin * begin for _, begin, end in prompts)
        work = t.prefill_base + t.prefill_token * new + t.prefill_square * square
        return work + t.decode_sequence * batch + t.decode_token * tokens
    if not decodes:
        return 0.0
    return t.decode_base + t.decode_sequence * batch + t.decode_token * tokens + (batch > t.graph_batch) * t.eager_base


def dynosim_time(replica, prompts, decodes):
    t = replica.engine.times
    working = [(min(b, r.prompt), min(e, r.prompt)) for r, b, e in prompts if b < r.prompt]
    total = 0.0
    if working:
        n = len(working) * (sum(e for _, e in working) // len(working) - sum(b for b, _ in working) // len(working))
        total += math.floor((t.prefill_base + t.prefill_token * n + t.prefill_square * n * n) * 1e9 + 0.5) / 1e9
    ready = decodes + [r for r, _, end in prompts if end == r.known]
    if ready:
        tokens = replica.in_use() * replica.engine.block_size
        mean = max(sum(r.known for r in ready) // len(ready), 1)
        seconds = t.decode_base + t.decode_sequence * tokens / mean + t.decode_token * tokens
        total += math.floor(max(seconds, 0.001) * 1e9 + 0.5) / 1e9
    return total


class World:
    """All replicas and one client. `plan` is a list of (time, what, role or index): add, drain, kill."""

    def __init__(self, requests, engines, routing, client, plan, prefix_block=0):
        self.requests, self.engines, self.routing, self.client = requests, engines, routing, client
        self.plan = sorted(plan, key=lambda p: p[0])
        self.prefix_block = prefix_block
        self.replicas, self.members = [], {"entry": [], "decode": []}
        self.held = {"entry": [], "decode": []}
        self.turn = {"entry": 0, "decode": 0}
        self.due, self.gaps, self.log = [], [], []
        self.in_flight, self.free_at, self.free_by_step = 0, 0.0, False

    def settle(self, r, status, now):
        r.status, r.finish = status, now
        if self.in_flight == (self.client.concurrency or math.inf):
            self.free_at, self.free_by_step = now, status == "done"
        self.in_flight -= 1

    def run(self, until):
        waiting = list(self.requests)
        while True:
            events, late = [], False
            if self.plan:
                events.append((self.plan[0][0], -1, "plan"))
            capped = self.in_flight >= (self.client.concurrency or math.inf)
            if waiting and not capped:
                # A client that waited for an answer sends after every step that ends with that answer's.
                late = self.free_by_step and self.free_at > waiting[0].arrival
                events.append((max(waiting[0].arrival, self.free_at) + 2 * TIE * late, 0, "send"))
            if self.due:
                first = min(self.due, key=lambda r: (r.due, r.number))
                events.append((first.due, 1, "due"))
            deadline = self.deadline()
            if deadline is not None:
                events.append((deadline[0], 2, "expire"))
            t, _, what = min(events, default=(math.inf, 0, ""))
            wake = 2 * TIE if what == "send" and late else 0.0
            x = min(self.replicas, key=lambda x: self.order(x, wake), default=None)
            # Hand-offs of one instant go on in order of their numbers, whichever prefill replica they come from.
            handed_over = what == "due" and first.status in ("transfer", "timed out") and first.in_transfer
            same_instant = handed_over and x is not None and x.role == "prefill" and x.border <= t
            idle = wake if x is not None and x.chosen is None else 0.0
            if x is not None and (x.border + idle + TIE < min(t, until) or same_instant):
                self.step(x)
                continue
            if t >= until:
                return
            if what == "plan":
                self.change(*self.plan.pop(0))
            elif what == "send":
                self.in_flight += 1
                r = waiting.pop(0)
                self.send(r, max(r.arrival, self.free_at))
            elif what == "due":
                self.due.remove(first)
                first.in_transfer = False
                self.arrive(first, t)
            else:
                self.expire(deadline[1], t)

    def order(self, x, wake):
        """Which replica's border comes first.

        An idle one's is the request that wakes it: others a client sends at that instant still join its first step. A
        prefill step that ends with a decode step hands its prompts to the decode step that follows.
        """
        early = x.role == "prefill" and x.chosen is not None
        return x.border + wake * (x.chosen is None) - TIE * early, not early

    def step(self, x):
        now = x.border
        if x.chosen is not None:
            x.end_step(now)
        x.plan(now)

    def change(self, t, what, which):
        if what == "add":
            x = Replica(self, self.engines[which], which)
            self.replicas.append(x)
            side = "decode" if which == "decode" else "entry"
            self.members[side].append(x)
            held, self.held[side] = self.held[side], []
            for r in held:
                self.route(side, r, t)
            return
        x = self.replicas[which]
        for members in self.members.values():
            if x in members:
                members.remove(x)
        if what == "kill":
            x.border, x.chosen = math.inf, None
            lost = x.running + x.queue
            x.running, x.queue = [], []
            for r in lost:
                r.replica, r.keys = None, []
                if r.status in ("running", "waiting"):
                    self.fail(r, "lost", t, t)

    def send(self, r, t):
        r.sent, r.first, r.generated, r.computed, r.transferred, r.decoding = t, math.nan, 0, 0, False, False
        r.attempts += 1
        self.log.append((r, r.attempts))
        size = next(iter(self.engines.values())).block_size
        if any(-(-(r.prompt + r.output - 1) // size) > e.kv_blocks for e in self.engines.values()):
            self.settle(r, "rejected", t)
        else:
            self.route("entry", r, t)

    def route(self, side, r, t):
        r.status = "waiting"
        members = self.members[side]
        if not members:
            self.held[side].append(r)
            return
        n = len(members)
        order = [(self.turn[side] + k) % n for k in range(n)]
        if self.routing == "roundRobin":
            best = order[0]
        elif self.routing == "leastLoaded":
            best = min(order, key=lambda i: len(members[i].queue) + len(members[i].running))
        else:
            queues = [len(x.queue) for x in members]
            spread = max(queues) - min(queues)

            def score(i):
                free = 1.0 - members[i].in_use() / members[i].engine.kv_blocks
                return free + ((max(queues) - queues[i]) / spread if spread else 1.0)

            best = max(order, key=score)
        self.turn[side] = best + 1
        x = members[best]
        x.queue.append(r)
        r.replica = x
        if x.chosen is None:
            x.border = min(x.border, t)

    def arrive(self, r, t):
        if r.status == "transfer":
            r.transferred, r.computed = True, 0
            self.route("decode", r, t)
        elif r.attempts > self.client.retries:
            self.settle(r, r.status, t)
        else:
            self.send(r, t)

    def fail(self, r, outcome, t, gone):
        r.status = outcome
        if r.attempts > self.client.retries:
            self.settle(r, outcome, t)
        else:
            r.due = max(t + self.client.backoff * 2.0 ** (r.attempts - 1), gone + 2 * TIE)
            self.due.append(r)

    def deadline(self):
        alive = ("waiting", "running", "transfer")
        open_ = [r for r, attempt in self.log if r.status in alive and r.attempts == attempt]
        if not open_ or self.client.timeout == math.inf:
            return None
        r = min(open_, key=lambda r: r.sent)
        return r.sent + self.client.timeout, r

    def expire(self, r, t):
        if r.status == "transfer":
            r.status = "timed out"
        elif r.status == "waiting":
            if r.replica is None:
                for held in self.held.values():
                    if r in held:
                        held.remove(r)
            else:
                r.replica.queue.remove(r)
                r.replica = None
            self.fail(r, "timed out", t, t)
        else:
            self.fail(r, "timed out", t, r.replica.border)
