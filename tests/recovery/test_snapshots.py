"""Snapshots below a storage root: what is written is read, the newest good one is taken, and old ones are let go."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs
from structlog.testing import capture_logs

from app.resources.base import ResourceTypes
from app.resources.boards import BoardType
from app.storage import snapshots as module
from app.storage.keys import KeyRow
from app.storage.rows import StoredAnswer
from app.storage.snapshots import Snapshot, Snapshots, read_answers, read_keys
from formats.boards import RESOURCE, write_image
from formats.folder import MANIFEST, Damaged, Draft, Folder
from indexes.boards.state import BoardState, pack_board
from tests.unit.boards.helpers import same_columns
from tests.unit.formats.boards import a_state, elsewhere, harm

EPOCH = "ours"
BOARDS = ResourceTypes(BoardType())
KEY = KeyRow("k1", "nightly", ("admin", "boards:read"), b"\x00\xff", 12.5)


@pytest.fixture(params=[Folder.at, elsewhere], ids=["local", "elsewhere"])
def snapshots(request: pytest.FixtureRequest, tmp_path: Path) -> Snapshots:
    """An empty storage root, on this machine and elsewhere."""
    return Snapshots(request.param(tmp_path), EPOCH, BOARDS)


def answer(key: str, lsn: int = 3, complete: bool = True) -> StoredAnswer:
    return StoredAnswer("", key, b"hash", lsn, 200, b'{"seq":1}', complete, 7.25)


def write(snapshots: Snapshots, *lsns: int, boards: dict[str, BoardState] | None = None) -> None:
    for lsn in lsns:
        given = sorted((boards or {"boards/b": a_state(5 + lsn % 3)}).items())
        snapshots.write(lsn, given, {"boards/gone": 9}, [KEY], iter([answer("one"), answer("two", complete=False)]))


def add_image(snapshots: Snapshots, lsn: int, resource: str = "boards/b") -> None:
    write_image(snapshots.image(lsn, resource), resource, lsn, pack_board(a_state(5 + lsn % 3)))


def add_audit(snapshots: Snapshots, lsn: int) -> None:
    snapshots.audit(lsn).draft().publish({"kind": "audit", "lsn": lsn})


def begin(snapshots: Snapshots, lsn: int) -> None:
    """What a writer leaves that was killed."""
    with snapshots.folder(lsn).draft().file("boards/b/objects.parquet") as out:
        out.write(b"half")


def damage(tmp_path: Path, lsn: int, name: str = "subscriptions.parquet", how: str = "flipped") -> None:
    harm(next(tmp_path.rglob(f"snapshots/{lsn}/**/{name}")), how)


def events(found: list[Any], event: str) -> list[int]:
    return [line["lsn"] for line in found if line["event"] == event]


def test_what_is_written_is_read(snapshots: Snapshots) -> None:
    boards = {"boards/a": a_state(0, 0), "boards/b": a_state()}
    size = snapshots.write(
        12, boards.items(), {"boards/x": 4}, [KEY], iter([answer("one"), answer("two", complete=False)])
    )
    assert (
        size == snapshots.size(12) == sum(file["bytes"] for file in snapshots.folder(12).manifest()["files"].values())
    )
    found = snapshots.read(12)
    assert (found.lsn, sorted(found.states), found.gone) == (12, ["boards/a", "boards/b"], {"boards/x": 4})
    for name, state in boards.items():
        same_columns(found.states[name], state)
    assert read_keys(snapshots.folder(12)) == [KEY]
    assert list(read_answers(snapshots.folder(12))) == [answer("one"), answer("two", complete=False)]


def test_a_snapshot_of_nothing_is_read(snapshots: Snapshots) -> None:
    snapshots.write(0, [], {}, [], iter(()))
    assert snapshots.newest(0, 0) == Snapshot(0, {}, {}, {})
    assert read_keys(snapshots.folder(0)) == [] == list(read_answers(snapshots.folder(0)))


def test_the_manifest_says_what_is_in_it(snapshots: Snapshots) -> None:
    write(snapshots, 12, boards={"boards/b": a_state(40, 90)})
    told = snapshots.folder(12).manifest()
    assert (told["format"], told["kind"], told["lsn"], told["epoch"]) == (1, "snapshot", 12, EPOCH)
    assert told["gone"] == {"boards/gone": 9}
    about = told["resources"]["boards/b"]
    assert (about["objects"], about["subscriptions"], about["seq"]) == (40, 90, 130)
    rows = {name: file["rows"] for name, file in told["files"].items() if "rows" in file}
    expected = {"objects": 40, "subscriptions": 90, "free": 3}
    assert rows == {"keys.parquet": 1, **{f"boards/b/{name}.parquet": n for name, n in expected.items()}}


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9])
def test_many_answers_are_written_some_at_a_time(
    snapshots: Snapshots, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 4)
    answers = [answer(str(n), n) for n in range(count)]
    snapshots.write(1, [], {}, [], iter(answers))
    assert list(read_answers(snapshots.folder(1))) == answers


def test_boards_are_taken_one_at_a_time(snapshots: Snapshots) -> None:
    """The states of all boards need not be in memory together."""

    def boards() -> Iterator[tuple[str, BoardState]]:
        yield "boards/a", a_state()
        assert "objects.parquet" in (snapshots.folder(5) / "boards" / "a").names()
        yield "boards/b", a_state()

    snapshots.write(5, boards(), {}, [], iter(()))
    assert sorted(snapshots.read(5).states) == ["boards/a", "boards/b"]


def test_the_newest_good_one_is_chosen_by_number(snapshots: Snapshots) -> None:
    write(snapshots, 9, 10, 100)
    assert snapshots.lsns() == [100, 10, 9]
    newest = snapshots.newest(0, 1000)
    assert newest is not None and newest.lsn == 100


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("objects.parquet", "cut"),
        ("subscriptions.parquet", "flipped"),
        ("free.parquet", "missing"),
        ("keys.parquet", "empty"),
        ("answers.parquet", "another"),
        (MANIFEST, "flipped"),
        (MANIFEST, "cut"),
    ],
)
def test_damaged_ones_are_passed_over_and_reported(snapshots: Snapshots, tmp_path: Path, name: str, how: str) -> None:
    write(snapshots, 5, 6, 7)
    damage(tmp_path, 6, name, how)
    damage(tmp_path, 7, name, how)
    with capture_logs() as logs:
        newest = snapshots.newest(0, 10)
    assert newest is not None and newest.lsn == 5
    assert events(logs, "snapshot damaged") == [7, 6]
    assert all(name in line["error"] for line in logs)
    damage(tmp_path, 5, name, how)
    assert snapshots.newest(0, 10) is None


def test_one_that_says_too_little_is_damaged(snapshots: Snapshots) -> None:
    snapshots.folder(5).draft().publish({"kind": "snapshot", "epoch": EPOCH})
    with pytest.raises(Damaged, match="is no snapshot"):
        snapshots.read(5)
    assert snapshots.newest(0, 10) is None


def test_those_that_the_log_does_not_reach_are_passed_over(snapshots: Snapshots) -> None:
    write(snapshots, 5, 10, 15)

    def chosen(since: int, until: int) -> int | None:
        with capture_logs() as logs:
            newest = snapshots.newest(since, until)
        above = [15] if until < 15 else []
        assert events(logs, "snapshot passed over")[: len(above)] == above
        return None if newest is None else newest.lsn

    assert chosen(0, 15) == 15
    assert chosen(0, 14) == 10
    assert chosen(10, 14) == 10
    assert chosen(11, 14) is None
    assert chosen(0, 4) is None


def test_what_is_no_number_is_no_snapshot(snapshots: Snapshots) -> None:
    write(snapshots, 5)
    for name in ("٣", "-1", "5.bak", "12 "):
        (snapshots.root / "snapshots" / name).draft().publish({"kind": "snapshot"})
    assert snapshots.lsns() == [5]
    snapshots.retire(1, 1000)
    assert len((snapshots.root / "snapshots").names()) == 5


def test_foreign_ones_are_neither_used_nor_deleted(snapshots: Snapshots) -> None:
    theirs = Snapshots(snapshots.root, "theirs", BOARDS)
    write(theirs, 3, 8, 20)
    for lsn in (3, 8, 20):
        add_image(theirs, lsn)
        add_audit(theirs, lsn)
    write(snapshots, 5, 9, 10)
    newest = snapshots.newest(0, 100)
    assert newest is not None and newest.lsn == 10
    with pytest.raises(Damaged, match="of another history"):
        snapshots.read(20)
    assert not snapshots.is_good(8)
    assert snapshots.retire(1, 1000) == 10
    for lsn in (3, 8, 20):
        assert theirs.is_good(lsn)
        theirs.image(lsn, "boards/b").verify()
        theirs.audit(lsn).verify()
    assert snapshots.lsns() == [20, 10, 8, 3]
    newest = theirs.newest(0, 100)
    assert newest is not None and newest.lsn == 20


def test_one_is_not_written_over_a_foreign_one(snapshots: Snapshots) -> None:
    theirs = Snapshots(snapshots.root, "theirs", BOARDS)
    write(theirs, 5)
    assert not snapshots.is_good(5)
    with pytest.raises(FileExistsError):
        write(snapshots, 5)
    assert theirs.is_good(5)


def test_a_damaged_one_gives_way_to_a_new_one(snapshots: Snapshots, tmp_path: Path) -> None:
    write(snapshots, 5)
    assert snapshots.is_good(5)
    with pytest.raises(FileExistsError):
        write(snapshots, 5)
    damage(tmp_path, 5)
    with capture_logs() as logs:
        assert not snapshots.is_good(5)
    assert events(logs, "snapshot damaged") == [5]
    assert not snapshots.folder(5).exists
    write(snapshots, 5)
    assert snapshots.is_good(5)


def test_one_that_was_never_there_is_not_good(snapshots: Snapshots) -> None:
    assert not snapshots.is_good(5)


def test_an_unfinished_one_is_ignored_and_written_over(snapshots: Snapshots) -> None:
    write(snapshots, 4)
    begin(snapshots, 5)
    assert snapshots.lsns() == [4]
    assert not snapshots.is_good(5)
    newest = snapshots.newest(0, 10)
    assert newest is not None and newest.lsn == 4
    write(snapshots, 5, boards={"boards/other": a_state()})
    assert snapshots.folder(5).names() == ["answers.parquet", "boards", "keys.parquet", MANIFEST]
    assert list(snapshots.read(5).states) == ["boards/other"]


def test_a_write_that_fails_leaves_nothing_that_counts(snapshots: Snapshots) -> None:
    def boards() -> Iterator[tuple[str, BoardState]]:
        yield "boards/a", a_state()
        raise OSError(28, "No space left on device")

    write(snapshots, 4)
    with pytest.raises(OSError, match="No space left"):
        snapshots.write(5, boards(), {}, [], iter(()))
    assert snapshots.lsns() == [4]
    write(snapshots, 5)
    assert snapshots.is_good(5)


def test_what_cannot_be_read_back_is_said_at_once(
    snapshots: Snapshots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = Draft.publish

    def published(draft: Any, fields: dict[str, Any]) -> None:
        publish(draft, fields)
        damage(tmp_path, 5)

    monkeypatch.setattr(Draft, "publish", published)
    with pytest.raises(Damaged, match=r"subscriptions\.parquet"):
        write(snapshots, 5)


@pytest.mark.parametrize("keep", [1, 2, 3, 4, 9])
def test_so_many_are_kept(snapshots: Snapshots, keep: int) -> None:
    write(snapshots, 2, 4, 6, 10)
    kept = [10, 6, 4, 2][:keep]
    assert snapshots.retire(keep, 1000) == (min(kept) if len(kept) == keep else 0)
    assert snapshots.lsns() == kept
    assert all(snapshots.is_good(lsn) for lsn in kept)


@pytest.mark.parametrize("name", ["objects.parquet", "keys.parquet", MANIFEST])
@pytest.mark.parametrize("lsn", [4, 6, 10])
def test_the_log_goes_only_behind_as_many_good_ones_as_are_kept(
    snapshots: Snapshots, tmp_path: Path, lsn: int, name: str
) -> None:
    """Each is read again for that: the one that is damaged meanwhile does not count, wherever it is."""
    write(snapshots, 4, 6, 10)
    assert snapshots.retire(3, 1000) == 4
    damage(tmp_path, lsn, name)
    assert snapshots.retire(3, 1000) == 0
    assert snapshots.lsns() == [10, 6, 4]
    write(snapshots, 12)
    assert snapshots.retire(3, 1000) == min({4, 6, 10, 12} - {lsn})


def test_without_snapshots_the_whole_log_is_needed(snapshots: Snapshots, tmp_path: Path) -> None:
    assert snapshots.retire(2, 1000) == 0
    begin(snapshots, 5)
    assert snapshots.retire(2, 1000) == 0
    write(snapshots, 5)
    damage(tmp_path, 5, MANIFEST)
    assert snapshots.retire(2, 1000) == 0


def test_a_damaged_one_is_not_counted_among_the_kept(snapshots: Snapshots, tmp_path: Path) -> None:
    write(snapshots, 2, 4, 6, 8)
    damage(tmp_path, 8, MANIFEST)
    assert snapshots.retire(2, 1000) == 4
    assert snapshots.lsns() == [8, 6, 4]


def test_one_that_was_found_damaged_is_not_counted_either(snapshots: Snapshots, tmp_path: Path) -> None:
    """Its manifest is whole, so that only reading it has told."""
    write(snapshots, 1, 2, 3)
    damage(tmp_path, 3)
    found = snapshots.newest(0, 3)
    assert found is not None and found.lsn == 2
    assert snapshots.retire(2, 3) == 1
    write(snapshots, 4)
    assert snapshots.retire(2, 4) == 2 and snapshots.lsns() == [4, 3, 2]
    write(snapshots, 5)
    assert snapshots.retire(2, 5) == 4 and snapshots.lsns() == [5, 4]


def test_one_from_beyond_the_log_does_not_push_out_those_that_are_needed(snapshots: Snapshots) -> None:
    """As where an older copy of the database was put back."""
    write(snapshots, 10, 20, 30)
    assert snapshots.retire(1, 25) == 20
    assert snapshots.lsns() == [30, 20]


def test_images_and_audits_go_with_their_snapshots(snapshots: Snapshots) -> None:
    for lsn in (2, 4, 6):
        write(snapshots, lsn)
        add_image(snapshots, lsn)
        add_image(snapshots, lsn, "boards/c")
        add_audit(snapshots, lsn)
    begin(snapshots, 1)
    begin(snapshots, 3)
    add_image(snapshots, 3)
    assert snapshots.retire(2, 1000) == 4
    for kind in ("snapshots", "images", "audits"):
        assert (snapshots.root / kind).names() == ["4", "6"]
    assert snapshots.packed(6, "boards/b") is not None
    assert snapshots.packed(2, "boards/b") is None


def test_an_image_is_found_beside_its_snapshot_alone(snapshots: Snapshots, tmp_path: Path) -> None:
    write(snapshots, 4, 6)
    add_image(snapshots, 4)
    with capture_logs() as logs:
        assert snapshots.packed(4, "boards/b") is not None
        assert snapshots.packed(6, "boards/b") is None
        assert snapshots.packed(4, "boards/c") is None
    assert logs == []
    harm(next(tmp_path.rglob("nodes.arrow")), "cut")
    with capture_logs() as logs:
        assert snapshots.packed(4, "boards/b") is None
    assert [(line["event"], line["resource"]) for line in logs] == [("image damaged", "boards/b")]


@pytest.mark.parametrize(("name", "read"), [("keys.parquet", read_keys), ("answers.parquet", read_answers)])
@pytest.mark.parametrize("how", ["cut", "empty", "missing", "another", "other columns"])
def test_damaged_keys_and_answers_are_said_to_be(
    snapshots: Snapshots, tmp_path: Path, name: str, read: Callable[[Folder], Any], how: str
) -> None:
    write(snapshots, 5)
    path = next(tmp_path.rglob(name))
    if how == "other columns":
        path.write_bytes(next(tmp_path.rglob("free.parquet")).read_bytes())
    else:
        harm(path, how)
    with pytest.raises(Damaged, match=name):
        list(read(snapshots.folder(5)))


def test_resources_are_named_as_on_the_wire(snapshots: Snapshots) -> None:
    write(snapshots, 5, boards={RESOURCE + "a:b..c-d_E": a_state()})
    assert list(snapshots.folder(5).manifest()["resources"]) == [RESOURCE + "a:b..c-d_E"]
    assert list(snapshots.read(5).states) == [RESOURCE + "a:b..c-d_E"]
    assert json.dumps(snapshots.folder(5).manifest())


def test_the_local_root_may_be_named_by_url(tmp_path: Path) -> None:
    write(Snapshots(Folder.at(f"file://{tmp_path}"), EPOCH, BOARDS), 5)
    assert Snapshots(Folder(fs.LocalFileSystem(), str(tmp_path)), EPOCH, BOARDS).is_good(5)
