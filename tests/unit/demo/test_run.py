from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from app.demo.flights import Arrivals
from app.demo.process import Readiness
from app.demo.run import Run, first_of, started
from rankcast_client import Entry, Published, Snapshot
from rankcast_client.ws import Message


@pytest.fixture
def arrivals() -> Arrivals:
    landed = np.array([422, 429, 3_000], dtype=np.int64)
    words = pa.array(["a", "b", "c"])
    numbers = np.array([1.0, 2.0, 3.0])
    return Arrivals(landed, landed // 1_440, words, numbers, numbers, words, words, words)


def test_the_view_has_what_was_measured(arrivals: Arrivals) -> None:
    run = Run(arrivals, 1.0, ("curl",))
    empty = run.view()
    assert (empty.at, run.day) == (None, -1)
    assert [figure.total for figure in empty.figures] == ["0", "0", "0", ""]
    assert {one.note for one in empty.lists} == {"waiting for its list ..."}

    run.played(1, Published(2, 2, tile_count=3))
    run.played(2, Published(3, 1, tile_count=2_000))
    run.subscriptions = 370
    entry = Entry("a", {"distance": 1, "delay": 2}, 0)
    run.lists.take(Message("delays", "all-best-5", Snapshot(3, (entry,)), (entry,)))
    view = run.view()
    assert view.at == datetime(2013, 1, 3, 2, tzinfo=ZoneInfo("America/New_York"))
    assert run.day == 2
    assert [figure.total for figure in view.figures] == ["3", "0", "2,003", "370"]
    assert [(one.title, one.entries, one.note) for one in view.lists][-1] == ("any distance", (entry,), "")
    assert view.commands == ("curl",)
    assert re.fullmatch(r"First list after \d+\.\d s\. Ctrl-C ends it\.", view.notes[-1])


def test_the_console_is_named(arrivals: Arrivals) -> None:
    run = Run(arrivals, 1.0, console="http://127.0.0.1:8000/console#/boards/delays")
    assert run.view().notes[-1].startswith("In a browser: http://127.0.0.1:8000/console#/boards/delays. ")


def test_kernels_that_are_still_compiled_are_told_of_until_all_are(arrivals: Arrivals) -> None:
    run = Run(arrivals, 1.0)
    notes = []
    for warm in (None, 0.83, 1.0):
        run.warm = warm
        notes.append(" ".join(run.view().notes))
    assert ["83% of the kernels" in text for text in notes] == [False, True, False]


def test_a_notice_takes_the_place_of_the_commands(arrivals: Arrivals) -> None:
    run = Run(arrivals, 1.0, ("curl",))
    run.notices = ("The service asks for keys now.",)
    view = run.view()
    assert (view.commands, view.notices) == ((), ("The service asks for keys now.",))


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, {"status": "ready"}, Readiness(True)),
        (200, {"ready": True, "warm": 0.83}, Readiness(True, 0.83)),
        (200, {"ready": False, "warm": 0.1}, Readiness(False, 0.1)),
        (503, {"type": "/problems/not-ready", "warm": 0}, Readiness(False, 0.0)),
        (503, {"type": "/problems/not-ready"}, Readiness(False)),
        (200, {"ready": True, "warm": "much"}, Readiness(True)),
        (200, {"ready": True, "warm": True}, Readiness(True)),
        (200, {"ready": True, "warm": 17}, Readiness(True)),
        (200, ["ready"], Readiness(True)),
        (502, None, Readiness(False)),
    ],
)
def test_readiness_is_read_from_any_answer(status: int, body: Any, expected: Readiness) -> None:
    assert Readiness.of(status, body) == expected


def test_a_process_knows_when_it_was_started() -> None:
    before = time.monotonic()
    code = "import time; time.sleep(0.3); import app.demo.run as run; print(run.started(), run._IMPORTED)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    began, imported = map(float, done.stdout.split())
    # The kernel counts in hundredths of a second.
    assert before - 0.02 <= began <= imported
    if sys.platform == "linux":
        assert began + 0.28 <= imported
    assert started() <= before


def test_the_first_to_end_ends_the_others_and_its_error_is_raised() -> None:
    ended = []

    async def other() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("other")

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("broken")

    async def ends() -> None:
        await asyncio.sleep(0)

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(first_of(other(), fails()))
    asyncio.run(first_of(ends(), other()))
    assert ended == ["other", "other"]
