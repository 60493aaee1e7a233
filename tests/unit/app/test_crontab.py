from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from app.crontab import trigger

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)  # a Thursday


def times(text: str, count: int, zone: str = "UTC") -> list[str]:
    when, after, found = trigger(text, ZoneInfo(zone)), NOW, []
    for _ in range(count):
        at = when.get_next_fire_time(None, after)
        found.append(at.astimezone(UTC).strftime("%a %d %b %H:%M"))
        after = at + timedelta(seconds=1)
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("15 3 * * *", ["Fri 02 Jan 03:15", "Sat 03 Jan 03:15"]),
        ("*/20 12 * * *", ["Thu 01 Jan 12:00", "Thu 01 Jan 12:20"]),
        ("0 2 * * 0", ["Sun 04 Jan 02:00", "Sun 11 Jan 02:00"]),
        ("0 2 * * 7", ["Sun 04 Jan 02:00", "Sun 11 Jan 02:00"]),
        ("0 2 * * 1", ["Mon 05 Jan 02:00", "Mon 12 Jan 02:00"]),
        ("0 2 * * 5-7", ["Fri 02 Jan 02:00", "Sat 03 Jan 02:00", "Sun 04 Jan 02:00", "Fri 09 Jan 02:00"]),
        ("0 2 * * SAT,mon", ["Sat 03 Jan 02:00", "Mon 05 Jan 02:00"]),
        ("0 2 3 feb *", ["Tue 03 Feb 02:00"]),
    ],
)
def test_fields_mean_what_they_mean_to_cron(text: str, expected: list[str]) -> None:
    assert times(text, len(expected)) == expected


def test_with_both_kinds_of_days_either_is_enough() -> None:
    assert times("0 2 6 * 1", 3) == ["Mon 05 Jan 02:00", "Tue 06 Jan 02:00", "Mon 12 Jan 02:00"]


def test_the_time_is_that_of_the_zone() -> None:
    assert times("15 3 * * *", 1, "Asia/Tokyo") == ["Thu 01 Jan 18:15"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("15 3 * *", "must have the five fields"),
        ("nightly", "must have the five fields"),
        ("75 3 * * *", "is not what cron understands"),
        ("x 3 * * *", "is not what cron understands"),
        ("15 3 * * 8", "'8' is not a day of the week"),
        ("15 3 * * 5-1", "'5-1' is reversed"),
        ("15 3 31 2 *", "never comes"),
    ],
)
def test_what_never_comes_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        trigger(text)
