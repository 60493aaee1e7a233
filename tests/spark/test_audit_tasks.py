"""What a task of the audit says of a batch, without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark import Broadcast

from spark_jobs.audit.board_tasks import COMPARED, Objects, differences
from tests.spark.snapshots import OBJECTS, World, make

JOINED = pa.schema(
    [
        ("sid", pa.int32()), ("id", pa.string()), ("l", pa.float64()), ("r", pa.float64()), ("k", pa.int32()),
        ("rows", pa.list_(pa.int32())),
    ]
)  # fmt: skip


def pairs(world: World) -> list[dict[str, Any]]:
    """The rows of a join in which everything is right."""
    return [{**one, "rows": world.best(one)} for one in world.subscriptions]


def compare(world: World, joined: list[dict[str, Any]], batch: int = 1000) -> tuple[list[dict[str, Any]], int]:
    """The differences that a task finds, with so many rows in a batch, and how many subscriptions it compared."""
    objects = SimpleNamespace(value=Objects(pa.Table.from_pylist(world.objects, OBJECTS), world.order == "desc"))
    table = pa.Table.from_pylist(joined, JOINED).combine_chunks()
    found = list(differences(iter(table.to_batches(batch)), cast("Broadcast[Objects]", objects)))
    assert all(one.schema.equals(COMPARED) for one in found)
    *said, last = [row for one in found for row in one.to_pylist()]
    assert all(row.pop("compared") is None for row in said)
    assert {key for key, value in last.items() if value is not None} == {"compared"}
    return said, last["compared"]


@pytest.mark.parametrize("batch", [1, 7, 1000])
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_right_lists_are_no_difference(order: str, batch: int) -> None:
    world = make(order)
    assert compare(world, pairs(world), batch) == ([], 40)


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_each_kind_of_difference_is_told_with_both_lists(batch: int) -> None:
    world = make()
    joined = pairs(world)
    long = [i for i, one in enumerate(joined) if len(one["rows"]) >= 2]
    swapped, short, other, gone, strange = long[:5]
    want = {i: world.ids(joined[i]["rows"]) for i in long}
    joined[swapped]["rows"] = joined[swapped]["rows"][::-1]
    joined[short]["rows"] = joined[short]["rows"][:-1]
    joined[other]["rows"] = [*joined[other]["rows"][:-1], joined[other]["rows"][0]]
    joined[gone]["rows"] = None
    joined[strange]["rows"] = [*joined[strange]["rows"], 4]  # no object has that row
    joined[38]["rows"] = [2]  # in the empty range
    joined.append({"sid": 77, "id": None, "rows": [5, 2]})
    expected = [
        (swapped, "order", want[swapped], want[swapped][::-1]),
        (short, "members", want[short], want[short][:-1]),
        (other, "members", want[other], [*want[other][:-1], want[other][0]]),
        (gone, "missing", want[gone], []),
        (strange, "members", want[strange], [*want[strange], "row 4"]),
        (38, "members", [], ["o0"]),
        (77, "extra", [], ["o1", "o0"]),
    ]
    said, compared = compare(world, joined, batch)
    assert [(one["sid"], one["problem"], one["expected"], one["found"]) for one in said] == expected
    assert [one["id"] for one in said] == [*(f"s{sid}" for sid, *_ in expected[:-1]), None]
    assert compared == 40


@pytest.mark.parametrize("batch", [1, 2, 1000])
def test_a_second_list_is_extra_though_it_is_right(batch: int) -> None:
    world = make()
    joined = pairs(world)
    joined.insert(4, joined[3])
    joined.insert(0, joined[0])
    said, compared = compare(world, joined, batch)
    assert [(one["sid"], one["problem"]) for one in said] == [(0, "extra"), (3, "extra")]
    assert compared == 40


def test_a_missing_list_is_told_also_where_it_would_be_empty() -> None:
    world = make()
    joined = pairs(world)
    joined[38]["rows"] = None
    assert [(one["problem"], one["expected"]) for one in compare(world, joined)[0]] == [("missing", [])]


def test_more_differences_than_fit_a_batch_are_all_told() -> None:
    world = make()
    joined = [{**one, "sid": sid, "rows": None} for sid in range(2500) for one in [world.subscriptions[sid % 40]]]
    said, compared = compare(world, joined)
    assert [one["sid"] for one in said] == list(range(2500))
    assert compared == 2500


def test_a_board_without_objects_has_empty_lists() -> None:
    world = make()
    world.objects = []
    assert compare(world, pairs(world)) == ([], 40)


def test_no_rows_at_all_are_zero_compared() -> None:
    assert compare(make(), []) == ([], 0)
