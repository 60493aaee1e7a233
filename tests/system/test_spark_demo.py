"""The audit over the demo's board, while the flights land."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx

from tests.spark.runtime import need_java
from tests.support.patience import PATIENCE, wait_until
from tests.support.ports import free_port


def test_the_audit_over_the_demo_finds_no_difference(tmp_path: Path) -> None:
    need_java()
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    rankcast = str(Path(sys.executable).parent / "rankcast")
    with (tmp_path / "demo.log").open("wb") as log:
        command = [rankcast, "demo", "--port", str(port), "--data", str(tmp_path / "data"), "--speed", "5"]
        demo = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_until(lambda: landed(url) > 500, 2 * PATIENCE)
        done = subprocess.run(
            [rankcast, "verify", "--engine", "spark", "--url", url], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        compared = re.search(r"^compared: (\d+)$", done.stdout, re.MULTILINE)
        assert compared is not None and int(compared[1]) > 100, done.stdout
        assert "difference_count: 0" in done.stdout
        assert demo.poll() is None, (tmp_path / "demo.log").read_text()
    finally:
        demo.send_signal(signal.SIGINT)
        demo.wait(PATIENCE)


def landed(url: str) -> int:
    """The objects on the demo's board; 0 while there is none."""
    try:
        answer = httpx.get(f"{url}/v1/boards/delays", timeout=PATIENCE)
    except httpx.TransportError:
        return 0
    return int(answer.json()["objects"]) if answer.status_code == 200 else 0
