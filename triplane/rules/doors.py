"""What a door reports beside the judgements: the baseline of the command line, the notes of the CrossGuard pack."""

from collections.abc import Iterator
from typing import Any

from triplane.inventory import Inventory
from triplane.rules.rule import Profile, Rule, Severity
from triplane.rules.verdicts import Verdict


def _said_by_the_door(subject: Any, context: Any) -> Iterator[Verdict]:
    return iter(())


def _door_rule(id: str, slug: str, severity: Severity, title: str, why: str, fix: str, source: str) -> Rule:
    return Rule(
        id, slug, severity, Profile.CORE, "stack", Inventory, title, why, fix, (source,), (), False, "",
        _said_by_the_door,
    )  # fmt: skip


_PULUMI = "https://www.pulumi.com/docs/insights/policy/"

BASELINE_IS_NEEDED = _door_rule(
    "PH804",
    "baseline-entry-is-needed",
    Severity.WARNING,
    "A baseline must hold only what is still wrong",
    "An entry that matches nothing is a fault that was repaired. It would let the same fault come back unseen. Only "
    "the command line has a baseline.",
    "Run again with --prune-baseline.",
    "https://www.checkov.io/2.Basics/CLI%20Command%20Reference.html",
)
NOTHING_UNKNOWN = _door_rule(
    "PH808",
    "everything-can-be-judged",
    Severity.WARNING,
    "What a rule must know should be known in the preview",
    "A value that only the update will know (another resource's output, a stack reference) cannot be judged before. "
    "The pack says so instead of passing it; `on_unknown: fail` in the configuration stops the deployment. On the "
    "command line the rule itself reports the verdict unknown, and --strict-unknown exits with 4.",
    "Give the field a plain value, or judge again after the update: pulumi stack export | triplane check -.",
    _PULUMI,
)
RULES_WORK = _door_rule(
    "PH809",
    "every-rule-runs",
    Severity.ERROR,
    "A rule failed to run",
    "A rule raised an error. This is a fault of Triplane and not of your resource; the other rules went on. It stops a "
    "deployment, since nobody knows what the rule would have found. On the command line the exit code is 3.",
    "Report it with the resource, and switch the rule off in the configuration until it is repaired.",
    _PULUMI,
)

DOOR_RULES = (BASELINE_IS_NEEDED, NOTHING_UNKNOWN, RULES_WORK)
