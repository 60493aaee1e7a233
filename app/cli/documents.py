"""Rows of files as what feeds take: objects with keywords or a text, and a place."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any, Literal

from app.cli.inputs import Unreadable, json_rows, opened

BATCH = 10_000


def rows(file: Path, format: Literal["ndjson", "parquet"] | None) -> Generator[dict[str, Any], None, None]:
    """The rows of a file in order. Raises Unreadable."""
    if format is None:
        format = "parquet" if file.suffix.lower() in (".parquet", ".pq") else "ndjson"
    if format == "parquet":
        yield from _parquet(file)
        return
    with opened(file) as source:
        for _, read in json_rows(source):
            yield read


def _parquet(file: Path) -> Generator[dict[str, Any], None, None]:
    """The rows of a Parquet file.

    A null is a field that is left out; x and y are a location, payload is JSON text, and a column `weights` (lists)
    goes with the one of keywords.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as found:
            at = 0
            for batch in found.iter_batches(BATCH):
                for row in batch.to_pylist():
                    at += 1
                    yield _row(at, {name: value for name, value in row.items() if value is not None})
    except (OSError, pa.ArrowException) as error:
        raise Unreadable(str(error)) from None


def _row(at: int, row: dict[str, Any]) -> dict[str, Any]:
    if "x" in row and "y" in row:
        row["location"] = [row.pop("x"), row.pop("y")]
    if "payload" in row:
        try:
            row["payload"] = json.loads(row["payload"])
        except (TypeError, ValueError):
            raise Unreadable(f"row {at}: payload is not JSON text") from None
    weights = row.pop("weights", None)
    if weights is not None:
        words = row.get("keywords", [])
        if len(words) != len(weights):
            raise Unreadable(f"row {at}: there are {len(words)} keywords and {len(weights)} weights")
        weighed: dict[str, float] = {}
        for word, weight in zip(words, weights, strict=True):
            weighed[word] = weighed.get(word, 0.0) + weight
        row["keywords"] = weighed
    return row
