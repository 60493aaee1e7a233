"""What is compiled when, and who waits for it."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from app.api.problems import from_error
from app.errors import NotReady
from app.main import create_app
from app.runtime import kernels as module
from app.runtime.kernels import Kernels
from app.settings import Settings
from indexes.compiled import warming
from indexes.compiled.warming import Group
from tests.support.app_client import AppClient
from tests.support.patience import PATIENCE, wait_until
from tests.support.service_fixtures import URL

GROUPS = (
    Group("boards", "main", 10, main=True),
    Group("maps", "main", 10, main=True),
    Group("feeds", "main", 10, main=True),
    Group("boards", "batch", 10),
    Group("maps", "rare", 10),
)


class Worker:
    """In place of a process that compiles: `asked` are the groups that it was given, `say` is what it prints."""

    pid = 0

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.killed = threading.Event()
        self.nice = False
        self._lines: Queue[str | None] = Queue()
        self.stdin = self.stdout = self

    def write(self, text: str) -> None:
        self.asked.append(text.strip())

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def kill(self) -> None:
        self.killed.set()
        self._lines.put(None)

    def wait(self) -> int:
        return -9

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines.get, None)

    def say(self, **what: Any) -> None:
        self._lines.put(json.dumps(what) + "\n")

    def finish(self) -> None:
        """The group that it was asked for last is ready."""
        self.say(group=self.asked[-1], seconds=1.0)


class Shop:
    """The workers of the kernels of a test, the groups that are on disk, and those that were loaded."""

    def __init__(self) -> None:
        self.workers: list[Worker] = []
        self.on_disk: set[str] = set()
        self.loaded: list[str] = []

    def asked(self) -> list[str]:
        return sorted(worker.asked[-1] for worker in self.workers if worker.asked)

    def worker(self, group: str) -> Worker:
        """The one that is asked for a group last, once it is."""
        wait_until(lambda: group in self.asked())
        return next(worker for worker in self.workers if worker.asked and worker.asked[-1] == group)


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Shop:
    made = Shop()

    def spawn(self: Kernels) -> Worker:
        worker = Worker()
        made.workers.append(worker)
        self._processes.add(worker)  # type: ignore[arg-type]
        return worker

    monkeypatch.setattr(module, "compiles", lambda: True)
    monkeypatch.setattr(module, "processors", lambda: 2)
    monkeypatch.setattr(module, "_be_nice", lambda worker: setattr(worker, "nice", True))
    monkeypatch.setattr(Kernels, "_spawn", spawn)
    monkeypatch.setattr(warming, "GROUPS", GROUPS)
    monkeypatch.setattr(warming, "is_ready", lambda group: group.name in made.on_disk)
    monkeypatch.setattr(warming, "load", lambda group, share=1.0: made.loaded.append(group.name))
    return made


@pytest.fixture
def start(shop: Shop) -> Iterator[Callable[..., Kernels]]:
    started: list[Kernels] = []

    def begin(*given: Any, **more: Any) -> Kernels:
        kernels = Kernels(*given, **more)
        started.append(kernels)
        kernels.start()
        return kernels

    yield begin
    for kernels in started:
        kernels.stop()


Start = Callable[..., Kernels]


def test_what_is_on_disk_is_ready_at_once_and_loaded(shop: Shop, start: Start) -> None:
    shop.on_disk = {group.name for group in GROUPS}
    kernels = start()
    assert kernels.ready and kernels.serves_all and kernels.share == 1.0
    wait_until(lambda: len(shop.loaded) == len(GROUPS))
    assert shop.workers == []


def test_main_paths_are_compiled_in_all_cores_and_the_rest_leaves_one(shop: Shop, start: Start) -> None:
    kernels = start()
    wait_until(lambda: shop.asked() == ["boards.main", "maps.main"])
    assert not any(worker.nice for worker in shop.workers)
    shop.worker("boards.main").finish()
    feeds = shop.worker("feeds.main")
    wait_until(lambda: kernels.serves("boards"))
    assert not kernels.serves("maps") and not kernels.serves_all
    maps = shop.worker("maps.main")
    maps.finish()
    feeds.finish()
    wait_until(lambda: kernels.serves_all)
    background = shop.worker("boards.batch")
    assert background is shop.workers[0] or background is shop.workers[1]
    time.sleep(0.05)  # long enough for the other to take the next one if it were to
    assert sum("maps.rare" in worker.asked for worker in shop.workers) == 0
    assert background.nice
    background.finish()
    shop.worker("maps.rare").finish()
    wait_until(lambda: kernels.ready)
    wait_until(lambda: sorted(shop.loaded) == sorted(group.name for group in GROUPS))


def test_resources_that_go_first_are_compiled_before_the_others(shop: Shop, start: Start) -> None:
    kernels = start(("maps",))
    maps = shop.worker("maps.main")
    time.sleep(0.05)
    assert shop.asked() == ["maps.main"]
    maps.finish()
    wait_until(lambda: kernels.serves("maps"))
    shop.worker("boards.main")


def test_all_is_compiled_at_once_where_there_is_no_background(shop: Shop, start: Start) -> None:
    kernels = start(background=False)
    for _ in GROUPS:
        wait_until(lambda: any(worker.asked and worker.asked[-1] not in shop.loaded for worker in shop.workers))
        next(worker for worker in shop.workers if worker.asked and worker.asked[-1] not in shop.loaded).finish()
        count = len(shop.loaded)
        wait_until(lambda count=count: len(shop.loaded) > count)
    kernels.wait()
    assert kernels.ready and not any(worker.nice for worker in shop.workers)


def test_what_somebody_waits_for_comes_next(shop: Shop, start: Start) -> None:
    kernels = start()
    boards = shop.worker("boards.main")

    async def waits() -> None:
        waiting = asyncio.create_task(kernels.need("maps.rare"))
        await asyncio.to_thread(wait_until, lambda: kernels._states["maps.rare"].waiting)
        boards.finish()
        rare = await asyncio.to_thread(shop.worker, "maps.rare")
        assert not waiting.done()
        rare.finish()
        await asyncio.wait_for(waiting, PATIENCE)

    asyncio.run(waits())
    assert "feeds.main" not in shop.loaded


def test_who_has_waited_long_enough_is_refused_and_others_wait_for_nothing(shop: Shop, start: Start) -> None:
    shop.on_disk = {"maps.main"}
    kernels = start()
    shop.worker("boards.main").say(kernel="a", seconds=0.1)
    wait_until(lambda: kernels._states["boards.main"].compiled == 1)
    with pytest.raises(NotReady) as refused:
        asyncio.run(kernels.need("maps.main", "boards.main", seconds=0.01))
    problem = from_error(refused.value)
    assert problem.status_code == 503
    assert problem.slug == "not-ready"
    assert problem.headers is not None and int(problem.headers["Retry-After"]) >= 1
    assert "boards.main" in str(refused.value.detail) and "10%" in str(refused.value.detail)
    asyncio.run(kernels.need("maps.main", seconds=0.0))
    asyncio.run(kernels.need(seconds=0.0))


def test_a_group_that_fails_is_reported_and_holds_nobody_up(shop: Shop, start: Start) -> None:
    kernels = start()
    shop.worker("boards.main").say(group="boards.main", error="ValueError: no")
    shop.worker("maps.main").kill()  # as if the process had died
    asyncio.run(kernels.need("boards.main", "maps.main"))
    assert kernels.failures["boards.main"] == "ValueError: no"
    assert "ended with status -9" in kernels.failures["maps.main"]
    shop.worker("feeds.main").finish()
    wait_until(lambda: kernels.serves_all)
    assert shop.loaded == ["feeds.main"]


def test_the_share_grows_to_1(shop: Shop, start: Start) -> None:
    shares: list[float] = []
    kernels: Kernels = start((), lambda group, kernel, seconds: shares.append(kernels.share), False)
    for number in range(len(GROUPS)):
        wait_until(lambda: any(worker.asked and worker.asked[-1] not in shop.loaded for worker in shop.workers))
        worker = next(worker for worker in shop.workers if worker.asked and worker.asked[-1] not in shop.loaded)
        for kernel in range((0, 4, 30, 10, 9)[number]):  # fewer and more than were foreseen
            worker.say(kernel=f"k{kernel}", seconds=0.1)
        worker.finish()
        wait_until(lambda number=number: len(shop.loaded) > number)
    wait_until(lambda: kernels.ready)
    assert shares == sorted(shares) and 0 < shares[0] < 1 and kernels.share == 1.0
    assert max(share for share in shares if share < 1) < 1


def test_stopping_ends_the_processes_and_refuses_those_that_wait(shop: Shop, start: Start) -> None:
    kernels = start()
    shop.worker("boards.main")
    shop.worker("maps.main")

    async def waits() -> None:
        waiting = asyncio.create_task(kernels.need("boards.main", seconds=None))
        await asyncio.to_thread(wait_until, lambda: kernels._states["boards.main"].waiting)
        kernels.stop()
        with pytest.raises(NotReady):
            await asyncio.wait_for(waiting, PATIENCE)
        with pytest.raises(NotReady):
            await kernels.need("feeds.main")

    asyncio.run(waits())
    assert all(worker.killed.is_set() for worker in shop.workers)
    assert shop.loaded == []
    kernels.wait()


# --- over HTTP ------------------------------------------------------------------------------------------------------

BOARD = {"range_attributes": ["x"], "rank": {"attribute": "y", "order": "desc"}, "ks": [2]}
FEED = {"window": 10, "bounds": [0, 0, 1, 1]}


@pytest.fixture
def cold(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AppClient]:
    """A client of a service whose feeds are compiled and nothing else."""
    shop.on_disk = {"feeds.main"}
    monkeypatch.setattr(module.Kernels.need, "__kwdefaults__", {"seconds": 0.05})
    with AppClient(create_app(Settings(data=tmp_path / "data")), base_url=URL) as client:
        yield client


@pytest.fixture
def _kernels_when_needed() -> None:
    """In place of the fixture of all others: here it is seen what is compiled when."""


def test_readiness_is_told_in_steps(shop: Shop, cold: AppClient) -> None:
    answer = cold.get("/readyz")
    assert answer.status_code == 503 and int(answer.headers["retry-after"]) >= 1
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert (body["ready"], body["warm"], body["resources"]) == (False, 0.2, {"boards": 0.0, "maps": 0.0, "feeds": 1.0})
    shop.worker("boards.main").finish()
    shop.worker("maps.main").finish()
    wait_until(lambda: cold.get("/readyz").status_code == 200)
    body = cold.get("/readyz").json()
    assert body["ready"] is True and body["warm"] == 0.6
    assert body["resources"] == {"boards": 1.0, "maps": 1.0, "feeds": 1.0}
    shop.worker("boards.batch").finish()
    shop.worker("maps.rare").finish()
    wait_until(lambda: cold.get("/readyz").json()["warm"] == 1.0)


def test_a_resource_whose_kernels_are_missing_is_refused_for_now_and_others_are_not(
    shop: Shop, cold: AppClient
) -> None:
    answer = cold.put("/v1/boards/b", json=BOARD)
    assert answer.status_code == 503 and int(answer.headers["retry-after"]) >= 1
    assert answer.json()["type"].endswith("not-ready")
    assert cold.get("/v1/boards/b").status_code == 404
    assert cold.put("/v1/feeds/f", json=FEED).status_code == 201
    shop.worker("boards.main").finish()
    wait_until(lambda: cold.put("/v1/boards/b", json=BOARD).status_code == 201)


def test_a_batch_waits_for_its_kernels_and_single_events_do_not(shop: Shop, cold: AppClient) -> None:
    shop.worker("boards.main").finish()
    wait_until(lambda: cold.put("/v1/boards/b", json=BOARD).status_code == 201)
    events = {"events": [{"op": "upsert", "id": "a", "values": {"x": 1, "y": 2}}]}
    assert cold.post("/v1/boards/b/events", json=events).status_code == 200
    refused = cold.post("/v1/boards/b/events", json={**events, "mode": "batch"})
    assert refused.status_code == 503, refused.text
    shop.worker("boards.batch").finish()
    wait_until(lambda: cold.post("/v1/boards/b/events", json={**events, "mode": "batch"}).status_code == 200)


def test_a_job_waits_for_the_kernels_that_it_needs_of_what_there_is(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warming, "GROUPS", (*GROUPS, Group("boards", "maintenance", 10)))
    shop.on_disk = {"boards.main"}
    with AppClient(create_app(Settings(data=tmp_path / "data", warm_first=("boards",))), base_url=URL) as client:

        def snapshot() -> Callable[[], Any]:
            job = client.post("/v1/admin/snapshots").json()["job"]
            return lambda: client.get(f"/v1/admin/jobs/{job}").json()

        nothing = snapshot()
        wait_until(lambda: nothing()["state"] == "succeeded")
        assert client.put("/v1/boards/b", json=BOARD).status_code == 201
        job = snapshot()
        wait_until(lambda: job()["detail"] == {"step": "waiting for kernels", "kernels": 0.5})
        shop.worker("boards.maintenance").finish()
        wait_until(lambda: job()["state"] == "succeeded")
        assert "maps.main" in shop.asked() and not shop.loaded.count("maps.main")
