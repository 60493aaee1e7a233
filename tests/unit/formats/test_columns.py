"""Tables that are read a group of rows after the other are what Arrow reads in one piece."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.columns import BUFFER, joined, read_long_table, read_table, write_table
from formats.folder import Damaged, Folder, Sink

SCHEMA = pa.schema(
    [
        pa.field("row", pa.int32(), nullable=False),
        pa.field("id", pa.large_string(), nullable=False),
        pa.field("ttl", pa.float64()),
        pa.field("offset", pa.int32(), nullable=False),
    ]
)

ROWS = st.lists(st.tuples(st.integers(0, 1 << 30), st.text(max_size=40), st.none() | st.floats(0, 9)), max_size=60)


def written(folder: Path, table: pa.Table, **options: Any) -> Folder:
    pq.write_table(table, folder / "t.parquet", **options)
    return Folder.at(folder)


def table_of(rows: list[tuple[int, str, float | None]]) -> pa.Table:
    columns = [pa.array([row[i] for row in rows], SCHEMA.field(i).type) for i in range(3)]
    return pa.Table.from_arrays(columns, schema=pa.schema(list(SCHEMA)[:3]))


@given(ROWS, st.integers(1, 9), st.booleans())
def test_it_is_the_same_table(rows: list[tuple[int, str, float | None]], group: int, dictionary: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = written(Path(name), table_of(rows), row_group_size=group, use_dictionary=dictionary)
        found = read_long_table(folder, "t.parquet", SCHEMA, {"offset": 7})
        whole = read_table(folder, "t.parquet", SCHEMA, {"offset": 7})
    text, offset = found["id"]
    assert [bytes(text[a:b]).decode() for a, b in pairwise(offset)] == [row[1] for row in rows]
    for one, other in zip((text, offset), joined(whole["id"]), strict=True):
        np.testing.assert_array_equal(one, np.asarray(other))
        assert one.dtype == np.asarray(other).dtype and one.flags.writeable
    for column in ("row", "ttl", "offset"):
        np.testing.assert_array_equal(found[column], whole[column].to_numpy().astype(found[column].dtype))
        assert found[column].dtype == SCHEMA.field(column).type.to_pandas_dtype() and found[column].flags.writeable


def test_texts_that_grow_longer_are_read_whole(tmp_path: Path) -> None:
    texts = [f"{i}" * (i // 10) for i in range(100)]
    folder = written(tmp_path, table_of([(i, text, None) for i, text in enumerate(texts)]), row_group_size=10)
    text, offset = read_long_table(folder, "t.parquet", SCHEMA, {"offset": 0})["id"]
    assert bytes(text).decode() == "".join(texts)
    assert np.diff(offset).tolist() == [len(one) for one in texts]


@pytest.mark.parametrize(
    "table",
    [
        table_of([(1, "a", 2.0)]).drop_columns("ttl"),
        table_of([]).drop_columns("ttl"),
        table_of([(1, "a", 2.0)]).append_column("more", pa.array([1])),
        table_of([(1, "a", 2.0)]).set_column(1, "id", pa.array([None], pa.large_string())),
        table_of([(1, "a", 2.0)]).set_column(0, "row", pa.array(["one"])),
    ],
)
def test_another_table_is_refused(tmp_path: Path, table: pa.Table) -> None:
    folder = written(tmp_path, table)
    for read in (read_long_table, read_table):
        with pytest.raises(Damaged, match="cannot be read"):
            read(folder, "t.parquet", SCHEMA, {"offset": 0})


def test_a_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path, table_of([(1, "a", 2.0)]))
    file = tmp_path / "t.parquet"
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(Damaged, match="cannot be read"):
        read_long_table(folder, "t.parquet", SCHEMA)


def test_a_table_is_written_in_few_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each piece a thread of low priority takes the interpreter."""
    sizes: list[int] = []
    write = Sink.write

    def noted(self: Sink, data: Any) -> int:
        sizes.append(memoryview(data).nbytes)
        return write(self, data)

    monkeypatch.setattr(Sink, "write", noted)
    monkeypatch.setattr("formats.columns.ROWS", 1 << 12)
    n = 300_000
    seconds = np.random.default_rng(1).random(n)
    schema = pa.schema([pa.field("row", pa.int32(), nullable=False), pa.field("ttl", pa.float64())])
    folder = Folder.at(tmp_path / "f")
    with folder.draft() as draft:
        write_table(draft, "t.parquet", schema, [np.arange(n, dtype=np.int32), seconds])
        draft.publish({})
    folder.verify()
    assert len(sizes) <= 2 * (sum(sizes) // BUFFER + 1)
    assert read_table(folder, "t.parquet", schema)["ttl"].to_numpy().tolist() == seconds.tolist()
