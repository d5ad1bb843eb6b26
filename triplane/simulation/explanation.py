"""Why requests were late: from the signal to the ready replica, for the worst times of a run.

Only what happened is told: sampled figures and logged events, with their times. Which layer took the time follows from
them: signal (the queue grew and nothing was asked for), place (no room: a gang or a node was waited for), loading.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from triplane.simulation.world import Event

MINUTE = 60.0
_EPISODES = 3
_REPLICAS = 4
_BAD_SHARE = 0.05
"""Of a minute's requests: below it the minute belongs to no episode."""
_LOOK_BACK = 900.0
_LONG = 20
"""Requests; of shorter queues nothing is said about what the signal sees."""
_FLAT = 1.25
"""A signal that grows by less than this factor while its queue triples does not see the queue."""


@dataclass(frozen=True)
class ReplicaPath:
    """A replica that was asked for in an episode, and when it came to what; None: not before the horizon."""

    name: str
    asked: float
    placed: float | None
    node_ready: float | None
    """When the node it waited for was ready; None: it waited for none."""
    ready: float | None
    detail: str


@dataclass(frozen=True)
class Episode:
    """A time in which many requests were late or unserved, and what the layers did about it. Times in seconds."""

    start: float
    end: float
    offered: int
    bad: int
    worst_minute: float
    worst_bad: int
    role: str
    """The role with the longest queue."""
    queue_from: float
    queue_peak_at: float
    queue_peak: float
    signal_from: float | None
    signal_peak: float | None
    target: float | None
    first_asked: float | None
    relieved: float | None
    """When the queue was below a tenth of its peak again."""
    replicas: Sequence[ReplicaPath]
    text: Sequence[str]


def clock(seconds: float) -> str:
    """0:12:05"""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def episodes(
    times: Sequence[float],
    series: Mapping[str, Sequence[float]],
    minutes: Mapping[str, Sequence[int]],
    events: Sequence[Event],
    roles: Sequence[str],
) -> list[Episode]:
    """The worst episodes, the worst first."""
    bad = [late + lost for late, lost in zip(minutes["late"], minutes["unserved"], strict=True)]
    spans = _spans(bad, minutes["offered"])
    if not spans and any(bad):
        worst = max(range(len(bad)), key=lambda minute: (bad[minute], -minute))
        spans = [(worst, worst + 1)]
    spans.sort(key=lambda span: (-sum(bad[span[0] : span[1]]), span))
    return [_episode(span, bad, times, series, minutes, events, roles) for span in spans[:_EPISODES]]


def _spans(bad: Sequence[int], offered: Sequence[int]) -> list[tuple[int, int]]:
    """Runs of bad minutes, at most one good minute apart, as [first, one past the last)."""
    spans: list[tuple[int, int]] = []
    for minute, (count, of) in enumerate(zip(bad, offered, strict=True)):
        if count and count >= _BAD_SHARE * of:
            if spans and minute - spans[-1][1] <= 1:
                spans[-1] = (spans[-1][0], minute + 1)
            else:
                spans.append((minute, minute + 1))
    return spans


def _episode(
    span: tuple[int, int],
    bad: Sequence[int],
    times: Sequence[float],
    series: Mapping[str, Sequence[float]],
    minutes: Mapping[str, Sequence[int]],
    events: Sequence[Event],
    roles: Sequence[str],
) -> Episode:
    start, end = span[0] * MINUTE, span[1] * MINUTE
    inside = [at for at, time in enumerate(times) if start <= time < end] or [_nearest(times, start)]
    role = max(roles, key=lambda one: max(series[f"{one}.waiting"][at] for at in inside))
    queue = series[f"{role}.waiting"]
    peak = max(inside, key=lambda at: (queue[at], -at))
    first = peak
    while first > 0 and queue[first - 1] > 0.1 * queue[peak] and times[first - 1] >= start - _LOOK_BACK:
        first -= 1
    relief = next((at for at in range(peak, len(times)) if queue[at] <= 0.1 * queue[peak]), None)
    base = max(0, first - 1)
    over = times[relief] if relief is not None else math.inf
    paths = _paths(role, times[first], min(over, end), events)
    signal = series[f"{role}.signal"]
    worst = max(range(*span), key=lambda minute: (bad[minute], -minute))
    episode = Episode(
        start=start,
        end=end,
        offered=sum(minutes["offered"][span[0] : span[1]]),
        bad=sum(bad[span[0] : span[1]]),
        worst_minute=worst * MINUTE,
        worst_bad=bad[worst],
        role=role,
        queue_from=times[base],
        queue_peak_at=times[peak],
        queue_peak=queue[peak],
        signal_from=_number(signal[base]),
        signal_peak=_number(signal[peak]),
        target=_number(series[f"{role}.target"][peak]),
        first_asked=paths[0].asked if paths else None,
        relieved=times[relief] if relief is not None else None,
        replicas=paths,
        text=(),
    )
    desired, ready = series[f"{role}.desired"], series[f"{role}.ready"]
    before, at_peak = (queue[base], desired[base], ready[base]), (desired[peak], ready[peak])
    return replace(episode, text=(*_told(episode, before, at_peak), *_other(episode, events)))


def _nearest(times: Sequence[float], at: float) -> int:
    return min(range(len(times)), key=lambda index: abs(times[index] - at))


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _paths(role: str, since: float, until: float, events: Sequence[Event]) -> list[ReplicaPath]:
    """Replicas of the role that were asked for, or on their way, in a time."""
    asked = [event for event in events if event.kind == "asked" and since - _LOOK_BACK <= event.at <= until]
    found = []
    for one in asked:
        if one.subject.rsplit("-", 1)[0] != role:
            continue
        placed = _first("placed", one.subject, events)
        node_ready = None
        if placed is not None:
            on = placed.detail.removeprefix("on ").partition(":")[0].split(", ")
            came = [e.at for e in events if e.kind == "nodeReady" and e.subject in on and one.at < e.at <= placed.at]
            node_ready = max(came, default=None)
        ready = _first("ready", one.subject, events)
        if one.at < since and ready is not None and ready.at <= since:
            continue
        found.append(
            ReplicaPath(
                one.subject,
                one.at,
                placed.at if placed else None,
                node_ready,
                ready.at if ready else None,
                placed.detail.partition(": ")[2] if placed else "",
            )
        )
    return found


def _first(kind: str, subject: str, events: Sequence[Event]) -> Event | None:
    return next((event for event in events if event.kind == kind and event.subject == subject), None)


def _told(e: Episode, before: tuple[float, float, float], at_peak: tuple[float, float]) -> list[str]:
    lines = [
        f"{clock(e.start)} to {clock(e.end)}: {e.bad:,} of {e.offered:,} requests late or unserved, "
        f"{e.worst_bad:,} of them in the minute of {clock(e.worst_minute)}."
    ]
    if e.queue_peak <= 0:
        lines.append(
            "No queue was seen in the engines: these requests did not wait for others, their own steps were slow."
        )
        return lines
    lines.append(
        f"{clock(e.queue_from)} {e.role} queues {before[0]:,.0f}; {clock(e.queue_peak_at)} {e.queue_peak:,.0f}. "
        f"Replicas wanted {before[1]:.0f}, ready {before[2]:.0f}; at the peak {at_peak[0]:.0f} and {at_peak[1]:.0f}."
    )
    if e.signal_from is not None and e.signal_peak is not None and e.target is not None:
        line = f"Signal {e.signal_from:.2f}, at the peak {e.signal_peak:.2f}, target {e.target:g}."
        if e.queue_peak >= _LONG and e.queue_peak >= 3 * before[0] and e.signal_peak < _FLAT * e.signal_from:
            line += " It hardly moved while the queue grew: it cannot tell one request from many."
        lines.append(line)
    if not e.replicas:
        lines.append("No replica was asked for in that time.")
    for path in e.replicas[:_REPLICAS]:
        lines.append(_path_told(path, e))
    if len(e.replicas) > _REPLICAS:
        lines.append(f"{len(e.replicas) - _REPLICAS} more were asked for, the last at {clock(e.replicas[-1].asked)}.")
    if e.relieved is None:
        lines.append("The queue did not come down before the horizon.")
    else:
        lines.append(f"{clock(e.relieved)} the queue is down again, {e.relieved - e.queue_from:.0f} s after it began.")
    return lines


def _path_told(path: ReplicaPath, e: Episode) -> str:
    after = path.asked - e.queue_from
    when = f"{after:.0f} s into" if after >= 0 else f"{-after:.0f} s before"
    line = f"{path.name}: asked for at {clock(path.asked)}, {when} the queue"
    if path.placed is None:
        return line + "; no place before the horizon."
    wait = path.placed - path.asked
    if path.node_ready is not None:
        line += f"; waited {wait:.0f} s for a node (ready {clock(path.node_ready)})"
    else:
        line += f"; a place after {wait:.0f} s"
    if path.ready is None:
        return f"{line}; not ready before the horizon."
    return f"{line}; loaded for {path.ready - path.placed:.0f} s ({path.detail}); ready {clock(path.ready)}."


def _other(e: Episode, events: Sequence[Event]) -> list[str]:
    """Evictions, refusals and lost capacity around the episode."""
    kinds = ("evicted", "refused", "nodeRefused", "partial")
    around = [event for event in events if event.kind in kinds and e.start - _LOOK_BACK <= event.at < e.end]
    lines = [f"{clock(event.at)} {event.subject} {event.kind}: {event.detail}." for event in around[:_REPLICAS]]
    if len(around) > _REPLICAS:
        lines.append(f"{len(around) - _REPLICAS} more of these.")
    return lines
