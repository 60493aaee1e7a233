"""A soak of a few short minutes, and a stretch that goes on from it; and that what is wrong is found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.oracles.service import BoardModel
from tests.soak.checks import compare
from tests.soak.record import Minute, page, percentiles
from tests.soak.writers import BoardWriter, Checked, follow_board
from tests.support.patience import PATIENCE
from tests.system.killing import Write

SHORT = ("--minute", "4", "--end-every", "2", "--seed", "5")


def soak(folder: Path, minutes: int) -> str:
    """A stretch; what it prints."""
    command = [sys.executable, "-m", "tests.soak", "--hours", str(minutes / 60), *SHORT]
    paths = ["--folder", str(folder), "--out", str(folder / "page.md")]
    ran = subprocess.run([*command, *paths], capture_output=True, text=True, timeout=2 * PATIENCE, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.timeout(900)
def test_two_stretches_find_no_difference(tmp_path: Path) -> None:
    assert "kill" in soak(tmp_path, 4)
    soak(tmp_path, 2)
    minutes = [Minute(**json.loads(line)) for line in (tmp_path / "minutes.jsonl").read_text().splitlines()]
    assert [(one.stretch, one.minute) for one in minutes] == [(1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (2, 1)]
    assert all(one.checked > 0 for one in minutes if one.minute % 2)
    assert sum(one.events for one in minutes) > 0
    written = (tmp_path / "page.md").read_text()
    assert "| minutes | 6 in 2 stretches |" in written and "| differences | 0 |" in written


def test_a_write_that_is_lost_or_doubled_is_a_difference() -> None:
    model, writer = BoardModel("x", "y", "desc", [1, 5]), BoardWriter(0)
    one = Checked("/v1/boards/b", {}, [writer], model, lambda write: follow_board(model, write), {})
    event = {"op": "upsert", "id": "a", "values": {"x": 1, "y": 2}}
    write = Write("k", "POST", "/events", {"events": [event]}, answer={"seq": 1, "applied": 1})
    one.follow(write)
    thing = {"id": "a", "values": {"x": 1, "y": 2}, "created": 0, "payload": None}
    state = {"shown": {"seq": 1}, "things": [thing], "subscriptions": [], "lists": {}}
    compare(one, state, Random(1))
    for wrong in (
        {**state, "shown": {"seq": 2}},
        {**state, "things": []},
        {**state, "things": [{**thing, "values": {"x": 1, "y": 3}}]},
        {**state, "subscriptions": [{"id": "s"}]},
    ):
        with pytest.raises(AssertionError):
            compare(one, wrong, Random(1))
    with pytest.raises(AssertionError, match="twice"):
        one.follow(write)


def test_the_page_names_differences_and_growth() -> None:
    def minute(number: int, resident: int, **other: object) -> Minute:
        plain = Minute(
            1, number, 60.0 * number, resident << 20, 30, 1 << 20, 10, 5, 3, (1, 2), (1, 2), (1, 2), "kill", []
        )
        return plain._replace(**other)  # type: ignore[arg-type]

    written = page([minute(0, 100), minute(5, 110), minute(9, 120, differences=["a list"])], "make soak HOURS=1")
    assert "| 110, 120 after 3 minutes |" in written and "- a list" in written and "| kill | 3 |" in written
    assert percentiles([]) == (0.0, 0.0) and percentiles([3.0, 1.0, 2.0]) == (2.0, 3.0)
