"""Lay out a relay's indexes from a snapshot and write them as an image: the same bytes as the service's own rebuild.

Reads   snapshots/LSN/relays/NAME/subscriptions.parquet.
Writes  images/LSN/relays/NAME/: an Arrow file for each index and graph and, last, manifest.json, which makes it count.
Ends    with {"rows": subscriptions, "seconds": s}.

The index of all subscriptions, by which notifications are matched, is laid out by one task; and what is known towards
each neighbour (the links, or what is upstream of a relay without links) by one more: the graph derived anew, in which
the least that has to be forwarded is what no edge leads to, and the covering index, the k-d tree packed or the Z-order
keys sorted. Of graphs other than G, which are kept for the comparison, there is the index of all alone. Each task reads
the boxes, and no ids. The tasks leave their parts in images/LSN/relays/NAME~pieces-RANDOM/, so every worker has to
reach the storage; all use it through pyarrow, and need no connector of Hadoop's. The driver joins the parts: it holds
all indexes beside the heap of Spark.

A run that was killed leaves nothing that counts, and the next one takes away what it left. An image that is there
already is deleted and written anew. Two runs for the same relay at the same time get into each other's way.
"""

from __future__ import annotations

from typing import Any

from formats.relays import config_of, subscriptions_at
from indexes.relays.layout import join, parts_of
from spark_jobs.command import Order, main
from spark_jobs.parts import read_part
from spark_jobs.progress import Progress
from spark_jobs.rebuild import Layout, build_in_parts, in_tasks

LAYOUT = Layout(
    source=subscriptions_at,
    rows=lambda about: int(about["subscriptions"]),
    lay_out=in_tasks("spark_jobs.relay_parts:lay_out", lambda about: len(parts_of(config_of(about["config"])))),
    join=lambda about, parts: join([read_part(part) for part in parts]),
)


def build(order: Order, progress: Progress) -> tuple[dict[str, Any], int]:
    """The job."""
    return build_in_parts(order, progress, LAYOUT)


if __name__ == "__main__":
    main("relays", __doc__ or "", build, kind="relays")
