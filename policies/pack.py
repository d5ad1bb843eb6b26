"""The pack: every rule, the defaults, and the two policies that keep anything from passing in silence."""

from pulumi_policy import Policy, PolicyPack
from triplane.policies.adapter import policy_of
from triplane.policies.ledger import Ledger

from triplane.rules import Config, all_rules

NAME = "triplane"


def policies(config: Config | None = None) -> list[Policy]:
    """All policies of the pack, in the order they run."""
    ledger = Ledger()
    config = config or Config()
    return [policy_of(rule, config, ledger) for rule in all_rules()] + ledger.policies()


def serve() -> None:
    """Runs the pack for the engine; does not return while the engine needs it."""
    PolicyPack(NAME, policies())
