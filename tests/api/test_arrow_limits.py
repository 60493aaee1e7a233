import struct
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

from app.api import bodies
from app.api.arrow_limits import announced, decoded
from app.api.problems import Problem

ROWS = 1_000


def stream(batch: pa.RecordBatch, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(batch)
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def refusal(raw: bytes) -> int:
    with pytest.raises(Problem) as refused:
        bodies.arrow_table(raw)
    return refused.value.status_code


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_compressed_buffers_say_their_length(compression: str) -> None:
    batch = pa.record_batch({"n": pa.array([0] * ROWS, pa.int64()), "text": pa.array(["a" * 50] * ROWS)})
    size = announced(stream(batch, compression))
    assert size.rows == 2 * ROWS
    assert size.unpacked >= 2 * ROWS * (8 + 4 + 50)
    assert announced(stream(batch)) == (2 * ROWS, 2 * ROWS, 0)
    assert bodies.arrow_table(stream(batch, compression)).num_rows == 2 * ROWS


def test_compressed_dictionaries_count() -> None:
    batch = pa.record_batch({"text": pa.array(["a" * 100_000, "b"]).dictionary_encode()})
    assert announced(stream(batch, "zstd")).unpacked > 100_000


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_a_text_that_is_named_often_counts_as_often(kind: pa.DataType) -> None:
    texts = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0], pa.int8()), pa.array(["abcd", "ef"], kind))
    assert decoded(pa.record_batch({"text": texts})) == 10
    assert decoded(pa.record_batch({"n": pa.array([1]).dictionary_encode(), "m": pa.array([1])})) == 0
    views = pa.array(["a", None, "b" * 20], pa.string_view())
    assert decoded(pa.record_batch({"text": views})) == 21
    assert decoded(pa.record_batch({"text": views}).slice(1, 1)) == 0


def test_what_would_fill_the_memory_is_refused(monkeypatch: Any) -> None:
    assert refusal(stream(pa.record_batch({"id": pa.nulls(1 << 20)}))) == 413
    monkeypatch.setattr(bodies, "MOST_UNPACKED", 1 << 20)
    long = pa.array(["a" * (1 << 20)])
    assert refusal(stream(pa.record_batch({"id": long}), "zstd")) == 413
    named = pa.DictionaryArray.from_arrays(pa.array([0] * ROWS, pa.int8()), long.slice(0, 1))
    assert refusal(stream(pa.record_batch({"id": named}))) == 413


def test_values_inside_of_lists_count() -> None:
    many = 1 << 20
    nulls = pa.nulls(many)
    for lists in (
        pa.ListArray.from_arrays(pa.array([0, many], pa.int32()), nulls),
        pa.LargeListArray.from_arrays(pa.array([0, many], pa.int64()), nulls),
        pa.FixedSizeListArray.from_arrays(nulls, many),
        pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), pa.FixedSizeListArray.from_arrays(nulls, many)),
    ):
        raw = stream(pa.record_batch({"keywords": lists}))
        assert len(raw) < 2_000
        assert announced(raw).values == 2 * many
        assert refusal(raw) == 413


def test_a_text_that_is_named_often_inside_of_lists_counts_as_often() -> None:
    texts = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int8()), pa.array(["abcd", "ef"]))
    assert (
        decoded(pa.record_batch({"keywords": pa.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), texts)})) == 10
    )
    fixed = pa.FixedSizeListArray.from_arrays(texts, 3)
    assert decoded(pa.record_batch({"keywords": fixed})) == 10


def test_a_name_of_a_column_that_is_no_text_is_malformed() -> None:
    raw = stream(pa.record_batch({"QQQQ": pa.array([1])}))
    assert refusal(raw.replace(b"QQQQ", b"\xffQQQ")) == 400


def test_damaged_sizes_are_refused_or_read() -> None:
    good = stream(pa.record_batch({"text": pa.array(["a" * 50] * 20)}), "lz4")
    for at in range(len(good) - 4):
        for value in (0, -1, 1 << 30):
            raw = good[:at] + struct.pack("<i", value) + good[at + 4 :]
            with suppress(Problem):
                bodies.arrow_table(raw)
