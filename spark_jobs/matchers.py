"""Lay out a matcher's indexes from a snapshot and write them as an image: the same bytes as the service's own rebuild.

Reads   snapshots/LSN/matchers/NAME/subscriptions.parquet.
Writes  images/LSN/matchers/NAME/: an Arrow file for each index and, last, manifest.json, which makes it count.
Ends    with {"rows": subscriptions, "seconds": s}.

Each dimension is laid out by one task, which reads its columns alone, and what is about all dimensions together by one
more, which holds the whole table. The tasks leave their parts in images/LSN/matchers/NAME~pieces-RANDOM/, so every
worker has to reach the storage; all use it through pyarrow, and need no connector of Hadoop's. The driver joins the
parts: it holds all indexes, twice for a moment, beside the heap of Spark.

A run that was killed leaves nothing that counts, and the next one takes away what it left. An image that is there
already is deleted and written anew. Two runs for the same matcher at the same time get into each other's way.
"""

from __future__ import annotations

from typing import Any

from formats.matchers import config_of, subscriptions_at
from indexes.matchers.layout import parts_of
from indexes.matchers.packing import pack_indexes
from spark_jobs.command import Order, main
from spark_jobs.matcher_parts import join
from spark_jobs.progress import Progress
from spark_jobs.rebuild import Layout, build_in_parts, in_tasks

LAYOUT = Layout(
    source=subscriptions_at,
    rows=lambda about: int(about["subscriptions"]),
    lay_out=in_tasks("spark_jobs.matcher_parts:lay_out", lambda about: len(parts_of(config_of(about["config"])))),
    join=lambda about, parts: pack_indexes(join(config_of(about["config"]), parts)),
)


def build(order: Order, progress: Progress) -> tuple[dict[str, Any], int]:
    """The job."""
    return build_in_parts(order, progress, LAYOUT)


if __name__ == "__main__":
    main("matchers", __doc__ or "", build, kind="matchers")
