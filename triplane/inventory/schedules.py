"""Cron schedules as Karpenter reads them (robfig/cron v3 ParseStandard): five fields or a word like @daily, in UTC."""

import re
from functools import lru_cache

_WORDS = frozenset(f"@{word}" for word in ("yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly"))
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
# (lowest, highest, names) of minute, hour, day of the month, month and day of the week.
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_PART = re.compile(r"(?:(\*|\?)|([0-9]{1,2}|[a-z]{3})(?:-([0-9]{1,2}|[a-z]{3}))?)(?:/([0-9]{1,2}))?")


@lru_cache(maxsize=1024)
def is_schedule(written: str) -> bool:
    """Whether the controller can read it: `0 6 * * mon-fri` and `@daily` it can, `0 0 6 * * *` and `@noon` not."""
    if written.startswith("@"):
        return written in _WORDS
    fields = written.lower().split()
    return len(fields) == len(_FIELDS) and all(
        _readable(part, *bounds) for field, bounds in zip(fields, _FIELDS, strict=True) for part in field.split(",")
    )


def _readable(part: str, lowest: int, highest: int, names: dict[str, int]) -> bool:
    match = _PART.fullmatch(part)
    if match is None or match[4] == "0":
        return False
    numbers = [names.get(end, int(end) if end.isdigit() else -1) for end in (match[2], match[3]) if end]
    return all(lowest <= number <= highest for number in numbers) and numbers == sorted(numbers)
