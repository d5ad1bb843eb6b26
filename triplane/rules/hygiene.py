"""Suppressions that are none, are over, or take nothing."""

from collections.abc import Iterator

from triplane import catalog
from triplane.inventory import Inventory
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.suppressions import Suppression
from triplane.rules.verdicts import Verdict, Verdicts, fail


def _at(entry: Suppression, consequence: str, fix: str = "") -> Verdict:
    names = ", ".join(entry.rules)
    if entry.source == "comment":  # no path leads to a comment
        consequence = f"ignore[{names}]: {consequence}"
    return fail(entry.path, names or None, consequence, fix=fix, on=entry.resource, place=entry.place)


@rule(
    "PH801",
    "suppression-gives-a-reason",
    on=Inventory,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    fix="Write reason=<why, and whom to ask> at the end, and the rules before it: NP101 reason=load test, ticket 1.",
    sources=("https://www.checkov.io/2.Basics/Suppressing%20and%20Skipping%20Policies.html",),
    about_suppressions=True,
)
def suppression_gives_a_reason(inventory: Inventory, context: Context) -> Verdicts:
    """A suppression must name its rules and say why.

    An exception without a reason outlives whoever made it: nobody dares to remove it, and the next fault hides behind
    it. A suppression without a reason, without a rule, or with a date that is none counts for nothing: the finding
    stays.
    """
    for entry in context.ledger.entries:
        if not entry.rules:
            yield _at(entry, "it names no rule, so it suppresses nothing")
        if not entry.reason:
            yield _at(entry, "it gives no reason, so it suppresses nothing")
        if entry.bad_until:
            yield _at(entry, f"until={entry.bad_until} is no date, so it suppresses nothing", "Write until=2027-01-31.")


@rule(
    "PH802",
    "suppression-is-in-time",
    on=Inventory,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    fix="Repair what it suppresses and remove it, or give it a new day and a reason that still holds.",
    sources=("https://microsoft.github.io/PSRule/v2/concepts/suppression/",),
    about_suppressions=True,
)
def suppression_is_in_time(inventory: Inventory, context: Context) -> Verdicts:
    """A suppression must not be over, nor last longer than allowed.

    Its last day (`until`) is over, so the finding is back. Or the configuration allows `longest_suppression_days` only
    and it lasts longer, or for ever: then it counts for nothing until it has a day within them.
    """
    for entry in context.ledger.entries:
        if context.ledger.expired(entry):
            yield _at(entry, f"it ended on {entry.until}: what it suppressed is reported again")
        elif not entry.bad_until and context.ledger.lasts_too_long(entry):
            ends = f"ends on {entry.until}" if entry.until else "never ends"
            days = context.ledger.longest_days
            yield _at(entry, f"it {ends}, and {days} days is the longest allowed: it suppresses nothing")


@rule(
    "PH803",
    "suppression-is-used",
    on=Inventory,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    fix="Remove it, or the rule that it no longer needs to name.",
    sources=("https://docs.astral.sh/ruff/rules/unused-noqa/",),
    about_suppressions=True,
)
def suppression_is_used(inventory: Inventory, context: Context) -> Verdicts:
    """A suppression must have something to suppress.

    The fault was repaired, the object was renamed, or the rule's number is mistyped. What stays behind would hide the
    next fault of that kind. Rules that are off are not reported.
    """
    for entry in context.ledger.entries:
        yield from (_at(entry, said) for said in _unused(entry, context))


def _unused(entry: Suppression, context: Context) -> Iterator[str]:
    ledger = context.ledger
    for name, id in ledger.rule_ids(entry).items():
        if id is None:
            from triplane.rules import rule_ids

            near = catalog.nearest_names(name, tuple(rule_ids()))
            yield f"there is no rule {name}" + (f": did you mean {' or '.join(near)}?" if near else "")
        elif id in ledger.active and not ledger.is_used(entry, id):
            yield f"{id} finds nothing here"
