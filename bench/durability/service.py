"""A service with millions of subscriptions: its start, its memory, and what its users notice of jobs."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench.boards.service import BOARD, K, board_service, register
from bench.boards.workload import make_world
from bench.durability.steady import REQUESTS, Steady
from bench.exchange import milliseconds
from bench.process import OURS, Checkout, Failed, Server, service
from bench.report import Report, count

import pyarrow as pa  # isort: skip

RESOURCE = f"boards/{BOARD}"
OPTIONS = ("--snapshot-every-minutes", "0", "--rebuild-share", "0")

START_WANTED = 10.0
BYTES_WANTED = 150.0


class Size(NamedTuple):
    """How much is run. `tail` events lie in the log after a snapshot; `quiet` seconds are measured before a job."""

    n: int = 10_000
    m: int = 2_000_000
    tail: int = 100_000
    events: int = 1_000
    quiet: float = 15.0
    spark: bool = True


QUICK = Size(m=100_000, tail=5_000, quiet=3.0)


class Memory(NamedTuple):
    """Resident bytes: the process's own, and those of mapped files."""

    own: int
    files: int


class Bench:
    """Starts, memory, jobs under load and the audit, written to a report."""

    def __init__(self, report: Report, size: Size, checkout: Checkout = OURS) -> None:
        self._report = report
        self._size = size
        self._checkout = checkout
        self._world = make_world(size.n, 4 * size.tail)
        self._sent = 0

    def show(self) -> None:
        """Run it all."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            empty = folder / "empty"
            empty.mkdir()
            with service(empty, *OPTIONS) as server:
                time.sleep(1.0)
                nothing = memory_of(server)
            with board_service(self._size, folder, *OPTIONS) as (server, _):
                register(server, self._size.m)
                self.send_tail(server)
            self._starts(folder, nothing)
            self._jobs(folder)

    def send_tail(self, server: Server) -> None:
        """Send the next `tail` events."""
        size = self._size
        some = self._world.events[self._sent : self._sent + size.tail]
        self._sent += size.tail
        for start in range(0, size.tail, 1000):
            part = some[start : start + 1000]
            ids = pa.array([f"o{int(u * size.n)}" for u in part[:, 0]])
            table = pa.table({"op": pa.array(["update"] * len(part)), "id": ids, "y": part[:, 1]})
            server.send_table(f"/v1/boards/{BOARD}/events?messages=none", table)

    def _starts(self, folder: Path, nothing: Memory) -> None:
        size, report = self._size, self._report
        report.heading("Start-up")
        report.text(
            f"n = {size.n:,}, m = {size.m:,}, k = {K}. Seconds from the start of the process to the first 200 of "
            "`/readyz`, with kernels from the cache; the parts are what the service logs. The log after the snapshot "
            f"holds {size.tail:,} events in batches of 1,000; without a snapshot it also holds everything before."
        )
        rows = [self.start(folder, "the log alone")]
        with service(folder, *OPTIONS) as server:
            run_to_end(server, "snapshots")
            self.send_tail(server)
        rows.append(self.start(folder, "a snapshot and the log after it"))
        with service(folder, *OPTIONS) as server:
            run_to_end(server, "rebuilds", {"engine": "local"})
            self.send_tail(server)
        rows.append(self.start(folder, "an image, its snapshot and the log after it"))
        report.table(("from", "seconds", "snapshot", "indexes", "log", "resident MB"), [row[1] for row in rows])
        seconds, _, memory = rows[-1]
        report.verdict(
            f"from an image and a log tail in seconds (at most {START_WANTED:g})",
            f"{seconds:.2f} s",
            seconds <= START_WANTED,
        )
        own, files = ((a - b) / size.m for a, b in zip(memory, nothing, strict=True))
        text = sum(len(f"s{i}") for i in range(0, size.m, 97)) / len(range(0, size.m, 97))
        report.text(
            f"Resident memory after that start, less that of a service without boards "
            f"({sum(nothing) / 1e6:.0f} MB), shared by the subscriptions: {own:.0f} bytes of its own and "
            f"{files:.0f} of mapped image files. Of that the ids take {text + 12:.0f}: {text:.1f} bytes of text in the "
            "mean, an offset and a row number."
        )
        top = own + files - text - 12
        report.verdict(
            f"at most {BYTES_WANTED:g} resident bytes a subscription on top of its id",
            f"{top:.0f}",
            top <= BYTES_WANTED,
        )

    def start(self, folder: Path, what: str) -> tuple[float, tuple[str, ...], Memory]:
        """Start a service once: seconds until it was ready, a row of the table, and its memory."""
        with service(folder, *OPTIONS, checkout=self._checkout) as server:
            seconds = server.ready_seconds
            parts_of = _part_seconds(server.log)
            time.sleep(1.0)
            memory = memory_of(server)
        parts = [parts_of.get(event, 0.0) for event in ("snapshot read", "board taken up", "log replayed")]
        shown = (what, f"{seconds:.2f}", *(f"{part:.2f}" if part else "" for part in parts), count(sum(memory) / 1e6))
        return seconds, shown, memory

    def _jobs(self, folder: Path) -> None:
        size, report = self._size, self._report
        report.heading("Jobs under load")
        report.text(
            f"{size.events:,} events/s in {REQUESTS} requests a second, every twentieth of them a subscription's new "
            "range in place of events. The time of an answer counts from when its request was due. Before: "
            f"{size.quiet:g} s without a job; around the swap: the second in which the new indexes took their place."
        )
        engines = ["local", "spark"] if size.spark else ["local"]
        rows: list[tuple[str, ...]] = []
        with service(folder, *OPTIONS, "--spark-options", "spark.driver.memory=2g") as server:
            for kind, body in [("snapshots", {}), *(("rebuilds", {"engine": engine}) for engine in engines)]:
                rows.append(self._under_load(server, kind, body))
            times = "p50 before, ms", "p99 before", "p50 during", "p99 during", "p99 around the swap", "longest"
            report.table(("job", "seconds", "requests", "refused or failed", *times), rows)
            failed = sum(int(row[3]) for row in rows)
            report.verdict(
                "no request fails during a snapshot or a rebuild",
                f"{failed} of {sum(int(r[2]) for r in rows)}",
                failed == 0,
            )
            self._after(server, folder, engines)

    def _under_load(self, server: Server, kind: str, body: dict[str, Any]) -> tuple[str, ...]:
        size = self._size

        async def run() -> tuple[Steady, float, float, float]:
            steady = Steady(server.port, BOARD, size.n, size.m, size.events)
            sending = asyncio.create_task(steady.run())
            await asyncio.sleep(1.0 + size.quiet)
            begin = time.perf_counter()
            await asyncio.to_thread(run_to_end, server, kind, body)
            end = time.perf_counter()
            await asyncio.sleep(1.0)
            steady.stop()
            await sending
            return steady, begin, end, time.perf_counter()

        try:
            steady, begin, end, _ = asyncio.run(run())
        except Failed as failure:
            raise Failed(f"{failure} (exit {server.process.poll()}):\n{server.tail()}") from failure
        before = milliseconds(steady.between(begin - size.quiet, begin))
        during = milliseconds(steady.between(begin, end))
        swap = ""
        if kind == "rebuilds":
            at = end - (time.time() - _swapped_at(server.log)) + (time.perf_counter() - end)
            swap = f"{milliseconds(steady.between(at - 0.5, at + 0.5))['p99']:.1f}"
        wrong = sum(answer.status != 200 for answer in steady.answers)
        name = "snapshot" if kind == "snapshots" else f"rebuild, {body['engine']}"
        times = (before["p50"], before["p99"], during["p50"], during["p99"])
        shown = [f"{value:.1f}" for value in times]
        return (name, f"{end - begin:.1f}", str(len(steady.answers)), str(wrong), *shown, swap, f"{during['max']:.1f}")

    def _after(self, server: Server, folder: Path, engines: list[str]) -> None:
        size, report = self._size, self._report
        report.heading("Afterwards")
        checked, seconds = _timed(partial(run_to_end, server, "verify", {"engine": "local"}))
        report.text(
            f"Verification in the service: {checked['compared']:,} lists compared with a scan in {seconds:.1f} s, "
            f"{len(checked['differences'])} differences."
        )
        report.verdict(
            "lists exact after the rebuilds", f"{len(checked['differences'])} differences", not checked["differences"]
        )
        digests = {}
        for engine in engines:
            built, seconds = _timed(partial(run_to_end, server, "rebuilds", {"engine": engine}))
            images = folder / "data" / "images"
            newest = images / max((p.name for p in images.iterdir()), key=int) / RESOURCE
            digests[engine] = json.loads((newest / "manifest.json").read_text())
            size_mb = sum(about["bytes"] for about in digests[engine]["files"].values()) / 1e6
            swap = built["swap_seconds"] * 1e3
            report.text(f"Rebuild without load, {engine}: {seconds:.1f} s, {size_mb:.0f} MB, swapped in {swap:.1f} ms.")
        if size.spark:
            same = digests["local"] == digests["spark"]
            report.verdict(
                "the image from Spark and the local one bit for bit the same",
                "the manifests with the SHA-256 of every file are the same" if same else "they differ",
                same,
            )
            audit, seconds = _timed(partial(run_to_end, server, "verify", {"engine": "spark"}))
            found = len(audit["differences"])
            report.text(f"Audit on Spark: {audit['compared']:,} lists in {seconds:.1f} s, {found} differences.")
            report.verdict(
                f"the audit over {size.m:,} subscriptions finds no difference", f"{found} differences", not found
            )


def run_to_end(server: Server, kind: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Run a job to its end; its detail. Raises `Failed`."""
    job = server.ask("POST", f"/v1/admin/{kind}", json.dumps(body or {}).encode())["job"]
    while True:
        shown: dict[str, Any] = server.ask("GET", f"/v1/admin/jobs/{job}")
        if shown["state"] == "succeeded":
            detail: dict[str, Any] = shown["detail"]
            return detail
        if shown["state"] == "failed":
            raise Failed(f"the job {kind} {body} failed: {shown['detail']}")
        time.sleep(0.05)


def _timed(work: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], float]:
    began = time.perf_counter()
    return work(), time.perf_counter() - began


def _lines(log: Path) -> Iterator[dict[str, Any]]:
    for line in log.read_text(errors="replace").splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def _part_seconds(log: Path) -> dict[str, float]:
    """The seconds of each part of a start, by what the service logged."""
    return {line["event"]: line["seconds"] for line in _lines(log) if "seconds" in line}


def _swapped_at(log: Path) -> float:
    """When indexes were swapped last, in seconds since 1970."""
    from datetime import datetime

    times = [line["timestamp"] for line in _lines(log) if line["event"] == "indexes swapped"]
    return datetime.fromisoformat(times[-1]).timestamp()


def memory_of(server: Server) -> Memory:
    """What a service has resident."""
    found = {}
    for line in Path(f"/proc/{server.pid}/status").read_text().splitlines():
        if line.startswith(("RssAnon:", "RssFile:")):
            key, value = line.split()[:2]
            found[key] = int(value) * 1024
    return Memory(found["RssAnon:"], found["RssFile:"])
