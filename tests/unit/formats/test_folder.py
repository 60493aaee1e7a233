"""A folder counts when its manifest is there, and tells what is wrong with it."""

import hashlib
import os
from pathlib import Path

import pytest

from formats.folder import MANIFEST, Damaged, Folder, Sink


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder.at(tmp_path) / "snapshots" / "12"


def write(folder: Folder) -> None:
    draft = folder.draft()
    with draft.file("boards/delays/objects.parquet", rows=2) as out:
        out.write(b"some bytes")
    with draft.file("keys.parquet") as out:
        out.write(memoryview(b"others"))
        assert out.tell() == 6
    assert draft.bytes == 16
    draft.publish({"kind": "snapshot", "lsn": 12})


def test_what_is_written_is_read(folder: Folder) -> None:
    write(folder)
    found = folder.verify()
    assert (found["kind"], found["lsn"]) == ("snapshot", 12)
    assert found["files"]["boards/delays/objects.parquet"]["rows"] == 2
    assert folder.names() == ["boards", "keys.parquet", MANIFEST]
    with folder.open("keys.parquet") as file:
        assert file.read() == b"others"


def test_it_counts_only_when_published(folder: Folder) -> None:
    draft = folder.draft()
    with draft.file("a") as out:
        out.write(b"half")
    assert not folder.whole
    with pytest.raises(Damaged, match=f"{MANIFEST} is missing"):
        folder.verify()
    write(folder)
    assert folder.whole and "a" not in folder.names()
    with pytest.raises(FileExistsError):
        folder.draft()


def test_a_url_is_as_good_as_a_path(tmp_path: Path) -> None:
    write(Folder.at(f"file://{tmp_path}/store"))
    assert Folder.at(tmp_path / "store").verify()["lsn"] == 12
    with pytest.raises(ValueError, match="cannot be used as storage"):
        Folder.at("nowhere://x/y")


@pytest.mark.parametrize("name", ["keys.parquet", "boards/delays/objects.parquet"])
def test_a_flipped_byte_is_found_and_named(folder: Folder, name: str) -> None:
    write(folder)
    path = Path(folder.path) / name
    text = bytearray(path.read_bytes())
    text[3] ^= 1
    path.write_bytes(text)
    with pytest.raises(Damaged, match=f"{name} is damaged"):
        folder.verify()


def test_a_short_or_missing_file_is_found_and_named(folder: Folder) -> None:
    write(folder)
    path = Path(folder.path) / "keys.parquet"
    path.write_bytes(b"oth")
    with pytest.raises(Damaged, match=r"keys\.parquet has 3 bytes in place of 6"):
        folder.verify()
    path.unlink()
    with pytest.raises(Damaged, match=r"keys\.parquet is missing"):
        folder.verify()


def test_every_cut_and_every_changed_byte_of_a_manifest_is_found(folder: Folder) -> None:
    write(folder)
    path = Path(folder.path) / MANIFEST
    text = path.read_bytes()
    for cut in range(len(text)):
        path.write_bytes(text[:cut])
        with pytest.raises(Damaged):
            folder.manifest()
    for at, byte in enumerate(text):
        if byte not in b" \n":
            path.write_bytes(text[:at] + bytes([byte ^ 2]) + text[at + 1 :])
            with pytest.raises(Damaged):
                folder.manifest()


def test_a_newer_format_is_named(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("formats.folder.FORMAT", 3)
    write(folder)
    monkeypatch.undo()
    with pytest.raises(Damaged, match="has format 3; this version reads 2 at most"):
        folder.manifest()


def test_deleting_takes_the_manifest_first(folder: Folder) -> None:
    write(folder)
    folder.delete()
    assert not folder.exists and folder.names() == []
    folder.delete()


def test_what_could_not_be_written_leaves_nothing(folder: Folder) -> None:
    def fail() -> None:
        with folder.draft() as draft:
            with draft.file("a/b") as out:
                out.write(b"half")
            raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        fail()
    assert not folder.exists
    write(folder)
    with pytest.raises(FileExistsError), folder.draft():
        pass
    assert folder.verify()["lsn"] == 12


def test_a_folder_above_that_may_not_be_listed_does_no_harm(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def strict(path: Path, flags: int) -> int:
        if path == tmp_path.parent:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, flags)

    monkeypatch.setattr(os, "open", strict)
    write(folder)
    assert folder.verify()["lsn"] == 12


def test_a_file_is_flushed_in_pieces_as_it_grows(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("formats.folder.FLUSHED", 1000)
    flushed: list[int] = []
    draft = folder.draft()
    data = bytes(range(256)) * 16
    monkeypatch.setattr("os.fdatasync", lambda handle: flushed.append(os.fstat(handle).st_size))
    with draft.file("a") as out:
        assert out.write(data) == 4096
        assert flushed == [1000, 2000, 3000, 4000]
        assert [out.write(b"x" * 3), out.tell()] == [3, 4099]
        out.write(b"y" * 901)
        assert flushed[4:] == [5000], "what came in small pieces counts together"
    draft.publish({})
    assert folder.verify()["files"]["a"]["bytes"] == 5000
    with folder.open("a") as file:
        assert file.read() == data + b"x" * 3 + b"y" * 901


def test_a_raw_file_that_takes_less_than_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[bytes] = []

    class Slow:
        def write(self, piece: memoryview) -> int:
            taken.append(bytes(piece[:7]))
            return len(taken[-1])

    sink = Sink(Slow())
    assert sink.write(bytes(range(20))) == 20
    assert (b"".join(taken), sink.size) == (bytes(range(20)), 20)
    assert sink.digest.hexdigest() == hashlib.sha256(bytes(range(20))).hexdigest()
