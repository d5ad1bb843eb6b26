"""Judgements on policies in the cluster: whether they hold, and whether they stand in the way of nodes and binds."""

import re

from triplane.inventory.admission import POLICY, Admission, Bindings
from triplane.inventory.fields import at, sequence
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Verdicts, fail, unknown

ADMISSION = "https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/"


@rule(
    "PH806",
    "admission-policy-is-bound-and-denies",
    on=Admission,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("environment", "missing_references"),
    fix="Add a ValidatingAdmissionPolicyBinding with validationActions: [Deny].",
    sources=(ADMISSION,),
)
def admission_policy_is_bound_and_denies(admission: Admission, context: Context) -> Verdicts:
    """A validating admission policy should be bound, and deny, in production.

    A policy without a binding judges nothing, and one that is only bound with Audit or Warn writes a log entry while
    the object goes in. Both look like protection in a repository. A binding that is not here may live elsewhere.
    Rolling out with Audit first is sound, in the environments before production.
    """
    if admission.resource.kind != POLICY or context.parameters.environment != "prod":
        return
    bindings = context.inventory.relation(Bindings).of(admission.resource)
    if not bindings:
        if context.parameters.missing_references == "fail":
            yield fail(("metadata", "name"), admission.resource.name, "no binding names it, so it judges nothing")
        else:
            yield unknown(("metadata", "name"), "no binding of this policy is in the input")
    elif not any("Deny" in sequence(at(binding.data, "spec", "validationActions")) for binding in bindings):
        for binding in bindings:
            actions = ", ".join(str(action) for action in sequence(at(binding.data, "spec", "validationActions")))
            yield fail(
                ("spec", "validationActions"),
                actions or None,
                "what the policy forbids goes in all the same",
                on=binding,
                related=(admission.resource,),
            )


# Kubernetes writes `pods/binding`, Kyverno `Pod/binding` and `karpenter.sh/v1/NodeClaim`.
_BINDING = re.compile(r"(bindings|(.+/)?pods?/(binding|\*))", re.IGNORECASE)
_NODE_CLAIM = re.compile(r"(.+/)?nodeclaims?(/\*)?", re.IGNORECASE)


@rule(
    "PH807",
    "admission-leaves-binds-and-node-claims-alone",
    on=Admission,
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    fix="Judge the workload or the NodePool instead, where somebody sees the refusal.",
    sources=("https://github.com/kai-scheduler/KAI-Scheduler/issues/2075", ADMISSION),
)
def admission_leaves_binds_and_node_claims_alone(admission: Admission, context: Context) -> Verdicts:
    """No admission policy must judge the binding of pods, or NodeClaims.

    Both are written by controllers, which nobody answers to. A scheduler whose bind is refused tries again, and again,
    with the GPUs it has reserved for the pod taken from others meanwhile. A refused NodeClaim is a node that never
    comes, for a reason that stands in Karpenter's log only. Judged are explicit matches, and all subresources of pods;
    a match of everything (`*/*`) is not told apart from what it is meant for.
    """
    for match in admission.matches:
        if not match.creates():
            continue
        if match.group in ("", "*") and _BINDING.fullmatch(match.resource):
            yield fail(match.path, match.resource, "a refused bind is tried again for ever, and holds GPUs meanwhile")
        elif match.group in ("karpenter.sh", "*") and _NODE_CLAIM.fullmatch(match.resource):
            yield fail(match.path, match.resource, "a refused NodeClaim is a node that never comes, and nobody is told")
