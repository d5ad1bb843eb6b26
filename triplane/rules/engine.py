"""Runs the rules over an inventory: one pass over the objects, the rules of each kind at hand."""

import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from triplane.documents import Path
from triplane.inventory import Inventory, Resource, UnknownValue
from triplane.rules.config import Config, Level
from triplane.rules.rule import Context, Rule, Severity
from triplane.rules.verdicts import Edit, Verdict, unknown


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict of a rule on an object."""

    rule: Rule
    level: Level
    resource: Resource | None
    verdict: Verdict

    @property
    def kind(self) -> Literal["fail", "unknown"]:
        return self.verdict.kind

    @property
    def path(self) -> Path:
        return self.verdict.path

    @property
    def severity(self) -> Severity:
        """Mandatory counts as an error; what is advisory counts as a warning at most."""
        if self.level is Level.MANDATORY:
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
class Report:
    """Everything a run found out. `judged` counts the objects of the input."""

    findings: tuple[Finding, ...]
    defects: tuple[Defect, ...]
    judged: int

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
    context = Context(inventory, config.parameters)
    chosen = [rule for rule in (all_rules() if rules is None else rules) if config.level(rule) is not Level.DISABLED]
    findings: list[Finding] = []
    defects: list[Defect] = []
    for rule, resource in _pairs(inventory, chosen):
        outcome = _run(rule, resource, context)
        if isinstance(outcome, Defect):
            defects.append(outcome)
        elif outcome:
            findings.extend(Finding(rule, config.level(rule), v.resource or resource, v) for v in outcome)
    return Report(tuple(findings), tuple(defects), len(inventory))


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
    for resource in inventory.resources:
        for rule in by_kind.get(resource.kind, ()):
            yield rule, resource
        for rule in on_any:
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
        return Defect(rule, resource, f"{type(error).__name__}: {error}", traceback.format_exc())
    return verdicts
