"""What the jobs do, on a real service: snapshots, rebuilds beside writes, and verifications that find what is wrong."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.errors import LogUnavailable
from app.resources import board_maintenance
from app.storage.snapshots import read_answers, read_keys
from app.write_path import maintenance as module
from app.write_path import repair as repair_module
from formats.boards import read_image, write_image
from formats.folder import Draft
from indexes.boards.engine import BoardEngine
from indexes.boards.kernels.range_tree import NOBODY
from indexes.boards.plans.maintenance import FoldPlan
from indexes.boards.state import state_of
from indexes.boards.subscription_index import SubscriptionIndex
from indexes.boards.verification import verify
from tests.support.patience import PATIENCE
from tests.support.running import Running, upsert
from tests.support.service_fixtures import Start
from tests.unit.boards.helpers import captured, same_columns
from tests.unit.formats.boards import files, harm


@pytest.fixture
def running(start: Start) -> Running:
    """A service with two boards."""
    found = start()
    found.make("a")
    found.make("b", 32, 20)
    return found


@pytest.fixture
def during(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """`during(act)` does something while a rebuild writes an image: after its snapshot, before its indexes are used."""

    def plan(act: Callable[[], None]) -> None:
        write = write_image
        left = [act]

        def acted(*given: Any) -> int:
            if left:
                left.pop()()
            return write(*given)

        monkeypatch.setattr(board_maintenance, "write_image", acted)

    return plan


def disk_full(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let every call of a method of a draft fail."""

    def full(*given: Any, **more: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Draft, name, full)


def test_a_snapshot_tells_what_it_is(running: Running, tmp_path: Path) -> None:
    detail = running.done("snapshots")
    last = running.service.writer.last_lsn
    size = sum(len(data) for name, data in files(tmp_path / "data/snapshots").items() if "manifest" not in name)
    assert (detail["lsn"], detail["bytes"]) == (last, size)
    assert detail["seconds"] >= 0 and set(detail) == {"lsn", "bytes", "seconds"}
    told = running.client.get("/metrics").text
    assert f"rankcast_snapshot_lsn {float(last)}" in told


def test_a_snapshot_has_every_board_as_it_stands(running: Running) -> None:
    running.make("c")
    running.drop("c")
    lsn = running.done("snapshots")["lsn"]
    found = running.service.snapshots.read(lsn)
    assert sorted(found.states) == ["boards/a", "boards/b"] and found.gone == {"boards/c": 72}
    for name in ("a", "b"):
        same_columns(found.states["boards/" + name], state_of(captured(running.board(name))))


def test_a_snapshot_of_an_empty_service(start: Start) -> None:
    running = start()
    assert running.done("snapshots")["lsn"] == 0
    assert running.done("rebuilds")["rows"] == 0
    assert running.done("verify") == {"compared": 0, "differences": [], "difference_count": 0}


def test_the_same_row_is_not_written_twice(running: Running, tmp_path: Path) -> None:
    first = running.done("snapshots")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "data/snapshots").rglob("*")}
    second = running.done("snapshots")
    assert (second["lsn"], second["bytes"]) == (first["lsn"], first["bytes"])
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "data/snapshots").rglob("*")} == before
    running.move("a", 1)
    assert running.done("snapshots")["lsn"] == first["lsn"] + 1


def test_a_damaged_snapshot_of_the_same_row_is_replaced(running: Running, tmp_path: Path) -> None:
    lsn = running.done("snapshots")["lsn"]
    good = files(tmp_path / f"data/snapshots/{lsn}/boards")
    harm(next((tmp_path / "data/snapshots").rglob("objects.parquet")), "flipped")
    assert running.done("snapshots")["lsn"] == lsn
    assert files(tmp_path / f"data/snapshots/{lsn}/boards") == good
    assert running.service.snapshots.is_good(lsn)


def test_a_foreign_snapshot_of_the_same_row_stays(running: Running, tmp_path: Path) -> None:
    lsn = running.done("snapshots")["lsn"]
    running.service.snapshots.epoch = "another"
    before = files(tmp_path / "data/snapshots")
    assert running.failed("snapshots")["error"].endswith(f"snapshots/{lsn} is there already")
    assert files(tmp_path / "data/snapshots") == before


def test_grown_says_whether_a_snapshot_is_worth_it(running: Running) -> None:
    maintenance = running.service.maintenance
    assert maintenance.grown
    running.done("snapshots")
    assert not maintenance.grown
    running.move("a", 1)
    assert maintenance.grown
    running.done("rebuilds", resources=["boards/b"])
    assert not maintenance.grown


def test_grown_is_known_after_a_restart(start: Start) -> None:
    running = start()
    running.make("a")
    running.done("snapshots")
    running.client.__exit__(None, None, None)
    again = start()
    assert not again.service.maintenance.grown
    assert again.service.maintenance.snapshot_lsn == again.service.writer.last_lsn > 0


def test_a_key_that_goes_is_not_in_the_next_snapshot(running: Running) -> None:
    made = [running.client.post("/v1/admin/keys", json={"name": "n", "scopes": ["admin"]}).json()]
    running.client.headers["Authorization"] = f"Bearer {made[0]['key']}"
    made.append(running.client.post("/v1/admin/keys", json={"name": "n", "scopes": ["admin"]}).json())
    first = running.done("snapshots")["lsn"]
    assert running.client.delete(f"/v1/admin/keys/{made[1]['id']}").status_code == 200
    assert running.service.maintenance.grown
    second = running.done("snapshots")["lsn"]
    found = [[row.id for row in read_keys(running.service.snapshots.folder(lsn))] for lsn in (first, second)]
    assert found == [sorted(key["id"] for key in made), [made[0]["id"]]]


def test_a_log_that_ends_before_a_snapshot_is_not_begun_from(start: Start, tmp_path: Path) -> None:
    running = start()
    running.make("a")
    running.done("snapshots")
    running.client.__exit__(None, None, None)
    for file in (tmp_path / "data").glob("rankcast.db*"):
        file.unlink()
    (tmp_path / "data" / "LOG_END").unlink(missing_ok=True)
    with pytest.raises(LogUnavailable, match="the log ends at row 0, although there is a snapshot"):
        start()


def test_keys_and_answers_are_in_it(running: Running) -> None:
    headers = {"Idempotency-Key": "first"}
    told = running.send("a", "events", {"events": [upsert("new", 1, 99)]}, 200, **headers)
    assert told["tile_count"] > 0
    key = running.client.post("/v1/admin/keys", json={"name": "n", "scopes": ["admin"]}).json()
    running.client.headers["Authorization"] = f"Bearer {key['key']}"
    lsn = running.done("snapshots")["lsn"]
    folder = running.service.snapshots.folder(lsn)
    assert read_keys(folder) == running.service.stores.keys.all()
    assert [row.id for row in read_keys(folder)] == [key["id"]]
    (answer,) = read_answers(folder)
    assert (answer.key, answer.status, answer.complete) == ("first", 200, True)
    assert f'"tile_count":{told["tile_count"]}'.encode() in answer.answer


def test_the_log_reaches_back_to_the_oldest_snapshot_that_is_kept(start: Start) -> None:
    running = start(keep_snapshots=2)
    log = running.service.stores.log
    running.make("a")
    lsns = []
    for _ in range(4):
        running.move("a", 1)
        lsns.append(running.done("snapshots")["lsn"])
        assert running.lsns == lsns[-2:][::-1]
        assert log.pruned_through == (lsns[-2] if len(lsns) >= 2 else 0)
    assert [row.lsn for row in log.replay(lsns[-2])] == list(range(lsns[-2] + 1, log.last_lsn + 1))


@pytest.mark.parametrize("method", ["file", "publish"])
@pytest.mark.parametrize("what", ["snapshots", "rebuilds"])
def test_a_disk_that_is_full_changes_nothing(
    start: Start, method: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start(keep_snapshots=1)
    running.make("a")
    lsn = running.done("snapshots")["lsn"]
    running.move("a", 3)
    index = running.board("a").painter.subscriptions
    with monkeypatch.context() as patched:
        disk_full(patched, method)
        assert running.failed(what)["error"] == "the snapshot cannot be written: No space left on device"
    assert running.lsns == [lsn] and running.service.snapshots.is_good(lsn)
    assert running.service.stores.log.pruned_through == lsn
    assert running.service.maintenance.grown
    assert running.board("a").painter.subscriptions is index
    assert running.board("a").subscribers.touched is None
    running.is_right()
    assert running.done(what)
    assert running.lsns == [lsn + 1]


def test_a_snapshot_that_cannot_be_read_back_prunes_nothing(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start(keep_snapshots=1)
    running.make("a")
    lsn = running.done("snapshots")["lsn"]
    running.move("a", 1)
    publish = Draft.publish

    def published(draft: Draft, fields: dict[str, Any]) -> None:
        publish(draft, fields)
        harm(Path(draft.folder.path) / "keys.parquet", "flipped")

    monkeypatch.setattr(Draft, "publish", published)
    error = running.failed("snapshots")["error"]
    assert error.startswith("the snapshot cannot be written") and "keys.parquet is damaged" in error
    assert running.service.stores.log.pruned_through == lsn
    assert running.service.snapshots.is_good(lsn)
    newest = running.service.snapshots.newest(lsn, lsn + 1)
    assert newest is not None and newest.lsn == lsn


@pytest.mark.parametrize("what", ["snapshots", "rebuilds", "verify"])
def test_a_log_that_is_away_fails_the_job_and_nothing_else(
    running: Running, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*given: Any) -> None:
        raise LogUnavailable("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(running.service.writer.committer, "complete_answers", away)
        assert running.failed(what)["error"] == "the state cannot be copied: the disk is full"
    assert running.lsns == []
    assert all(running.board(name).subscribers.touched is None for name in ("a", "b"))
    running.is_right()


def fail_for_long(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let board b fail, and each rebuild of it."""

    def lost(resource: str) -> Any:
        raise LogUnavailable("the log cannot be read")

    monkeypatch.setattr(running.service.writer.repair, "rebuild", lost)
    monkeypatch.setattr(repair_module, "PATIENCE", 0.0)
    monkeypatch.setattr(running.board("b").painter, "run", None)
    answer = running.client.post("/v1/boards/b/events", json={"events": [upsert("o1", 1, 1)]})
    assert answer.status_code == 503


@pytest.mark.parametrize("what", ["rebuilds", "verify"])
def test_a_board_that_failed_fails_the_job_once_the_others_are_done(
    running: Running, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_for_long(running, monkeypatch)
    detail = running.failed(what)
    assert detail["error"] == "boards/b failed on a command and cannot be rebuilt yet"
    assert detail["failed"] == ["boards/b"]
    assert detail["compared" if what == "verify" else "rows"] > 0
    assert running.board("a").subscribers.touched is None
    running.move("a", 2)


def test_a_snapshot_goes_on_without_a_board_that_failed(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_for_long(running, monkeypatch)
    detail = running.done("snapshots")
    assert detail["failed"] == ["boards/b"]
    assert running.service.snapshots.behind(detail["lsn"]) == {"boards/b": 0}
    assert running.lsns == [detail["lsn"]]


def test_a_rebuild_tells_what_it_did(running: Running) -> None:
    detail = running.done("rebuilds", resources=["boards/a"])
    assert (detail["engine"], detail["rows"]) == ("local", 30 + 40)
    assert detail["seconds"] >= detail["swap_seconds"] >= 0
    assert running.done("rebuilds")["rows"] == 30 + 40 + 32 + 20


def test_a_rebuilt_board_stands_on_its_image(running: Running) -> None:
    old = {name: running.board(name).painter.subscriptions for name in ("a", "b")}
    running.done("rebuilds", resources=["boards/a"])
    assert running.board("b").painter.subscriptions is old["b"]
    index = running.board("a").painter.subscriptions
    assert index is not old["a"] and index.edits == 0
    (lsn,) = running.lsns
    image = read_image(running.service.snapshots.image(lsn, "boards/a"))
    for name, column in (*image.forest.slots._asdict().items(), *image.forest.nodes._asdict().items()):
        np.testing.assert_array_equal(getattr(index.arrays, name), column)
    assert not running.service.snapshots.image(lsn, "boards/b").exists
    running.is_right()


def test_what_changes_while_a_rebuild_runs_is_in_the_new_indexes(
    running: Running, during: Callable[[Callable[[], None]], None]
) -> None:
    def change() -> None:
        running.edit("a", "s1", 3.0, 9.0, 5)
        running.edit("a", "s2", 0.0, 19.0, 2)
        running.edit("a", "fresh", 2.0, 4.0, 2)
        running.delete("a", "s3", "s4")
        running.edit("a", "s4", 1.0, 2.0, 5)
        running.subscribe("a", 10, "t")
        running.delete("a", "t0")
        running.move("a", 20)
        running.move("a", 5, "p")

    during(change)
    old = running.board("a").painter.subscriptions
    running.done("rebuilds", resources=["boards/a"])
    index = running.board("a").painter.subscriptions
    assert index is not old
    # Taken out: s1 to s4. What is put in are so many of so few that their classes are laid out anew.
    assert index.edits == 4
    assert running.board("a").subscribers.touched is None
    running.is_right()


def test_what_a_swap_may_leave_to_others_is_done_in_no_turn_of_the_board(
    running: Running, during: Callable[[Callable[[], None]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What changed is folded in before, in the background, and the indexes that were in use go behind it."""
    noted: list[tuple[str, str]] = []

    def note(what: str) -> None:
        noted.append((what, threading.current_thread().name.rpartition("_")[0]))

    def noting(owner: Any, name: str) -> None:
        call = getattr(owner, name)

        def called(*given: Any) -> Any:
            note(name)
            return call(*given)

        monkeypatch.setattr(owner, name, called)

    noting(board_maintenance, "rehearse")
    noting(FoldPlan, "execute")
    noting(SubscriptionIndex, "insert_many")
    weakref.finalize(running.board("a").painter.subscriptions, note, "gone")
    weakref.finalize(running.board("a").painter.objects, note, "gone")
    weakref.finalize(running.board("a").catalogue.view, note, "gone")
    during(lambda: running.edit("a", "s1", 3.0, 9.0, 5))
    running.done("rebuilds", resources=["boards/a"])
    begun = noted.index(("rehearse", "background"))
    assert noted[begun:] == [
        ("rehearse", "background"),
        ("insert_many", "background"),
        ("execute", "kernel"),
        *[("gone", "kernel")] * 3,
    ]
    running.is_right()


def test_streams_stay_exact_while_indexes_are_swapped(
    running: Running, during: Callable[[Callable[[], None]], None]
) -> None:
    board = running.board("a")
    live = running.call(board.watch, "s5")
    during(lambda: running.move("a", 10))
    running.done("rebuilds", resources=["boards/a"])
    running.move("a", 30)
    shown = [thing.id for thing in board.list_of(live)]
    assert shown == [thing.id for thing in running.worlds["a"].list_of("s5")]
    running.call(board.unwatch, live)
    running.is_right()


def test_a_board_that_is_deleted_meanwhile_is_passed_over(
    running: Running, during: Callable[[Callable[[], None]], None]
) -> None:
    during(lambda: running.drop("a"))
    assert running.done("rebuilds")["rows"] == 30 + 40 + 32 + 20
    assert running.client.get("/v1/boards/a").status_code == 404
    running.is_right()


def test_a_board_that_is_made_anew_meanwhile_keeps_its_own_indexes(
    running: Running, during: Callable[[Callable[[], None]], None]
) -> None:
    def anew() -> None:
        running.drop("a")
        running.make("a", 7, 9)

    during(anew)
    running.done("rebuilds")
    assert running.board("a").subscription_count == 9
    running.is_right()
    running.done("rebuilds")
    running.is_right()


def test_a_board_that_is_made_with_more_attributes_meanwhile_goes_on(
    running: Running, during: Callable[[Callable[[], None]], None]
) -> None:
    path, wide = "/v1/boards/a", {"range_attributes": ["x", "z"], "rank": {"attribute": "y"}, "ks": [2]}

    def anew() -> None:
        running.drop("a")
        assert running.client.put(path, json=wide).status_code == 201

    during(anew)
    running.done("rebuilds")
    answer = running.client.put(f"{path}/objects/o", json={"values": {"x": 1, "y": 2, "z": 3}})
    assert answer.status_code == 201, "it did not fail"


def test_a_damaged_image_is_not_used(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    write = write_image

    def damaged(folder: Any, *given: Any) -> int:
        size = write(folder, *given)
        harm(Path(folder.path) / "nodes.arrow", "flipped")
        return size

    index = running.board("a").painter.subscriptions
    with monkeypatch.context() as patched:
        patched.setattr(board_maintenance, "write_image", damaged)
        assert "nodes.arrow is damaged" in running.failed("rebuilds")["error"]
    assert running.board("a").painter.subscriptions is index
    assert running.board("a").subscribers.touched is None
    running.is_right()
    running.done("rebuilds")
    assert running.board("a").painter.subscriptions is not index


def test_an_image_that_cannot_be_written_changes_no_index(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any) -> int:
        raise OSError(28, "No space left on device")

    index = running.board("a").painter.subscriptions
    with monkeypatch.context() as patched:
        patched.setattr(board_maintenance, "write_image", full)
        error = running.failed("rebuilds")["error"]
        assert error == "the image of boards/a cannot be written: No space left on device"
    assert running.board("a").painter.subscriptions is index
    assert running.board("a").subscribers.touched is None
    assert len(running.lsns) == 1
    running.is_right()


def test_a_second_rebuild_of_the_same_row_writes_the_same_image(running: Running, tmp_path: Path) -> None:
    running.done("rebuilds")
    before = files(tmp_path / "data/images")
    assert len(before) == 8
    running.done("rebuilds")
    assert files(tmp_path / "data/images") == before
    running.is_right()


@pytest.mark.parametrize("kind", ["snapshot", "rebuild", "verify"])
def test_progress_only_grows(running: Running, kind: str) -> None:
    heard: list[tuple[float, str]] = []
    lock = threading.Lock()

    def report(fraction: float, step: str, /) -> None:
        with lock:
            heard.append((fraction, step))

    work = getattr(running.service.maintenance, kind)
    running.call(work, report, *([] if kind == "snapshot" else [None, "local"]))
    fractions = [fraction for fraction, _ in heard]
    assert fractions == sorted(fractions)
    assert fractions[0] == 0.0 and fractions[-1] <= 1.0 and len(set(fractions)) > 2
    assert all(step for _, step in heard)


def wrong_y(board: BoardEngine) -> None:
    o = board.painter.objects.arrays
    o.y[o.pos[1]] += 1000.0


def wrong_list(board: BoardEngine) -> None:
    o = board.catalogue.view.arrays
    # As if there were nobody in any leaf.
    o.least[o.off[1] :], o.holder[o.off[1] :] = np.inf, NOBODY


def wrong_range(board: BoardEngine) -> None:
    f = board.painter.subscriptions.arrays
    f.l[f.pos[2]] -= 0.25


def wrong_box(board: BoardEngine) -> None:
    f = board.painter.subscriptions.arrays
    f.west[f.head[0, 1] + 1] -= 1.0


def wrong_id(board: BoardEngine) -> None:
    board.subscribers.ids.recent["s1"] = board.subscribers.ids.recent["s2"]


def wrong_live(board: BoardEngine) -> None:
    found = next(view for view in board.subscriptions(None, 10**6) if len(board.top(view.region, view.k)) > 1)
    board.watch(found.id)
    row = board.catalogue.rows[board.top(found.region, 1)[0].id]
    # Both indexes hear that the best is the worst now, the live list does not.
    for index in (board.painter.objects, board.catalogue.view):
        slot = index.slot(row)
        assert slot is not None
        index.set_y(slot, 1000.0)


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (wrong_y, "object"),
        (wrong_list, "list"),
        (wrong_range, "subscription"),
        (wrong_box, "index"),
        (wrong_id, "index"),
        (wrong_live, "live list"),
    ],
)
def test_damage_in_any_index_is_found(running: Running, damage: Callable[[BoardEngine], Any], kind: str) -> None:
    assert running.done("verify") == {"compared": 60, "differences": [], "difference_count": 0}
    running.call(damage, running.board("b"))
    detail = running.failed("verify")
    assert detail["difference_count"] == len(detail["differences"]) > 0
    assert {found["resource"] for found in detail["differences"]} == {"boards/b"}
    assert kind in {found["kind"] for found in detail["differences"]}
    assert detail["error"] == f"{detail['difference_count']} differences"
    assert running.done("verify", resources=["boards/a"])["compared"] == 40
    assert running.failed("verify", resources=["boards/b"])["compared"] >= 20


def test_of_many_differences_the_first_are_told(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHOWN", 3)
    running.call(wrong_list, running.board("a"))
    detail = running.failed("verify")
    assert len(detail["differences"]) == 3 < detail["difference_count"]


def test_a_verification_is_beside_writes(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks at a copy: what changes meanwhile is no difference."""

    def slow(found: Any) -> Iterator[Any]:
        running.move("a", 10)
        running.delete("a", "s0") if "s0" in running.worlds["a"].asks else None
        yield from verify(found)

    monkeypatch.setattr(board_maintenance, "verify", slow)
    detail = running.done("verify", resources=["boards/a"])
    assert detail["compared"] == 40
    assert len(running.worlds["a"].asks) == 39


@pytest.mark.parametrize("what", ["rebuilds", "verify"])
def test_a_board_that_goes_before_its_job_begins_is_no_failure(running: Running, what: str) -> None:
    kind = {"rebuilds": "rebuild", "verify": "verify"}[what]

    async def late() -> Any:
        work = getattr(running.service.maintenance, kind)
        return await work(lambda fraction, step: None, ["boards/gone", "boards/b"], "local")

    detail = running.call(late)
    assert detail.get("rows", 52) == 52 and detail.get("compared", 20) == 20


def test_worn_indexes_are_renewed_by_themselves(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.service.CHECK_CHURN_EVERY", 0.001)
    monkeypatch.setattr("app.service.WORTH_REBUILDING", 20)
    running = start(rebuild_share=1.5)
    running.make("small", 5, 10)
    running.make("a", 20, 40)
    for i in range(20):
        running.edit("small", f"s{i % 10}", 1.0, 2.0 + i, 5)
    # What was made in bulk does not count; changing one counts its end and its beginning.
    assert running.board("a").churn == 0.0
    assert not list(running.service.jobs)
    for i in range(32):
        running.edit("a", f"s{i}", 1.0, 2.0 + i, 2)

    async def first_job() -> Any:
        while not list(running.service.jobs):
            await asyncio.sleep(0.001)
        job = next(iter(running.service.jobs))
        await job.wait()
        return job

    job = running.call(first_job)
    assert (job.kind, job.state) == ("rebuild", "succeeded"), job.detail
    assert job.detail["rows"] == 20 + 40
    assert running.board("a").churn <= 1.5
    assert running.board("small").churn > 1.5
    running.is_right()


def test_a_share_of_nothing_renews_nothing(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    running = start(rebuild_share=0)

    async def ends() -> None:
        monkeypatch.setattr("app.service.CHECK_CHURN_EVERY", None)
        await running.service._rebuild_churned()

    running.call(ends)


def test_worn_names_those_that_are_worth_it(running: Running) -> None:
    maintenance = running.service.maintenance
    running.edit("a", "s1", 1.0, 2.0, 2)
    for i in range(15):
        running.edit("b", f"s{i}", 1.0, 2.0 + i, 2)
    assert maintenance.churned(0.01, 1) == ["boards/a", "boards/b"]
    assert maintenance.churned(0.5, 1) == ["boards/b"]
    assert maintenance.churned(0.5, 21) == []
    running.done("rebuilds")
    assert maintenance.churned(0.0, 1) == []


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_flipped_bit_in_the_newest_snapshot_loses_nothing(start: Start, tmp_path: Path, count: int) -> None:
    """Also where it is the only one: the log, or another snapshot with the log behind it, makes up for it."""
    running = start(keep_snapshots=2)
    running.make("a")
    for _ in range(count):
        running.move("a", 5)
        running.done("snapshots")
    newest = running.lsns[0]
    running.client.__exit__(None, None, None)
    harm(next((tmp_path / "data" / "snapshots" / str(newest)).rglob("objects.parquet")), "flipped")
    again = start(keep_snapshots=2)
    again.worlds = running.worlds
    again.is_right()


# --- cancelling -------------------------------------------------------------------------------------------------------


class Held:
    """A function of the work of a job that is held up in its thread until it may go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        self._there, self._go = threading.Event(), threading.Event()
        real = getattr(owner, name)

        def held(*given: Any, **more: Any) -> Any:
            self._there.set()
            assert self._go.wait(PATIENCE)
            return real(*given, **more)

        monkeypatch.setattr(owner, name, held)

    def reached(self) -> None:
        assert self._there.wait(PATIENCE)

    def go_on(self) -> None:
        self._go.set()


def cancelled(running: Running, what: str, held: Held, meanwhile: Callable[[], None] = lambda: None) -> Any:
    """A job that is cancelled while it is held up, once it has ended: only when what it was at has."""
    id = running.client.post(f"/v1/admin/{what}").json()["job"]
    held.reached()
    shown = running.client.delete(f"/v1/admin/jobs/{id}").json()
    assert (shown["state"], shown["detail"]) == ("running", {"step": "cancelling"})
    meanwhile()
    assert running.client.get(f"/v1/admin/jobs/{id}").json()["state"] == "running", "its thread still runs"
    held.go_on()
    running.call(running.service.jobs.wait, id)
    return running.client.get(f"/v1/admin/jobs/{id}").json()


def test_a_snapshot_that_is_cancelled_leaves_nothing(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        held = Held(patched, running.service.snapshots, "_fill")
        shown = cancelled(running, "snapshots", held, lambda: running.move("a", 3))
    assert (shown["state"], shown["detail"]) == ("cancelled", {"error": "the job was cancelled"})
    assert running.lsns == [] and list((tmp_path / "data" / "snapshots").iterdir()) == []
    assert running.done("snapshots")["lsn"] == running.service.writer.last_lsn
    running.is_right()


@pytest.mark.parametrize("what", ["pack", "write_image"])
def test_a_rebuild_that_is_cancelled_changes_no_index(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    boards = {name: running.board(name) for name in ("a", "b")}
    before = {name: board.painter.subscriptions for name, board in boards.items()}
    with monkeypatch.context() as patched:
        owner: Any = (
            board_maintenance if what == "write_image" else type(running.service.boards.resource_type.maintenance)
        )
        shown = cancelled(running, "rebuilds", Held(patched, owner, what), lambda: running.edit("a", "s1", 1, 9, 2))
    assert shown["state"] == "cancelled"
    assert {name: board.painter.subscriptions for name, board in boards.items()} == before
    assert all(board.subscribers.touched is None for board in boards.values()), "it goes on recording changes"
    images = tmp_path / "data" / "images"
    assert all(any(path.rglob("manifest.json")) for path in images.glob("*/boards/*"))
    assert running.done("rebuilds")
    running.is_right()


def test_a_verification_that_is_cancelled_stops(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        held = Held(patched, type(running.service.boards.resource_type.maintenance), "verify")
        shown = cancelled(running, "verify", held)
    assert shown["state"] == "cancelled" and "compared" not in shown["detail"]
    running.is_right()
