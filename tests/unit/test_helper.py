"""The thread that helps with the second half of work."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from indexes.core.helper import Helper


@pytest.fixture(autouse=True)
def two_processors() -> Iterator[None]:
    with patch("indexes.core.helper.processors", lambda: 2):
        yield


def test_both_halves_run_at_the_same_time_in_one_thread_each() -> None:
    helper, names = Helper(), []
    for _ in range(3):
        meet = threading.Barrier(2)

        def half(meet: threading.Barrier = meet) -> None:
            meet.wait(30)
            names.append(threading.current_thread().name)

        assert helper.run_both(half, half) >= 0.0
    assert sorted(set(names)) == sorted({threading.current_thread().name, "helper"}) and len(names) == 6


def test_while_the_helper_is_busy_callers_do_both() -> None:
    helper, inner = Helper(), []

    def first() -> None:
        helper.run_both(lambda: inner.append(threading.get_ident()), lambda: inner.append(threading.get_ident()))

    helper.run_both(first, lambda: None)
    assert inner == [threading.get_ident()] * 2


@pytest.mark.parametrize("fails", ["first", "second"])
def test_a_failure_is_raised_when_both_have_ended(fails: str) -> None:
    helper, ended = Helper(), []

    def half(name: str) -> None:
        ended.append(name)
        if name == fails:
            raise ValueError(name)

    with pytest.raises(ValueError, match=fails):
        helper.run_both(lambda: half("first"), lambda: half("second"))
    assert sorted(ended) == ["first", "second"]
    assert helper.run_both(lambda: None, lambda: None) >= 0.0


def test_one_processor_needs_no_helper() -> None:
    helper, names = Helper(), []
    with patch("indexes.core.helper.processors", lambda: 1):
        helper.run_both(*[lambda: names.append(threading.current_thread().name)] * 2)
    assert names == [threading.current_thread().name] * 2
