"""The pack: every rule, its configuration, and the two policies that keep anything from passing in silence."""

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
)
from triplane.policies.adapter import policy_of
from triplane.policies.ledger import Ledger
from triplane.policies.server import Servicer
from triplane.policies.server import serve as serve_engine
from triplane.policies.situation import Situation

from triplane.rules import all_rules
from triplane.rules.config_file import ENTRY, settings_schema

NAME = "triplane"
STACK_TYPE = "pulumi:pulumi:Stack"


def pack() -> Servicer:
    """The whole pack, ready to answer."""
    situation, ledger = Situation(), Ledger()
    policies = [
        configuration_policy(situation),
        *(policy_of(rule, situation, ledger) for rule in all_rules()),
        *ledger.policies(),
    ]
    return Servicer(
        NAME,
        policies,
        situation,
        description="Unsafe GPU node pools, queues and autoscalers, stopped before they are deployed",
        display_name="Triplane",
        tags=["kubernetes", "gpu"],
    )


def configuration_policy(situation: Situation) -> Policy:
    """The entry of a configuration that concerns all rules; a fault in the configuration is its violation."""

    def on_resource(args: ResourceValidationArgs, report: ReportViolation) -> None:
        if args.resource_type != STACK_TYPE:
            args.not_applicable("said once, for the stack")
        for fault in situation.faults:
            report(fault, None)

    properties = {key: schema for key, schema in settings_schema().items() if key != "enforcementLevel"}
    return ResourceValidationPolicy(
        ENTRY,
        "The configuration of the pack must be valid.",
        on_resource,
        EnforcementLevel.MANDATORY,
        config_schema=PolicyConfigSchema(properties),
        remediation_steps="Check it with: triplane check --config FILE.",
    )


def serve() -> None:
    """Runs the pack for the engine; does not return while the engine needs it."""
    serve_engine(pack())
