"""`make soak HOURS=n`: a service under the traffic of production and a fault a minute; a page says what was seen.

A run goes on from its folder: the service from its data directory, the measurements from their file. The resources
that are checked are made under names of the new stretch, after those of the last were compared with what it left.
"""

from __future__ import annotations

import argparse
import json
import signal
import time
import traceback
from pathlib import Path
from random import Random

from bench.report import RESULTS
from tests.soak.checks import compare, hold, let_go, state, taken
from tests.soak.crowd import Crowd, fill
from tests.soak.probe import Probe
from tests.soak.readers import Readers
from tests.soak.record import Minute, Record, page, percentiles
from tests.soak.service import SoakService
from tests.soak.writers import Checked, checked
from tests.support.patience import PATIENCE
from tests.system.faults import done
from tests.system.http.talk import Json, Talk
from tests.system.killing import Write

CHECK_EVERY = 2
"""Minutes between comparisons."""

VERIFY_EVERY = 10

REBUILD_EVERY = 30

MOST_DIFFERENCES = 20
"""After so many the soak ends: something is wrong for good."""


class Soak:
    """A stretch of the soak. `differences` are what was found since the last minute.

    `length` are the seconds of a minute, `end_every` the minutes between ends of the service: of a kill and a SIGTERM
    in turns.
    """

    def __init__(self, folder: Path, seed: int, rate: float, length: float, end_every: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._length, self._end_every = folder, length, end_every
        self.record = Record(folder)
        self.draw = Random(seed + self.record.stretch)
        self.service = SoakService(folder)
        self.began = time.monotonic()
        self.differences: list[str] = []
        self.counted = 0
        talk = Talk(self.service.url)
        self._compare_last(talk)
        fill(talk, self.draw)
        self.resources = checked(self.record.stretch)
        for one in self.resources:
            talk.good("PUT", one.path, one.config)
        talk.close()
        self.probe = Probe(self.service.url)
        self.crowd = Crowd(self.service.url, seed + self.record.stretch, rate)
        self.readers = Readers(self.service.url, seed)

    @property
    def _left(self) -> Path:
        return self.folder / "left.json"

    def _compare_last(self, talk: Talk) -> None:
        """What the last stretch left is there, and is deleted."""
        if not self._left.exists():
            return
        for path, wanted in json.loads(self._left.read_text()).items():
            found = {"shown": talk.good("GET", path)["seq"], "subscriptions": _subscriptions(path, talk)}
            if found != wanted:
                self.differences.append(f"{path} is not as the last stretch left it")
            talk.good("DELETE", path)
        self._left.unlink()

    def start(self) -> None:
        for one in self.resources:
            for number, writer in enumerate(one.writers):
                # Keys are one space: no two writers of any stretch have the same number.
                writer.number += 1000 * self.record.stretch + 10 * self.resources.index(one) + number
                writer.url = self.service.url + one.path
                writer.go.set()
                writer.open.set()
                writer.start()
        self.probe.start()
        self.crowd.start()

    def minute(self, number: int) -> Minute:
        """One minute: a fault, and what is due."""
        end = time.monotonic() + self._length
        fault = self._fault(number)
        checked_now = 0
        if number % CHECK_EVERY == CHECK_EVERY - 1:
            checked_now = self._check(verify=number % VERIFY_EVERY == VERIFY_EVERY - 1)
        while time.monotonic() < end:
            time.sleep(0.2)
        write, read, delivery = map(percentiles, self.probe.take())
        requests = sum(n for status, n in self.crowd.statuses.items() if status in (200, 201))
        before, self.counted = self.counted, requests + len(delivery and [])
        if self.crowd.last:
            self.differences.append(f"the crowd got {self.crowd.last}")
            self.crowd.last = ""
        found, self.differences = self.differences, []
        received, self.readers.received = self.readers.received, 0
        service = self.service
        return Minute(
            self.record.stretch, number, time.monotonic() - self.began, service.resident(), service.handles(),
            service.disk(), requests - before + checked_now, checked_now, received, write, read, delivery, fault, found,
        )  # fmt: skip

    def _fault(self, number: int) -> str:
        if number and number % self._end_every == 0:
            what = self.service.kill if number // self._end_every % 2 else self.service.restart
            self.began = time.monotonic()
        elif number % REBUILD_EVERY == REBUILD_EVERY - 1:
            what = self.service.rebuild
        else:
            what = self.service.faults[number % len(self.service.faults)]
        time.sleep(self.draw.uniform(0.03, 0.2) * self._length)
        self.probe.fault.set()
        try:
            what()
        finally:
            self.probe.fault.clear()
        return what.__name__

    def _check(self, verify: bool) -> int:
        """Compare everything; how many writes were followed."""
        followed = 0
        talk, found = Talk(self.service.url), []
        try:
            hold(self.resources)
            found = [(one, taken(one), state(one, talk, self.draw)) for one in self.resources]
            self.differences += self.readers.check(talk) + self.readers.failures
            self.readers.failures.clear()
            if verify:
                self.probe.fault.set()
                self.differences += [f"verify: {one}" for one in done(talk, "verify")["differences"]]
                self.probe.fault.clear()
            let_go(self.resources)
            for one, writes, there in found:
                for write in writes:
                    one.follow(write)
                followed += len(writes)
                compare(one, there, self.draw)
        except AssertionError:
            self.differences.append(traceback.format_exc(limit=-3)[-1500:])
            let_go(self.resources)
        finally:
            talk.close()
        self._change_readers(found)
        return followed

    def _change_readers(self, found: list[tuple[Checked, list[Write], Json]]) -> None:
        every = [
            (one.path.split("/")[2], one.path.split("/")[3], each["id"])
            for one, _, there in found
            for each in there["subscriptions"]
        ]
        self.readers.come_and_go(every)

    def close(self) -> None:
        """Let everything end, keep what is there for the next stretch, and stop the service."""
        self.crowd.done = self.probe.done = True
        hold(self.resources)
        for one in self.resources:
            for writer in one.writers:
                writer.done = True
                writer.let_go()
        # Each that rested writes once more before it sees that it is done.
        for one in self.resources:
            for writer in one.writers:
                writer.join(PATIENCE)
                if writer.failure is not None:
                    raise writer.failure
        self.readers.close()
        talk = Talk(self.service.url)
        left = {
            one.path: {"shown": talk.good("GET", one.path)["seq"], "subscriptions": _subscriptions(one.path, talk)}
            for one in self.resources
        }
        talk.close()
        status = self.service.stop()
        if status:
            raise RuntimeError(f"the service ended with status {status}: see {self.service.log}")
        self._left.write_text(json.dumps(left))


def _subscriptions(path: str, talk: Talk) -> list[Json]:
    return talk.pages(f"{path}/{'queries' if '/maps/' in path else 'subscriptions'}", 1000)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=24.0, help="how long this stretch takes")
    parser.add_argument("--folder", type=Path, default=Path("build/soak"), help="where it goes on from")
    parser.add_argument("--out", type=Path, default=RESULTS / "soak.md", help="the page that is written")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=20.0, help="requests of the crowd a second, at the most")
    parser.add_argument("--minute", type=float, default=60.0, help="seconds of a minute: less for a first look")
    parser.add_argument("--end-every", type=int, default=40, help="minutes between ends of the service")
    asked = parser.parse_args()
    soak = Soak(asked.folder, asked.seed, asked.rate, asked.minute, asked.end_every)
    soak.start()
    wrong = 0
    try:
        for number in range(round(asked.hours * 60)):
            minute = soak.minute(number)
            soak.record.add(minute)
            wrong += len(minute.differences)
            print(
                f"{number}: {minute.fault}, {minute.requests} requests, {minute.resident >> 20} MB, "
                f"{minute.handles} handles, write {minute.write[0]:.1f} ms, {len(minute.differences)} differences",
                *minute.differences,
                flush=True,
            )
            signed = f"make soak HOURS={asked.hours:g}"
            asked.out.write_text(page(soak.record.minutes, signed))
            if wrong >= MOST_DIFFERENCES:
                break
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        soak.close()
    raise SystemExit(1 if wrong else 0)
