"""Count the words of a feed's window from a snapshot, cut its subscriptions into cells, and write both as an image: the
same bytes as the service's own rebuild, which lays subscriptions out by them.

Reads   snapshots/LSN/feeds/NAME/posts.parquet and subscriptions.parquet.
Writes  images/LSN/feeds/NAME/: in how many posts each word is, the quadtree of the subscriptions' places, and, last,
        manifest.json, which makes it count.
Ends    with {"rows": posts and subscriptions, "seconds": s, "costs": {"evaluation", "posting", "entry"}}.

One task cuts the cells, each of the others counts the words of some of the posts. They leave them in
images/LSN/feeds/NAME~pieces-RANDOM/, so every worker has to reach the storage; all use it through pyarrow, and need no
connector of Hadoop's. The driver adds them up. `costs` are of this machine, in microseconds, of --sample subscriptions:
what evaluating a subscription takes, and for each posting that it reads, and what it takes to enter a post into a
buffer, up to its expiry. The rank of theta is chosen by their ratios, which
`indexes.feeds.theta` has: a machine on which they are far from those there is worth a look.

A run that was killed leaves nothing that counts, and the next one takes away what it left. An image that is there
already is deleted and written anew. Two runs for the same feed at the same time get into each other's way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from formats.feeds import epoch_at, posts_at, read_state, subscriptions_at
from formats.folder import Folder
from spark_jobs.command import Number, Order, main
from spark_jobs.feed_costs import costs_of
from spark_jobs.feed_layout import joined, parts_of
from spark_jobs.inputs import check
from spark_jobs.parts import Packed, read_part
from spark_jobs.progress import Progress
from spark_jobs.rebuild import Layout, build_in_parts, in_tasks

SAMPLE = Number("sample", 2_000, "subscriptions by which costs are measured, at most")


def _join(about: dict[str, Any], parts: Sequence[Folder]) -> Packed:
    return joined([read_part(part) for part in parts])


LAYOUT = Layout(
    source=posts_at,
    rows=lambda about: int(about["posts"]) + int(about["subscriptions"]),
    lay_out=in_tasks("spark_jobs.feed_layout:lay_out", parts_of),
    join=_join,
)


def build(order: Order, progress: Progress) -> tuple[dict[str, Any], int]:
    """The job."""
    source = order.folder("snapshots")
    about = check(source, "snapshot", order.lsn, [subscriptions_at(order.name), epoch_at(order.name)])
    fields, code = build_in_parts(order, progress, LAYOUT)
    progress.step(0.95, "measuring costs")
    state = read_state(source, order.name, about["resources"][order.resource])
    return {**fields, "costs": costs_of(state, order.numbers.get(SAMPLE.name, SAMPLE.default))}, code


if __name__ == "__main__":
    main("feeds", __doc__ or "", build, numbers=[SAMPLE], kind="feeds")
