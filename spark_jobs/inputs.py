"""Reading what the service wrote: every file is compared with its manifest before it is used."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from formats.folder import Damaged, Folder

_CHUNK = 1 << 22


def check(folder: Folder, kind: str, lsn: int, names: Iterable[str]) -> dict[str, Any]:
    """Compare the named files with the folder's manifest, and return it. Raises `Damaged` naming what is wrong."""
    if not folder.whole:
        raise Damaged(f"there is no {kind} in {folder}")
    manifest = folder.manifest()
    if (manifest.get("kind"), manifest.get("lsn")) != (kind, lsn):
        raise Damaged(f"{folder} holds the {manifest.get('kind')} {manifest.get('lsn')}, not the {kind} {lsn}")
    for name in names:
        about = manifest["files"].get(name)
        if about is None:
            raise Damaged(f"the {kind} in {folder} has no {name}")
        _check_file(folder, name, about)
    return manifest


def _check_file(folder: Folder, name: str, about: dict[str, Any]) -> None:
    digest = hashlib.sha256()
    with folder.open(name) as file:
        size = file.size()
        if size != about["bytes"]:
            raise Damaged(f"{folder}/{name} has {size} bytes in place of {about['bytes']}")
        while chunk := file.read_buffer(_CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != about["sha256"]:
        raise Damaged(f"{folder}/{name} is damaged: its SHA-256 differs")


def table(folder: Folder, name: str, columns: list[str]) -> pa.Table:
    """A Parquet file that fits in memory. Raises `Damaged` when it cannot be read or lacks a column."""
    try:
        with folder.open(name) as file:
            return pq.read_table(file, columns=columns).select(columns)
    except (pa.ArrowException, KeyError, OSError) as error:
        raise Damaged(f"{folder}/{name} cannot be read: {str(error).splitlines()[0]}") from error
