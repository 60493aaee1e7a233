"""Sorting rows by Spark, and the positions of a task's rows among all of them.

`at` is Spark's `monotonically_increasing_id` of sorted rows; `before` is, for each partition, the number of rows in
those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indexes.core.arrays import Ints
from spark_jobs.common.session import Running

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Batches = Iterator[pa.RecordBatch]

_PER_TASK = 250_000
"""Rows that a task sorts, approximately."""

PART = 33
"""The first bit of the partition's number in `monotonically_increasing_id`; lower bits count its rows."""

_AT = (1 << PART) - 1


def in_order(running: Running, rows: DataFrame, size: int, *keys: str) -> tuple[DataFrame, Ints]:
    """The rows in this order, persisted until `unpersist`, and the number of rows before each partition."""
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
    """The rows with a column "at": the number of the partition, and that of the row in it."""
    from pyspark.sql import functions as fn

    return rows.withColumn("at", fn.monotonically_increasing_id())


def position(batch: pa.RecordBatch, before: Ints) -> Ints:
    """The positions of the rows among all, by their column "at"."""
    at = batch["at"].to_numpy()
    found: Ints = before[at >> PART] + (at & _AT)
    return found


def together(
    batches: Batches, more: Callable[[pa.RecordBatch], Mapping[str, Any]] = lambda batch: {}
) -> dict[str, npt.NDArray[Any]] | None:
    """The columns of all batches, and those that `more` computes of each; None if there are no rows."""
    parts = [
        {**{name: batch[name].to_numpy() for name in batch.schema.names}, **more(batch)}
        for batch in batches
        if len(batch)
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else None
