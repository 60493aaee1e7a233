"""Where a feed on Spark reads from, what it keeps and where its lists go, without Spark."""

from __future__ import annotations

import io
import json
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.storage.log import Log
from app.storage.rows import LogEntry
from app.write_path.replay import undoing
from formats.feed_commands import encode
from formats.feeds import write_state
from formats.folder import Damaged, Folder
from indexes.core.commands import Create
from indexes.feeds.config import FeedConfig
from spark_jobs.common import command
from spark_jobs.common.progress import Progress
from spark_jobs.feeds.commands import Left, config_of_wire
from spark_jobs.feeds.front import Posts, Row, Tick
from spark_jobs.feeds.log import LogError, LogReader
from spark_jobs.feeds.operations import Unfit, operations_of, posts_of, subscriptions_of
from spark_jobs.feeds.pack import pack, read, unpack, write
from spark_jobs.feeds.routers import hashed
from spark_jobs.feeds.sending import Sender, Undelivered
from spark_jobs.feeds.sinks import Files, Http
from spark_jobs.feeds.source import FolderStream, LogStream, Span
from spark_jobs.feeds.stream import Stream, parser, stream
from tests.spark.feed_sessions import Alone
from tests.support.databases import KINDS, fresh

CITY = {"window": 100, "bounds": [0, 0, 1, 1]}


class Kept(NamedTuple):
    """An open log, and the URL of its database."""

    log: Log
    url: str


@pytest.fixture(params=KINDS)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    with fresh(request.param, tmp_path) as database:
        log = Log.open(database.url)
        try:
            yield Kept(log, database.url)
        finally:
            log.close()


def written(log: Log, *rows: tuple[str, str]) -> None:
    log.append([LogEntry(resource, 0, 0, command, command.encode()) for resource, command in rows])


def test_a_batch_of_the_log_ends_with_a_whole_command(kept: Kept) -> None:
    log = kept.log
    written(log, ("feeds/a", "create"), ("feeds/b", "create"), ("feeds/a", "post"))
    written(log, ("feeds/a", "add.arrow+"), ("feeds/a", "add.arrow+"), ("feeds/a", "add.arrow"), ("feeds/b", "post"))
    stream = LogStream({"log": kept.url, "resource": "feeds/a", "after": "1", "rows": "1"})
    offsets = [stream.initialOffset()]
    while (following := stream.next(offsets[-1])) != offsets[-1]:
        offsets.append(following)
    assert [offset["lsn"] for offset in offsets] == [1, 3, 6, 7]
    spans = [stream.partitions(a, b) for a, b in pairwise(offsets)]
    rows = [[row[1] for row in stream.read(span)] for (span,) in spans]
    assert rows == [["post"], ["add.arrow+", "add.arrow+", "add.arrow"], []]
    stream.prepareForTriggerAvailableNow()
    written(log, ("feeds/a", "post"))
    assert stream.next({"lsn": 6}) == {"lsn": 7} and stream.partitions({"lsn": 7}, {"lsn": 7}) == []


def test_a_log_that_was_cut_is_said_to_be(kept: Kept, tmp_path: Path) -> None:
    log = kept.log
    written(log, ("feeds/a", "create"), ("feeds/a", "post"), ("feeds/a", "post"))
    reader = LogReader(kept.url)
    made = reader.created("feeds/a")
    assert made is not None and made.lsn == 1 and reader.created("feeds/b") is None
    while log.prune(2):
        pass
    with pytest.raises(LogError, match="the log begins after row 2"):
        list(reader.rows("feeds/a", 1, 3))
    assert [row.lsn for row in reader.rows("feeds/a", 2, 3)] == [3]
    with pytest.raises(LogError, match="cannot be read"):
        LogReader(f"sqlite:///{tmp_path / 'none.db'}").end()
    with pytest.raises(LogError, match="sqlite:// or postgresql://"):
        LogReader("mysql://x").end()


def test_rows_that_are_undone_are_passed_over(kept: Kept) -> None:
    log = kept.log
    written(log, ("feeds/a", "create"), ("feeds/a", "post"), ("feeds/b", "post"), ("feeds/a", "post"))
    log.append([undoing("feeds/a", 4, 3)])
    written(log, ("feeds/a", "post"), ("feeds/a", "add.arrow+"), ("feeds/a", "add.arrow"))
    log.append([undoing("feeds/a", 7, 5)])
    written(log, ("feeds/a", "tick"))
    reader = LogReader(kept.url)
    assert [(row.lsn, row.command) for row in reader.rows("feeds/a", 0, 10)] == [
        (1, "create"),
        (2, "post"),
        (6, "post"),
        (10, "tick"),
    ]
    # What undoes them may lie behind the rows that are asked for.
    assert [row.lsn for row in reader.rows("feeds/a", 2, 4)] == []
    assert [row.lsn for row in reader.rows("feeds/a", 5, 8)] == [6]
    with pytest.raises(LogError, match="rows 4 to 4 were followed, and row 5 undoes them: delete the checkpoint"):
        list(reader.rows("feeds/a", 4, 10))
    assert [row.lsn for row in reader.rows("feeds/b", 0, 10)] == [3]


def test_a_feed_that_failed_and_was_deleted_ends_there(kept: Kept) -> None:
    log = kept.log
    log.append([LogEntry("feeds/a", 0, 0, "create", b"first")])
    log.append([LogEntry("feeds/a", 1, 1, "drop", b"\x80"), LogEntry("feeds/a", 2, 2, "create", b"second")])
    log.append([undoing("feeds/a", 3, 2)])
    reader = LogReader(kept.url)
    made = reader.created("feeds/a")
    assert made is not None and (made.lsn, made.payload) == (1, b"first")
    log.append([undoing("feeds/a", 0, 3, dropped=True)])
    rows = [(row.lsn, row.command, row.payload) for row in reader.rows("feeds/a", 1, 5)]
    assert [(lsn, command) for lsn, command, _ in rows] == [(5, "drop")]
    with pytest.raises(Left, match="deleted"):
        operations_of(rows, config_of_wire(CITY), 0)


def test_a_folder_is_read_in_pieces_over_its_files(tmp_path: Path) -> None:
    for name, n in (("a.parquet", 5), ("b.parquet", 3)):
        pq.write_table(pa.table({"x": np.arange(n) / 10, "y": np.zeros(n), "keywords": [["a"]] * n}), tmp_path / name)
    (tmp_path / "c.ndjson").write_text('{"x": 1, "y": 2, "text": "The ramen"}\n')
    stream = FolderStream({"posts": str(tmp_path), "rows": "4"})
    offsets = [stream.initialOffset()]
    while (following := stream.next(offsets[-1])) != offsets[-1]:
        offsets.append(following)
    assert [(o["file"], o["row"]) for o in offsets] == [("", 0), ("a.parquet", 4), ("b.parquet", 3), ("c.ndjson", 1)]
    config, found, now = config_of_wire(CITY), [], 0
    for begin, end in pairwise(offsets):
        operations, now = operations_of(list(stream.read(Span(begin, end))), config, now)
        found += operations
    assert [len(one.ids) for one in found if isinstance(one, Posts)] == [4, 1, 3, 1]
    assert len({id for one in found if isinstance(one, Posts) for id in one.ids}) == 9
    assert isinstance(found[-1], Posts) and found[-1].bags == [{"ramen": 1.0}]


def test_times_of_posts_never_go_back_and_tick() -> None:
    table = pa.table({"x": [0.0] * 3, "y": [0.0] * 3, "keywords": [["a"]] * 3, "t": [5, 4, 9]})
    config = config_of_wire({**CITY, "window": {"seconds": 2}})
    assert config == FeedConfig((0, 0, 1, 1), span=2_000)
    assert posts_of(table, config, 3, "p").times.tolist() == [5, 5, 9]
    assert posts_of(table, config, 7, "p").times.tolist() == [7, 7, 9]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    operations, now = operations_of([(1, "posts", sink.getvalue().to_pybytes())], config, 0)
    assert now == 9 and operations[1] == Tick(9)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x": None}, "no column x"),
        ({"x": [float("nan")]}, "x and y are numbers"),
        ({"keywords": [[]]}, "no keywords"),
        ({"keywords": [["a" * 200]]}, "of 1 to 128 characters"),
        ({"weights": [[-1.0]]}, "a number above 0"),
        ({"alpha": [2.0]}, "alpha from 0 to 1"),
        ({"k": [0]}, "k is at least 1"),
        ({"keywords": None}, "no column keywords"),
    ],
)
def test_subscriptions_that_cannot_be_are_refused(changed: dict[str, Any], message: str) -> None:
    fields = {"id": ["s"], "x": [0.5], "y": [0.5], "keywords": [["a"]], **changed}
    table = pa.table({name: values for name, values in fields.items() if values is not None})
    with pytest.raises(Unfit, match=message):
        subscriptions_of(table, config_of_wire(CITY))


@pytest.mark.parametrize("changed", [{"window": 0}, {"bounds": [1, 0, 0, 1]}, {"weighting": "x"}, {"bounds": None}])
def test_feeds_that_cannot_be_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(Left, match="--config"):
        config_of_wire({**CITY, **changed})


def test_what_was_packed_comes_out_and_can_be_changed_apart_from_its_file(tmp_path: Path) -> None:
    about, arrays = {"a": [1, None]}, {"x": np.arange(5), "none": np.empty(0), "y": np.array([[1.5, 2], [3, 4]])}
    folder = Folder.at(tmp_path / "states")
    size = write(folder, "one", about, arrays)
    assert size == len(pack(about, arrays)) == (tmp_path / "states" / "one").stat().st_size
    for _ in range(2):
        found = read(folder, "one")
        assert found.about == about and all(np.array_equal(found.arrays[name], arrays[name]) for name in arrays)
        found.arrays["x"][:] = 7
    whole = pack(about, arrays)
    for broken in (b"x" + whole[1:], whole[:-64], whole[:20]):
        with pytest.raises(Damaged):
            unpack(memoryview(broken))
    with pytest.raises(Damaged, match="missing"):
        read(folder, "two")


def test_a_batch_that_is_written_again_is_there_once(tmp_path: Path) -> None:
    sink = Files(Folder.at(tmp_path / "lists"))
    rows = [Row(0, "b", 3, ["p1", "p2"], [0.5, 0.25]), Row(1, "a", 3, [], [])]
    for _ in range(2):
        sink.write(3, 17, rows, [])
    (path,) = (tmp_path / "lists").iterdir()
    assert path.name == "batch-0000000003.parquet"
    assert pq.read_table(path).to_pylist() == [
        {"batch": 3, "subscription": "a", "lsn": 17, "list": []},
        {
            "batch": 3,
            "subscription": "b",
            "lsn": 17,
            "list": [{"id": "p1", "score": 0.5}, {"id": "p2", "score": 0.25}],
        },
    ]


class Receiver(BaseHTTPRequestHandler):
    """Answers 503 first, and refuses batch 9."""

    requests: list[tuple[str, Any]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.append((self.headers["Idempotency-Key"], body))
        self.send_response(422 if body["batch"] == 9 else 503 if len(self.requests) == 1 else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing."""


def test_lists_are_sent_again_under_the_same_key() -> None:
    Receiver.requests = []
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        sink = Http(f"http://127.0.0.1:{server.server_port}/lists", Sender(wait=0.01))
        sink.write(3, 17, [Row(0, "a", 3, ["p1"], [0.5])], [])
        assert [key for key, _ in Receiver.requests] == ["feed-stream-3-0"] * 2
        assert Receiver.requests[1][1] == {
            "batch": 3,
            "lsn": 17,
            "lists": [{"subscription": "a", "list": [{"id": "p1", "score": 0.5}]}],
        }
        with pytest.raises(Undelivered, match="answers 422"):
            sink.write(9, 18, [Row(0, "a", 3, [], [])], [])
    finally:
        server.shutdown()
        server.server_close()
    with pytest.raises(Undelivered, match="cannot be reached"):
        sink.write(4, 18, [Row(0, "a", 3, [], [])], [])


def test_numbers_are_spread_evenly() -> None:
    count = np.bincount(hashed(np.arange(8_000), 8), minlength=8)
    assert count.min() > 800 and count.max() < 1_200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--storage", "{0}", "--posts", "{0}"], "either --storage (or --log) or --posts"),
        ([], "either --storage (or --log) or --posts"),
        (["--posts", "{0}"], "--posts needs --config"),
        (["--posts", "{0}", "--config", "{{"], "Expecting"),
        (["--posts", "{0}", "--config", "{{}}", "--board", "http://127.0.0.1:8000/"], "is not the URL of a board"),
        (["--posts", "{0}", "--config", '{{"window": 5}}'], "--config has no bounds"),
        (["--storage", "{0}"], "cannot be read"),
        (["--storage", "{0}", "--resource", "maps/x"], "feeds/NAME"),
        (["--storage", "{0}", "--partitions", "0"], "at least 1"),
        (["--storage", "{0}", "--mechanism", "x"], "invalid choice"),
        (["--log", "mysql://x"], "sqlite:// or postgresql://"),
    ],
)
def test_misuse_of_the_stream_fails_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    out, handler = io.StringIO(), signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(command, "own_stdout", lambda: out)
    given = [one.format(tmp_path) for one in arguments]
    try:
        with pytest.raises(SystemExit) as end:
            command.run(parser(), stream, ["--resource", "feeds/a", "--checkpoint", str(tmp_path / "c"), *given])
    finally:
        signal.signal(signal.SIGTERM, handler)
    last = json.loads(out.getvalue().splitlines()[-1])
    assert end.value.code == 1 and message in last["error"] and "\n" not in last["error"]


def test_a_stream_begins_at_the_making_or_at_a_snapshot(kept: Kept, tmp_path: Path) -> None:
    alone = Alone(FeedConfig((0.0, 0.0, 1.0, 1.0), posts=9), 3)
    payload = next(iter(encode(Create(alone.engine.config), 0))).payload
    kept.log.append([LogEntry("feeds/a", 0, 0, "create", payload), LogEntry("feeds/a", 0, 0, "x", b"")])
    options = ["--log", kept.url, "--storage", str(tmp_path), "--resource", "feeds/a", "--checkpoint", "c"]

    def opened() -> Stream:
        job = Stream(parser().parse_args(options), Progress(io.StringIO()))
        job.checkpoint = Folder.at(tmp_path / "c")
        job.open()
        return job

    job = opened()
    assert (job.after, job.state, job.steps.front.config) == (1, None, alone.engine.config)
    while kept.log.prune(1):
        pass
    with pytest.raises(command.Failed, match="no snapshot has it"):
        opened()
    alone.post(4)
    draft = (Folder.at(tmp_path) / "snapshots" / "2").draft()
    about = write_state(draft, "a", alone.state())
    draft.publish({"kind": "snapshot", "lsn": 2, "resources": {"feeds/a": about}})
    job = opened()
    assert job.after == 2 and job.state is not None and len(job.state.posts) == 4
