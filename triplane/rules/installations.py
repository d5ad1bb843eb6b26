"""What several judgements ask about Karpenter's installation."""

from triplane import catalog
from triplane.inventory.installations import Gates
from triplane.rules.rule import Context


def gate_is_on(gate: str, feature: str, context: Context) -> bool:
    """Whether a feature gate is on: by the parameter or by a Helm release, in a Karpenter that has its feature."""
    if not catalog.supports("karpenter", context.parameters.karpenter, feature):
        return False
    return gate in context.parameters.karpenter_gates or gate in context.inventory.relation(Gates).on
