"""Metric names: what an engine calls a quantity at one version, and what kind of quantity any name stands for."""

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from triplane.catalog.data import UnknownName, load, nearest_names, release

Kind = Literal["demand", "duty-cycle", "memory", "power", "latency", "state"]
"""demand: work waiting for or held by replicas. duty-cycle, memory, power: of the device, and no measure of demand.
latency: of requests. state: counts of objects, such as kube_deployment_status_replicas."""


@dataclass(frozen=True, slots=True)
class MetricFact:
    """What is known of one metric name."""

    name: str
    """As its exporter spells it; for a guess, as it was asked."""
    kind: Kind
    meaning: str | None
    """waiting, kv_usage, ttft ...; None: no engine's quantity."""
    engine: str | None
    deprecated: str | None
    """Engine release from which the name is deprecated."""
    hidden: str | None
    """Engine release from which the series exists only behind a flag."""
    removed: str | None
    """Engine release from which the series does not exist."""
    replaced_by: str | None
    exact: bool
    """False: guessed from the name's shape."""
    source: str


def engines() -> tuple[str, ...]:
    """The engines and routers whose names are known."""
    return tuple(load("metrics")["engines"])


def metric(engine: str, engine_version: str, meaning: str) -> str:
    """The name of a quantity at one engine version; an empty version means the newest.

    Raises UnknownName for an unknown engine or meaning, and where that version has no such series.
    """
    known = load("metrics")["engines"]
    if engine not in known:
        raise UnknownName("engine", engine, nearest_names(engine, tuple(known)))
    names = {key: rows for key, rows in known[engine].items() if key != "source"}
    if meaning not in names:
        raise UnknownName(f"{engine} metric", meaning, nearest_names(meaning, tuple(names)))
    if not engine_version:
        return str(names[meaning][-1]["name"])
    at = release(engine_version)
    for row in names[meaning]:
        if ("since" not in row or release(row["since"]) <= at) and ("until" not in row or at < release(row["until"])):
            return str(row["name"])
    raise UnknownName(f"{engine} metric", meaning, reason=f"{engine} {engine_version} has no series for it")


def normalise(name: str) -> str:
    """One spelling for the many in which adapters and clouds hand a metric on.

    Lower case; `|` as `/`; without Google's prefixes and kind suffix, and Ray's prefix; `:` as `_`.
    """
    text = name.strip().lower().replace("|", "/")
    for prefix in (
        "prometheus.googleapis.com/",
        "external.googleapis.com/prometheus/",
        "custom.googleapis.com/",
        "external/",
    ):
        text = text.removeprefix(prefix)
    if text.startswith("autoscaling.gke.io/"):  # autoscaling.gke.io|<object>|<metric>
        text = text.rpartition("/")[2]
    text = re.sub(r"/(gauge|unknown|counter|histogram|summary)$", "", text)
    return text.removeprefix("ray_").replace(":", "_")


@cache
def _facts() -> dict[str, MetricFact]:
    data = load("metrics")
    facts: dict[str, MetricFact] = {}

    def add(
        name: str, kind: Kind, source: str, meaning: str | None = None, engine: str | None = None, **life: Any
    ) -> None:
        facts[normalise(name)] = MetricFact(
            name=name,
            kind=kind,
            meaning=meaning,
            engine=engine,
            deprecated=life.get("deprecated"),
            hidden=life.get("hidden"),
            removed=life.get("removed"),
            replaced_by=life.get("replaced_by"),
            exact=True,
            source=source,
        )

    for kind, groups in data["kinds"].items():
        for group in groups:
            for name in group["names"]:
                add(name, kind, group["source"])
    for engine, rows in data["engines"].items():
        for meaning, spellings in rows.items():
            if meaning != "source":
                for spelling in spellings:
                    add(spelling["name"], data["meanings"][meaning], rows["source"], meaning, engine)
    for row in data["renamed"]:
        life = {key: value for key, value in row.items() if key not in ("name", "kind", "engine")}
        earlier = facts.get(normalise(row["name"]))
        add(
            row["name"],
            row["kind"],
            data["engines"][row["engine"]]["source"],
            earlier.meaning if earlier else None,
            row["engine"],
            **life,
        )
    return facts


def metric_names(kind: Kind) -> tuple[str, ...]:
    """Every known name of one kind, as its exporter spells it: what a regular expression on names can be tried on."""
    return tuple(fact.name for fact in _facts().values() if fact.kind == kind)


@cache
def _patterns() -> tuple[tuple[Kind, re.Pattern[str], re.Pattern[str] | None, re.Pattern[str] | None], ...]:
    def compiled(text: str | None) -> re.Pattern[str] | None:
        return re.compile(text) if text else None

    rows = load("metrics")["patterns"]
    return tuple((r["kind"], re.compile(r["match"]), compiled(r.get("only")), compiled(r.get("unless"))) for r in rows)


@cache
def metric_class(name: str) -> MetricFact | None:
    """What kind of quantity a metric name stands for, in any of the spellings `normalise` folds; None: not known.

    A histogram's or summary's `_bucket`, `_sum` and `_count` series count as the metric itself.
    """
    text = normalise(name)
    base = re.sub(r"_(bucket|sum|count|total)$", "", text)
    found = _facts().get(text) or _facts().get(base) or _facts().get(f"{text}_total")
    if found is not None:
        return found
    for kind, match, only, unless in _patterns():
        if (
            match.fullmatch(base)
            and (only is None or only.search(base))
            and (unless is None or not unless.search(base))
        ):
            return MetricFact(name, kind, None, None, None, None, None, None, False, load("metrics")["source"])
    return None
