"""The README's commands, run in order and as they stand against a live service."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from app.demo.flights import load_arrivals
from tests.conftest import LiveService, StartService
from tests.patience import PATIENCE

README = Path(__file__).resolve().parents[2] / "README.md"
ADDRESS = "http://127.0.0.1:8000"
STREAM_SECONDS = (2, 10, 60)
"""What a stream is followed for, longer while it has said nothing: a slow machine may need that."""

# Stands before `curl`: the status goes to stderr, and a stream is cut off after so many seconds.
WRAPPER = """
curl() {
  local options=(); [[ "$*" == *"/stream"* ]] && options=(--max-time SECONDS)
  command curl "${options[@]}" --write-out '%{stderr}%{http_code}' "$@"
}
"""


@dataclass
class Command:
    text: str
    status: int | None
    """The refusal that the line before promises; None for success."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(encoding="utf-8"), re.M | re.S)


def is_whole(text: str) -> bool:
    if text.endswith(("\\", "|")):
        return False
    try:
        shlex.split(text)
    except ValueError:
        return False
    return True


def commands() -> list[Command]:
    found: list[Command] = []
    for block in blocks("bash"):
        lines: list[str] = []
        status: int | None = None
        for line in block.splitlines():
            if not lines and line.startswith("#"):
                promise = re.match(r"# Refused with (\d{3})", line)
                status = int(promise[1]) if promise else None
            elif lines or line.strip():
                lines.append(line)
                if is_whole("\n".join(lines)):
                    found.append(Command("\n".join(lines), status))
                    lines, status = [], None
        assert not lines, f"a command does not end: {lines}"
    return found


@pytest.fixture(scope="module")
def service(start_service: StartService) -> LiveService:
    """An empty service, and the board of the demo with some flights on it."""
    service = start_service()
    arrivals = load_arrivals()
    board = f"{service.url}/v1/boards/delays"
    config = {"range_attributes": ["distance"], "rank": {"attribute": "delay", "order": "desc"}, "ks": [5, 10]}
    assert httpx.put(board, json=config, timeout=PATIENCE).status_code == 201
    events = [
        {
            "op": "upsert",
            "id": arrivals.id[i].as_py(),
            "values": {"distance": arrivals.distance[i], "delay": arrivals.delay[i]},
            "payload": arrivals.payload(i),
        }
        for i in range(500)
    ]
    body = {"events": events, "messages": "none"}
    assert httpx.post(f"{board}/events", json=body, timeout=PATIENCE).status_code == 200
    return service


@dataclass
class Outcome:
    command: Command
    status: int
    body: str
    teens: list[str] | None
    """The list of the tour's subscription afterwards, None where there is no such subscription."""

    def __str__(self) -> str:
        return f"{self.command.text}\n-> {self.status} {self.body[:2000]}"


def run(command: Command, service: LiveService) -> Outcome:
    for seconds in STREAM_SECONDS:
        script = WRAPPER.replace("SECONDS", str(seconds)) + command.text.replace(ADDRESS, service.url)
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=False)
        if "/stream" not in command.text or "\n\n" in done.stdout:
            break
    assert done.returncode == (28 if "/stream" in command.text else 0), f"{command.text}\n{done.stderr}"
    answer = httpx.get(f"{service.url}/v1/boards/arcade/subscriptions/teens", timeout=PATIENCE)
    teens = [entry["id"] for entry in answer.json()["list"]] if answer.status_code == 200 else None
    return Outcome(command, int(done.stderr), done.stdout, teens)


@pytest.fixture(scope="module")
def outcomes(service: LiveService) -> list[Outcome]:
    """What all commands answered, run once and in order."""
    return [run(command, service) for command in commands()]


def test_every_command_of_a_bash_block_is_a_curl() -> None:
    assert len(commands()) > 15
    for command in commands():
        assert re.search(r"^\s*curl -s", command.text, re.M), command.text
        assert ADDRESS in command.text


def test_the_commands_answer_what_the_readme_says(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        promised = outcome.command.status
        if promised is not None:
            assert outcome.status == promised, outcome
            problem = json.loads(outcome.body)
            assert problem["status"] == promised, outcome
            assert problem["type"].startswith("/problems/"), outcome
        elif "/stream" in outcome.command.text:
            assert outcome.status == 200, outcome
            assert "event: snapshot\n" in outcome.body, outcome
        else:
            assert outcome.status < 400, outcome
            json.loads(outcome.body)


def test_the_tour_tells_the_truth_about_its_list(outcomes: list[Outcome]) -> None:
    lists = [outcome.teens for outcome in outcomes if outcome.teens is not None]
    assert [teens for teens, before in zip(lists, [None, *lists], strict=False) if teens != before] == [
        ["ada", "alan", "grace"],
        ["grace", "ada", "alan"],
        ["edsger", "grace", "ada"],
        ["ada", "alan"],
        ["alan", "joan"],
    ]


def test_the_python_example_runs(service: LiveService) -> None:
    (example,) = blocks("python")
    done = subprocess.run(
        [sys.executable, "-c", example.replace(ADDRESS, service.url)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].endswith("[('ada', 9100), ('grace', 9000), ('alan', 8800)]")


@pytest.mark.parametrize(
    "page", ["README.md", "docs/index.md", "docs/operations.md", "docs/boards.md", "docs/matchers.md", "docs/client.md"]
)
def test_links_lead_somewhere(page: str) -> None:
    source = README.parent / page
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", source.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (source.parent / target).exists(), target
