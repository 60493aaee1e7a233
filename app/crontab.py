"""The five fields of cron as a trigger of the scheduler, with cron's own meaning of the days.

The scheduler's reading of such a text counts weekdays from Monday and asks for both days where cron takes either.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo

from apscheduler.triggers.base import BaseTrigger  # type: ignore[import-untyped, unused-ignore]
from apscheduler.triggers.combining import OrTrigger  # type: ignore[import-untyped, unused-ignore]
from apscheduler.triggers.cron import CronTrigger  # type: ignore[import-untyped, unused-ignore]

_FIELDS = ("minute", "hour", "day of the month", "month", "day of the week")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_PART = re.compile(r"(?:\*|(?P<first>\w+)(?:-(?P<last>\w+))?)(?:/(?P<step>[1-9][0-9]{0,2}))?", re.ASCII)


def trigger(text: str, timezone: tzinfo = UTC) -> BaseTrigger:
    """When a text such as ``15 3 * * *`` comes. Raises ValueError with the reason for what never does."""
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise ValueError(f"must have the five fields {', '.join(_FIELDS)}, not {len(fields)}")
    minute, hour, day, month, weekday = fields
    base = {"minute": minute, "hour": hour, "month": month, "timezone": timezone}
    weekdays = _weekdays(weekday)
    if day.startswith("*") or weekday.startswith("*"):
        found: BaseTrigger = _cron(**base, day=day, day_of_week=weekdays)
    else:
        found = OrTrigger([_cron(**base, day=day), _cron(**base, day_of_week=weekdays)])
    if found.get_next_fire_time(None, datetime.now(timezone)) is None:
        raise ValueError("never comes")
    return found


def _cron(**fields: object) -> CronTrigger:
    try:
        return CronTrigger(**fields)
    except (ValueError, TypeError) as error:
        raise ValueError(f"is not what cron understands: {error}") from None


def _weekdays(field: str) -> str:
    """The days of the week by name, which mean the same to both.

    >>> _weekdays("1-5"), _weekdays("0,6"), _weekdays("fri-7"), _weekdays("*/2"), _weekdays("*")
    ('mon,tue,wed,thu,fri', 'sun,sat', 'sun,fri,sat', 'sun,tue,thu,sat', 'sun,mon,tue,wed,thu,fri,sat')
    """
    found: set[int] = set()
    for part in field.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"{part!r} is not a day of the week")
        first = 0 if match["first"] is None else _weekday(match["first"])
        single = match["first"] is not None and match["last"] is None and match["step"] is None
        last = first if single else 6 if match["last"] is None else _weekday(match["last"])
        if last < first:
            raise ValueError(f"{part!r} is reversed")
        found.update(number % 7 for number in range(first, last + 1, int(match["step"] or 1)))
    return ",".join(_DAYS[number] for number in sorted(found))


def _weekday(text: str) -> int:
    """0 (Sunday) to 7 (Sunday again)."""
    if text.lower() in _DAYS:
        return _DAYS.index(text.lower())
    if text.isdigit() and int(text) <= 7:
        return int(text)
    raise ValueError(f"{text!r} is not a day of the week")
