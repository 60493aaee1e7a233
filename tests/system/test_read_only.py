"""The service without any right but to write its data directory, as in a container with a read-only root filesystem.

Its process has a view of the filesystem of its own in which every mount is read-only, that of temporary files, its
home and the compiled kernels among them, and no capabilities: a write elsewhere fails, whoever owns the place.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from indexes.compiled import cache
from tests.support.live import LiveService, serve_command
from tests.support.patience import PATIENCE, wait_until
from tests.support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
BOARD = {"range_attributes": ["x"], "rank": {"attribute": "y", "order": "desc"}, "ks": [3]}

CONFINE = r"""
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$2"
cut -d' ' -f5 /proc/self/mountinfo | while read -r place; do
    case "$place" in
        "$1" | /proc | /proc/* | /sys | /sys/* | /dev | /dev/pts) ;;
        *) mount -o remount,bind,ro "$place" ;;
    esac
done
shift 2
exec setpriv --no-new-privs --bounding-set=-all --inh-caps=-all -- "$@"
"""


def confined(data: Path, *command: str) -> list[str]:
    """A command line that runs another with nothing but a folder to write to."""
    namespaces = ["-m"] if os.geteuid() == 0 else ["-U", "-r", "-m"]
    return ["unshare", *namespaces, "sh", "-c", CONFINE, "confine", str(data), str(ROOT), *command]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    folder = tmp_path_factory.mktemp("read-only")
    data, log, port = folder / "data", folder / "log", free_port()
    data.mkdir()
    try:
        able = subprocess.run(
            confined(data, "sh", "-c", f"touch {data}/here && ! touch {folder}/there"), capture_output=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("needs unshare and setpriv of util-linux")
    if able.returncode:
        pytest.skip(f"this machine gives no mounts of its own: {able.stderr.decode().strip()}")
    assert not (folder / "there").exists()
    (data / "here").unlink()
    env = {**os.environ, cache.VARIABLE: str(cache.root()), "HOME": str(folder / "home")}
    env.pop("TMPDIR", None)
    command = confined(data, *serve_command("--data", data, "--access-log", "all", port=port))
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=env, cwd=folder)
    live = LiveService(process, f"http://127.0.0.1:{port}", data, log)
    live.wait_until_ready()
    yield live
    if process.poll() is None:
        process.kill()
        process.wait()


def opened_for_writing(pid: int) -> set[str]:
    """The files that a process has open and may write to, without pipes, sockets and devices."""
    found = set()
    for handle in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target, info = os.readlink(handle), Path(f"/proc/{pid}/fdinfo/{handle.name}").read_text()
        except FileNotFoundError:  # closed meanwhile
            continue
        flags = re.search(r"^flags:\s*([0-7]+)", info, re.MULTILINE)
        assert flags is not None
        if target.startswith("/") and not target.startswith("/dev/") and int(flags[1], 8) & os.O_ACCMODE != os.O_RDONLY:
            found.add(target)
    return found


def test_it_has_no_rights(service: LiveService) -> None:
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    assert re.search(r"^CapEff:\s*0+$", status, re.MULTILINE) and re.search(r"^CapBnd:\s*0+$", status, re.MULTILINE)
    assert re.search(r"^NoNewPrivs:\s*1$", status, re.MULTILINE)


def test_it_writes_nowhere_but_its_data_directory(service: LiveService) -> None:
    opened: set[str] = set()

    def ended(job: str) -> bool:
        opened.update(opened_for_writing(service.process.pid))
        return http.get(f"/v1/admin/jobs/{job}").json()["state"] not in ("queued", "running")

    with httpx.Client(base_url=service.url, timeout=PATIENCE) as http:
        assert http.put("/v1/boards/b", json=BOARD).status_code == 201
        events = [{"op": "upsert", "id": f"o{i}", "values": {"x": i, "y": i}} for i in range(100)]
        assert http.post("/v1/boards/b/events", json={"events": events}).status_code == 200
        assert http.put("/v1/boards/b/subscriptions/s", json={"range": {"x": [0, 50]}, "k": 3}).status_code == 201
        with http.stream("GET", "/v1/boards/b/subscriptions/s/stream") as stream:
            assert any("o50" in line for line in stream.iter_lines() if line.startswith("data:"))
        for path, body in (("snapshots", {}), ("rebuilds", {"engine": "local"}), ("verify", {})):
            answer = http.post(f"/v1/admin/{path}", json=body)
            assert answer.status_code == 202, answer.text
            job = answer.json()["job"]
            wait_until(partial(ended, job))
            assert http.get(f"/v1/admin/jobs/{job}").json()["state"] == "succeeded"
    assert any(one.startswith(f"{service.data}/") for one in opened)
    assert {one for one in opened if not one.startswith(f"{service.data}/")} <= {str(service.log)}
    assert service.stop() == 0
    log = service.log.read_text()
    assert "Read-only file system" not in log and "Traceback" not in log, log[-4000:]
