"""Background tasks: each in a thread that no other task has meanwhile, and that the next one takes over."""

from __future__ import annotations

import threading
import time

import pytest

from indexes.core import background
from indexes.core.background import BackgroundTask

SOON = 30.0


def finished(task: BackgroundTask[int]) -> int:
    assert task.done(SOON)
    return task.result


def idle() -> int:
    """How many threads wait for a task, once all have come back."""
    end = time.monotonic() + SOON
    while not background._IDLE and time.monotonic() < end:
        time.sleep(0.001)
    return len(background._IDLE)


def test_one_task_after_the_other_takes_the_same_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_IDLE", [])
    first = finished(BackgroundTask(threading.get_ident))
    assert idle() == 1
    assert finished(BackgroundTask(threading.get_ident)) == first != threading.get_ident()


def test_tasks_at_the_same_time_run_beside_each_other() -> None:
    met = threading.Barrier(3)
    tasks = [BackgroundTask(lambda: met.wait(SOON)) for _ in range(3)]
    assert sorted(finished(task) for task in tasks) == [0, 1, 2]


def test_a_task_is_done_only_when_it_has_finished() -> None:
    go = threading.Event()
    task = BackgroundTask(lambda: int(go.wait(SOON)))
    assert not task.done(0.0) and not task.done(0.001)
    go.set()
    assert finished(task) == 1 and task.done(0.0)


def test_a_failure_is_raised_where_the_result_is_read_and_the_thread_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_IDLE", [])
    task = BackgroundTask(lambda: 1 // 0)
    assert task.done(SOON)
    with pytest.raises(ZeroDivisionError):
        task.result  # noqa: B018
    assert idle() == 1 and finished(BackgroundTask(lambda: 2)) == 2


def test_a_thread_without_work_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_IDLE", [])
    monkeypatch.setattr(background, "IDLE_SECONDS", 0.001)
    found: list[threading.Thread] = []

    def work() -> int:
        found.append(threading.current_thread())
        return 3

    assert finished(BackgroundTask(work)) == 3
    found[0].join(SOON)
    assert not found[0].is_alive() and background._IDLE == []
