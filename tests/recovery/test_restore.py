"""A data directory made from a snapshot: all that the snapshot has, under an epoch of its own; whole or refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from app.errors import LogUnavailable
from app.resources.base import ResourceTypes
from app.resources.boards import BoardType
from app.storage import Stores, open_stores
from app.storage.directory import RESTORING, DataDirectory, DirectoryUnusable
from app.storage.restore import RestoreFailed, restore
from app.storage.snapshots import Snapshots
from formats.folder import MANIFEST, Draft, Folder
from indexes.boards.state import state_of
from tests.oracles.world import World
from tests.support.running import CONFIG, Running, upsert
from tests.support.service_fixtures import Start
from tests.unit.boards.helpers import captured, same_columns
from tests.unit.cli.helpers import _logs_as_before, run  # noqa: F401
from tests.unit.formats.boards import files, harm

EVENTS = {"events": [upsert("best", 10.0, 99.0)]}
KEYED = {"Idempotency-Key": "before"}
LATER = {"Idempotency-Key": "later"}
JOB = {"Idempotency-Key": "job"}


class Source:
    """A snapshot of a service that went on and ended. `told` is what a request before the snapshot was answered."""

    def __init__(self, running: Running, path: Path) -> None:
        running.make("a")
        running.make("b", 3, 0)
        running.make("c", 2, 2)
        running.drop("c")
        self.told = running.send("a", "events", EVENTS, 200, **KEYED)
        assert running.client.post("/v1/admin/verify", headers=JOB).json() == {"job": "j1"}
        running.worlds["a"].upsert("best", 10.0, 99.0)
        self.lsn = running.done("snapshots")["lsn"]
        self.states = {name: state_of(captured(running.board(name))) for name in ("a", "b")}
        self.worlds = running.worlds
        self.epoch = running.service.stores.directory.epoch
        self.path = path / "snapshots" / str(self.lsn)
        running.send("a", "events", {"events": [{"op": "delete", "id": "best"}]}, 200, **LATER)
        running.client.__exit__(None, None, None)


@pytest.fixture
def source(start: Start, tmp_path: Path) -> Source:
    return Source(start(data=tmp_path / "old"), tmp_path / "old")


@contextmanager
def opened(data: Path, **more: Any) -> Iterator[Stores]:
    stores = open_stores(data, **more)
    try:
        yield stores
    finally:
        stores.close()


def test_all_that_was_there_is_there_again(source: Source, start: Start, tmp_path: Path) -> None:
    steps: list[tuple[float, str]] = []
    told = restore(str(source.path), tmp_path / "new", progress=lambda fraction, step: steps.append((fraction, step)))
    assert (told["lsn"], told["resources"]) == (source.lsn, ["boards/a", "boards/b"])
    assert [fraction for fraction, _ in steps] == sorted(fraction for fraction, _ in steps)
    assert (steps[0], steps[-1]) == ((0.0, "checking the snapshot"), (1.0, "restored"))
    running = start(data=tmp_path / "new")
    running.worlds = source.worlds
    for name, state in source.states.items():
        same_columns(state_of(captured(running.board(name))), state)
    running.is_right()
    again = running.send("a", "events", EVENTS, 200, **KEYED)
    assert again == {**{key: value for key, value in source.told.items() if key != "tiles"}, "replayed": True}
    # The job that was begun is of another process: here the request begins one.
    assert "replayed" not in running.client.post("/v1/admin/verify", headers=JOB).json()
    # What came after the snapshot has not happened here.
    assert "replayed" not in running.send("a", "events", {"events": [upsert("q", 1.0, 1.0)]}, 200, **LATER)
    running.worlds["a"].upsert("q", 1.0, 1.0)
    # A board that was deleted goes on with the next seq.
    assert running.client.put("/v1/boards/c", json=CONFIG).json()["seq"] == 6
    running.worlds["c"] = World("desc")
    running.is_right()


def test_it_goes_on_from_the_row_of_the_snapshot(source: Source, start: Start, tmp_path: Path) -> None:
    restore(str(source.path), tmp_path / "new")
    running = start(data=tmp_path / "new")
    log = running.service.stores.log
    assert (log.last_lsn, log.pruned_through, list(log.replay(source.lsn))) == (source.lsn, source.lsn, [])
    running.worlds = source.worlds
    running.move("a", 5)
    running.client.__exit__(None, None, None)
    again = start(data=tmp_path / "new")
    again.worlds = source.worlds
    assert again.service.writer.last_lsn == source.lsn + 1
    again.is_right()
    assert again.done("snapshots")["lsn"] == source.lsn + 1


def test_it_is_a_history_of_its_own(source: Source, tmp_path: Path) -> None:
    epochs = {restore(str(source.path), tmp_path / name)["epoch"] for name in ("one", "two")}
    assert len(epochs | {source.epoch}) == 3
    with opened(tmp_path / "one") as stores:
        epoch = stores.directory.epoch
        snapshots = Snapshots(Folder.at(tmp_path / "one"), epoch, ResourceTypes(BoardType()))
        assert epoch in epochs and snapshots.is_good(source.lsn)
        assert snapshots.folder(source.lsn).manifest()["epoch"] == epoch
    assert not (tmp_path / "one" / RESTORING).exists()
    mine, theirs = (files(path / f"snapshots/{source.lsn}/boards") for path in (tmp_path / "one", tmp_path / "old"))
    assert mine == theirs and len(mine) == 6


def test_the_source_is_only_read(source: Source, tmp_path: Path) -> None:
    before = files(tmp_path / "old")
    restore(str(source.path), tmp_path / "new")
    assert files(tmp_path / "old") == before


def test_keys_open_the_same_doors(start: Start, tmp_path: Path) -> None:
    running = start(data=tmp_path / "old")
    key = running.client.post("/v1/admin/keys", json={"name": "n", "scopes": ["admin"]}).json()["key"]
    running.client.headers["Authorization"] = f"Bearer {key}"
    lsn = running.done("snapshots")["lsn"]
    restore(str(tmp_path / f"old/snapshots/{lsn}"), tmp_path / "new")
    again = start(data=tmp_path / "new")
    assert again.client.get("/v1/boards").status_code == 401
    assert again.client.get("/v1/boards", headers={"Authorization": f"Bearer {key}"}).status_code == 200


def test_a_snapshot_by_url_into_an_empty_directory(source: Source, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    assert restore(f"file://{source.path}", tmp_path / "new")["lsn"] == source.lsn


def test_snapshots_may_be_kept_elsewhere(source: Source, start: Start, tmp_path: Path) -> None:
    restore(str(source.path), tmp_path / "new", storage=str(tmp_path / "store"))
    assert not (tmp_path / "new" / "snapshots").exists()
    running = start(data=tmp_path / "new", storage=str(tmp_path / "store"))
    running.worlds = source.worlds
    running.is_right()
    running.client.__exit__(None, None, None)
    with pytest.raises(LogUnavailable, match=f"rows 1 to {source.lsn} of the log are needed"):
        start(data=tmp_path / "new")


def test_a_place_that_is_taken_is_refused(source: Source, tmp_path: Path) -> None:
    before = files(tmp_path / "old" / "snapshots")
    with pytest.raises(RestoreFailed, match="is there already; name an empty place with --storage"):
        restore(str(source.path), tmp_path / "new", storage=str(tmp_path / "old"))
    assert files(tmp_path / "old" / "snapshots") == before


@pytest.mark.parametrize("name", ["notes.txt", "FORMAT", "snapshots/1/manifest.json"])
def test_a_directory_that_is_not_empty_is_refused(source: Source, tmp_path: Path, name: str) -> None:
    file = tmp_path / "new" / name
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    with pytest.raises(RestoreFailed, match="is not empty; restore into a new directory"):
        restore(str(source.path), tmp_path / "new")
    assert files(tmp_path / "new") == {name: b"mine"}


def test_a_directory_that_is_served_is_refused(source: Source, start: Start, tmp_path: Path) -> None:
    running = start(data=tmp_path / "new")
    running.make("x", 3, 3)
    with pytest.raises(RestoreFailed, match="is not empty"):
        restore(str(source.path), tmp_path / "new")
    running.is_right()


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("objects.parquet", "flipped"),
        ("subscriptions.parquet", "cut"),
        ("keys.parquet", "missing"),
        ("answers.parquet", "empty"),
        ("manifest.json", "flipped"),
        ("manifest.json", "missing"),
    ],
)
def test_a_damaged_snapshot_is_refused_before_anything_is_made(
    source: Source, tmp_path: Path, name: str, how: str
) -> None:
    harm(next(source.path.rglob(name)), how)
    with pytest.raises(RestoreFailed, match=name):
        restore(str(source.path), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_what_is_no_snapshot_is_refused(source: Source, tmp_path: Path) -> None:
    Folder.at(tmp_path / "image").draft().publish({"kind": "image", "lsn": 1})
    with pytest.raises(RestoreFailed, match="is no snapshot"):
        restore(str(tmp_path / "image"), tmp_path / "new")
    for place in (tmp_path / "nowhere", source.path.parent, tmp_path / "old" / "FORMAT"):
        with pytest.raises(RestoreFailed):
            restore(str(place), tmp_path / "new")
    with pytest.raises(RestoreFailed, match="cannot be used as storage"):
        restore("nowhere://x/y", tmp_path / "new")
    assert not (tmp_path / "new").exists()


CALLS = {
    "file": "formats.folder.Draft.file",
    "keys": "app.storage.keys.KeyStore.add_many",
    "answers": "app.storage.log.Log.add_answers",
    "start": "app.storage.log.Log.start_at",
    "publish": "formats.folder.Draft.publish",
}


@pytest.mark.parametrize("where", CALLS)
@pytest.mark.parametrize("how", [KeyboardInterrupt(), OSError(28, "No space left on device")], ids=["killed", "full"])
def test_one_that_was_cut_off_is_refused_and_can_be_done_again(
    source: Source,
    start: Start,
    tmp_path: Path,
    where: str,
    how: BaseException,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def cut_off(*given: Any, **more: Any) -> Any:
        raise how

    expected = KeyboardInterrupt if isinstance(how, KeyboardInterrupt) else RestoreFailed
    with monkeypatch.context() as patched:
        patched.setattr(CALLS[where], cut_off)
        with pytest.raises(expected, match=r"^$|No space left on device; .*new is not whole"):
            restore(str(source.path), tmp_path / "new")
    with pytest.raises(DirectoryUnusable, match="is not whole: a restore was cut off; do it again"):
        open_stores(tmp_path / "new")
    with pytest.raises(DirectoryUnusable):
        start(data=tmp_path / "new")
    done = run("serve", "--data", str(tmp_path / "new"), "--port", "0")
    assert done.exit_code == 1 and "is not whole" in done.stderr
    restore(str(source.path), tmp_path / "new")
    running = start(data=tmp_path / "new")
    running.worlds = source.worlds
    running.is_right()


@pytest.mark.parametrize("where", CALLS)
def test_what_was_left_in_a_database_and_a_storage_elsewhere_goes_with_the_next_one(
    source: Source, start: Start, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(*given: Any, **more: Any) -> Any:
        raise KeyboardInterrupt

    url, store = f"sqlite:///{tmp_path / 'elsewhere.db'}", str(tmp_path / "store")
    with monkeypatch.context() as patched:
        patched.setattr(CALLS[where], cut_off)
        # As when the process is killed: nobody tidies up.
        patched.setattr("formats.folder.Folder.delete", lambda folder: None)
        with pytest.raises(KeyboardInterrupt):
            restore(str(source.path), tmp_path / "new", url, storage=store)
    with pytest.raises(RestoreFailed, match=r"belongs to another data directory|is not empty"):
        restore(str(source.path), tmp_path / "third", url, storage=store)
    restore(str(source.path), tmp_path / "new", url, storage=store)
    running = start(data=tmp_path / "new", database=url, storage=store)
    running.worlds = source.worlds
    running.is_right()


def test_two_do_not_get_in_each_others_way(source: Source, tmp_path: Path) -> None:
    other = DataDirectory.open(tmp_path / "new")
    (tmp_path / "new" / RESTORING).touch()
    (tmp_path / "new" / "snapshots").mkdir()
    with pytest.raises(RestoreFailed, match="is in use by another process"):
        restore(str(source.path), tmp_path / "new")
    assert (tmp_path / "new" / "snapshots").exists()
    other.close()
    restore(str(source.path), tmp_path / "new")


def test_one_that_is_cut_off_while_it_clears_another_away_is_not_whole(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = tmp_path / "new"
    new.mkdir()
    for name in ("RESTORING", "EPOCH", "Z", "a", "rankcast.db", "snapshots/1/manifest.json"):
        (new / name).parent.mkdir(parents=True, exist_ok=True)
        (new / name).write_text("left")
    rmtree = shutil.rmtree

    def killed(path: Path) -> None:
        rmtree(path)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            restore(str(source.path), new)
    assert (new / RESTORING).exists()
    restore(str(source.path), new)
    assert not (new / "a").exists()


def test_a_database_elsewhere(source: Source, start: Start, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'elsewhere.db'}"
    restore(str(source.path), tmp_path / "new", url)
    running = start(data=tmp_path / "new", database=url)
    running.worlds = source.worlds
    running.is_right()
    assert not (tmp_path / "new" / "rankcast.db").exists()


def test_a_database_that_is_not_empty_is_refused(source: Source, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'elsewhere.db'}"
    restore(str(source.path), tmp_path / "new", url)
    with pytest.raises(RestoreFailed, match="database"):
        restore(str(source.path), tmp_path / "other", url)
    with opened(tmp_path / "new", database=url) as stores:
        assert stores.log.last_lsn == source.lsn


def test_the_command_says_what_it_did(source: Source, tmp_path: Path) -> None:
    done = run("restore", str(source.path), "--data", str(tmp_path / "new"))
    assert done.exit_code == 0
    assert f"lsn: {source.lsn}" in done.stdout
    assert f"rankcast serve --data {tmp_path / 'new'}" in done.stderr
    again = run("restore", str(source.path), "--data", str(tmp_path / "new"))
    assert again.exit_code == 1 and "is not empty" in again.stderr


def test_a_restored_directory_is_restored_from_again(source: Source, start: Start, tmp_path: Path) -> None:
    restore(str(source.path), tmp_path / "one")
    shutil.rmtree(tmp_path / "old")
    restore(str(tmp_path / f"one/snapshots/{source.lsn}"), tmp_path / "two")
    running = start(data=tmp_path / "two")
    running.worlds = source.worlds
    running.is_right()


def rewrite(snapshot: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a manifest as somebody does who can compute its digest."""
    folder = Folder.at(snapshot)
    about = folder.manifest()
    (snapshot / MANIFEST).unlink()
    change(about)
    draft = Draft(folder)
    draft.files = about.pop("files")
    draft.publish({name: value for name, value in about.items() if name != "format"})


def entry_of(content: bytes) -> dict[str, Any]:
    return {"bytes": len(content), "sha256": sha256(content).hexdigest()}


@pytest.mark.parametrize(
    "name",
    ["../secret", "boards/../../secret", "{root}/secret", "/{root}/secret", "./../secret", "a//b", "", ".", MANIFEST],
)
def test_a_manifest_leads_to_no_file_outside_its_folder(source: Source, tmp_path: Path, name: str) -> None:
    """Neither is read from there nor written to there."""
    secret = tmp_path / "old" / "snapshots" / "secret"
    for place in (secret, tmp_path / "secret"):
        place.write_bytes(b"secret")
    path = name.format(root=tmp_path)
    rewrite(source.path, lambda about: about["files"].update({path: entry_of(b"secret")}))
    with pytest.raises(RestoreFailed, match=r"manifest\.json names the file"):
        restore(str(source.path), tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("link", ["file", "folder"])
def test_a_link_in_a_snapshot_is_not_followed(source: Source, tmp_path: Path, link: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret").write_bytes(b"secret")
    if link == "file":
        (source.path / "note").symlink_to(tmp_path / "elsewhere" / "secret")
    else:
        (source.path / "deep").symlink_to(tmp_path / "elsewhere")
    name = "note" if link == "file" else "deep/secret"
    rewrite(source.path, lambda about: about["files"].update({name: entry_of(b"secret")}))
    with pytest.raises(RestoreFailed, match="is a link"):
        restore(str(source.path), tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda about: about.update(lsn="../../x"),
        lambda about: about.update(lsn=-1),
        lambda about: about["resources"].update({"boards/../../x": about["resources"]["boards/a"]}),
    ],
)
def test_a_manifest_names_no_row_or_resource_that_there_cannot_be(
    source: Source, tmp_path: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    rewrite(source.path, change)
    with pytest.raises(RestoreFailed, match="names a row or resource"):
        restore(str(source.path), tmp_path / "new")
    assert not (tmp_path / "new").exists()
