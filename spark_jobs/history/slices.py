"""Parquet files of users, cut into slices for tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from formats.folder import Folder
from spark_jobs.common.command import Failed

Slice = tuple[str, int, int, int, int]
"""Rows of a file: its path, the row group, or -1, the first row in the group, the number of rows, and the first row in
the file."""


class Head(NamedTuple):
    """A Parquet file: its path, schema, and the rows in its groups."""

    path: str
    schema: pa.Schema
    groups: list[int]

    @property
    def rows(self) -> int:
        return sum(self.groups)


def heads(place: Folder, what: str, check: Callable[[str, pa.Schema], object]) -> list[Head]:
    """A file, or a folder's files in order of name; `check` is called with the path and schema of the first. Reads no
    row.

    Raises `Failed` if there are none, or a file cannot be read, or its columns differ from those of the first.
    """
    found = [_head(place.system, path) for path in _files(place, what)]
    first = found[0]
    check(first.path, first.schema)
    for other in found[1:]:
        if not other.schema.equals(first.schema):
            raise Failed(f"{other.path} has other columns than {first.path}")
    return found


def cut(found: list[Head], each: int) -> list[Slice]:
    """All rows in slices of at most `each`, each within one row group. Without rows there is one slice, of an empty
    file."""
    slices: list[Slice] = []
    for path, _, groups in found:
        first = 0
        for group, rows in enumerate(groups):
            slices += [(path, group, at, min(each, rows - at), first + at) for at in range(0, rows, each)]
            first += rows
    return slices or [(found[-1].path, -1, 0, 0, 0)]


def read(system: fs.FileSystem, piece: Slice, columns: list[str] | None = None) -> pa.Table:
    """The rows of a slice, with these columns, or all."""
    path, group, start, rows, _ = piece
    with system.open_input_file(path) as file:
        parquet = pq.ParquetFile(file)
        if group < 0:
            table = parquet.schema_arrow.empty_table()
            return table if columns is None else table.select(columns)
        return parquet.read_row_group(group, columns=columns, use_threads=False).slice(start, rows)


def _files(place: Folder, what: str) -> list[str]:
    kind = place.system.get_file_info(place.path).type
    if kind == fs.FileType.NotFound:
        raise Failed(f"there are no {what} in {place}")
    if kind == fs.FileType.File:
        return [place.path]
    # Like Spark and others, ignore files whose names mark them as not data.
    names = [name for name in place.names() if name.endswith(".parquet") and name[0] not in "._"]
    if not names:
        raise Failed(f"{place} holds no .parquet files")
    return [f"{place.path}/{name}" for name in names]


def _head(system: fs.FileSystem, path: str) -> Head:
    try:
        with system.open_input_file(path) as file:
            parquet = pq.ParquetFile(file)
            meta = parquet.metadata
            return Head(path, parquet.schema_arrow, [meta.row_group(i).num_rows for i in range(meta.num_row_groups)])
    except (pa.ArrowException, OSError) as error:
        raise Failed(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
