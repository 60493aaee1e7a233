"""A feed on a real Spark.

Lists at the ends of batches are those of the engine in one process, by all mechanisms, and whether or not the job was
killed on the way.
"""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from app.storage.log import Log
from app.storage.rows import LogEntry
from formats.feed_commands import Logged, encode
from formats.feeds import write_state
from formats.folder import Folder
from formats.parts import write_image
from indexes.core.commands import Create
from indexes.feeds import commands as fc
from indexes.feeds.config import FeedConfig, Keywords, Shown, Subscriptions, bag_of_shown
from indexes.feeds.feed import FeedIndex
from indexes.feeds.packing import pack_layout
from indexes.feeds.state import layout_of
from spark_jobs.common.command import Order
from spark_jobs.common.progress import Progress
from spark_jobs.common.session import Options, session
from spark_jobs.feeds.front import Posts, Subscribe
from spark_jobs.feeds.routers import MECHANISMS
from spark_jobs.feeds.sinks import Files
from spark_jobs.feeds.steps import FeedSteps
from spark_jobs.rebuild.feeds import build
from tests.spark.boards import contents
from tests.spark.feed_sessions import Alone
from tests.spark.process import JobProcess
from tests.spark.runtime import need_java

CONFIG = FeedConfig((0.0, 0.0, 4.0, 3.0), posts=150)
PATIENCE = 240.0

Lists = dict[str, list[tuple[str, float]]]


class Plain:
    """Posts and subscriptions, and the engine of one process to which the same happens."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.feed = FeedIndex(CONFIG)
        self.ids: list[str] = []
        self.slots: dict[str, int] = {}

    def documents(self, n: int, most: int) -> tuple[list[Shown], np.ndarray[Any, Any]]:
        """Keywords and places of so many."""
        shown: list[Shown] = []
        for _ in range(n):
            words = [f"w{i}" for i in self.rng.zipf(1.4, int(self.rng.integers(1, most + 1))).clip(1, 80)]
            shown.append(words if self.rng.random() < 0.7 else {word: float(i + 1) for i, word in enumerate(words)})
        return shown, self.rng.random((n, 2)) * [4, 3]

    def post(self, n: int) -> tuple[list[str], list[Shown], np.ndarray[Any, Any]]:
        shown, points = self.documents(n, 7)
        ids = [f"p{len(self.ids) + i}" for i in range(n)]
        self.ids += ids
        self.feed.post(self.feed.documents([bag_of_shown(one) for one in shown]), points)
        return ids, shown, points

    def subscribe(self, n: int) -> tuple[list[str], list[Shown], np.ndarray[Any, Any], Any, Any]:
        shown, points = self.documents(n, 4)
        ids = [f"s{len(self.slots) + i}" for i in range(n)]
        k, alpha = self.rng.integers(1, 6, n), self.rng.choice([0.0, 0.3, 0.7, 1.0], n)
        slots = self.feed.subscribe(self.feed.documents([bag_of_shown(one) for one in shown]), points, k, alpha)
        self.slots.update(zip(ids, slots.tolist(), strict=True))
        return ids, shown, points, k, alpha

    def lists(self) -> Lists:
        found = {}
        for id, slot in self.slots.items():
            posts, scores = self.feed.list(slot)
            found[id] = list(zip((self.ids[number] for number in posts.tolist()), scores.tolist(), strict=True))
        return found


def after_each(output: Path) -> dict[int, Lists]:
    """All lists after each batch, of those files that tell them."""
    now: Lists = {}
    found = {}
    for path in sorted(output.glob("batch-*.parquet")):
        for row in pq.read_table(path).to_pylist():
            now[row["subscription"]] = [(one["id"], one["score"]) for one in row["list"]]
        found[int(path.stem.partition("-")[2])] = dict(now)
    return found


def test_all_mechanisms_have_the_lists_of_one_process(tmp_path: Path) -> None:
    need_java()
    plain = Plain(1)
    batches: list[list[Posts | Subscribe]] = []
    expected = []
    for number, n in enumerate((100, 110)):
        some: list[Posts | Subscribe] = []
        ids, shown, points = plain.post(n)
        some.append(Posts(ids, [bag_of_shown(one) for one in shown], points, np.zeros(n, np.int64)))
        ids, shown, points, k, alpha = plain.subscribe(120 if number == 0 else 3)
        some.append(Subscribe(ids, [bag_of_shown(one) for one in shown], points, k, alpha))
        batches.append(some)
        expected.append(plain.lists())
    assert plain.feed.epoch.posts == 128 and len(plain.ids) > 150
    with session("feeds", Options("local[2]"), {"spark.sql.adaptive.enabled": "false"}) as running:
        for mechanism in MECHANISMS:
            output = tmp_path / mechanism / "lists"
            steps = FeedSteps.open(Folder.at(tmp_path / mechanism), CONFIG, mechanism, 3)
            sink = Files(Folder.at(output))
            for number, some in enumerate(batches):
                steps.take(running, number, some, number, 0, sink)
            assert list(after_each(output).values()) == expected, mechanism
            counts = steps.front.counts
            assert counts.posts == len(plain.ids) and sum(counts.subscriptions) == len(plain.slots)
            assert (counts.hits > 0) == steps.front.router.apart


def test_words_are_counted_to_the_bytes_of_the_service(tmp_path: Path) -> None:
    need_java()
    rng, lsn, resource = np.random.default_rng(3), 7, "feeds/city"
    alone = Alone(CONFIG, 200)
    for _ in range(3):
        alone.post(int(rng.integers(60, 90)))
    state = alone.state()
    draft = (Folder.at(tmp_path) / "snapshots" / str(lsn)).draft()
    about = write_state(draft, "city", state)
    draft.publish({"kind": "snapshot", "lsn": lsn, "epoch": "e", "resources": {resource: about}})
    fields, code = build(Order(str(tmp_path), lsn, resource, Options("local[2]")), Progress(io.StringIO()))
    assert code == 0 and fields["rows"] == 200 + 150 and all(cost is not None for cost in fields["costs"].values())
    write_image(Folder.at(tmp_path / "own"), resource, lsn, pack_layout(layout_of(state)))
    assert contents(tmp_path / "images" / str(lsn) / resource) == contents(tmp_path / "own")
    assert [path.name for path in (tmp_path / "images" / str(lsn) / "feeds").iterdir()] == ["city"]


def job_of(data: Path, work: Path) -> JobProcess:
    """The job over the log of a data directory."""
    where = ("--checkpoint", work / "checkpoint", "--output", work / "lists", "--rows", 2)
    how = ("--mechanism", "prefix", "--partitions", 2)
    return JobProcess("spark_jobs.feeds.stream", "--storage", data, "--resource", "feeds/city", *where, *how)


def test_a_job_that_was_killed_goes_on_with_the_same_lists(tmp_path: Path) -> None:
    need_java()
    plain, data, work = Plain(2), tmp_path / "data", tmp_path / "work"
    data.mkdir()
    expected: list[Lists] = [{}]
    with_log = Log.open(f"sqlite:///{data / 'rankcast.db'}")

    def write(command: Logged, count: int) -> None:
        parts = list(encode(command, count))
        with_log.append([LogEntry("feeds/city", 0, 0, part.name, part.payload) for part in parts])

    write(Create(CONFIG), 0)
    for number in range(8):
        if number % 4 == 0:
            ids, shown, points, k, alpha = plain.subscribe(60 if number == 0 else 5)
            asked = Subscriptions(Keywords.of(shown), points, k, alpha)
            write(fc.AddSubscriptions(pa.array(ids, pa.string()), asked), len(ids))
        else:
            ids, shown, points = plain.post(40)
            write(fc.Post(ids, Keywords.of(shown), points), len(ids))
        if number % 2:
            expected.append(plain.lists())
    with_log.close()

    job = job_of(data, work)
    try:
        give_up = time.monotonic() + PATIENCE
        while not (work / "lists" / "batch-0000000001.parquet").exists():
            assert job.process.poll() is None, job.process.communicate()[1][-4000:]
            assert time.monotonic() < give_up
            time.sleep(0.01)
    finally:
        job.kill()
    done = len(list((work / "lists").glob("batch-*[0-9].parquet")))
    assert done < len(expected)
    last = job_of(data, work).end()
    assert last["posts"] == len(plain.ids) and last["lsn"] == 9
    found = after_each(work / "lists")
    assert [found[number] for number in sorted(found)] == expected
    names = [path.name for folder in ("states", "fronts") for path in (work / "checkpoint" / folder).iterdir()]
    assert not [name for name in names if name.endswith(".new")]
