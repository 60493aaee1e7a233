"""Pack the indexes of a relay from a snapshot and write them as an image: the same bytes as the service's own rebuild.

Reads   snapshots/LSN/relays/NAME/subscriptions.parquet.
Writes  images/LSN/relays/NAME/: an Arrow file for each index and graph and, last, manifest.json, which makes it valid.
Ends    with {"rows": subscriptions, "seconds": s}.

One task packs the index of all subscriptions, by which notifications are matched. For each neighbour (the links, or
upstream of a relay without links) another task derives the graph, in which the least set to be forwarded has no
incoming edge, and packs the covering index: the k-d tree, or sorted Z-order keys. Relays with a graph other than G,
which exists for comparison, have the index of all alone. Each task reads the boxes, and no ids. Tasks write their parts
to images/LSN/relays/NAME~pieces-RANDOM/, so every worker needs access to the storage, by pyarrow and without Hadoop's
connector. The driver joins the parts: it holds all indexes besides the heap of Spark.

A run that was killed leaves no valid image, and the next one deletes its files. An existing image is replaced. Two
runs for the same relay must not overlap.
"""

from __future__ import annotations

from typing import Any

from formats.relays import config_of, subscriptions_at
from indexes.relays.layout import join, parts_of
from spark_jobs.common.command import Order, main
from spark_jobs.common.parts import read_part
from spark_jobs.common.progress import Progress
from spark_jobs.rebuild.in_parts import Layout, build_in_parts, in_tasks

LAYOUT = Layout(
    source=subscriptions_at,
    rows=lambda about: int(about["subscriptions"]),
    pack=in_tasks("spark_jobs.rebuild.relay_tasks:pack", lambda about: len(parts_of(config_of(about["config"])))),
    join=lambda about, parts: join([read_part(part) for part in parts]),
)


def build(order: Order, progress: Progress) -> tuple[dict[str, Any], int]:
    """Run the job; returns its last line and exit code."""
    return build_in_parts(order, progress, LAYOUT)


if __name__ == "__main__":
    main("rebuild.relays", __doc__ or "", build, kind="relays")
