"""Reading files of the service: every file is compared with its manifest before it is used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from formats.folder import Damaged, Folder


def check(folder: Folder, kind: str, lsn: int, names: Iterable[str]) -> dict[str, Any]:
    """Compare the named files with the folder's manifest, and return it. Raises `Damaged`."""
    if not folder.whole:
        raise Damaged(f"there is no {kind} in {folder}")
    manifest = folder.manifest()
    if (manifest.get("kind"), manifest.get("lsn")) != (kind, lsn):
        raise Damaged(f"{folder} holds the {manifest.get('kind')} {manifest.get('lsn')}, not the {kind} {lsn}")
    for name in names:
        about = manifest["files"].get(name)
        if about is None:
            raise Damaged(f"the {kind} in {folder} has no {name}")
        folder.check(name, about)
    return manifest


def table(folder: Folder, name: str, columns: list[str]) -> pa.Table:
    """A Parquet file that fits in memory. Raises `Damaged` if it cannot be read or lacks a column."""
    try:
        with folder.open(name) as file:
            return pq.read_table(file, columns=columns).select(columns)
    except (pa.ArrowException, KeyError, OSError) as error:
        raise Damaged(f"{folder}/{name} cannot be read: {str(error).splitlines()[0]}") from error


def row_groups(folder: Folder, name: str, columns: Sequence[str], rows: int) -> int:
    """The number of row groups of a Parquet file. Raises `Damaged` if it lacks a column or has not `rows` rows."""
    try:
        with folder.open(name) as file:
            meta = pq.read_metadata(file)
            found = meta.schema.to_arrow_schema().names
    except (pa.ArrowException, OSError) as error:
        raise Damaged(f"{folder}/{name} cannot be read: {str(error).splitlines()[0]}") from error
    lacking = sorted(set(columns) - set(found))
    if lacking:
        raise Damaged(f"{folder}/{name} has no column {lacking[0]}")
    if meta.num_rows != rows:
        raise Damaged(f"{folder}/{name} has {meta.num_rows} rows, and {rows} by the manifest")
    return int(meta.num_row_groups)


def groups(batches: Iterator[pa.RecordBatch], folder: Folder, name: str, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The row groups of a Parquet file with the numbers in `batches`, with these columns."""
    with folder.open(name) as file:
        parquet = pq.ParquetFile(file)
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield parquet.read_row_group(number, columns=list(columns), use_threads=False)
