from __future__ import annotations

import pytest

from app.demo.tally import WINDOW_SECONDS, Count, Tally
from rankcast_client import Published
from tests.unit.demo.helpers import Clock


def test_a_count_knows_its_total_and_its_growth_over_the_last_seconds() -> None:
    clock = Clock()
    count = Count(clock)
    assert (count.total, count.per_second()) == (0, 0.0)
    for _ in range(40):
        clock.now += 0.5
        count.add(3)
    assert count.total == 120
    assert count.per_second() == pytest.approx(6.0)
    clock.now += WINDOW_SECONDS
    assert (count.total, count.per_second()) == (120, 0.0)


def test_a_young_count_is_measured_over_its_own_life() -> None:
    clock = Clock()
    count = Count(clock)
    clock.now += 0.5
    count.add(10)
    clock.now += 0.5
    assert count.per_second() == pytest.approx(10.0)


def test_many_additions_take_little_room_and_none_is_lost() -> None:
    clock = Clock()
    count = Count(clock)
    for _ in range(10_000):
        clock.now += 0.001
        count.add(1)
    assert count.total == 10_000
    assert len(count._recent) <= 60
    assert count.per_second() == pytest.approx(1_000, rel=0.05)


def test_arrivals_and_tiles_are_those_of_the_answers() -> None:
    tally = Tally(Clock())
    tally.published(Published(3, 3, tile_count=7))
    tally.published(Published(5, 2, tile_count=0))
    tally.published(Published(6, 1))
    assert (tally.arrivals.total, tally.tiles.total, tally.changes.total) == (6, 7, 0)
