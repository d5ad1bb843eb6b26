"""When a disruption window is open: five-field cron or a word such as @daily, in UTC, as Karpenter reads it.

Source: robfig/cron v3 ParseStandard, through karpenter pkg/apis/v1/nodepool.go (commit 2266468).
"""

import datetime as dt
import re
from dataclasses import dataclass
from functools import lru_cache

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_WORDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
# Lowest and highest number and the names of minute, hour, day of the month, month, day of the week (7 is no Sunday).
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_STARS = ("*", "?", "*/1", "?/1")
_PART = re.compile(r"(?:([*?])|([0-9]+|[a-z]{3})(?:-([0-9]+|[a-z]{3}))?)(?:/([0-9]+))?")


@dataclass(frozen=True)
class Schedule:
    """Minutes, hours, days and months of a cron line. either_day: both day fields are set, so one of them suffices."""

    minutes: frozenset[int]
    hours: frozenset[int]
    month_days: frozenset[int]
    months: frozenset[int]
    week_days: frozenset[int]
    either_day: bool

    def on(self, day: dt.date) -> bool:
        """Whether the schedule has hits on that day."""
        if day.month not in self.months:
            return False
        month_day, week_day = day.day in self.month_days, day.isoweekday() % 7 in self.week_days
        return (month_day or week_day) if self.either_day else (month_day and week_day)

    def last_hit(self, now: dt.datetime, after: dt.datetime) -> dt.datetime | None:
        """Latest hit not later than `now` and later than `after`."""
        now, after = now.astimezone(dt.UTC), after.astimezone(dt.UTC)
        day = now.date()
        while day >= after.date():
            if self.on(day):
                for hour in sorted(self.hours, reverse=True):
                    for minute in sorted(self.minutes, reverse=True):
                        hit = dt.datetime.combine(day, dt.time(hour, minute), dt.UTC)
                        if hit <= now:
                            return hit if hit > after else None
            if day == dt.date.min:
                break
            day -= dt.timedelta(days=1)
        return None


@lru_cache(maxsize=256)
def parse(written: str) -> Schedule:
    """The schedule that a line says. Raises ValueError for one that the controller cannot read."""
    fields = _WORDS.get(written, written).lower().split()
    if len(fields) != len(_FIELDS) or (written.startswith("@") and written not in _WORDS):
        raise ValueError(f"{written!r} is no five-field cron line and none of {', '.join(_WORDS)}")
    minutes, hours, month_days, months, week_days = (
        _numbers(field, *bounds) for field, bounds in zip(fields, _FIELDS, strict=True)
    )
    # A star says nothing about the day; one with a step does (since v3 of the library).
    either_day = not any(part in _STARS for field in (fields[2], fields[4]) for part in field.split(","))
    return Schedule(minutes, hours, month_days, months, week_days, either_day)


def is_schedule(written: str) -> bool:
    """Whether the controller can read it: `0 6 * * mon-fri` and `@daily` it can, `0 0 6 * * *` and `@noon` not."""
    try:
        parse(written)
    except ValueError:
        return False
    return True


def _numbers(field: str, lowest: int, highest: int, names: dict[str, int]) -> frozenset[int]:
    found: set[int] = set()
    for part in field.split(","):
        match = _PART.fullmatch(part)
        if match is None or (match[4] is not None and int(match[4]) == 0):
            raise ValueError(f"{part!r} is no number, range or step")
        ends = [names.get(end, int(end) if end.isdigit() else -1) for end in (match[2], match[3]) if end]
        if not all(lowest <= end <= highest for end in ends) or ends != sorted(ends):
            raise ValueError(f"{part!r} is not within {lowest} to {highest}")
        first = ends[0] if ends else lowest
        # A lone number with a step runs to the end of the field.
        last = ends[1] if len(ends) == 2 else first if ends and match[4] is None else highest
        found.update(range(first, last + 1, int(match[4] or 1)))
    return frozenset(found)


def is_open(schedule: str, duration: dt.timedelta, now: dt.datetime) -> bool:
    """Whether a window of that length is open: from a hit up to, not including, a full duration later."""
    return parse(schedule).last_hit(now, now - duration) is not None
