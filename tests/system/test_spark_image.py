"""The rebuild on a real Spark: its image has the bytes of the service's own, also after a run that was killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from formats.boards import read_image, write_image
from formats.folder import Folder
from indexes.boards.state import pack_board
from tests.spark.boards import LSN, contents, make, packed_here, snapshot
from tests.spark.runtime import need_java
from tests.support.patience import PATIENCE


class Job:
    """`python -m spark_jobs.rebuild.boards` in a process group of its own."""

    def __init__(self, root: Path, name: str, *options: str) -> None:
        self.log = (root / "log").open("a+b")
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "spark_jobs.rebuild.boards",
            "--storage",
            root,
            "--lsn",
            str(LSN),
        ]
        self.process = subprocess.Popen(
            [*command, "--resource", f"boards/{name}", "--master", "local[2]", "--temp", root, *options],
            stdout=subprocess.PIPE, stderr=self.log, text=True, start_new_session=True,
        )  # fmt: skip

    def lines(self) -> Iterator[dict[str, Any]]:
        assert self.process.stdout is not None
        return map(json.loads, self.process.stdout)

    def wait_for(self, step: str) -> None:
        """Returns once the job is at a step whose name begins so."""
        seen = list(self.lines_until(step))
        assert seen[-1].get("step", "").startswith(step), (seen, self.said())

    def lines_until(self, step: str) -> Iterator[dict[str, Any]]:
        for line in self.lines():
            yield line
            if line.get("step", "").startswith(step):
                return

    def end(self) -> tuple[int, dict[str, Any]]:
        """The exit code and the last line, after lines of progress that never go back."""
        *steps, last = self.lines()
        fractions = [line["progress"] for line in steps]
        assert fractions == sorted(fractions)
        return self.process.wait(PATIENCE), last

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def said(self) -> str:
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-4000:]


def image(root: Path, name: str) -> Path:
    return root / "images" / str(LSN) / "boards" / name


def build(root: Path, name: str, *options: str) -> dict[str, Any]:
    job = Job(root, name, *options)
    code, last = job.end()
    assert code == 0, (last, job.said())
    return last


def test_a_killed_rebuild_counts_for_nothing_and_the_next_one_makes_the_same_bytes(tmp_path: Path) -> None:
    need_java()
    state = make(1, 3000, {1: 4000, 2: 60, 3: 0, 5: 900, 8: 1})
    snapshot(tmp_path, {"b": state, "b.c": make(2, 5, {1: 5})})
    packed_here(tmp_path, "b", tmp_path / "wanted")
    for name in ("b", "b.c"):
        write_image(Folder.at(image(tmp_path, name)), f"boards/{name}", LSN, pack_board(make(2, 5, {1: 5})))
    other = contents(image(tmp_path, "b.c"))
    mapped = read_image(Folder.at(image(tmp_path, "b")))
    before = mapped.forest.slots.l.copy()

    for _ in range(5):
        killed = Job(tmp_path, "b", "--cell", "600")
        killed.wait_for("halving the subscriptions, level 2")
        killed.kill()
        if not Folder.at(image(tmp_path, "b")).whole:
            break
        # A slow machine let it end before it was killed.
        shutil.rmtree(image(tmp_path, "b"))
    assert not Folder.at(image(tmp_path, "b")).whole
    assert [path.name for path in image(tmp_path, "").iterdir() if path.name.startswith("b~")]

    assert build(tmp_path, "b", "--cell", "600")["rows"] == 3000 + 4961
    assert contents(image(tmp_path, "b")) == contents(tmp_path / "wanted")
    assert sorted(path.name for path in image(tmp_path, "").iterdir()) == ["b", "b.c"]
    assert contents(image(tmp_path, "b.c")) == other
    np.testing.assert_array_equal(mapped.forest.slots.l, before)
    assert not list(tmp_path.glob("rankcast-*"))


def test_a_board_without_objects_and_subscriptions(tmp_path: Path) -> None:
    need_java()
    snapshot(tmp_path, {"b": make(4, 0, {2: 0, 4: 0}, "asc")})
    packed_here(tmp_path, "b", tmp_path / "wanted")
    assert build(tmp_path, "b")["rows"] == 0
    assert contents(image(tmp_path, "b")) == contents(tmp_path / "wanted")


@pytest.mark.parametrize("name", ["objects", "subscriptions"])
def test_a_damaged_file_is_refused_by_name_and_the_image_stays(tmp_path: Path, name: str) -> None:
    snapshot(tmp_path, {"b": make(5, 10, {2: 30})})
    packed_here(tmp_path, "b", image(tmp_path, "b"))
    there = contents(image(tmp_path, "b"))
    path = tmp_path / f"snapshots/{LSN}/boards/b/{name}.parquet"
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    code, last = Job(tmp_path, "b").end()
    assert code == 1
    assert last == {"error": f"{path.parents[2]}/boards/b/{name}.parquet is damaged: its SHA-256 differs"}
    assert contents(image(tmp_path, "b")) == there


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--lsn", "13"], "there is no snapshot in"),
        (["--resource", "boards/c"], "has no boards/c/objects.parquet"),
        (["--cell", "0"], "--cell is 0"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_sentence(tmp_path: Path, options: list[str], told: str) -> None:
    snapshot(tmp_path, {"b": make(5, 10, {2: 30})})
    code, last = Job(tmp_path, "b", *options).end()
    assert code == 1
    assert told in last["error"] and "\n" not in last["error"]
