"""A simulation in the terminal: strategies side by side, what happened in time, why, and where the numbers are from."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triplane.simulation.results import Comparison, Estimate, Summary

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 60

_CAUSES = {
    "busy": "busy",
    "job": "jobs at work",
    "warmReserve": "idle: ready, no request",
    "loading": "idle: loading",
    "draining": "idle: draining",
    "partialGang": "idle: partial gang",
    "booting": "idle: node booting",
    "emptyNode": "idle: empty node",
    "besideOthers": "idle: free beside others",
    "reservedUnused": "idle: reserved, unused",
}


def simulation_text(comparison: "Comparison") -> str:
    """The whole report."""
    parts = [_head(comparison)]
    if not comparison.strategies:
        return "\n".join([*parts, "", "Nothing was finished."])
    parts += ["", *_table(comparison), "", *_timelines(comparison), "", *_why(comparison), "", *_provenance(comparison)]
    return "\n".join(parts)


def _head(c: "Comparison") -> str:
    lines = [f"{c.stack}/{c.model}: {c.load}", f"{_time(c.horizon)} simulated, {c.seeds} seeds; mean ± 95 % interval."]
    objectives = (("TTFT", c.objective.ttft), ("mean ITL", c.objective.itl))
    wanted = [f"{name} within {value * 1000:g} ms" for name, value in objectives if value]
    lines.append("In SLO: " + (" and ".join(wanted) if wanted else "every served request, since there is no objective"))
    if c.partial:
        lines.append("PARTIAL: interrupted; runs are missing.")
    lines += c.stability
    return "\n".join(lines)


def sparkline(values: Sequence[float], width: int = _WIDTH, most: float | None = None) -> str:
    """Values as bars from 0 to the most; a space where there is none. Each column shows the highest of its values."""
    if not values:
        return ""
    size = max(1, math.ceil(len(values) / width))
    columns = [
        max((v for v in values[at : at + size] if not math.isnan(v)), default=math.nan)
        for at in range(0, len(values), size)
    ]
    top = most if most is not None else max((v for v in columns if not math.isnan(v)), default=0.0)

    def bar(value: float) -> str:
        if math.isnan(value):
            return " "
        share = value / top if top > 0 else 0.0
        return _BARS[min(len(_BARS) - 1, round(share * (len(_BARS) - 1)))]

    return "".join(map(bar, columns))


def _table(c: "Comparison") -> list[str]:
    rows: list[list[str]] = [["", *(s.name for s in c.strategies)]]

    def estimated(title: str, name: str, show: Callable[[float], str]) -> None:
        rows.append([title, *(_interval(s.estimates[name], show) for s in c.strategies)])

    def averaged(title: str, figure: "Callable[[Summary], float]", show: Callable[[float], str]) -> None:
        rows.append([title, *(show(_mean(figure(run) for run in s.runs)) for s in c.strategies)])

    averaged("offered", lambda r: r.offered, _count)
    for title, name in (("in SLO", "inSlo"), ("late", "late"), ("dropped", "dropped"), ("unfinished", "unfinished")):
        estimated(title, name, _count)
    if any(run.never_sent for s in c.strategies for run in s.runs):
        averaged("never sent", lambda r: r.never_sent, _count)
    estimated("goodput / offered", "goodput", lambda v: f"{100 * v:.1f} %")
    rows.append([])
    for title, name in (("TTFT p50", "ttftP50"), ("TTFT p99", "ttftP99"), ("ITL p99", "itlP99"), ("E2E p99", "e2eP99")):
        estimated(title, name, _seconds)
    rows.append([])
    for role in c.strategies[0].runs[0].mean_replicas:
        averaged(f"{role} replicas, mean", lambda r, role=role: r.mean_replicas[role], lambda v: f"{v:.2f}")  # type: ignore[misc]
        averaged(f"{role} replicas, most", lambda r, role=role: r.most_replicas[role], lambda v: f"{v:.1f}")  # type: ignore[misc]
    for pool in c.strategies[0].runs[0].mean_nodes:
        averaged(f"{pool} nodes, mean", lambda r, pool=pool: r.mean_nodes[pool], lambda v: f"{v:.2f}")  # type: ignore[misc]
    estimated("scaling actions", "scalings", _count)
    estimated("evictions", "evictions", _count)
    if any(run.evicted_requests for s in c.strategies for run in s.runs):
        averaged("requests on them", lambda r: r.evicted_requests, _count)
    rows.append([])
    averaged("GPU minutes paid", lambda r: r.paid_gpu_minutes, _count)
    for cause, title in _CAUSES.items():
        if any(run.gpu_minutes[cause] >= 0.05 for s in c.strategies for run in s.runs):
            averaged(f"  {title}", lambda r, cause=cause: r.gpu_minutes[cause], _count)  # type: ignore[misc]
    rows.append([])
    estimated("USD a day", "dollarsPerDay", lambda v: f"{v:,.0f}")
    estimated("USD / M good tokens", "dollarsPerMillionGoodTokens", lambda v: f"{v:.2f}")
    rows.append(["score", *("-" if s.score is None else f"{s.score:.1f}" for s in c.strategies)])
    lines = _aligned(rows)
    lines.append(
        f"score: {c.weights['goodput']:g} x goodput + {c.weights['cost']:g} x (lowest cost / cost), "
        "over the sum of the weights"
    )
    lines += [f"{s.name}: {s.line}" for s in c.strategies]
    return lines


def _timelines(c: "Comparison") -> list[str]:
    lines = [f"In time, seed {c.strategies[0].timeline.seed}; each row from 0 to its highest value, on the right:"]
    for s in c.strategies:
        lines.append(s.name)
        series = s.timeline.series
        shown: list[tuple[str, Sequence[float]]] = [("offered a minute", s.timeline.minutes["offered"])]
        bad = [a + b for a, b in zip(s.timeline.minutes["late"], s.timeline.minutes["unserved"], strict=True)]
        shown.append(("late or unserved", bad))
        for name in series:
            role, _, what = name.partition(".")
            if what in ("duty", "signal", "waiting", "desired", "ready") and f"{role}.ready" in series:
                title = {"signal": "signal", "duty": "duty cycle %", "waiting": "queue"}.get(what, f"replicas {what}")
                shown.append((f"{role} {title}", series[name]))
            elif what == "nodes":
                shown.append((f"{role} nodes", series[name]))
        width = max(len(title) for title, _ in shown)
        for title, values in shown:
            most = max((v for v in values if not math.isnan(v)), default=0.0)
            lines.append(f"  {title:<{width}}  {sparkline(values)}  {most:,.4g}")
    return lines


def _why(c: "Comparison") -> list[str]:
    lines = ["Why (seed of the timeline):"]
    for s in c.strategies:
        lines.append(s.name)
        if not s.explanation:
            lines.append("  No request was late or unserved.")
        for episode in s.explanation:
            first, *rest = episode.text
            lines += [f"  {first}", *(f"    {line}" for line in rest)]
    return lines


def _provenance(c: "Comparison") -> list[str]:
    rows = [["coefficient", "value", "kind", "source"]]
    before = ""
    for one in c.provenance:
        value = f"{one.value:.6g}" if isinstance(one.value, float) else str(one.value)
        rows.append(
            [one.name, f"{value} {one.unit}".strip(), one.kind, "as above" if one.source == before else one.source]
        )
        before = one.source
    return ["Where the numbers come from:", *_aligned(rows, left=True)]


def _aligned(rows: list[list[str]], *, left: bool = False) -> list[str]:
    widths = [max(len(row[at]) for row in rows if len(row) > at) for at in range(max(len(row) for row in rows))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if left or at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=False))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return math.fsum(found) / len(found)


def _interval(one: "Estimate", show: Callable[[float], str]) -> str:
    if one.mean is None:
        return "not reached"
    if one.low is None or one.high is None or one.high - one.low < 1e-12:
        return show(one.mean)
    return f"{show(one.mean)} ± {show((one.high - one.low) / 2)}"


def _count(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:,.1f}"


def _seconds(value: float) -> str:
    return f"{value * 1000:,.0f} ms" if value < 10 else f"{value:,.1f} s"


def _time(seconds: float) -> str:
    return f"{seconds / 3600:.3g} h" if seconds >= 3600 else f"{seconds / 60:.3g} min"
