"""One rule as one CrossGuard policy. The rule judges; this only translates arguments and verdicts."""

from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyComplianceFramework,
    PolicyConfigSchema,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy import Severity as PolicySeverity
from pulumi_policy.deserialize import serialize_properties
from triplane.policies.ledger import Ledger
from triplane.policies.resources import SIGNATURE, resource_of
from triplane.policies.situation import Situation

from triplane import __version__
from triplane.documents import Path
from triplane.inventory import Inventory
from triplane.rules import Config, Finding, Level, Rule, Severity, judge
from triplane.rules.config import default_level
from triplane.rules.config_file import rule_schema
from triplane.rules.edits import edited

LEVELS = {
    Level.MANDATORY: EnforcementLevel.MANDATORY,
    Level.REMEDIATE: EnforcementLevel.REMEDIATE,
    Level.ADVISORY: EnforcementLevel.ADVISORY,
    Level.DISABLED: EnforcementLevel.DISABLED,
}
SEVERITIES = {
    Severity.ERROR: PolicySeverity.HIGH,
    Severity.WARNING: PolicySeverity.MEDIUM,
    Severity.INFO: PolicySeverity.LOW,
}


def policy_of(rule: Rule, situation: Situation, ledger: Ledger) -> Policy:
    """The policy named by the rule's id. What cannot be judged, or went wrong in the rule, goes to the ledger."""

    def on_resource(args: ResourceValidationArgs, report: ReportViolation) -> None:
        if not may_judge(rule, args.resource_type):
            args.not_applicable("another kind of resource")
        for finding in _stopping(rule, situation.of_resource(args), situation.config, ledger, args.urn):
            report(text_of(finding), None)

    def on_stack(args: StackValidationArgs, report: ReportViolation) -> None:
        for finding in _stopping(rule, situation.of_stack(args), situation.config, ledger, ""):
            report(text_of(finding), finding.resource.origin.urn if finding.resource else None)

    def remediate(args: ResourceValidationArgs) -> Mapping[str, Any] | None:
        if not may_judge(rule, args.resource_type) or not args.resource_type.startswith("kubernetes:"):
            return None
        return _remedied(rule, args, situation.config)

    about = {
        "name": rule.id,
        "display_name": rule.slug,
        "description": rule.title + ".",
        "enforcement_level": LEVELS[default_level(rule)],
        "config_schema": PolicyConfigSchema(rule_schema(rule)),
        "severity": SEVERITIES[rule.severity],
        "framework": PolicyComplianceFramework("Triplane", __version__, rule.id, rule.layer.title),
        "tags": [str(rule.profile), rule.layer.title],
        "remediation_steps": rule.fix,
        "url": rule.sources[0],
    }
    if rule.scope == "stack":
        return StackValidationPolicy(validate=on_stack, **about)
    return ResourceValidationPolicy(validate=on_resource, remediate=remediate if rule.autofix else None, **about)


def _stopping(rule: Rule, inventory: Inventory, config: Config, ledger: Ledger, urn: str) -> Iterator[Finding]:
    """The findings that the policy reports at its level."""
    report = judge(inventory, config.asked_for(rule), [rule])
    for defect in report.defects:
        ledger.defects.note(urn, f"{rule.id} failed on {defect.resource}: {defect.error}")
    for finding in report.unknowns:
        if not finding.stops:
            ledger.unknowns.note(urn, f"{rule.id} on {finding.resource}: {finding.message}")
    yield from (finding for finding in report.findings if finding.stops)


def text_of(finding: Finding) -> str:
    """What a person reads below the policy's description."""
    lines = [f"{finding.message}."]
    if finding.kind == "unknown":
        lines.append("This cannot be judged before the update, and the configuration says on_unknown: fail.")
    else:
        lines.append(finding.fix)
    return "\n".join((*lines, finding.note) if finding.note else lines)


def may_judge(rule: Rule, type_token: str) -> bool:
    """Whether a Pulumi type token can be of a kind the rule judges: `kubernetes:karpenter.sh/v1:NodePool`."""
    return not rule.kinds or any(type_token.endswith(f":{kind.partition('.')[0]}") for kind in rule.kinds)


def _remedied(rule: Rule, args: ResourceValidationArgs, config: Config) -> Mapping[str, Any] | None:
    """The properties with the rule's edits made; None: nothing to change. Secrets stay secrets, the unknown unknown."""
    resource = resource_of(args.resource_type, args.props, args.urn)
    edits = [
        edit
        for finding in judge(Inventory([resource]), config.asked_for(rule), [rule]).failures
        for edit in finding.edits
    ]
    if not edits:
        return None
    properties: dict[str, Any] = dict(serialize_properties(args.props))
    if any(_is_inside_a_secret(properties, edit.path) for edit in edits):
        return None
    return edited(properties, edits)


def _is_inside_a_secret(value: Any, path: Path) -> bool:
    for part in path:
        if isinstance(value, dict) and SIGNATURE in value:
            return True
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return False
    return isinstance(value, dict) and SIGNATURE in value
