"""What a board learns of how long its events take."""

from __future__ import annotations

import pytest

from indexes.boards.config import BoardConfig
from indexes.boards.painter import Painter


@pytest.fixture
def painter() -> Painter:
    painter = Painter(BoardConfig(("x",), "y"))
    for _ in range(30):
        painter._learn_usual(16 * 15e-6, 16)
    assert painter.usual_seconds == pytest.approx(15e-6, rel=0.01)
    return painter


def test_one_costly_pass_says_little_about_the_next(painter: Painter) -> None:
    painter._learn_usual(16 * 5e-3, 16)
    assert painter.usual_seconds < 30e-6


def test_two_costly_passes_in_a_row_count(painter: Painter) -> None:
    for _ in range(2):
        painter._learn_usual(16 * 5e-3, 16)
    assert painter.usual_seconds > 500e-6


def test_what_a_single_event_takes_counts_as_one_event(painter: Painter) -> None:
    """In a closed loop of 32 connections groups of 31 and of 1 may take turns."""
    for _ in range(20):
        painter._learn_usual(70e-6, 1)
        painter._learn_usual(31 * 12e-6, 31)
    assert 31 * painter.usual_seconds < 0.5e-3


def test_single_events_alone_are_learnt(painter: Painter) -> None:
    for _ in range(30):
        painter._learn_usual(100e-6, 1)
    assert painter.usual_seconds == pytest.approx(100e-6, rel=0.05)


def test_a_long_command_is_forgotten_as_soon_as_a_short_one(painter: Painter) -> None:
    painter._learn_usual(100_000 * 10e-6, 100_000)
    for _ in range(25):
        painter._learn_usual(16 * 40e-6, 16)
    assert painter.usual_seconds == pytest.approx(40e-6, rel=0.05)
