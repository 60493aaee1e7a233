import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from app.api.jobs import JobStream
from app.main import create_app
from app.runtime.metrics import Metrics
from app.security.callers import NOBODY_ASKED
from app.security.keyring import Keyring
from app.settings import Settings
from app.streaming.hub import Hub
from app.write_path.jobs import Job, JobFailed
from tests.support.app_client import AppClient
from tests.support.fake_maintenance import LIMIT, FakeMaintenance, different
from tests.support.patience import wait_until
from tests.support.service_fixtures import URL, MakeClient

ADMIN = "/v1/admin"
JOBS = "/v1/admin/jobs"
BOARD = {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [1]}


@pytest.fixture
def client(work: FakeMaintenance, make_client: MakeClient) -> AppClient:
    return make_client()


def start(client: AppClient, what: str, body: Any = None, **headers: str) -> str:
    """The id of a job that was begun."""
    answer = client.post(f"{ADMIN}/{what}", json=body, headers=headers)
    assert answer.status_code == 202, answer.text
    id: str = answer.json()["job"]
    return id


def ended(client: AppClient, id: str) -> dict[str, Any]:
    """A job once it has ended."""
    wait_until(lambda: client.get(f"{JOBS}/{id}").json()["ended"] is not None)
    shown: dict[str, Any] = client.get(f"{JOBS}/{id}").json()
    return shown


def blocks(text: str) -> list[dict[str, Any]]:
    """The blocks of a stream; `data` is read."""
    found = []
    for block in text.split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        found.append({**fields, **({"data": json.loads(fields["data"])} if "data" in fields else {})})
    return found


@pytest.mark.parametrize(
    ("what", "body", "call", "kind"),
    [
        ("snapshots", None, ("snapshot",), "snapshot"),
        ("snapshots", {}, ("snapshot",), "snapshot"),
        ("rebuilds", None, ("rebuild", None, "local"), "rebuild"),
        ("rebuilds", {}, ("rebuild", None, "local"), "rebuild"),
        ("rebuilds", {"resources": None, "engine": "spark"}, ("rebuild", None, "spark"), "rebuild"),
        ("rebuilds", {"resources": ["boards/b", "boards/b"]}, ("rebuild", ["boards/b"], "local"), "rebuild"),
        ("verify", None, ("verify", None, "local"), "verify"),
        ("verify", {"resources": ["boards/b"], "engine": "spark"}, ("verify", ["boards/b"], "spark"), "verify"),
    ],
)
def test_a_job_does_what_was_asked(
    client: AppClient, work: FakeMaintenance, what: str, body: Any, call: tuple[Any, ...], kind: str
) -> None:
    assert client.put("/v1/boards/b", json=BOARD).status_code == 201
    assert start(client, what, body) == "j1"
    shown = ended(client, "j1")
    assert (shown["job"], shown["kind"], shown["state"], shown["progress"]) == ("j1", kind, "succeeded", 1)
    assert work.calls == [call]


def test_a_snapshot_shows_what_came_of_it(client: AppClient) -> None:
    assert ended(client, start(client, "snapshots"))["detail"] == {"lsn": 7, "bytes": 2_500_000, "seconds": 0.5}


@pytest.mark.parametrize(
    ("what", "body", "fields"),
    [
        ("snapshots", {"resources": []}, ["resources"]),
        ("rebuilds", {"engine": "hadoop"}, ["engine"]),
        ("rebuilds", {"resources": []}, ["resources"]),
        ("rebuilds", {"resources": "boards/b"}, ["resources"]),
        ("rebuilds", {"resources": ["boards/b", "boards/nobody", "b", "maps/b"], "more": 1}, ["more"]),
        ("rebuilds", {"resources": ["boards/nobody"]}, ["resources[0]"]),
        ("verify", {"resources": ["boards/b", "boards/nobody", "b", "maps/b"]}, [f"resources[{n}]" for n in (1, 2, 3)]),
        ("verify", {"engine": None}, ["engine"]),
        ("verify", {"resources": [7]}, ["resources[0]"]),
    ],
)
def test_a_bad_request_is_refused_by_field(
    client: AppClient, work: FakeMaintenance, what: str, body: Any, fields: list[str]
) -> None:
    client.put("/v1/boards/b", json=BOARD)
    answer = client.post(f"{ADMIN}/{what}", json=body)
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == fields
    assert client.get(JOBS).json() == {"items": [], "next": None}
    assert work.calls == []


def test_a_name_without_what_it_is_of_is_answered_with_the_whole_one(client: AppClient, work: FakeMaintenance) -> None:
    client.put("/v1/boards/b", json=BOARD)
    client.put("/v1/feeds/b", json={"window": 10, "bounds": [0, 0, 1, 1]})
    errors = client.post(f"{ADMIN}/verify", json={"resources": ["b", "c"]}).json()["errors"]
    assert [one["reason"] for one in errors] == ["there is no 'b'; name it boards/b or feeds/b", "there is no 'c'"]


def test_what_is_no_json_and_unknown_parameters_are_refused(client: AppClient) -> None:
    assert (
        client.post(f"{ADMIN}/rebuilds", content=b"{", headers={"content-type": "application/json"}).status_code == 400
    )
    assert client.post(f"{ADMIN}/rebuilds", content=b"{}", headers={"content-type": "text/plain"}).status_code == 415
    for what in ("snapshots", "rebuilds", "verify"):
        answer = client.post(f"{ADMIN}/{what}", headers={"content-type": "text/plain"})
        assert answer.status_code == 415
        assert client.get(JOBS).json()["items"] == []
    for method, path in (("POST", f"{ADMIN}/snapshots"), ("GET", JOBS), ("GET", f"{JOBS}/j1")):
        assert client.request(method, f"{path}?more=1").status_code == 422


@pytest.mark.parametrize("id", ["j1", "j0", "j01", "1", "x", "j99999999999999999999999", "j%C2%B2"])
def test_an_unknown_job_is_not_found(client: AppClient, id: str) -> None:
    for path in (f"{JOBS}/{id}", f"{JOBS}/{id}/stream"):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (404, "id")


def test_a_job_that_fails_says_why(client: AppClient, work: FakeMaintenance) -> None:
    work.fails = different(2)
    shown = ended(client, start(client, "verify"))
    assert (shown["state"], shown["detail"]["error"]) == ("failed", "2 lists differ")
    assert [one["subscription"] for one in shown["detail"]["differences"]] == ["s0", "s1"]


def test_past_the_limit_a_job_is_refused_for_now(client: AppClient, work: FakeMaintenance) -> None:
    work.go.clear()
    start(client, "snapshots")
    assert work.begun.acquire(timeout=LIMIT)
    for _ in range(16):
        start(client, "snapshots")
    answer = client.post(f"{ADMIN}/snapshots", headers={"idempotency-key": "full"})
    assert (answer.status_code, answer.json()["type"]) == (429, "/problems/too-many")
    assert "retry-after" in answer.headers
    assert len(client.get(JOBS).json()["items"]) == 17
    work.go.set()
    ended(client, "j17")
    assert start(client, "snapshots", **{"idempotency-key": "full"}) == "j18"


def test_jobs_come_in_pages_in_order_of_number(client: AppClient) -> None:
    for _ in range(12):
        ended(client, start(client, "snapshots"))
    found, cursor = [], ""
    while True:
        page = client.get(f"{JOBS}?limit=5{cursor}").json()
        found += [one["job"] for one in page["items"]]
        if page["next"] is None:
            break
        assert len(page["items"]) == 5
        cursor = f"&cursor={page['next']}"
    assert found == [f"j{n}" for n in range(1, 13)]
    refused = client.get(f"{JOBS}?cursor=MWE")
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "cursor")


def test_jobs_are_for_admins(client: AppClient) -> None:
    made = client.post(f"{ADMIN}/keys", json={"name": "n", "scopes": ["admin"]}).json()["key"]
    admin = {"authorization": f"Bearer {made}"}
    body = {"name": "n", "scopes": ["boards:read", "boards:write"]}
    other = {"authorization": f"Bearer {client.post(f'{ADMIN}/keys', json=body, headers=admin).json()['key']}"}
    start(client, "snapshots", **admin)
    requests = [("POST", f"{ADMIN}/{what}") for what in ("snapshots", "rebuilds", "verify")]
    requests += [("GET", JOBS), ("GET", f"{JOBS}/j1"), ("GET", f"{JOBS}/j1/stream")]
    for method, path in requests:
        assert client.request(method, path).status_code == 401
        assert client.request(method, path, headers=other).status_code == 403
    assert client.get(f"{JOBS}/j1", headers=admin).status_code == 200


def test_a_stream_shows_the_job_to_its_end(client: AppClient, work: FakeMaintenance) -> None:
    work.go.clear()
    work.steps = [(0.25, "writing objects")]
    id = start(client, "snapshots")
    assert work.begun.acquire(timeout=LIMIT)
    wait_until(lambda: client.get(f"{JOBS}/{id}").json()["progress"] == 0.25)

    def go() -> None:
        # The test client reads a stream only when it has ended, so who lets the job go is another.
        wait_until(lambda: b'rankcast_streams{transport="sse"} 1.0' in client.get("/metrics").content)
        work.go.set()

    thread = threading.Thread(target=go)
    thread.start()
    answer = client.get(f"{JOBS}/{id}/stream")
    thread.join()
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    said = blocks(answer.text)
    assert [one["event"] for one in said] == ["progress", "progress", "gone"]
    first, last = said[0]["data"], said[1]["data"]
    assert (first["state"], first["progress"], first["detail"]) == ("running", 0.25, {"step": "writing objects"})
    assert last == client.get(f"{JOBS}/{id}").json()
    assert (last["state"], last["progress"]) == ("succeeded", 1)
    assert all(one["id"].startswith(f"{id}:") for one in said)


def test_a_stream_of_an_ended_job_says_so_at_once(client: AppClient, work: FakeMaintenance) -> None:
    work.fails = JobFailed("there is no Java")
    id = start(client, "rebuilds", {"engine": "spark"})
    shown = ended(client, id)
    said = blocks(client.get(f"{JOBS}/{id}/stream").text)
    assert [(one["event"], one["data"]) for one in said] == [("progress", shown), ("gone", {"job": id})]
    assert shown["detail"] == {"error": "there is no Java"}


def test_a_replay_names_the_first_job_and_starts_none(client: AppClient, work: FakeMaintenance) -> None:
    key = {"idempotency-key": "once"}
    id = start(client, "snapshots", **key)
    ended(client, id)
    again = client.post(f"{ADMIN}/snapshots", headers=key)
    assert (again.status_code, again.json()) == (202, {"job": id, "replayed": True})
    other = client.post(f"{ADMIN}/rebuilds", headers=key)
    assert (other.status_code, other.json()["type"]) == (422, "/problems/key-reused")
    refused = client.post(f"{ADMIN}/rebuilds", json={"engine": "x"}, headers={"idempotency-key": "later"})
    assert refused.status_code == 422
    assert start(client, "rebuilds", **{"idempotency-key": "later"}) == "j2"
    ended(client, "j2")
    assert len(work.calls) == 2


def test_a_replay_after_a_restart_names_no_other_job(work: FakeMaintenance, tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data")
    key = {"idempotency-key": "once"}
    with AppClient(create_app(settings), base_url=URL) as client:
        assert start(client, "snapshots", **key) == "j1"
        ended(client, "j1")
    with AppClient(create_app(settings), base_url=URL) as client:
        again = client.post(f"{ADMIN}/snapshots", headers=key)
        assert (again.status_code, again.json()) == (202, {"job": "j1", "replayed": True})
        assert client.get(f"{JOBS}/j1").status_code == 404
        assert start(client, "snapshots") == "j2"
        ended(client, "j2")
        assert len(work.calls) == 2


def test_the_service_ends_although_a_job_runs(work: FakeMaintenance, tmp_path: Path) -> None:
    work.go.clear()
    with AppClient(create_app(Settings(data=tmp_path / "data")), base_url=URL) as client:
        start(client, "snapshots")
        assert work.begun.acquire(timeout=LIMIT)
        start(client, "snapshots")
    assert len(work.calls) == 1


def test_deleting_a_key_ends_its_streams(client: AppClient, work: FakeMaintenance) -> None:
    work.go.clear()
    keys = [{"name": name, "scopes": ["admin"]} for name in "ab"]
    first = client.post(f"{ADMIN}/keys", json=keys[0]).json()
    admin = {"authorization": f"Bearer {first['key']}"}
    second = client.post(f"{ADMIN}/keys", json=keys[1], headers=admin).json()
    id = start(client, "snapshots", **admin)
    said: list[str] = []

    def follow() -> None:
        headers = {"authorization": f"Bearer {second['key']}"}
        said.append(client.get(f"{JOBS}/{id}/stream", headers=headers).text)

    thread = threading.Thread(target=follow)
    thread.start()
    wait_until(lambda: b'rankcast_streams{transport="sse"} 1.0' in client.get("/metrics", headers=admin).content)
    assert client.delete(f"{ADMIN}/keys/{second['id']}", headers=admin).status_code == 200
    thread.join(LIMIT)
    assert not thread.is_alive()
    assert "event: gone" not in said[0]


class Connection:
    """A stream read by hand: `sent` are its pieces; nothing is taken while `take` is cleared."""

    def __init__(self, job: Job, **settings: Any) -> None:
        self.sent: list[bytes] = []
        self.take = asyncio.Event()
        self.take.set()
        self.news = asyncio.Condition()
        self.hub = Hub("e", Settings(**settings), [], Metrics())
        self._response = JobStream(self.hub, Keyring(), NOBODY_ASKED, job)

    async def run(self) -> None:
        await self._response({"type": "http"}, self._receive, self._send)

    async def _receive(self) -> Any:
        await asyncio.Event().wait()

    async def _send(self, message: Any) -> None:
        await self.take.wait()
        async with self.news:
            self.sent.append(message.get("body", b""))
            self.news.notify_all()

    async def wait(self, text: bytes) -> None:
        async with self.news:
            await self.news.wait_for(lambda: text in b"".join(self.sent))


def test_a_quiet_stream_gives_signs_of_life() -> None:
    async def test() -> None:
        job = Job(4, "snapshot")
        connection = Connection(job, heartbeat_seconds=0.01)
        connection.hub.start()
        task = asyncio.create_task(connection.run())
        await connection.wait(b"\n\nid: j4:0\n\n")
        job.finish("succeeded", {})
        await task
        assert b"".join(connection.sent).count(b"event: ") == 3
        connection.hub.stop()

    asyncio.run(asyncio.wait_for(test(), LIMIT))


def test_a_slow_reader_gets_the_newest_state_and_the_end() -> None:
    async def test() -> None:
        job = Job(4, "snapshot", pause=0.0)
        connection = Connection(job)
        task = asyncio.create_task(connection.run())
        await connection.wait(b"queued")
        connection.take.clear()
        for n in range(1000):
            job.advance(n / 1000, "on the way")
            await asyncio.sleep(0)
        connection.take.set()
        await connection.wait(b'"progress":0.999')
        job.finish("failed", {"error": "no"})
        await task
        events = b"".join(connection.sent).count(b"event: progress")
        assert 3 <= events <= 4
        assert connection.hub.counts().connections == 0

    asyncio.run(asyncio.wait_for(test(), LIMIT))


def test_a_service_that_ends_ends_the_streams() -> None:
    async def test() -> None:
        connection = Connection(Job(4, "snapshot"))
        task = asyncio.create_task(connection.run())
        await connection.wait(b"queued")
        await connection.hub.close_all()
        await task
        assert b"gone" not in b"".join(connection.sent)

    asyncio.run(asyncio.wait_for(test(), LIMIT))


# --- cancelling -------------------------------------------------------------------------------------------------------


def cancel(client: AppClient, id: str) -> dict[str, Any]:
    """What the service answers that is to cancel a job."""
    answer = client.delete(f"{JOBS}/{id}")
    assert answer.status_code == 200, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


def test_a_job_that_waits_is_cancelled_at_once_and_never_begins(client: AppClient, work: FakeMaintenance) -> None:
    work.go.clear()
    first, second, third = (start(client, "snapshots") for _ in range(3))
    assert work.begun.acquire(timeout=LIMIT)
    shown = cancel(client, second)
    assert (shown["state"], shown["started"], shown["detail"]) == (
        "cancelled",
        None,
        {"error": "the job was cancelled"},
    )
    assert shown["ended"] is not None
    work.go.set()
    assert ended(client, third)["state"] == ended(client, first)["state"] == "succeeded"
    assert len(work.calls) == 2
    assert 'rankcast_jobs_total{kind="snapshot",state="cancelled"} 1.0' in client.get("/metrics").text


def test_a_job_that_runs_is_cancelled_and_the_next_one_runs(client: AppClient, work: FakeMaintenance) -> None:
    work.go.clear()
    first, second = start(client, "rebuilds"), start(client, "snapshots")
    assert work.begun.acquire(timeout=LIMIT)
    for _ in range(2):
        assert cancel(client, first)["state"] in ("running", "cancelled")
    shown = ended(client, first)
    assert (shown["state"], shown["detail"]) == ("cancelled", {"error": "the job was cancelled"})
    assert blocks(client.get(f"{JOBS}/{first}/stream").text)[0]["data"]["state"] == "cancelled"
    assert work.begun.acquire(timeout=LIMIT)
    work.go.set()
    assert ended(client, second)["state"] == "succeeded"


def test_a_job_that_has_ended_stays_what_it_was(client: AppClient, work: FakeMaintenance) -> None:
    first = start(client, "snapshots")
    shown = ended(client, first)
    assert cancel(client, first) == shown
    work.fails = JobFailed("it cannot be")
    second = start(client, "snapshots")
    shown = ended(client, second)
    assert shown["state"] == "failed" and cancel(client, second) == shown


@pytest.mark.parametrize("id", ["j1", "j0", "x"])
def test_a_job_that_is_not_known_cannot_be_cancelled(client: AppClient, id: str) -> None:
    answer = client.delete(f"{JOBS}/{id}")
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (404, "id")
