"""The tasks that make an image, run by hand over parts as Spark would cut them, against packing in one piece."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats.folder import Damaged, Folder
from indexes.boards.packing import Box, cell_start, ends, pack_forest, pack_objects, widest
from spark_jobs.common.inputs import row_groups
from spark_jobs.rebuild import board_tasks
from spark_jobs.rebuild.board_cells import Cells
from spark_jobs.rebuild.board_tasks import Piece
from tests.spark.boards import LSN, make, snapshot

seeds = st.integers(0, 10**6)
sizes = st.one_of(st.integers(0, 40), st.integers(0, 600))
Table = dict[str, np.ndarray[Any, Any]]


def partitions(rng: np.random.Generator, rows: Table) -> tuple[list[list[pa.RecordBatch]], np.ndarray[Any, Any]]:
    """Sorted rows in partitions and batches, some of them empty, numbered within the partition as Spark does.

    And the number of rows before each partition.
    """
    size = len(next(iter(rows.values())))
    bounds = np.sort(rng.integers(0, size + 1, rng.integers(0, 5)))
    starts = np.array([0, *bounds, size])
    found = []
    for number, (lo, hi) in enumerate(itertools.pairwise(starts)):
        part = {name: column[lo:hi] for name, column in rows.items()} | {"at": (number << 33) + np.arange(hi - lo)}
        middle = int(rng.integers(0, hi - lo + 1))
        cuts = slice(middle), slice(middle, None)
        found.append([pa.record_batch({name: column[cut] for name, column in part.items()}) for cut in cuts])
    return found, starts[:-1]


def together(batches: Iterator[pa.RecordBatch] | list[pa.RecordBatch]) -> Table:
    table = pa.Table.from_batches(list(batches))
    return {name: table[name].to_numpy() for name in table.column_names}


def reported(batches: Iterator[pa.RecordBatch]) -> list[Piece]:
    return [Piece(row["at"], tuple(row["names"])) for batch in batches for row in batch.to_pylist()]


def same(a: tuple[Any, ...], b: tuple[Any, ...]) -> None:
    for x, y in zip(a, b, strict=True):
        assert x.dtype == y.dtype and x.tobytes() == y.tobytes()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return Folder.at(tmp_path_factory.mktemp("pieces"))


@settings(max_examples=60)
@given(seed=seeds, counts=st.lists(sizes, max_size=4), most=st.integers(1, 300), grid=st.integers(0, 50))
def test_classes_that_are_cut_by_sorting_are_packed_as_in_one_piece(
    folder: Folder, seed: int, counts: list[int], most: int, grid: int
) -> None:
    rng = np.random.default_rng(seed)
    ks = tuple(range(1, len(counts) + 1))
    s = make(seed, 0, dict(zip(ks, counts, strict=True)), grid=grid).subscriptions
    l, r = ends(s.regions.l), ends(s.regions.r)
    cells = Cells(counts, most)
    assert cells.levels <= 12 and cells.total >= sum(n > 0 for n in counts)
    points: Table = {"cell": np.array(cells.first)[s.k - 1], "l": l, "r": r, "sid": s.ids.row} if ks else {}
    cuts: list[list[tuple[int, float]]] = [[] for _ in ks]
    done: list[Table] = []
    for level in range(cells.levels):
        numbers = [number for q in cells.open(level) for number in cells.of_class(q, level)]
        going_on = np.isin(points["cell"], numbers)
        done.append({name: column[~going_on] for name, column in points.items()})
        points = {name: column[going_on] for name, column in points.items()}
        axis = {}
        for number in numbers:
            mine = points["cell"] == number
            sides = [side for name in "lr" for side in (points[name][mine].min(), points[name][mine].max())]
            axis[number] = widest(Box(*map(float, sides)))
        along_r = np.isin(points["cell"], [number for number in numbers if axis[number]])
        key = np.where(along_r, points["r"], points["l"])
        order = np.lexsort((points["sid"], key, points["cell"]))
        rows = {"key": key[order], **{name: points[name][order] for name in ("l", "r", "sid")}}
        parts, before = partitions(rng, rows)
        halves = cells.halves(level)
        batches = [batch for part in parts for batch in board_tasks.halve_points(iter(part), before, *halves)]
        points = together(batches)
        found = {cell: cut for cell, cut in zip(points["cell"], points.pop("cut"), strict=True) if not np.isnan(cut)}
        assert len(found) == len(numbers)
        for q in cells.open(level):
            lefts, rights = cells.of_class(q, level), cells.of_class(q, level + 1)[1::2]
            cuts[q] += [(axis[left], found[right]) for left, right in zip(lefts, rights, strict=True)]
    done.append(points)
    points = {name: np.concatenate([part[name] for part in done]) for name in points}
    laid = []
    for number in range(cells.total):
        mine = rng.permutation(np.flatnonzero(points["cell"] == number))
        part = {name: column[mine] for name, column in points.items()}
        batches, _ = partitions(rng, part)
        laid += reported(
            board_tasks.lay_cells((b for one in batches for b in one), folder.system, folder.path, counts, most)
        )
    assert [piece.at for piece in laid] == list(range(cells.total))
    forest = board_tasks.join_forest(folder, laid[::-1], ks, cells, cuts)
    want = pack_forest(ks, s.k, s.ids.row, s.regions.l, s.regions.r)
    assert forest.ks == want.ks
    same((forest.head, *forest.slots, *forest.nodes), (want.head, *want.slots, *want.nodes))


@given(counts=st.lists(st.integers(0, 10**9), max_size=5), most=st.integers(10**5, 10**9))
def test_cells_have_no_more_points_than_asked_for_and_no_level_too_many(counts: list[int], most: int) -> None:
    cells = Cells(counts, most)
    number = 0
    for q, n in enumerate(counts):
        above = cells.above[q]
        bounds = [cell_start(n, above, j) for j in range((1 << above) + 1)]
        assert bounds[-1] == n and max(np.diff(bounds)) <= most
        assert above == 0 or -(-n // (1 << (above - 1))) > most
        mine = list(cells.of_class(q))
        assert mine == list(range(number, number + (1 << above if n else 0)))
        assert [cells.place(cell) for cell in mine] == [(n, above, j) for j in range(len(mine))]
        number += len(mine)
    assert cells.total == number


@given(seed=seeds, n=sizes, grid=st.integers(0, 50))
def test_objects_laid_out_by_parts_are_packed_as_in_one_piece(folder: Folder, seed: int, n: int, grid: int) -> None:
    rng = np.random.default_rng(seed)
    o = make(seed, n, {1: 0}, grid=grid).objects
    order = np.lexsort((o.created, o.x))
    columns: dict[str, Any] = {"x": o.x, "y": o.y, "created": o.created, "row": o.row}
    parts, before = partitions(rng, {name: column[order] for name, column in columns.items()})
    laid = [
        piece
        for part in parts
        for piece in reported(board_tasks.lay_slots(iter(part), folder.system, folder.path, before, n))
    ]
    same(board_tasks.join_objects(folder, laid[::-1], n), pack_objects(o.x, o.y, o.created, o.row))


def test_row_groups_are_read_as_points_and_objects(tmp_path: Path) -> None:
    state = make(3, 50, {2: 100, 5: 0, 9: 200})
    snapshot(tmp_path, {"b": state})
    folder = Folder.at(tmp_path) / "snapshots" / str(LSN)
    for name in ("objects", "subscriptions"):
        path = tmp_path / f"snapshots/{LSN}/boards/b/{name}.parquet"
        pq.write_table(pq.read_table(path), path, row_group_size=17)
    s, o = state.subscriptions, state.objects
    assert row_groups(folder, "boards/b/subscriptions.parquet", board_tasks.SUBSCRIPTIONS, 300) == 18
    numbers = [pa.record_batch({"id": pa.array(ids, pa.int64())}) for ids in ([0, 1], [], list(range(2, 18)))]
    place = folder.system, folder.path
    points = together(board_tasks.read_points(iter(numbers), *place, "boards/b/subscriptions.parquet", (2, 5, 9)))
    same(
        (points["l"], points["r"], points["sid"]),
        (ends(s.regions.l), ends(s.regions.r), s.ids.row),
    )
    assert np.isfinite(points["l"]).all() and not (np.signbit(points["l"]) & (points["l"] == 0.0)).any()
    assert (np.array([2, 5, 9])[points["q"]] == s.k).all()
    found = together(board_tasks.read_objects(iter([numbers[0]]), *place, "boards/b/objects.parquet", -1.0))
    same((found["x"], found["y"], found["row"]), (o.x[:34], -o.y[:34], o.row[:34]))
    assert (found["key"] == found["x"]).all() and not (np.signbit(found["key"]) & (found["key"] == 0.0)).any()
    with pytest.raises(ValueError, match=r"subscriptions.parquet has a subscription of k = 9"):
        list(board_tasks.read_points(iter(numbers), *place, "boards/b/subscriptions.parquet", (2, 5)))


def test_a_file_that_is_not_as_its_manifest_says_is_named(tmp_path: Path) -> None:
    folder = Folder.at(tmp_path)
    pq.write_table(pa.table({"sid": [1, 2], "l": [0.0, 0.0], "r": [1.0, 1.0]}), tmp_path / "few.parquet")
    (tmp_path / "not.parquet").write_bytes(b"PAR1 no more than that")
    with pytest.raises(Damaged, match=r"few\.parquet has no column k"):
        row_groups(folder, "few.parquet", board_tasks.SUBSCRIPTIONS, 2)
    with pytest.raises(Damaged, match=r"few\.parquet has 2 rows, and 3 by the manifest"):
        row_groups(folder, "few.parquet", ("sid",), 3)
    for name in ("not.parquet", "none.parquet"):
        with pytest.raises(Damaged, match=name):
            row_groups(folder, name, ("sid",), 3)


def test_a_cell_among_the_points_of_another_is_refused(folder: Folder) -> None:
    batch = pa.record_batch({"cell": [0, 1], "l": [0.0, 0.0], "r": [1.0, 1.0], "sid": pa.array([1, 2], pa.int32())})
    with pytest.raises(ValueError, match="partition of cell 0"):
        list(board_tasks.lay_cells(iter([batch]), folder.system, folder.path, [1, 1], 10))
