"""Compiled kernels as one file: taken in as a whole, or refused with a reason."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indexes.compiled import archive, cache, targets

FILES = {"k.one-1.kernel": b"one", "k.two-2.kernel": b"two", "g-1.ready": b"mark"}


@pytest.fixture
def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive of this machine's kernels; the cache is another, empty folder then."""
    made = tmp_path / "made" / targets.native()
    made.mkdir(parents=True)
    for name, data in FILES.items():
        (made / name).write_bytes(data)
    with monkeypatch.context() as there:
        there.setattr(cache, "folder", lambda: made)
        count, size = archive.write_archive(tmp_path / "kernels.tar", made.iterdir())
    assert count == 3 and size == (tmp_path / "kernels.tar").stat().st_size
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "kernels.tar"


def taken() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in cache.root().rglob("*") if path.is_file()}


def rewrite(file: Path, edit: Callable[[dict[str, Any], dict[str, bytes]], object]) -> None:
    """Write the archive with another manifest or other members."""
    with tarfile.open(file) as old:
        members = {entry.name: old.extractfile(entry).read() for entry in old}
    about = json.loads(members.pop(archive.MANIFEST))
    edit(about, members)
    with tarfile.open(file, "w") as new:
        for name, data in {archive.MANIFEST: json.dumps(about).encode(), **members}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            new.addfile(entry, io.BytesIO(data))


def test_an_archive_is_taken_in_whole(exported: Path) -> None:
    assert archive.read_archive(exported) == (3, targets.native())
    assert taken() == FILES
    assert archive.read_archive(exported) == (3, targets.native())


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("sources", "indexes-0", "its sources is 'indexes-0'"),
        ("toolchain", "cpython27-numba0", "its toolchain is 'cpython27-numba0'"),
        ("format", "rankcast kernels 0", "its format"),
        ("target", "native-other-0", "its kernels are for native-other-0, and this processor is"),
        ("target", "../../etc", "its kernels are for ../../etc"),
        ("files", 3, "it is no archive of kernels"),
    ],
)
def test_one_that_was_made_by_or_for_something_else_is_refused(
    exported: Path, name: str, value: Any, reason: str
) -> None:
    rewrite(exported, lambda about, members: about.update({name: value}))
    with pytest.raises(archive.Refused, match=reason.replace(".", r"\.")):
        archive.read_archive(exported)
    assert taken() == {}


def test_one_that_this_processor_cannot_run_is_refused(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite(exported, lambda about, members: about.update(target="x86-64-v3"))
    monkeypatch.setattr(targets, "runs", lambda target: False)
    with pytest.raises(archive.Refused, match="x86-64-v3, which this processor cannot run"):
        archive.read_archive(exported)
    monkeypatch.setattr(targets, "runs", lambda target: True)
    assert archive.read_archive(exported) == (3, "x86-64-v3")


@pytest.mark.parametrize(
    "name", ["../k.kernel", "/tmp/k.kernel", "a/k.kernel", "..", "k.py", ".kernel", "manifest.json", "k.json"]
)
def test_members_that_are_no_kernels_are_refused(exported: Path, name: str) -> None:
    def edit(about: dict[str, Any], members: dict[str, bytes]) -> None:
        members["x"] = members.pop("k.one-1.kernel")
        about["files"]["x"] = about["files"].pop("k.one-1.kernel")

    rewrite(exported, edit)
    _rename(exported, "x", name)
    with pytest.raises(archive.Refused):
        archive.read_archive(exported)
    assert taken() == {}


def _rename(file: Path, old: str, new: str) -> None:
    with tarfile.open(file) as there:
        members = [(entry, there.extractfile(entry).read()) for entry in there]
    with tarfile.open(file, "w") as made:
        for entry, data in members:
            entry.name = new if entry.name == old else entry.name
            made.addfile(entry, io.BytesIO(data))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])
def test_a_member_that_is_no_file_is_refused(exported: Path, kind: bytes) -> None:
    with tarfile.open(exported, "a") as made:
        entry = tarfile.TarInfo("k.three-3.kernel")
        entry.type, entry.linkname = kind, "k.one-1.kernel"
        made.addfile(entry)
    with pytest.raises(archive.Refused, match=r"it has a member 'k\.three-3\.kernel'"):
        archive.read_archive(exported)


def test_a_member_that_is_too_large_is_refused(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "LARGEST_FILE", 2)
    with pytest.raises(archive.Refused, match="too large"):
        archive.read_archive(exported)


def test_missing_and_added_members_are_refused(exported: Path) -> None:
    rewrite(exported, lambda about, members: members.update({"k.new-1.kernel": b"new"}))
    with pytest.raises(archive.Refused, match="it is damaged: 4 files, and its manifest has 3"):
        archive.read_archive(exported)
    rewrite(exported, lambda about, members: [members.pop(name) for name in list(members)[:2]])
    with pytest.raises(archive.Refused, match="it is damaged: 2 files, and its manifest has 3"):
        archive.read_archive(exported)


def test_an_archive_that_is_damaged_anywhere_is_refused(exported: Path) -> None:
    whole = exported.read_bytes()
    end = len(whole.rstrip(b"\0"))
    for length in range(0, end, 97):
        exported.write_bytes(whole[:length])
        with pytest.raises(archive.Refused):
            archive.read_archive(exported)
    place = whole.index(b"one", whole.index(b"k.one-1.kernel\0") + tarfile.BLOCKSIZE)
    exported.write_bytes(whole[:place] + b"onf" + whole[place + 3 :])
    with pytest.raises(archive.Refused, match=r"it is damaged: 'k\.one-1\.kernel' is not what its manifest says"):
        archive.read_archive(exported)
    assert taken() == {}


@pytest.mark.parametrize("data", [b"", b"no archive", b"\0" * 2048, b"[]", b"\x1f\x8b\x08"])
def test_what_is_no_archive_is_refused(exported: Path, data: bytes) -> None:
    exported.write_bytes(data)
    with pytest.raises(archive.Refused, match="no archive of kernels"):
        archive.read_archive(exported)


def test_a_folder_that_cannot_be_written_leaves_no_draft(exported: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        archive.write_archive(exported.parent / "missing" / "k.tar", [])
    assert not list(exported.parent.glob("**/*.tmp"))
