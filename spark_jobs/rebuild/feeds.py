"""Count the words of a feed's window from a snapshot, cut its subscriptions into cells, and write both as an image: the
same bytes as the service's own rebuild, which indexes subscriptions by them.

Reads   snapshots/LSN/feeds/NAME/posts.parquet and subscriptions.parquet.
Writes  images/LSN/feeds/NAME/: the number of posts with each word, the quadtree of the subscriptions' places, and,
        last, manifest.json, which makes it valid.
Ends    with {"rows": posts and subscriptions, "seconds": s, "costs": {"evaluation", "posting", "entry"}}.

One task cuts the cells, each of the others counts the words of some of the posts. They write to
images/LSN/feeds/NAME~pieces-RANDOM/, so every worker needs access to the storage, by pyarrow and without Hadoop's
connector. The driver adds them up. `costs`, in microseconds of this machine, are measured with --sample subscriptions:
`evaluation` of a subscription, `posting` that an evaluation reads, and `entry` of a post into a buffer, up to its
expiry. The rank of theta is chosen by their ratios, for which `indexes.feeds.theta` has constants.

A run that was killed leaves no valid image, and the next one deletes its files. An existing image is replaced. Two
runs for the same feed must not overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from formats.feeds import epoch_at, posts_at, read_state, subscriptions_at
from formats.folder import Folder
from spark_jobs.common.command import Number, Order, main
from spark_jobs.common.inputs import check
from spark_jobs.common.parts import Packed, read_part
from spark_jobs.common.progress import Progress
from spark_jobs.rebuild.feed_costs import costs_of
from spark_jobs.rebuild.feed_tasks import join, parts_of
from spark_jobs.rebuild.in_parts import Layout, build_in_parts, in_tasks

SAMPLE = Number("sample", 2_000, "subscriptions by which costs are measured, at most")


def _join(about: dict[str, Any], parts: Sequence[Folder]) -> Packed:
    return join([read_part(part) for part in parts])


LAYOUT = Layout(
    source=posts_at,
    rows=lambda about: int(about["posts"]) + int(about["subscriptions"]),
    pack=in_tasks("spark_jobs.rebuild.feed_tasks:pack", parts_of),
    join=_join,
)


def build(order: Order, progress: Progress) -> tuple[dict[str, Any], int]:
    """Run the job; returns its last line and exit code."""
    source = order.folder("snapshots")
    about = check(source, "snapshot", order.lsn, [subscriptions_at(order.name), epoch_at(order.name)])
    fields, code = build_in_parts(order, progress, LAYOUT)
    progress.step(0.95, "measuring costs")
    state = read_state(source, order.name, about["resources"][order.resource])
    return {**fields, "costs": costs_of(state, order.numbers.get(SAMPLE.name, SAMPLE.default))}, code


if __name__ == "__main__":
    main("rebuild.feeds", __doc__ or "", build, numbers=[SAMPLE], kind="feeds")
