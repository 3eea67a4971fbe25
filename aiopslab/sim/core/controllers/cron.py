"""Cron schedules: five fields, names, steps, ``@hourly`` and its like, in a time zone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTHS = {name: index + 1 for index, name in enumerate(MONTH_NAMES)}
DAYS = {name: index for index, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
SEARCH_YEARS = 5


@dataclass(frozen=True, slots=True)
class Schedule:
    """A parsed schedule. Days match by month day or by weekday when both are given, as cron does."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool  # the month-day field is a star
    any_weekday: bool
    zone: tzinfo

    def next(self, after: float) -> float | None:
        """The first time later than ``after`` (Unix seconds), None when there is none within five years."""
        at = datetime.fromtimestamp(after, UTC).astimezone(self.zone).replace(second=0, microsecond=0)
        at += timedelta(minutes=1)
        end = at + timedelta(days=366 * SEARCH_YEARS)
        while at < end:
            if at.month not in self.months or not self._day(at):
                at = (at + timedelta(days=1)).replace(hour=0, minute=0)
            elif at.hour not in self.hours:
                at = (at + timedelta(hours=1)).replace(minute=0)
            elif at.minute not in self.minutes:
                at += timedelta(minutes=1)
            else:
                return at.timestamp()
        return None

    def _day(self, at: datetime) -> bool:
        by_day, by_weekday = at.day in self.days, at.isoweekday() % 7 in self.weekdays
        if self.any_day or self.any_weekday:
            return by_day and by_weekday
        return by_day or by_weekday


def parse(text: str, zone: str = "") -> Schedule:
    """A schedule text. Raises ValueError naming the field that cannot be read."""
    fields = MACROS.get(text.strip(), text).split()
    if len(fields) != 5:
        raise ValueError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    minutes, hours, days, months, weekdays = (
        _field(field, low, high, names)
        for field, (low, high, names) in zip(
            fields, ((0, 59, {}), (0, 23, {}), (1, 31, {}), (1, 12, MONTHS), (0, 7, DAYS)), strict=True
        )
    )
    weekdays = frozenset(day % 7 for day in weekdays)
    location: tzinfo = ZoneInfo(zone) if zone else UTC
    return Schedule(
        minutes, hours, days, months, weekdays, fields[2][0] in "*?", fields[4][0] in "*?", location
    )


def _field(text: str, low: int, high: int, names: dict[str, int]) -> frozenset[int]:
    values: set[int] = set()
    for part in text.split(","):
        body, _, step = part.partition("/")
        first, dash, last = body.partition("-")
        try:
            if first in ("*", "?"):
                start, end = low, high if high != 7 else 6
            else:
                start = names.get(first.lower(), -1) if first.lower() in names else int(first)
                end = start if not dash else names[last.lower()] if last.lower() in names else int(last)
                end = high if step and not dash else end
            stride = int(step) if step else 1
        except ValueError:
            raise ValueError(f"failed to parse {text!r} of the schedule") from None
        if not low <= start <= end <= high or stride < 1:
            raise ValueError(f"{text!r} of the schedule is outside {low}-{high}")
        values.update(range(start, end + 1, stride))
    return frozenset(values)
