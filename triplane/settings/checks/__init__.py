"""Checks across fields, which need no cluster. Each is one function of what is declared and yields what is wrong.

They run on whatever validated by itself, so a check must not conclude anything from what is absent but `broken`.
"""

from collections.abc import Callable, Iterator

from triplane.settings.checks import names, platform, pools, queues, roles, signals, stack
from triplane.settings.declared import Declared
from triplane.settings.wording import Finding

Check = Callable[[Declared], Iterator[Finding]]

CHECKS: tuple[Check, ...] = (
    *names.CHECKS,
    *platform.CHECKS,
    *pools.CHECKS,
    *queues.CHECKS,
    *roles.CHECKS,
    *signals.CHECKS,
    *stack.CHECKS,
)


def check_all(declared: Declared) -> Iterator[Finding]:
    """What every check finds."""
    for check in CHECKS:
        yield from check(declared)
