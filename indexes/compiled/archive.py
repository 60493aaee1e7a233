"""Compiled kernels as one file, to copy them from machine to machine.

The archive is an uncompressed tar file: ``manifest.json``, with the toolchain, the target and a digest of each file,
and the files. It is read completely or refused.

Kernels are code, and are loaded by ``pickle``: anyone who can write an archive, or the cache, can run code as the
service. The digests detect damage, not malice.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from indexes.compiled import cache, targets
from indexes.core.sources import sources

MANIFEST = "manifest.json"

READY = ".ready"
"""Suffix of the marks of groups of kernels that are ready (`indexes.compiled.warming`)."""

LARGEST_FILE = 1 << 26
"""Maximum size of a kernel in bytes; an archive with a larger one is refused."""


class Refused(Exception):
    """An archive cannot be used here; the message says why."""


def _made_by() -> dict[str, str]:
    return {"format": "rankcast kernels 2", "toolchain": cache.toolchain(), "sources": sources("indexes")}


def write_archive(file: Path, paths: Iterable[Path]) -> tuple[int, int]:
    """Write these files of the cache, of this process's target; returns how many files and bytes. Raises OSError."""
    found = {path.name: path.read_bytes() for path in sorted(paths)}
    digests = {name: _digest(data) for name, data in found.items()}
    about = {**_made_by(), "target": cache.folder().name, "files": digests}
    draft = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    try:
        with tarfile.open(draft, "w") as archive:
            _add(archive, MANIFEST, json.dumps(about, indent=1).encode())
            for name, data in found.items():
                _add(archive, name, data)
        size = draft.stat().st_size
        os.replace(draft, file)
    finally:
        draft.unlink(missing_ok=True)
    return len(found), size


def read_archive(file: Path) -> tuple[int, str]:
    """Copy an archive's kernels into the cache; returns the number of files and the target. Raises Refused, OSError."""
    try:
        with tarfile.open(file, "r:") as archive:
            first = archive.next()
            if first is None or first.name != MANIFEST or not first.isreg() or first.issparse():
                raise Refused("it is no archive of kernels")
            about = _about(archive, first)
            target = _checked(about)
            found = {entry.name: _bytes(archive, entry) for entry in archive if entry is not first}
    except (tarfile.TarError, EOFError) as error:
        raise Refused(f"it is damaged, or no archive of kernels ({error})") from None
    expected: dict[str, Any] = about["files"]
    if found.keys() != expected.keys():
        raise Refused(f"it is damaged: {len(found)} files, and its manifest has {len(expected)}")
    for name, data in found.items():
        if _digest(data) != expected[name]:
            raise Refused(f"it is damaged: {name[:100]!r} is not what its manifest says")
    folder = cache.root() / cache.toolchain() / target
    folder.mkdir(parents=True, exist_ok=True)
    # The marks come after the kernels.
    for name in sorted(found, key=lambda name: name.endswith(READY)):
        cache.replace_file(folder / name, found[name])
    return len(found), target


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def _about(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> dict[str, Any]:
    try:
        about = json.loads(_content(archive, entry))
    except (ValueError, RecursionError):
        about = None
    if not isinstance(about, dict) or not isinstance(about.get("files"), dict):
        raise Refused("it is no archive of kernels")
    return about


def _checked(about: dict[str, Any]) -> str:
    """The target of an archive whose kernels can be used here."""
    for name, ours in _made_by().items():
        if about.get(name) != ours:
            raise Refused(f"its {name} is {str(about.get(name))[:100]!r}, and here it is {ours!r}")
    target = str(about.get("target"))
    if target in targets.PORTABLE:
        if not targets.runs(target):
            raise Refused(f"its kernels are for {target}, which this processor cannot run")
    elif target != targets.native():
        raise Refused(f"its kernels are for {target[:100]}, and this processor is {targets.native()}")
    return target


def _bytes(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    name = PurePosixPath(entry.name)
    if len(name.parts) != 1 or name.suffix not in (cache.SUFFIX, READY) or not entry.isreg() or entry.issparse():
        raise Refused(f"it has a member {entry.name[:100]!r}")
    return _content(archive, entry)


def _content(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    if entry.size > LARGEST_FILE:
        raise Refused(f"its member {entry.name[:100]!r} is too large")
    data = archive.extractfile(entry)
    assert data is not None
    return data.read()
