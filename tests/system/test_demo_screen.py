"""The demo on a terminal, as a user sees it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import httpx

from app.demo.lists import BANDS, SHOWN_K, Band
from tests.support.patience import PATIENCE, wait_until
from tests.support.ports import free_port
from tests.support.terminal import Terminal

ROW = re.compile(r"│ +(\d) (\w+) +(\w{3}) → (\w{3}) +([\d,]+) mi +([+-][\d,]+) min │")
FULL = ("\x1b[?1049h", "\x1b[?25l")
"""What asks a terminal for a screen of its own and to hide the cursor."""
LEFT = ("\x1b[?1049l", "\x1b[?25h")

Row = tuple[int, str, str, str, float, float]


def shown(frame: list[str], band: Band) -> list[Row]:
    """The list of a band in a frame of one column of lists."""
    first = next((n for n, line in enumerate(frame) if line.startswith(f"╭─ {band.title} ─")), None)
    if first is None:
        return []
    matches = [ROW.fullmatch(line) for line in frame[first + 1 : first + 1 + SHOWN_K]]
    return [
        (int(one[1]), one[2], one[3], one[4], float(one[5].replace(",", "")), float(one[6].replace(",", "")))
        for one in matches
        if one is not None
    ]


def asked(http: httpx.Client, band: Band) -> list[Row]:
    """The list of a band as the service answers a request for it."""
    ends = {name: end for name, end in (("l", band.low), ("r", band.high)) if end is not None}
    answer = http.get("/v1/boards/delays/top", params=ends | {"k": SHOWN_K})
    assert answer.status_code == 200, answer.text
    rows: list[Row] = []
    for rank, one in enumerate(answer.json()["list"], 1):
        values, payload = one["values"], one["payload"]
        rows.append((rank, one["id"], payload["from"], payload["to"], values["distance"], values["delay"]))
    return rows


def test_the_screen_shows_the_lists_of_the_service_and_leaves_the_terminal_clean(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-c", "from app.__main__ import main; main()", "demo", "--speed", "0.3"]
    command += ["--port", str(port), "--data", str(tmp_path / "data")]
    with (
        Terminal(command, 60, 60) as terminal,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as http,
    ):

        def until_right(band: Band) -> None:
            wait_until(lambda: terminal.process.poll() is not None or len(shown(terminal.frame, band)) == SHOWN_K)
            # The flights go on landing, so a frame and an answer are of the same moment only now and then.
            wait_until(lambda: terminal.process.poll() is not None or shown(terminal.frame, band) == asked(http, band))
            assert terminal.process.poll() is None, terminal.output[-4_000:]

        for low, high in BANDS:
            until_right(Band(low, high))
        assert all(sequence in terminal.output for sequence in FULL)
        assert not any(sequence in terminal.output.partition(FULL[0])[2] for sequence in LEFT)
        figures = terminal.frame[1].split(), terminal.frame[2].split()
        assert figures[1] == ["flights", "list", "changes", "tiles", "lists", "kept"]
        subscriptions = http.get("/v1/boards/delays").json()["subscriptions"]
        wait_until(lambda: terminal.frame[1].split()[-1] == str(subscriptions))

        terminal.resize(124, 30)
        wait_until(lambda: any(line.count("╭─") == 3 and len(line) == 124 for line in terminal.frame))

        # The first key ends all that was open without one.
        assert http.post("/v1/admin/keys", json={"name": "ops", "scopes": ["admin"]}).is_success
        wait_until(lambda: "asks for keys now" in "\n".join(terminal.frame))
        wait_until(lambda: "\n".join(terminal.frame).count(" miles (ended) ") >= 3)

        terminal.type("\x03")
        assert terminal.process.wait(PATIENCE) == 0
        wait_until(lambda: all(sequence in terminal.output.rpartition(FULL[1])[2] for sequence in LEFT))
        after = terminal.output.rpartition(LEFT[0])[2]
    assert re.search(r"^first list after \d+\.\d s\r?$", after, re.M), after
    assert re.search(r"played [\d,]+ arrivals, up to January \d+, 2013", after), after
    assert "RANKCAST_KEY=<key>" in after
    assert "Traceback" not in terminal.output


def test_the_picture_is_drawn_from_a_run_and_plain_lines_say_when_the_first_list_came(tmp_path: Path) -> None:
    file = tmp_path / "demo.svg"
    command = [
        sys.executable,
        "-c",
        "from app.__main__ import main; main()",
        "demo",
        "--speed",
        "20",
        "--picture",
        str(file),
    ]
    command += ["--port", str(free_port()), "--data", str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^first list after \d+\.\d s$", done.stdout, re.M), done.stdout
    assert re.search(r"^January 2013, [\d,]+ arrivals$", done.stdout, re.M), done.stdout
    assert "\x1b" not in done.stdout
    text = "".join(ElementTree.parse(file).getroot().itertext()).replace("\xa0", " ")
    for low, high in BANDS:
        assert f" {Band(low, high).title} " in text
    assert len(re.findall(r"\w{3} → \w{3}", text)) == SHOWN_K * len(BANDS)
    assert re.search(r"[\d,]+/s", text)


def test_a_picture_that_cannot_be_is_refused_before_anything_starts(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from app.__main__ import main; main()", "demo", "--picture"]
    for options, word in (
        ([str(tmp_path / "nowhere" / "demo.svg")], "folder"),
        ([str(tmp_path)], "directory"),
        ([str(tmp_path / "demo.svg"), "--verify"], "--verify"),
    ):
        done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert word in done.stderr
