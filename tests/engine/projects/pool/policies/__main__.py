from pulumi_policy import (
    EnforcementLevel,
    PolicyPack,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
)


def only_empty(args: ResourceValidationArgs, report: ReportViolation) -> None:
    if args.resource_type == "kubernetes:karpenter.sh/v1:NodePool":
        policy = args.props["spec"]["disruption"]["consolidationPolicy"]
        if policy != "WhenEmpty":
            report(f"consolidationPolicy is {policy}")


PolicyPack(
    name="pool",
    enforcement_level=EnforcementLevel.MANDATORY,
    policies=[ResourceValidationPolicy(name="only-empty", description="Only empty nodes go.", validate=only_empty)],
)
