"""The alias graph: what a metric's name is made of, through recording rules, adapters and relabelings.

An edge says "this name is computed from those series", and which object says so. Names are compared as
`catalog.normalise` folds them, since adapters and clouds respell them on the way.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from triplane import catalog
from triplane.catalog import MetricFact
from triplane.documents import DocumentError, Path, read_documents
from triplane.inventory import kinds
from triplane.inventory.fields import at, mapping, sequence, text
from triplane.inventory.inventory import Inventory
from triplane.inventory.queries import UnparsableQuery, promql_series, words
from triplane.inventory.resource import Resource


@dataclass(frozen=True, slots=True)
class Alias:
    """`name` is computed from `sources`; `resource` says so at `path`.

    `exposed`: an adapter serves it under that name to HPAs.
    """

    name: str
    sources: frozenset[str]
    resource: Resource
    path: Path
    exposed: bool = False


@dataclass(frozen=True, slots=True)
class Chain:
    """The way from a name to the metric it is made of: names from the alias to the base, and the objects in between."""

    names: tuple[str, ...]
    through: tuple[Resource, ...]
    fact: MetricFact

    def __str__(self) -> str:
        return " <- ".join(self.names)


class MetricAliases:
    """Every alias an inventory defines. Use `inventory.relation(MetricAliases)`."""

    def __init__(self, inventory: Inventory) -> None:
        self._by_name: dict[str, list[Alias]] = {}
        self._patterns: list[_PatternAlias] = []
        self.exposed: set[str] = set()
        """Names, as spelled, that adapters of this input serve to HPAs."""
        for resource in inventory.of_kind(*_READERS):
            for alias in _READERS[resource.kind](resource):
                if isinstance(alias, Alias):
                    self.exposed.update((alias.name,) if alias.exposed else ())
                    self._by_name.setdefault(catalog.normalise(alias.name), []).append(alias)
                else:
                    self._patterns.append(alias)
        # A pattern renames whatever series there are: those somebody records here, and the ones worth knowing about.
        if self._patterns:
            recorded = [alias.name for aliases in self._by_name.values() for alias in aliases]
            for pattern in self._patterns:
                for name in (*recorded, *catalog.metric_names("duty-cycle"), *catalog.metric_names("memory")):
                    if new := pattern.renamed(name):
                        alias = Alias(new, frozenset((name,)), pattern.resource, pattern.path)
                        self._by_name.setdefault(catalog.normalise(new), []).append(alias)

    @property
    def exposes_by_pattern(self) -> bool:
        """Whether an adapter serves names by regular expression, so that `exposed` is not all of them."""
        return any(pattern.exposed for pattern in self._patterns)

    def defines(self, name: str) -> tuple[Alias, ...]:
        """The aliases of that name."""
        return tuple(self._by_name.get(catalog.normalise(name), ()))

    def chain(self, name: str, kind: str) -> Chain | None:
        """The shortest way of one hop or more from `name` to a metric of `kind` (catalog.MetricFact.kind), if any."""
        start = catalog.normalise(name)
        seen = {start}
        ways: list[tuple[str, tuple[str, ...], tuple[Resource, ...]]] = [(start, (name,), ())]
        while ways:
            longer: list[tuple[str, tuple[str, ...], tuple[Resource, ...]]] = []
            for at_name, names, through in ways:
                for alias in self._by_name.get(at_name, ()):
                    for source in sorted(alias.sources):
                        fact = catalog.metric_class(source)
                        folded = catalog.normalise(source)
                        if fact is not None and fact.kind == kind and folded != at_name:
                            return Chain((*names, source), (*through, alias.resource), fact)
                        if folded not in seen:
                            seen.add(folded)
                            longer.append((folded, (*names, source), (*through, alias.resource)))
            ways = longer
        return None


@dataclass(frozen=True, slots=True)
class _PatternAlias:
    """A renaming by regular expression: series that match `series` (and `only`) are handed on under `template`."""

    series: re.Pattern[str]
    only: tuple[re.Pattern[str], ...]
    match: re.Pattern[str]
    template: str
    resource: Resource
    path: Path
    exposed: bool = False

    def renamed(self, name: str) -> str:
        if not self.series.search(name) or not all(pattern.search(name) for pattern in self.only):
            return ""
        found = self.match.search(name)
        return _expanded(found, self.template) if found else ""


def _recorded(groups: Any, path: Path, resource: Resource) -> Iterator[Alias]:
    """Prometheus rule groups: `groups[].rules[].{record,expr}`. Alerts define no series."""
    for g, group in enumerate(sequence(groups)):
        for r, entry in enumerate(sequence(at(group, "rules"))):
            name, expression = text(at(entry, "record")), text(at(entry, "expr"))
            if name and expression and (sources := _promql_names(expression)):
                yield Alias(name, sources, resource, (*path, g, "rules", r, "expr"))


def _promql_names(expression: str) -> frozenset[str]:
    try:
        return promql_series(expression).names
    except UnparsableQuery:
        return frozenset()


def _prometheus_rule(resource: Resource) -> Iterator[Alias | _PatternAlias]:
    yield from _recorded(at(resource.data, "spec", "groups"), ("spec", "groups"), resource)


def _monitor(resource: Resource) -> Iterator[Alias | _PatternAlias]:
    """ServiceMonitor and PodMonitor: `metricRelabelings` that write `__name__`."""
    for listing in ("endpoints", "podMetricsEndpoints"):
        for e, endpoint in enumerate(sequence(at(resource.data, "spec", listing))):
            for r, entry in enumerate(sequence(at(endpoint, "metricRelabelings"))):
                fields = mapping(entry)
                renames = (text(fields.get("action")) or "replace").lower() == "replace"
                if not renames or text(fields.get("targetLabel")) != "__name__":
                    continue
                # Prometheus anchors relabelling expressions on both sides.
                pattern = _compiled(f"^(?:{text(fields.get('regex')) or '(.*)'})$")
                if pattern is not None and [text(label) for label in sequence(fields.get("sourceLabels"))] == [
                    "__name__"
                ]:
                    path: Path = ("spec", listing, e, "metricRelabelings", r)
                    template = text(fields.get("replacement")) or "$1"
                    yield _PatternAlias(pattern, (), pattern, template, resource, path)


def _config_map(resource: Resource) -> Iterator[Alias | _PatternAlias]:
    """A ConfigMap may carry prometheus-adapter's configuration or Prometheus rules as YAML in a string."""
    for key, value in mapping(resource.data.get("data")).items():
        written = text(value)
        if not written or not any(word in written for word in ("seriesQuery", "record:")):
            continue
        try:
            documents = list(read_documents(written, key))
        except DocumentError:
            continue  # a file of another kind: what it is for, nobody here can tell
        for document in documents:
            yield from _adapter_rules(document.value, ("data", key), resource)
            yield from _recorded(at(document.value, "groups"), ("data", key), resource)


def _helm_values(*values: str) -> Any:
    """prometheus-adapter's chart: `rules.custom`, `rules.external`; `rules.default` (on) serves every pod's series."""

    def read(resource: Resource) -> Iterator[Alias | _PatternAlias]:
        rules = at(resource.data, *values, "rules")
        if isinstance(rules, dict) and rules.get("default") is not False:
            yield _PatternAlias(_ANY, (), _ANY, "$0", resource, (*values, "rules"), exposed=True)
        for listing in ("custom", "external"):
            rules = at(resource.data, *values, "rules", listing)
            yield from _adapter_list(rules, (*values, "rules", listing), resource)

    return read


def _adapter_rules(config: Any, path: Path, resource: Resource) -> Iterator[Alias | _PatternAlias]:
    for listing in ("rules", "externalRules"):
        yield from _adapter_list(at(config, listing), path, resource)


def _adapter_list(rules: Any, path: Path, resource: Resource) -> Iterator[Alias | _PatternAlias]:
    """prometheus-adapter docs/config.md: seriesQuery, seriesFilters, name.matches, name.as, metricsQuery."""
    for entry in sequence(rules):
        query = text(at(entry, "seriesQuery")) or ""
        try:
            series = promql_series(query)
        except UnparsableQuery:
            continue
        matches = _compiled(text(at(entry, "name", "matches")) or ".*")
        if matches is None:
            continue
        # The adapter's default: the one group of `matches`, or the whole match.
        template = text(at(entry, "name", "as")) or ("$1" if matches.groups == 1 else "$0")
        for name in series.names:
            found = matches.search(name)
            exposed = _expanded(found, template) if found else name
            computed = (text(at(entry, "metricsQuery")) or "").replace("<<.Series>>", name)
            computed = computed.replace("<<.LabelMatchers>>", 'x="y"').replace("<<.GroupBy>>", "x")
            yield Alias(exposed, _promql_names(computed) | {name}, resource, path, exposed=True)
        filters = tuple(
            compiled for f in sequence(at(entry, "seriesFilters")) if (compiled := _compiled(text(at(f, "is")) or ""))
        )
        for pattern in series.patterns:
            if (compiled := _compiled(f"^(?:{pattern})$")) is not None:
                yield _PatternAlias(compiled, filters, matches, template, resource, path, exposed=True)


def _datadog_metric(resource: Resource) -> Iterator[Alias | _PatternAlias]:
    if query := text(at(resource.data, "spec", "query")):
        name = f"datadogmetric@{resource.namespace}:{resource.name}"
        yield Alias(name, words(query), resource, ("spec", "query"), exposed=True)


_READERS: dict[str, Any] = {
    kinds.PROMETHEUS_RULE: _prometheus_rule,
    kinds.SERVICE_MONITOR: _monitor,
    kinds.POD_MONITOR: _monitor,
    kinds.CONFIG_MAP: _config_map,
    kinds.DATADOG_METRIC: _datadog_metric,
    kinds.FLUX_HELM_RELEASE: _helm_values("spec", "values"),
    kinds.HELM_RELEASE: _helm_values("spec", "values"),
}


_ANY = re.compile(".*")


def _compiled(pattern: str) -> re.Pattern[str] | None:
    """A Go regular expression, where Python can read it (its syntax differs in corners)."""
    try:
        return re.compile(pattern)
    except re.error:
        return None


_GROUP = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


def _expanded(match: re.Match[str], template: str) -> str:
    """Go's expansion of `$1` and `${1}`; a group that is not there is empty."""

    def group(reference: re.Match[str]) -> str:
        name = reference[1] or reference[2]
        try:
            return match[int(name) if name.isdigit() else name] or ""
        except (IndexError, KeyError):
            return ""

    return _GROUP.sub(group, template)
