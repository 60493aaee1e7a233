"""Run a feed on Spark Structured Streaming: the exact list of every subscription at the end of every batch.

Reads   the log of a service: --storage, its data directory, and --log, the URL of its database if that is elsewhere;
        the feed is followed from its creation, or from the newest snapshot if the log no longer has that. Or --posts: a
        folder of Parquet or NDJSON files, read in order of name: x, y, keywords (and weights) or text, and optionally
        id and t, a time in milliseconds that never decreases; then --config is the configuration of the feed, as in PUT
        /v1/feeds/NAME, and --subscriptions a file of id, x, y, keywords or text, k and alpha.
Writes  --checkpoint: what the next run continues. A run that was killed at any moment and is started again writes the
        same lists as one that was not.
        --output: a folder with batch-N.parquet, of the lists that may have changed in a batch: batch, subscription, lsn
        and list. --board: a board of a service, which gets these lists and streams their changes. --send: a URL to
        which they are posted in JSON, under an Idempotency-Key. Any of these, or none.
Ends    with {"batches", "lists", "posts", "seconds", "sent": {...}, "loads": {...}}: totals of what was sent between
        partitions, and by partition what each has and has read; with --follow, at a signal.

--mechanism is how posts and subscriptions meet: "hashing" (a subscription is in one partition, a post in all),
"location" (by place; recipients of a post are looked for where it may matter), "keyword" (copies of a subscription are
in the partitions of its words, and posts are routed to theirs) or "prefix" (as keyword, only for words with which a
post could matter). Lists are the same under each, to the bit: those of the service at that row of its log.

Every partition with buffers has the window. The driver numbers words and posts and routes them: it has all
subscriptions, without their buffers. Every worker needs access to the checkpoint. Two runs must not share a checkpoint
or an output at the same time.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from typing import Any

import pyarrow.json as pj
import pyarrow.parquet as pq

from formats.feeds import epoch_at, posts_at, read_state, subscriptions_at
from formats.folder import Folder
from indexes.feeds.config import FeedConfig
from indexes.feeds.state import FeedState
from spark_jobs.common.batches import BatchJob
from spark_jobs.common.command import Failed, make_parser, name_of, run
from spark_jobs.common.inputs import check
from spark_jobs.common.progress import Progress
from spark_jobs.common.session import Running
from spark_jobs.feeds.board import Board
from spark_jobs.feeds.commands import Left, config_of_wire, created_by
from spark_jobs.feeds.front import Gone, Operation, Row
from spark_jobs.feeds.log import LogError, LogReader, url_of
from spark_jobs.feeds.operations import Unfit, of_state, operations_of, subscriptions_of
from spark_jobs.feeds.routers import MECHANISMS
from spark_jobs.feeds.sending import Sender, Undelivered
from spark_jobs.feeds.sinks import BEFORE, Files, Http, Sink
from spark_jobs.feeds.steps import FeedSteps, Unlike

_PROGRAM = "python -m spark_jobs.feeds.stream"


class Sinks:
    """All sinks of a run."""

    def __init__(self, sinks: list[Sink]) -> None:
        self._sinks = sinks
        self.rows = 0

    def write(self, batch: int, lsn: int, rows: Sequence[Row], gone: Sequence[Gone]) -> None:
        """Write to each sink."""
        for sink in self._sinks:
            sink.write(batch, lsn, rows, gone)
        self.rows += len(rows)


class Stream(BatchJob):
    """A run: its input, and the execution of batches."""

    def __init__(self, given: argparse.Namespace, progress: Progress) -> None:
        """Raises `Failed` for inconsistent options."""
        self.given, self.progress = given, progress
        self.resource = f"feeds/{name_of(given.resource, 'feeds')}"
        if (given.storage is None and given.log is None) == (given.posts is None):
            raise Failed("either --storage (or --log) or --posts is given")
        if given.posts is not None and given.config is None:
            raise Failed("--posts needs --config, which says what the feed is")
        if given.partitions < 1 or given.rows < 1:
            raise Failed("--partitions and --rows are at least 1")
        try:
            self.checkpoint = Folder.at(given.checkpoint)
            sinks: list[Sink] = [Files(Folder.at(given.output))] if given.output else []
            sender = Sender(os.environ.get("RANKCAST_KEY"))
            sinks += [Board(given.board, sender)] if given.board else []
            if given.posts is not None:
                Folder.at(given.posts)
        except ValueError as error:
            raise Failed(str(error)) from error
        sinks += [Http(given.send, sender)] if given.send else []
        self.sinks = Sinks(sinks)
        self.log = None if given.posts is not None else LogReader(url_of(given.storage or ".", given.log))
        self.batches = 0
        self.state: FeedState | None = None
        self.after = 0
        self.steps: FeedSteps

    def open(self) -> dict[str, str]:
        """Open the checkpoint; returns the options of the source."""
        given, config = self.given, None
        begun = bool((self.checkpoint / "fronts").names())
        if self.log is None:
            config = config_of_wire(json.loads(given.config))
            options = {"posts": given.posts}
        else:
            if not begun:
                config, self.after = self._found()
            options = {"log": self.log.url, "resource": self.resource, "after": str(self.after)}
        self.steps = FeedSteps.open(
            self.checkpoint, config, given.mechanism, given.partitions, split=not given.whole_words
        )
        return {**options, "rows": str(given.rows)}

    def _found(self) -> tuple[FeedConfig, int]:
        """The configuration of the feed in the log, and the row after which it is followed: that of its creation, or
        of the newest snapshot if the log no longer has that. Raises `Failed`."""
        assert self.log is not None
        made = self.log.created(self.resource)
        if made is not None and made.lsn > self.log.pruned():
            return created_by(made.command, made.payload), made.lsn
        snapshots = Folder.at(self.given.storage) / "snapshots" if self.given.storage else None
        names = [name for name in snapshots.names() if name.isdigit()] if snapshots else []
        for lsn in sorted(map(int, names), reverse=True):
            folder = Folder.at(self.given.storage) / "snapshots" / str(lsn)
            if folder.whole and self.resource in folder.manifest()["resources"]:
                name = self.resource.partition("/")[2]
                files = [posts_at(name), epoch_at(name), subscriptions_at(name)]
                about = check(folder, "snapshot", lsn, files)["resources"][self.resource]
                self.state = read_state(folder, name, about)
                return self.state.config, lsn
        raise Failed(f"the log has no {self.resource}, or no longer its making, and no snapshot has it")

    def begin(self, running: Running) -> None:
        """Execute the initial batch: a snapshot, or the subscriptions of a file."""
        if self.steps.batch >= BEFORE:
            return
        some: list[Operation] = []
        now = 0
        if self.state is not None:
            some, now = of_state(self.state), self.state.now
        if self.given.subscriptions is not None:
            some = [read_subscriptions(self.given.subscriptions, self.steps.front.config)]
        self.steps.take(running, BEFORE, some, self.after, now, self.sinks)

    def take(self, running: Running, frame: Any, batch: int) -> None:
        """Execute a batch of Spark."""
        steps = self.steps
        if batch <= steps.batch:
            return
        rows = sorted((tuple(row) for row in frame.collect()), key=lambda row: row[0])
        operations, now = operations_of(rows, steps.front.config, steps.now)
        steps.take(running, batch, operations, rows[-1][0] if rows else steps.lsn, now, self.sinks)
        self.batches += 1
        self.progress.step(0.5, f"batch {batch}: {steps.front.counts.posts} posts")

    def follow(self, running: Running, options: dict[str, str]) -> None:
        """Execute all available batches, or continue until stopped."""
        from spark_jobs.feeds.source import FeedSource

        self.execute(running, FeedSource, options, self.checkpoint)


def stream(given: argparse.Namespace, progress: Progress) -> tuple[dict[str, Any], int]:
    """Run the job; returns its last line and exit code."""
    began = time.monotonic()
    progress.step(0.0, "opening the checkpoint")
    job = Stream(given, progress)
    try:
        options = job.open()
        progress.step(0.02, "starting Spark")
        with job.session(LogError, Left, LogError, Undelivered, Unfit) as running:
            job.begin(running)
            progress.step(0.1, "following the feed")
            job.follow(running, options)
    except (Left, LogError, Undelivered, Unfit, Unlike, json.JSONDecodeError) as error:
        raise Failed(str(error)) from error
    return {**report(job), "seconds": round(time.monotonic() - began, 1)}, 0


def report(job: Stream) -> dict[str, Any]:
    """The last line of a run."""
    counts = vars(job.steps.front.counts)
    loads = {name: counts[name] for name in ("subscriptions", "postings", "read", "scored")}
    sent = {name: value for name, value in counts.items() if name not in loads and name not in ("posts", "rounds")}
    about = {"batches": job.batches, "lists": job.sinks.rows, "posts": counts["posts"], "rounds": counts["rounds"]}
    front = job.steps.front
    return {
        **about, "lsn": job.steps.lsn, "mechanism": front.mechanism, "partitions": front.partitions, "sent": sent,
        "loads": loads,
    }  # fmt: skip


def read_subscriptions(place: str, config: FeedConfig) -> Operation:
    """The subscriptions of a file, Parquet or NDJSON. Raises `Failed` and `Unfit`."""
    folder, _, name = place.rpartition("/")
    try:
        with Folder.at(folder or ".").open(name) as file:
            table = pq.read_table(file) if name.endswith(".parquet") else pj.read_json(file)
    except OSError as error:
        raise Failed(f"{place} cannot be read: {str(error).splitlines()[0]}") from error
    return subscriptions_of(table, config)


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    made = make_parser(
        _PROGRAM, __doc__ or "",
        f"""\
  {_PROGRAM} --storage data --resource feeds/city --checkpoint work --output lists --mechanism location
  {_PROGRAM} --posts posts --config '{{"window": 20000, "bounds": [0, 0, 1, 1]}}' --subscriptions who.parquet \\
      --resource feeds/city --checkpoint work --output lists""",
    )  # fmt: skip
    made.add_argument("--resource", required=True, help="the feed, as feeds/NAME")
    made.add_argument("--storage", metavar="FOLDER", help="the data directory of the service")
    made.add_argument(
        "--log", metavar="URL", help="its database, if that is elsewhere: postgresql://... or sqlite://..."
    )
    made.add_argument("--posts", metavar="PLACE", help="a folder of posts, in place of a log")
    made.add_argument("--config", metavar="JSON", help="of a folder's posts: what the feed is")
    made.add_argument("--subscriptions", metavar="PLACE", help="of a folder's posts: a file of subscriptions")
    made.add_argument("--checkpoint", required=True, metavar="PLACE", help="what the next run continues")
    made.add_argument("--output", metavar="PLACE", help="a folder for lists")
    made.add_argument(
        "--board", metavar="URL",
        help="the board that lists are on, as http://127.0.0.1:8000/v1/boards/NAME; RANKCAST_KEY is its API key",
    )  # fmt: skip
    made.add_argument("--send", metavar="URL", help="where lists are sent; RANKCAST_KEY goes with them")
    made.add_argument("--mechanism", choices=MECHANISMS, default="location", help="(default: %(default)s)")
    made.add_argument(
        "--partitions", type=int, default=2, metavar="N", help="number of partitions (default: %(default)s)"
    )
    made.add_argument(
        "--rows", type=int, default=1_000, metavar="N",
        help="commands of a log, or posts of a folder, in a batch at most (default: %(default)s)",
    )  # fmt: skip
    made.add_argument(
        "--whole-words", action="store_true", help="cut no word's postings into shards, under keyword and prefix"
    )
    made.add_argument("--follow", action="store_true", help="continue with new rows, until stopped")
    return made


if __name__ == "__main__":
    run(parser(), stream)
