"""Pack the indexes of a matcher from a snapshot and write them as an image: the same bytes as the service's rebuild.

Reads   snapshots/LSN/matchers/NAME/subscriptions.parquet.
Writes  images/LSN/matchers/NAME/: an Arrow file for each index and, last, manifest.json, which makes it valid.
Ends    with {"rows": subscriptions, "seconds": s}.

One task for each dimension packs its index, from its columns alone, and one more packs the blocks of all dimensions,
from the whole table. Tasks write their parts to images/LSN/matchers/NAME~pieces-RANDOM/, so every worker needs access
to the storage, by pyarrow and without Hadoop's connector. The driver joins the parts: it holds all indexes, twice at
its peak, besides the heap of Spark.

A run that was killed leaves no valid image, and the next one deletes its files. An existing image is replaced. Two
runs for the same matcher must not overlap.
"""

from __future__ import annotations

from typing import Any

from formats.matchers import config_of, subscriptions_at
from indexes.matchers.layout import parts_of
from indexes.matchers.packing import pack_indexes
from spark_jobs.common.command import Order, main
from spark_jobs.common.progress import Progress
from spark_jobs.rebuild.in_parts import Layout, build_in_parts, in_tasks
from spark_jobs.rebuild.matcher_tasks import join

LAYOUT = Layout(
    source=subscriptions_at,
    rows=lambda about: int(about["subscriptions"]),
    pack=in_tasks("spark_jobs.rebuild.matcher_tasks:pack", lambda about: len(parts_of(config_of(about["config"])))),
    join=lambda about, parts: pack_indexes(join(config_of(about["config"]), parts)),
)


def build(order: Order, progress: Progress) -> tuple[dict[str, Any], int]:
    """Run the job; returns its last line and exit code."""
    return build_in_parts(order, progress, LAYOUT)


if __name__ == "__main__":
    main("rebuild.matchers", __doc__ or "", build, kind="matchers")
