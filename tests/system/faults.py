"""A service under a load that dies at a chosen moment, its jobs, and the checks of what is there afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.support.live import LiveService, StartService, serve_command
from tests.support.patience import PATIENCE, wait_until
from tests.system.http.talk import Json, Talk
from tests.system.load import Load

QUIET = ("--snapshot-every-minutes", "0", "--rebuild-share", "0")
"""No job but those that a test asks for."""

POINTS = (
    "formats.folder:Draft._sync",
    "formats.folder:Draft.publish",
    "formats.folder:Folder.delete",
    "formats.boards:write_image",
    "indexes.boards.plans.events:EventsPlan.execute",
    "indexes.boards.plans.maintenance:FoldPlan._fold",
    "indexes.boards.verification:verify",
    "app.storage.ownership:Ownership._check",
    "app.storage.keys:KeyStore.add_many",
    "app.storage.log:Log.add_answers",
    "app.storage.log:Log.start_at",
    "app.storage.restore:_fill",
)


class Points:
    """Where a process dies or waits; see `points/sitecustomize.py`. A process heeds them that has `env`."""

    def __init__(self, folder: Path, points: Sequence[str] = POINTS) -> None:
        self._order = folder / "order"
        self._points = points
        path = [str(Path(__file__).with_name("points")), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.env = {
            "PYTHONPATH": os.pathsep.join(path),
            "RANKCAST_TEST_ORDER": str(self._order),
            "RANKCAST_TEST_POINTS": ",".join(points),
        }

    def die(self, point: str, when: str = "before", number: int = 1) -> None:
        """Let it die there."""
        self._give("die", point, when, number)

    def wait(self, point: str, when: str = "before", number: int = 1) -> None:
        """Hold it up there."""
        self._give("wait", point, when, number)

    def reached(self) -> None:
        """Returns once it waits."""
        wait_until(self._there.exists)

    def clear(self) -> None:
        """Let everything go on."""
        self._order.unlink(missing_ok=True)
        self._there.unlink(missing_ok=True)

    @property
    def _there(self) -> Path:
        return self._order.with_name("order.there")

    def _give(self, what: str, point: str, when: str, number: int) -> None:
        assert point in self._points, point
        self.clear()
        draft = self._order.with_name("draft")
        draft.write_text(f"{what} {point} {when} {number}")
        draft.rename(self._order)


# --- jobs -------------------------------------------------------------------------------------------------------------


def begin(talk: Talk, kind: str, **body: Any) -> str:
    """Ask for a job: "snapshots", "rebuilds" or "verify"; returns its id."""
    answer = talk.ask("POST", f"/v1/admin/{kind}", body)
    assert answer.status_code == 202, talk.calls[-1]
    return str(answer.json()["job"])


def ended(talk: Talk, id: str) -> Json:
    """The job once it has ended."""
    found: Json = {}

    def over() -> bool:
        found.update(talk.good("GET", f"/v1/admin/jobs/{id}"))
        return found["state"] in ("succeeded", "failed", "cancelled")

    wait_until(over, 2 * PATIENCE)
    return found


def done(talk: Talk, kind: str, **body: Any) -> Json:
    """What a job answers that must succeed."""
    job = ended(talk, begin(talk, kind, **body))
    assert job["state"] == "succeeded", job
    detail: Json = job["detail"]
    return detail


def failed(talk: Talk, kind: str, **body: Any) -> str:
    """Why a job fails that must: one sentence."""
    job = ended(talk, begin(talk, kind, **body))
    assert job["state"] == "failed", job
    told: str = job["detail"]["error"]
    assert told and "\n" not in told and "Traceback" not in told and len(told) < 500, job
    return told


# --- what a service says and keeps ------------------------------------------------------------------------------------


def said(service: LiveService, event: str) -> list[Json]:
    """The lines of a service's log about an event."""
    lines = []
    for line in service.log.read_text().splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue
    return [line for line in lines if isinstance(line, dict) and line.get("event") == event]


def kept(root: Path, kind: str = "snapshots") -> list[int]:
    """The numbers of the folders below a storage root that are whole, in order."""
    folders = [path for path in (root / kind).iterdir() if path.name.isdigit()] if (root / kind).exists() else []
    return sorted(int(path.name) for path in folders if any(path.rglob("manifest.json")))


def refused_start(data: Path, *options: str) -> str:
    """What a service says that does not start, with exit code 1."""
    command = serve_command("--data", data, *options)
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ran.returncode == 1, (ran.returncode, ran.stdout, ran.stderr)
    return ran.stdout + ran.stderr


# --- a load that goes on over deaths ----------------------------------------------------------------------------------


class Scene:
    """A service and a load on it. After each death `again` restarts it and checks everything."""

    def __init__(
        self, start_service: StartService, folder: Path, kinds: list[str], *options: str, load: type[Load] = Load
    ) -> None:
        self.points = Points(folder)
        self._start = start_service
        self._options = (*QUIET, *options)
        self.service = start_service(None, *self._options, env=self.points.env)
        self.talk = Talk(self.service.url)
        self.load = load(self.service.url, kinds)

    @property
    def data(self) -> Path:
        return self.service.data

    def write_some(self, count: int = 50) -> None:
        """Returns once so many more writes have been answered."""
        before = self.load.answered
        wait_until(lambda: self.load.answered >= before + count)

    def die(self, ask: Callable[[Talk], Any], point: str, when: str = "before", number: int = 1) -> None:
        """Ask for something, of which the service dies."""
        self.points.die(point, when, number)
        ask(self.talk)
        self.dead()

    def kill(self) -> None:
        self.service.process.send_signal(signal.SIGKILL)
        self.dead()

    def dead(self) -> None:
        """Returns once the service has died, and all writers wait."""
        try:
            status = self.service.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not die:\n{self.service.log.read_text()[-3000:]}") from None
        assert status == -signal.SIGKILL, f"{status}:\n{self.service.log.read_text()[-3000:]}"
        self.load.pause()
        self.load.wait_held()
        self.points.clear()
        self.talk.close()

    def again(self, then: Callable[[Talk], Any] = lambda talk: None, *options: str) -> None:
        """Start it again: all that was answered is there exactly once, and nothing else; no index differs from a scan.

        `then` is called while nobody writes.
        """
        pending = [writer.writes[-1] for writer in self.load.writers if writer.writes[-1].answer is None]
        self.service = self._start(self.data, *self._options, *options, env=self.points.env)
        self.load.url = self.service.url
        self.talk = Talk(self.service.url)
        seen = [self.load.read(self.talk)]
        assert done(self.talk, "verify")["differences"] == []
        then(self.talk)
        seen.append(self.load.read(self.talk))
        self.load.gate.set()
        wait_until(lambda: all(write.answer is not None for write in pending))
        self.load.hold()
        self.load.check(self.talk, [*seen, self.load.read(self.talk)])
        self.load.gate.set()

    def end(self) -> None:
        """The last check, and a stop."""
        self.load.stop()
        self.load.check(self.talk, [self.load.read(self.talk)])
        assert done(self.talk, "verify")["differences"] == []
        self.talk.close()
        assert self.service.stop() == 0
