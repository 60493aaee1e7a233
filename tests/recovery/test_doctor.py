"""`rankcast doctor` on whole and damaged data directories, and what a support bundle does not have."""

from __future__ import annotations

import json
import os
import sqlite3
import tarfile
from pathlib import Path
from typing import Any

import pytest
import structlog
from typer.testing import CliRunner

from app.cli import bundle
from app.cli.checkup import Finding, Place, check_up, machine
from app.cli.main import cli
from app.main import create_app
from app.settings import Settings
from tests.support.app_client import AppClient
from tests.support.patience import wait_until
from tests.support.running import CONFIG
from tests.support.service_fixtures import MakeClient

PAYLOAD, SUBSCRIPTION, OBJECT = "payload-secret-7f3a", "subscriber-secret-9c1d", "object-secret-55aa"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with some rows and a snapshot, of a service that has ended."""
    app = create_app(Settings(data=tmp_path / "data"))
    with AppClient(app, "http://127.0.0.1") as client:
        client.put("/v1/boards/stocks", json=CONFIG).raise_for_status()
        for y in range(3):
            event = {"op": "upsert", "id": OBJECT, "values": {"x": 1, "y": y}, "payload": {"note": PAYLOAD}}
            client.post("/v1/boards/stocks/events", json={"events": [event]}).raise_for_status()
        client.put(f"/v1/boards/stocks/subscriptions/{SUBSCRIPTION}", json={"k": 5}).raise_for_status()
        job = client.post("/v1/admin/snapshots").json()["job"]
        wait_until(lambda: client.get(f"/v1/admin/jobs/{job}").json()["state"] == "succeeded")
    return tmp_path / "data"


def _found(data: Path, **place: Any) -> dict[str, Finding]:
    """The worst finding of each check."""
    order = ("ok", "warning", "error")
    worst: dict[str, Finding] = {}
    for each in check_up(Place(data, **place)):
        if each.check not in worst or order.index(each.level) > order.index(worst[each.check].level):
            worst[each.check] = each
    return worst


def _files(data: Path) -> dict[str, tuple[int, int]]:
    return {str(f.relative_to(data)): (f.stat().st_size, f.stat().st_mtime_ns) for f in sorted(data.rglob("*"))}


def test_a_whole_directory_has_no_error_and_is_left_as_it_is(data: Path) -> None:
    before = _files(data)
    found = _found(data)
    assert {each.check for each in found.values() if each.level == "error"} == set()
    stored = ("data directory", "format", "epoch", "modes", "log", "end of the log", "storage", "snapshots")
    assert {check: found[check].level for check in stored} == dict.fromkeys(stored, "ok")
    assert _files(data) == before


def test_the_disk_of_a_directory_that_is_not_there_is_that_of_what_it_would_be_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    room = {tmp_path: 1 << 40}
    monkeypatch.setattr(machine, "free", lambda folder: room.get(folder, 0))
    assert _found(tmp_path / "none" / "data")["disk"].level == "ok"


def test_the_version_of_java_is_found_behind_the_settings_that_it_takes_from_the_environment(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\necho "Picked up JAVA_TOOL_OPTIONS: -Xs" >&2\necho \'openjdk version "21.0.4"\' >&2\n')
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{java.parent}{os.pathsep}{os.environ['PATH']}")
    assert _found(data)["java"].found == 'openjdk version "21.0.4"'


def test_it_works_while_the_service_runs(make_client: MakeClient, tmp_path: Path) -> None:
    client = make_client()
    client.put("/v1/boards/stocks", json=CONFIG).raise_for_status()
    found = _found(tmp_path / "data")
    assert f"(process {os.getpid()})" in found["data directory"].found
    assert found["log"].level == "ok" and "1 rows" in found["log"].found
    client.put("/v1/boards/more", json=CONFIG).raise_for_status()


def _flip(data: Path) -> None:
    with sqlite3.connect(data / "rankcast.db") as connection:
        connection.execute("update log set payload = payload || x'00' where lsn = (select max(lsn) - 1 from log)")
    connection.close()


def _cut(data: Path) -> None:
    with sqlite3.connect(data / "rankcast.db") as connection:
        connection.execute("delete from log where lsn = (select max(lsn) from log)")
    connection.close()


def _damage_snapshot(data: Path) -> None:
    file = next((data / "snapshots").rglob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-1] + b"?")


DAMAGE = {
    "epoch": lambda data: (data / "EPOCH").unlink(),
    "format": lambda data: (data / "FORMAT").write_text("99"),
    "modes": lambda data: (data / "rankcast.db").chmod(0o644),
    "log": _flip,
    "end of the log": _cut,
    "storage": lambda data: (data / "STORAGE").unlink(),
    "snapshots": _damage_snapshot,
    "data directory": lambda data: (data / "RESTORING").write_text("x"),
}


@pytest.mark.parametrize("check", DAMAGE)
def test_what_is_damaged_is_found_with_what_to_do(data: Path, check: str) -> None:
    DAMAGE[check](data)
    found = _found(data)
    assert found[check].level == ("warning" if check == "modes" else "error"), found
    assert found[check].advice


def test_the_command_ends_with_1_on_an_error_and_prints_json(data: Path) -> None:
    runner = CliRunner()
    try:
        done = runner.invoke(cli, ["doctor", "--data", str(data), "--json"])
        assert done.exit_code == 0, done.output
        assert {"check", "level", "found", "advice"} == set(json.loads(done.stdout.splitlines()[0]))
        missing = runner.invoke(cli, ["doctor", "--data", str(data / "none")])
        assert missing.exit_code == 1 and "error    data directory" in missing.stdout
    finally:
        structlog.reset_defaults()


def test_a_bundle_has_no_secret(
    make_client: MakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: Path
) -> None:
    secrets = {"RANKCAST_SEAL_KEY": "seal-secret-1b2c", "RANKCAST_JWT_SECRET": "jwt-secret-3d4e-3d4e-3d4e-3d4e-3d4e"}
    client = make_client(data=data)
    key = client.post("/v1/admin/keys", json={"name": "ops", "scopes": ["admin"]}).json()["key"]
    client.headers["Authorization"] = f"Bearer {key}"
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RANKCAST_SPARK_OPTIONS", "spark.hadoop.fs.s3a.secret.key=spark-secret-5f6a")
    client.post("/v1/admin/verify").raise_for_status()
    monkeypatch.setattr("app.cli.bundle.httpx.Client", lambda **given: _Shared(client, given["headers"]))
    log = tmp_path / "log"
    lines = [
        {
            "event": "request",
            "level": "info",
            "part": "requests",
            "path": f"/x/{SUBSCRIPTION}",
            "key": key,
            "status": 500,
        },
        {"event": "request failed", "level": "error", "part": "requests", "exception": f"ValueError: {PAYLOAD}"},
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines) + f"Traceback {PAYLOAD}\n")
    place = Place(data, "postgresql://me:database-secret@127.0.0.1:1/none", None, "http://127.0.0.1", key)
    names = bundle.write_bundle(tmp_path / "b.tar.gz", place, log, hash_names=True)
    assert (tmp_path / "b.tar.gz").stat().st_mode & 0o077 == 0
    with tarfile.open(tmp_path / "b.tar.gz") as archive:
        parts = {}
        for member in archive:
            content = archive.extractfile(member)
            assert content is not None
            parts[member.name.partition("/")[2]] = content.read().decode()
    assert list(parts) == names
    assert set(names) >= {"versions.json", "settings.json", "doctor.json", "metrics.txt", "readyz.json", "jobs.json"}
    whole = "\n".join(parts.values())
    hidden = (PAYLOAD, SUBSCRIPTION, OBJECT, key, *secrets.values(), "spark-secret-5f6a", "database-secret", "stocks")
    assert [secret for secret in hidden if secret in whole] == []
    assert json.loads(parts["jobs.json"])[-1]["kind"] == "verify"
    assert json.loads(parts["sizes.json"])["boards"][0]["subscriptions"] == 1
    assert "rankcast_commit_seconds_count" in parts["metrics.txt"]
    assert [json.loads(line) for line in parts["log.jsonl"].splitlines()] == [
        {"level": "info", "part": "requests", "event": "request", "status": 500},
        {"level": "error", "part": "requests", "event": "request failed"},
        {"left_out": 1},
    ]


class _Shared:
    """The client of the test in place of one over the network."""

    def __init__(self, client: Any, headers: dict[str, str]) -> None:
        self._client = client
        self._headers = headers

    def __enter__(self) -> _Shared:
        return self

    def __exit__(self, *given: object) -> None:
        """Stay open."""

    def get(self, path: str) -> Any:
        return self._client.get(path, headers=self._headers)
