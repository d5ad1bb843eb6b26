"""One rule as one CrossGuard policy. The rule judges; this only translates arguments and verdicts."""

from collections.abc import Iterator

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy import Severity as PolicySeverity
from triplane.policies.ledger import Ledger
from triplane.policies.resources import resource_of

from triplane.inventory import Inventory
from triplane.rules import Config, Finding, Level, Rule, Severity, judge

LEVELS = {
    Level.MANDATORY: EnforcementLevel.MANDATORY,
    Level.ADVISORY: EnforcementLevel.ADVISORY,
    Level.DISABLED: EnforcementLevel.DISABLED,
}
SEVERITIES = {
    Severity.ERROR: PolicySeverity.HIGH,
    Severity.WARNING: PolicySeverity.MEDIUM,
    Severity.INFO: PolicySeverity.LOW,
}


def policy_of(rule: Rule, config: Config, ledger: Ledger) -> Policy:
    """The policy named by the rule's id. What cannot be judged, or went wrong in the rule, goes to the ledger."""

    def on_resource(args: ResourceValidationArgs, report: ReportViolation) -> None:
        if not may_judge(rule, args.resource_type):
            args.not_applicable("another kind of resource")
        inventory = Inventory([resource_of(args.resource_type, args.props, args.urn)])
        for finding in _failures(rule, inventory, config, ledger, args.urn):
            report(text_of(finding), None)

    def on_stack(args: StackValidationArgs, report: ReportViolation) -> None:
        inventory = Inventory(
            resource_of(r.resource_type, r.props, r.urn, r.opts.ignore_changes) for r in args.resources
        )
        for finding in _failures(rule, inventory, config, ledger, ""):
            report(text_of(finding), finding.resource.origin.urn if finding.resource else None)

    about = {
        "name": rule.id,
        "display_name": rule.slug,
        "description": rule.title + ".",
        "enforcement_level": LEVELS[config.level(rule)],
        "severity": SEVERITIES[rule.severity],
        "tags": [str(rule.profile), rule.layer.title],
        "remediation_steps": rule.fix,
    }
    if rule.scope == "stack":
        return StackValidationPolicy(validate=on_stack, **about)
    return ResourceValidationPolicy(validate=on_resource, **about)


def _failures(rule: Rule, inventory: Inventory, config: Config, ledger: Ledger, urn: str) -> Iterator[Finding]:
    # Levels are CrossGuard's business here: a policy that is asked has been switched on.
    report = judge(inventory, config.asked_for(rule), [rule])
    for defect in report.defects:
        ledger.defects.note(urn, f"{rule.id} failed on {defect.resource}: {defect.error}")
    for finding in report.unknowns:
        ledger.unknowns.note(urn, f"{rule.id} on {finding.resource}: {finding.message}")
    yield from report.failures


def text_of(finding: Finding) -> str:
    """What a person reads below the policy's description."""
    return f"{finding.message}.\n{finding.fix}"


def may_judge(rule: Rule, type_token: str) -> bool:
    """Whether a Pulumi type token can be of a kind the rule judges: `kubernetes:karpenter.sh/v1:NodePool`."""
    return not rule.kinds or any(type_token.endswith(f":{kind.partition('.')[0]}") for kind in rule.kinds)
