"""Sorting rows through Spark, and what a task knows of the place of its own among all of them.

`at` is Spark's `monotonically_increasing_id` of sorted rows, `before` has the number of rows in the partitions before
each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_jobs.session import Running

Int64 = npt.NDArray[np.int64]
Batches = Iterator[pa.RecordBatch]

_PER_TASK = 250_000
"""Rows that a task sorts, about."""

PART = 33
"""The bit of `monotonically_increasing_id` from which on the partition's number stands; those below count in it."""

_AT = (1 << PART) - 1


def in_order(running: Running, rows: DataFrame, size: int, *keys: str) -> tuple[DataFrame, Int64]:
    """The rows in this order, kept until they are let go of; and the number of rows before each partition."""
    from pyspark.sql import functions as fn

    tasks = max(2 * running.context.defaultParallelism, -(-size // _PER_TASK))
    running.spark.conf.set("spark.sql.shuffle.partitions", str(tasks))
    ordered = rows.sort(*keys).persist()
    counts = ordered.groupBy(fn.spark_partition_id().alias("part")).count().collect()
    rows_of = np.zeros(tasks, np.int64)
    for row in counts:
        rows_of[row["part"]] = row["count"]
    return ordered, np.cumsum(rows_of) - rows_of


def numbered(rows: DataFrame) -> DataFrame:
    """With a column "at": the number of the partition, and that of the row in it."""
    from pyspark.sql import functions as fn

    return rows.withColumn("at", fn.monotonically_increasing_id())


def position(batch: pa.RecordBatch, before: Int64) -> Int64:
    """The places of the rows among all, by their column "at"."""
    at = batch["at"].to_numpy()
    found: Int64 = before[at >> PART] + (at & _AT)
    return found


def together(
    batches: Batches, more: Callable[[pa.RecordBatch], Mapping[str, Any]] = lambda batch: {}
) -> dict[str, npt.NDArray[Any]] | None:
    """The columns of all batches, and what `more` makes of each batch; None when there are no rows."""
    parts = [
        {**{name: batch[name].to_numpy() for name in batch.schema.names}, **more(batch)}
        for batch in batches
        if len(batch)
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else None
