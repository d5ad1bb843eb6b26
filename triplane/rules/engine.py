"""Runs the rules over an inventory: one pass over the objects, the rules of each kind at hand."""

import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from triplane.documents import Path, Position
from triplane.inventory import Inventory, Resource, UnknownValue
from triplane.inventory.fields import at
from triplane.inventory.secrets import MASK, is_secret, masked
from triplane.rules.config import Config, Level
from triplane.rules.rule import Context, Rule, Severity
from triplane.rules.suppressions import Ledger, Suppression, inline_suppressions
from triplane.rules.verdicts import Edit, Verdict, unknown


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict of a rule on an object."""

    rule: Rule
    level: Level
    resource: Resource | None
    verdict: Verdict
    stops: bool = True
    """Whether it counts as a failure: an unknown does only where the configuration says so."""
    note: str = ""
    """What else a reader should know: why a suppression does not count."""

    @property
    def kind(self) -> Literal["fail", "unknown"]:
        return self.verdict.kind

    @property
    def path(self) -> Path:
        return self.verdict.path

    @property
    def place(self) -> Position | None:
        """Set where no path of an object leads to the place."""
        return self.verdict.place

    @property
    def severity(self) -> Severity:
        """Mandatory counts as an error; what is advisory counts as a warning at most."""
        if self.level.stops:
            return Severity.ERROR
        return min(self.rule.severity, Severity.WARNING)

    @property
    def message(self) -> str:
        return self.verdict.message

    @property
    def fix(self) -> str:
        return self.verdict.fix or self.rule.fix

    @property
    def edits(self) -> tuple[Edit, ...]:
        return self.verdict.edits


@dataclass(frozen=True, slots=True)
class Defect:
    """A rule that raised: a fault of the rule, never of the input. The other rules went on."""

    rule: Rule
    resource: Resource | None
    error: str
    trace: str


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A finding that somebody accepted."""

    finding: Finding
    by: Suppression


@dataclass(frozen=True, slots=True)
class Report:
    """Everything a run found out. `judged` counts the objects of the input."""

    findings: tuple[Finding, ...]
    defects: tuple[Defect, ...]
    judged: int
    suppressed: tuple[Suppressed, ...] = ()
    baselined: tuple[Finding, ...] = ()
    """Findings that were there before."""
    rules: tuple[Rule, ...] = ()
    """The rules that ran."""

    @property
    def failures(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.kind == "fail")

    @property
    def unknowns(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.kind == "unknown")


def judge(inventory: Inventory, config: Config | None = None, rules: Iterable[Rule] | None = None) -> Report:
    """Judges every object of `inventory` by the rules that `config` switches on (default: all rules there are)."""
    from triplane.rules import all_rules

    config = config or Config()
    chosen = [rule for rule in (all_rules() if rules is None else rules) if config.level(rule) is not Level.DISABLED]
    ledger = _ledger(inventory, config)
    judging, hygiene = ([r for r in chosen if r.about_suppressions is about] for about in (False, True))
    findings: list[Finding] = []
    suppressed: list[Suppressed] = []
    defects: list[Defect] = []
    for finding in _found(inventory, config, judging, ledger, defects):
        taken, finding = _suppressed(finding, config, ledger)
        if taken is None:
            findings.append(finding)
        else:
            suppressed.append(Suppressed(finding, taken))
    if hygiene:
        # Whether a suppression is used, only the rule it names can say: also one that was not asked for.
        for finding in _found(inventory, config, _named(ledger, set(judging)), ledger, []):
            _suppressed(finding, config, ledger)
        findings.extend(_found(inventory, config, hygiene, ledger, defects))
    return Report(tuple(findings), tuple(defects), len(inventory), tuple(suppressed), rules=tuple(chosen))


def _ledger(inventory: Inventory, config: Config) -> Ledger:
    from triplane.rules import all_rules, rule_ids

    suppressions = (*config.suppressions, *inventory.relation(inline_suppressions))
    if not suppressions:
        return Ledger()
    return Ledger(
        suppressions,
        ids=rule_ids(),
        active=frozenset(rule.id for rule in all_rules() if config.level(rule) is not Level.DISABLED),
        longest_days=config.longest_suppression_days,
    )


def _named(ledger: Ledger, judged: set[Rule]) -> list[Rule]:
    from triplane.rules import all_rules

    named = {id for entry in ledger.entries for id in ledger.rule_ids(entry).values() if id in ledger.active}
    return [rule for rule in all_rules() if rule.id in named and rule not in judged and not rule.about_suppressions]


def _suppressed(finding: Finding, config: Config, ledger: Ledger) -> tuple[Suppression | None, Finding]:
    """The suppression that takes a finding, if any; the finding, with a note where one does not count."""
    trusted = config.annotations_may_ignore == "all" or not finding.level.stops
    taken, note = None, ""
    for entry in ledger.matching(finding.rule.id, finding.resource):
        if not ledger.in_force(entry):
            continue
        if entry.inline and not trusted:
            note = f"the {entry.source} beside it does not count: only the configuration may ignore a mandatory rule"
        else:
            taken = taken or entry
    return taken, replace(finding, note=note) if note else finding


def _found(
    inventory: Inventory, config: Config, rules: list[Rule], ledger: Ledger, defects: list[Defect]
) -> Iterator[Finding]:
    contexts = {rule: Context(inventory, config.parameters_of(rule), ledger) for rule in rules}
    for rule, resource in _pairs(inventory, rules):
        outcome = _run(rule, resource, contexts[rule])
        if not outcome:
            continue
        if isinstance(outcome, Defect):
            defects.append(outcome)
            continue
        for verdict in outcome:
            subject = verdict.resource or resource
            stops = verdict.kind == "fail" or config.unknown(rule) == "fail"
            yield Finding(rule, config.level(rule), subject, _discreet(verdict, subject), stops)


def _discreet(verdict: Verdict, resource: Resource | None) -> Verdict:
    """The verdict without a value that must not be shown."""
    if not verdict.found.startswith("is ") or resource is None:
        return verdict
    if is_secret(resource.kind_name, verdict.path, _value(resource, verdict.path)):
        return replace(verdict, found=f"is {MASK}")
    shown = masked(verdict.found)
    return replace(verdict, found=shown) if shown != verdict.found else verdict


def _value(resource: Resource, path: Path) -> Any:
    try:
        return at(resource.data, *path)
    except UnknownValue:
        return None


def _pairs(inventory: Inventory, rules: list[Rule]) -> Iterator[tuple[Rule, Resource | None]]:
    """Each rule with each object it judges, object by object."""
    by_kind: dict[str, list[Rule]] = {}
    on_any: list[Rule] = []
    for rule in rules:
        if rule.on is Inventory:
            yield rule, None
        elif rule.on is Resource:
            on_any.append(rule)
        else:
            for kind in rule.kinds:
                by_kind.setdefault(kind, []).append(rule)
    of_kind = {kind: [*own, *on_any] for kind, own in by_kind.items()}
    for resource in inventory.resources:
        for rule in of_kind.get(resource.kind, on_any):
            yield rule, resource


def _run(rule: Rule, resource: Resource | None, context: Context) -> list[Verdict] | Defect:
    """The verdicts of one rule on one object. Those given before a value turned out unknown stand."""
    verdicts: list[Verdict] = []
    try:
        if resource is None:
            subject: object = context.inventory
        else:
            subject = resource if rule.on is Resource else resource.view(rule.on)
        for verdict in rule.judge(subject, context):
            verdicts.append(verdict)
    except UnknownValue as error:
        verdicts.append(unknown(error.path, "the value is known only after the update"))
    except Exception as error:
        return Defect(rule, resource, masked(f"{type(error).__name__}: {error}"), traceback.format_exc())
    return verdicts
