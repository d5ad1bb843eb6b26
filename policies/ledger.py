"""What the rules could not say as a failure: verdicts that are unknown, and rules that raised.

A CrossGuard violation has the level of its policy, so these two get policies of their own, which run after all rules:
PH808 (advisory unless configured otherwise) says what could not be judged, PH809 (mandatory) what went wrong.
"""

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)

from triplane.rules import Rule
from triplane.rules.doors import NOTHING_UNKNOWN, RULES_WORK


class Notes:
    """Notes a resource; "" for the stack as a whole. Taking them clears them, so that each is told once."""

    def __init__(self) -> None:
        self._notes: dict[str, list[str]] = {}

    def note(self, urn: str, text: str) -> None:
        self._notes.setdefault(urn, []).append(text)

    def take(self, urn: str) -> list[str]:
        return self._notes.pop(urn, [])


class Ledger:
    """One for each pack."""

    def __init__(self) -> None:
        self.unknowns = Notes()
        self.defects = Notes()

    def policies(self) -> list[Policy]:
        """The policies that tell the notes; they must stand after all rules in the pack."""
        return [
            *_telling(self.unknowns, NOTHING_UNKNOWN, EnforcementLevel.ADVISORY),
            *_telling(self.defects, RULES_WORK, EnforcementLevel.MANDATORY),
        ]


def _telling(notes: Notes, rule: Rule, level: EnforcementLevel) -> list[Policy]:
    def tell(urn: str, report: ReportViolation) -> None:
        for text in notes.take(urn):
            report(text, None)

    def on_resource(args: ResourceValidationArgs, report: ReportViolation) -> None:
        tell(args.urn, report)

    def on_stack(args: StackValidationArgs, report: ReportViolation) -> None:
        tell("", report)

    description = f"{rule.title}."
    return [
        ResourceValidationPolicy(rule.id, description, on_resource, level),
        # Its level follows that of the other (server.py): a configuration names the number only.
        StackValidationPolicy(f"{rule.id}{STACK}", description, on_stack, level),
    ]


STACK = "-stack"
