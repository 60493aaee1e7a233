"""Pack the R-tree of a map from a snapshot and write it as an image: the same bytes as the service's own rebuild.

Reads   snapshots/LSN/maps/NAME/objects.parquet.
Writes  images/LSN/maps/NAME/: an Arrow file for each index and, last, manifest.json, which makes it valid.
Ends    with {"rows": objects, "seconds": s}.

Objects are sorted by their first coordinate through Spark and cut into slabs, as many as the root of the number of
leaves by that of dimensions: 12 for a million objects of two attributes, 37 for a hundred million. Each slab is tiled
by one task, which holds its objects: about 100 bytes each, and 40 for each attribute. Tasks write their slabs to
images/LSN/maps/NAME~pieces-RANDOM/, so every worker needs access to the storage, by pyarrow and without Hadoop's
connector. The driver joins the slabs, and packs the levels above the leaves: it holds all objects, three times at its
peak, besides the heap of Spark.

A run that was killed leaves no valid image, and the next one deletes its files. An existing image is replaced. Two
runs for the same map must not overlap.
"""

from __future__ import annotations

from typing import Any

from formats.map_fields import config_of
from formats.maps import objects_at, place_names
from indexes.maps.kernels.rtree import fanout_of, slab_of
from indexes.maps.packing import pack_index
from spark_jobs.common.command import Failed, Order, main
from spark_jobs.common.inputs import row_groups
from spark_jobs.common.parts import SPARK_PARTS
from spark_jobs.common.progress import Progress
from spark_jobs.rebuild.in_parts import Layout, Run, build_in_parts
from spark_jobs.rebuild.map_tasks import SLAB, coordinates, join_slabs, spark_objects
from spark_jobs.rebuild.ordering import PART, in_order, numbered


def pack(run: Run) -> list[str]:
    """Sort the objects, and run a task for each slab of them."""
    from pyspark.sql import functions as fn

    config, n, place = config_of(run.about["config"]), run.about["objects"], objects_at(run.name)
    d = len(config.attributes)
    columns = place_names(config)
    signs = [1.0, 1.0, *(-1.0 if attribute.high else 1.0 for attribute in config.attributes)]
    groups = row_groups(run.source, place, ["row", *columns], n)
    if n == 0:
        return []
    running, slab = run.session, slab_of(n, 2 + d, fanout_of(d))
    count = -(-n // slab)
    with run.progress.follow(running.context, 0.2, 0.5, "sorting the objects", jobs=3):
        where = run.source.system, run.source.path, place
        read = running.task("spark_jobs.rebuild.map_tasks:read_objects", *where, columns, signs)
        objects = running.spark.range(0, groups, 1, groups).mapInArrow(read, spark_objects(d))
        ordered, before = in_order(running, objects, n, "key", "slot")
    with run.progress.follow(running.context, 0.5, 0.8, "laying out the slabs"):
        first = fn.array(*map(fn.lit, before.tolist()))[fn.shiftright("at", PART).cast("int")]
        position = first + fn.col("at").bitwiseAND((1 << PART) - 1)
        slabs = (
            numbered(ordered)
            .withColumn("position", position)
            .selectExpr("key", "slot", *coordinates(d), f"int(position div {slab}) AS {SLAB}")
        )
        task = running.task("spark_jobs.rebuild.map_tasks:lay_slabs", run.pieces.system, run.pieces.path, n, d)
        reports = slabs.repartitionById(count, fn.col(SLAB)).mapInArrow(task, SPARK_PARTS).collect()
    names = {row["number"]: row["name"] for row in reports}
    if names.keys() != set(range(count)):
        raise Failed(f"{len(names)} slabs of {count} were laid out")
    return [names[number] for number in range(count)]


LAYOUT = Layout(
    source=objects_at,
    rows=lambda about: int(about["objects"]),
    pack=pack,
    join=lambda about, parts: pack_index(join_slabs(len(config_of(about["config"]).attributes), parts)),
    # Adaptive execution would make fewer partitions than are asked for.
    conf={"spark.sql.adaptive.enabled": "false"},
)


def build(order: Order, progress: Progress) -> tuple[dict[str, Any], int]:
    """Run the job; returns its last line and exit code."""
    return build_in_parts(order, progress, LAYOUT)


if __name__ == "__main__":
    main("rebuild.maps", __doc__ or "", build, kind="maps")
