"""A reader who types what a page says: every block in order, in an empty folder, against a real service.

Commands see ``.venv`` in their folder, as after a clone. Port 8000 of a page is a free port here, wherever the page
says it and where it is the default. Each command has to end with success, and each request with a status below 400,
unless the comment before it says ``# Refused with NNN``: then that has to be the status. What does not end, such as a
stream, has a terminal of its own. Every sample of JSON has to be something that the page's commands print, or that a
stream says soon.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx

from app.settings import Settings
from tests.support.node import PACKAGE, node
from tests.support.pages import SAMPLES, SHELL, Block, Command, commands
from tests.support.patience import PATIENCE, wait_until

PORT = "8000"
"""What the pages and the defaults say."""

ENDLESS = re.compile(
    r"\bcurl\b[^|\n]* -\w*N|--follow\b"
    r"|\brankcast\b[^|\n]* (serve|watch|publish|connect(?!.*--once)|demo(?! --verify))\b(?!.*--count)"
)
"""Commands that go on until Ctrl-C."""

# `curl` says the status of each request on stderr. Variables outlive a command, as they do in a terminal.
_PROLOGUE = """
set -o pipefail
[[ -e {state} ]] && source {state} 2> /dev/null
curl() {{ command curl "$@" --write-out '%{{stderr}}\\n<status %{{http_code}}>\\n'; }}
"""
_KEEP = """
trap '{{ export -p; for _v in $(compgen -v | grep "^[a-z]"); do declare -p $_v; done; }} > {state}' EXIT
"""
SOON = 60.0
"""Seconds until a stream says what has happened already."""

_SETTINGS = {"RANKCAST_KEY", *(f"RANKCAST_{name.upper()}" for name in Settings.model_fields)}
"""What a reader has not set."""

SERVICE = "service"
"""The terminal of the service, by its marker."""

_COMPLAINT = re.compile(r"^(Traceback|rankcast: )", re.M)
_EVENT = re.compile(r"^event: (\w+)\ndata: (.*)\n\n", re.M)
_STATUS = re.compile(r"\n?<status (\d+)>\n")
_STOPPED = (0, 130, -signal.SIGINT)
"""How a command may end by Ctrl-C."""


@dataclass(frozen=True)
class Outcome:
    """What became of a command, or of a block of Python. `statuses` are those of its requests by curl."""

    block: Block
    text: str
    exit: int
    statuses: tuple[int, ...]
    stdout: str
    stderr: str

    def __str__(self) -> str:
        return f"{self.block.place}: {self.text}\n-> exit {self.exit}, {self.statuses}\n{self.stdout}\n{self.stderr}"


class Running:
    """A command that goes on in a terminal of its own, its output in files."""

    def __init__(self, tour: Tour, block: Block, text: str) -> None:
        self.block, self.text = block, text
        self._out = tour.folder.parent / f"{block.terminal}-{block.line}"
        self._err = self._out.with_suffix(".err")
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                ["bash", "-c", tour.script(text, keep=False)], cwd=tour.folder, env=tour.env, stdin=subprocess.DEVNULL,
                stdout=out, stderr=err, start_new_session=True,
            )  # fmt: skip

    @property
    def stdout(self) -> str:
        return self._out.read_text(encoding="utf-8")

    def began(self) -> bool:
        """Whether it has said anything. curl shows its progress before there is any."""
        return bool(self.stdout or ("curl" not in self.text and self.outcome().stderr))

    def alive(self) -> bool:
        """Whether it runs. Fails where it ended without success."""
        if self._process.poll() is None:
            return True
        self._check(self.outcome())
        return False

    def press_ctrl_c(self) -> None:
        """End it as a reader does. Fails where it goes on, or does not end well."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGINT)
        self._process.wait(PATIENCE)
        self._check(self.outcome(), _STOPPED)

    def kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def outcome(self) -> Outcome:
        """As far as it has come."""
        err = self._err.read_text(encoding="utf-8")
        return Outcome(self.block, self.text, self._process.poll() or 0, *_statuses(err, self.stdout))

    def _check(self, outcome: Outcome, ends: tuple[int, ...] = (0,)) -> None:
        assert outcome.exit in ends and not _COMPLAINT.search(outcome.stderr), str(outcome)
        assert all(status < 400 for status in outcome.statuses), str(outcome)


class Tour:
    """One reader of one page. `folder` is empty but for ``.venv``; `port` is used in place of 8000."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self.url = f"http://127.0.0.1:{port}"
        self.outcomes: list[Outcome] = []
        self.terminals: dict[str, Running] = {}
        self.ended: list[Running] = []
        self._state = folder.parent / "state"
        folder.mkdir()
        (folder / ".venv").symlink_to(sys.prefix)
        # As `npm install` of the JavaScript client leaves it.
        (folder / "node_modules" / "@rankcast").mkdir(parents=True)
        (folder / "node_modules" / "@rankcast" / "client").symlink_to(PACKAGE)
        # The defaults of the commands, which are port 8000 too.
        here = {"RANKCAST_URL": self.url, "RANKCAST_PORT": str(port)}
        # Spark's JVM spends most of a short job on compiling itself.
        java = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
        around = {name: value for name, value in os.environ.items() if name not in _SETTINGS}
        self.env = {**around, **here, **java, "XDG_DATA_HOME": str(folder.parent / "home")}

    def script(self, text: str, keep: bool = True) -> str:
        """What bash runs for a command of a page; `keep` its variables for the next one."""
        return (_PROLOGUE + (_KEEP if keep else "")).format(state=self._state) + self._here(text)

    def run(self, blocks: Sequence[Block]) -> None:
        """Run the blocks in order. Fails at the first that does not do what the page says."""
        for block in blocks:
            if block.language in SAMPLES:
                if block.language == "json":
                    self._look_for(block)
            elif block.not_run:
                continue
            elif block.language in SHELL:
                self._run_commands(block)
            elif block.language == "python":
                self._run_program(block, f".venv/bin/python -c {shlex.quote(block.text)}")
            else:
                self._run_program(block, f"{node()} --input-type=module --eval {shlex.quote(block.text)}")

    def start(self, block: Block, text: str) -> Running:
        """Let a command go on in the block's terminal; returns once it has output, a service once it is ready."""
        assert block.terminal is not None
        running = self.terminals[block.terminal] = Running(self, block, text)
        serves = " serve" in text or " demo" in text
        with _told(running.outcome):
            wait_until(lambda: not running.alive() or (self._ready() if serves else running.began()), pause=0.02)
        assert running.alive() or running.began(), f"it ended and said nothing: {running.outcome()}"
        return running

    def wait_for(self, terminal: str) -> None:
        """Return once the command in a terminal has ended by itself."""
        running = self.terminals[terminal]
        wait_until(lambda: not running.alive())

    def end(self) -> None:
        """Leave all terminals by Ctrl-C, streams before services."""
        for name in list(reversed(self.terminals)):
            self._leave(name)

    def kill(self) -> None:
        for running in self.terminals.values():
            running.kill()

    def answers(self) -> list[Any]:
        """What the commands printed, as far as it is JSON: whole, by line, and the data of streams."""
        said = [outcome.stdout for outcome in self.outcomes]
        said += [running.stdout for running in (*self.ended, *self.terminals.values())]
        return [answer for text in said for answer in _json(text)]

    def said(self, part: str) -> str:
        """What the only command that has this in it printed."""
        (found,) = [outcome.stdout for outcome in self.outcomes if part in outcome.text]
        return found

    def printed(self, language: str) -> list[str]:
        """What each command, or block, of a language printed."""
        return [outcome.stdout for outcome in self.outcomes if outcome.block.language == language]

    def events(self, terminal: str) -> list[tuple[str, Any]]:
        """What the first stream of server-sent events in a terminal said: the name and the data of each."""
        found = [one.stdout for one in (*self.ended, *self.terminals.values()) if one.block.terminal == terminal]
        return [(name, json.loads(data)) for name, data in _EVENT.findall(found[0])]

    def _leave(self, terminal: str) -> None:
        running = self.terminals.pop(terminal)
        self.ended.append(running)
        running.press_ctrl_c()

    def _here(self, text: str) -> str:
        return re.sub(rf"\b{PORT}\b", str(self.port), text)

    def _ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", timeout=PATIENCE).status_code == 200
        except httpx.TransportError:
            return False

    def _run_commands(self, block: Block) -> None:
        if block.terminal == SERVICE:
            self.end()  # Whoever ends the service has stopped looking at its streams.
        elif block.terminal in self.terminals:
            self._leave(block.terminal)
        *_, last = found = commands(block)
        for command in found:
            if ENDLESS.search(command.text):
                assert block.terminal, f"{block.place}: give what does not end a terminal: {command.text}"
                assert command is last, f"{block.place}: nothing can be typed after {command.text}"
                self.start(block, command.text)
            else:
                self._run_command(block, command)

    def _run_command(self, block: Block, command: Command) -> None:
        done = self._done(["bash", "-c", self.script(command.text)])
        outcome = Outcome(block, command.text, done.returncode, *_statuses(done.stderr, done.stdout))
        self.outcomes.append(outcome)
        _check_refused(outcome, command.refused) if command.refused else _check_done(outcome)

    def _run_program(self, block: Block, command: str) -> None:
        done = self._done(["bash", "-c", self.script(command)])
        outcome = Outcome(block, block.text, done.returncode, (), done.stdout, done.stderr)
        self.outcomes.append(outcome)
        assert (done.returncode, done.stderr) == (0, ""), str(outcome)

    def _done(self, arguments: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            arguments, cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=PATIENCE, check=False,
        )  # fmt: skip

    def _look_for(self, block: Block) -> None:
        """Wait until something is printed that is the sample. Fails where nothing is and nothing more can come."""
        sample = json.loads(block.text, parse_float=Decimal)

        def found() -> bool:
            return any(shows(sample, part) for answer in self.answers() for part in _parts(answer))

        # A stream may be about to say it; a service in a terminal says it to nobody.
        streams = [one for one in self.terminals.values() if "curl" in one.text or "watch" in one.text]
        with _told(lambda: f"{block.place}: no command above prints\n{block.text}"):
            wait_until(lambda: found() or not any(one.alive() for one in streams), SOON)
            assert found()


def _check_done(outcome: Outcome) -> None:
    assert outcome.exit == 0 and "Traceback" not in outcome.stderr, str(outcome)
    assert all(0 < status < 400 for status in outcome.statuses), str(outcome)
    if outcome.statuses and outcome.stdout:
        assert outcome.stdout.endswith("\n"), f"the next prompt stands behind the answer: {outcome}"
        assert any(True for _ in _json(outcome.stdout)), str(outcome)


def _check_refused(outcome: Outcome, status: int) -> None:
    assert "Traceback" not in outcome.stderr, str(outcome)
    if outcome.statuses:
        assert set(outcome.statuses) == {status}, str(outcome)
        problem = json.loads(outcome.stdout)
        assert problem["status"] == status and problem["type"].startswith("/problems/"), str(outcome)
    else:
        assert outcome.exit and re.search(rf"\b{status}\b", outcome.stderr), str(outcome)


@contextmanager
def _told(what: Callable[[], object]) -> Iterator[None]:
    """A wait in vain says this too."""
    try:
        yield
    except AssertionError as failure:
        raise AssertionError(f"{what()}\n{failure}") from None


def _statuses(err: str, out: str) -> tuple[tuple[int, ...], str, str]:
    """The statuses that curl said on stderr, the output, and what else is on stderr."""
    return tuple(map(int, _STATUS.findall(err))), out, _STATUS.sub("", err)


def shows(sample: Any, answer: Any) -> bool:
    """Whether a sample shows an answer: equal but for numbers, which may be rounded to the places that are shown."""
    if isinstance(sample, dict):
        return isinstance(answer, dict) and list(sample) == list(answer) and all(
            shows(value, answer[name]) for name, value in sample.items()
        )  # fmt: skip
    if isinstance(sample, list):
        return isinstance(answer, list) and len(sample) == len(answer) and all(map(shows, sample, answer))
    if isinstance(sample, Decimal):
        return isinstance(answer, Decimal | int) and round(Decimal(answer), -int(sample.as_tuple().exponent)) == sample
    return type(sample) is type(answer) and bool(sample == answer)


def _json(text: str) -> Iterator[Any]:
    """The JSON in an output."""
    try:
        yield json.loads(text, parse_float=Decimal)
    except ValueError:
        for line in text.splitlines():
            try:
                yield json.loads(line.removeprefix("data: "), parse_float=Decimal)
            except ValueError:
                continue


def _parts(answer: Any) -> Iterator[Any]:
    """An answer, and the objects and lists in it."""
    if isinstance(answer, dict | list):
        yield answer
        for part in answer.values() if isinstance(answer, dict) else answer:
            yield from _parts(part)
