"""A board on disk: what is written is read, the same board makes the same bytes, and what is damaged is said to be."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats import boards
from formats.boards import config_fields, config_of, read_image, read_state, write_image, write_state
from formats.columns import write_table
from formats.folder import MANIFEST, Damaged, Folder
from indexes.boards.config import BoardConfig
from indexes.boards.packing import PackedBoard
from indexes.boards.regions import ranges
from indexes.boards.state import BoardState, ObjectColumns, SubscriptionColumns, board_of, pack_board
from indexes.core.ids import pack
from tests.unit.boards.helpers import assert_same, same_columns
from tests.unit.formats.boards import a_state, elsewhere, files, harm

INF = np.inf
ALLOWED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"
names = st.text(ALLOWED, min_size=1, max_size=128).filter(lambda name: name not in (".", ".."))
numbers = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e300, -1e300, 5e-324]), st.floats(-1e300, 1e300, allow_nan=False)
)
ends = st.one_of(st.sampled_from([-INF, INF, -0.0, 0.0]), numbers)
payloads = st.sampled_from([None, b"null", b"1", b'""', '"\u00e9\u4e2d\U0001f600"'.encode(), b'{"a":[1,{}]}', b"[]"])
seconds = st.sampled_from([np.nan, 0.5, 30.0, 1e9])
configs = st.builds(
    BoardConfig,
    st.lists(st.from_regex("[A-Za-z_][A-Za-z0-9_]{0,63}", fullmatch=True), min_size=1, max_size=1).map(tuple),
    st.just("delay"),
    st.sampled_from(["asc", "desc"]),
    st.sampled_from([(10,), (1, 5, 1000), (3, 4)]),
    st.sampled_from(["sparse", "dense"]),
    st.sampled_from(["range-tree", "kd-tree"]),
)


@st.composite
def states(draw: st.DrawFn) -> BoardState:
    config = draw(configs)
    objects = draw(st.lists(names, max_size=6, unique=True))
    subscriptions = draw(st.lists(names, max_size=6, unique=True))
    object_rows, subscription_rows = (
        len(some) + draw(st.sampled_from([0, 0, 1, 7])) for some in (objects, subscriptions)
    )
    rows = np.array(draw(st.permutations(range(object_rows))), np.int32)
    sids = np.array(draw(st.permutations(range(subscription_rows))), np.int32)
    n, m = len(objects), len(subscriptions)
    next_created = draw(st.sampled_from([n, n + 3, n + 2**53]))
    created = np.array(draw(st.permutations(range(next_created - n, next_created))), np.int64)
    pair = st.tuples(ends, ends).map(sorted)
    k = np.array(draw(st.lists(st.sampled_from(config.ks), min_size=m, max_size=m)), np.int32)
    offset = np.array([draw(st.sampled_from([0, 0, one - 1, one // 2])) for one in k.tolist()], np.int32)
    lr = np.array(draw(st.lists(pair, min_size=m, max_size=m)), float).reshape(m, 2)
    several: dict[str, Any] = {"min_size": n, "max_size": n}
    return BoardState(
        config,
        draw(st.sampled_from([0, 41, 2**53])),
        next_created,
        object_rows,
        subscription_rows,
        rows[n:].copy(),
        sids[m:].copy(),
        ObjectColumns(
            np.sort(rows[:n]),
            objects,
            np.array(draw(st.lists(numbers, **several)), np.float64),
            np.array(draw(st.lists(numbers, **several)), np.float64),
            created,
            draw(st.lists(payloads, **several)),
        ),
        SubscriptionColumns(
            pack(pa.array(subscriptions, pa.string()), sids[:m].copy()),
            ranges(*lr.T),
            k,
            np.array(draw(st.lists(seconds, min_size=m, max_size=m)), float),
            offset,
        ),
    )


def put(folder: Folder, state: BoardState, name: str = "b") -> dict[str, Any]:
    """Write a folder with one board; returns what the manifest says of that."""
    draft = folder.draft()
    about = write_state(draft, name, state)
    draft.publish({"about": about})
    return folder.verify()["about"]


def columns(packed: PackedBoard) -> tuple[np.ndarray, ...]:
    f = packed.forest
    return (f.head, *f.slots, *f.nodes, *packed.objects)


Place = Callable[[Path], Folder]


places = pytest.mark.parametrize("place", [Folder.at, elsewhere], ids=["local", "elsewhere"])


def test_the_other_filesystem_is_not_local(tmp_path: Path) -> None:
    assert elsewhere(tmp_path).local is None
    assert Folder.at(tmp_path).local == tmp_path


@places
@settings(deadline=None)
@given(state=states(), name=names)
def test_a_state_comes_back_bit_for_bit(place: Place, state: BoardState, name: str) -> None:
    with TemporaryDirectory() as made:
        folder = place(Path(made)) / "s"
        about = put(folder, state, name)
        found = read_state(folder, name, about)
    same_columns(found, state)
    for one, other in (
        (found.objects[2:4], state.objects[2:4]),
        (found.subscriptions.regions.sides, state.subscriptions.regions.sides),
    ):
        # Equality alone does not tell -0.0 from 0.0.
        assert [column.tobytes() for column in one] == [column.tobytes() for column in other]
    ids: Any = zip(found.subscriptions.ids, state.subscriptions.ids, strict=True)
    types: list[Any] = [(a.dtype, b.dtype) for a, b in ids]
    types += [(found.free_objects.dtype, np.int32), (found.free_subscriptions.dtype, np.int32)]
    assert all(a == b for a, b in types)


def test_a_snapshot_written_before_there_were_offsets_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = a_state()
    folder = Folder.at(tmp_path / "s")
    write = write_table

    def without(draft: Any, name: str, schema: pa.Schema, columns: list[Any]) -> None:
        at = schema.get_field_index("offset")
        write(draft, name, *((schema, columns) if at < 0 else (schema.remove(at), columns[:at] + columns[at + 1 :])))

    monkeypatch.setattr(boards, "write_table", without)
    about = put(folder, state)
    none = np.zeros(len(state.subscriptions.k), np.int32)
    wanted = state._replace(subscriptions=state.subscriptions._replace(offset=none))
    same_columns(read_state(folder, "b", about), wanted)


@settings(deadline=None)
@given(state=states())
def test_a_board_that_was_read_can_be_changed(state: BoardState) -> None:
    """Deleting writes to the rows of ids, which must not be the file's own memory."""
    with TemporaryDirectory() as made:
        folder = Folder.at(made) / "s"
        found = read_state(folder, "b", put(folder, state))
    board = board_of(found, pack_board(found))
    board.check()
    for key in [view.id for view in board.subscriptions(None, 10**6)][::2]:
        board.subscribers.ids.delete(key)


@settings(deadline=None)
@given(state=states())
def test_the_same_board_makes_the_same_bytes(state: BoardState) -> None:
    with TemporaryDirectory() as made:
        for name in ("one", "two"):
            put(Folder.at(made) / name, state)
            write_image(Folder.at(made) / f"image {name}", "boards/b", 12, pack_board(state))
        assert files(Path(made) / "one") == files(Path(made) / "two")
        assert files(Path(made) / "image one") == files(Path(made) / "image two")
        assert len(files(Path(made) / "image one")) == 4


@settings(deadline=None)
@given(config=configs)
def test_a_configuration_comes_back_through_json(config: BoardConfig) -> None:
    assert config_of(json.loads(json.dumps(config_fields(config)))) == config


@places
@settings(deadline=None)
@given(state=states())
def test_an_image_comes_back_bit_for_bit(place: Place, state: BoardState) -> None:
    packed = pack_board(state)
    with TemporaryDirectory() as made:
        folder = place(Path(made)) / "i"
        size = write_image(folder, "boards/b", 12, packed)
        assert size == sum(about["bytes"] for about in folder.manifest()["files"].values())
        found = read_image(folder)
        assert found.forest.ks == packed.forest.ks
        assert_same(columns(found), columns(packed))
        board_of(state, found).check()


def test_an_image_says_what_it_is_and_not_who_made_it(tmp_path: Path) -> None:
    folder = Folder.at(tmp_path) / "i"
    write_image(folder, "boards/b", 12, pack_board(a_state()))
    told = folder.manifest()
    assert (told["kind"], told["resource"], told["lsn"], told["ks"]) == ("image", "boards/b", 12, [3, 4, 7])
    assert set(told) == {"format", "kind", "resource", "lsn", "ks", "head", "files"}
    assert set(told["files"]) == {"slots.arrow", "nodes.arrow", "objects.arrow"}


@places
def test_writing_to_an_image_in_use_changes_neither_its_files_nor_other_readers(place: Place, tmp_path: Path) -> None:
    folder = place(tmp_path) / "i"
    packed = pack_board(a_state())
    write_image(folder, "boards/b", 12, packed)
    before = files(tmp_path)
    mine, early = read_image(folder), read_image(folder)
    for column in columns(mine):
        assert column.flags.writeable
        column[...] = 1
    assert all((column == 1).all() for column in columns(mine))
    assert_same(columns(early), columns(packed))
    assert_same(columns(read_image(folder)), columns(packed))
    assert files(tmp_path) == before


def test_an_image_in_use_outlives_its_files(tmp_path: Path) -> None:
    folder = Folder.at(tmp_path) / "i"
    packed = pack_board(a_state())
    write_image(folder, "boards/b", 12, packed)
    found = read_image(folder)
    shutil.rmtree(folder.path)
    assert_same(columns(found), columns(packed))


@places
@pytest.mark.parametrize("name", ["slots.arrow", "nodes.arrow", "objects.arrow"])
@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "missing", "another"])
def test_a_damaged_image_is_said_to_be(place: Place, name: str, damage: str, tmp_path: Path) -> None:
    folder = place(tmp_path) / "i"
    write_image(folder, "boards/b", 12, pack_board(a_state()))
    harm(next(tmp_path.rglob(name)), damage)
    with pytest.raises(Damaged, match=name):
        read_image(folder)


@places
@pytest.mark.parametrize("name", ["objects.parquet", "subscriptions.parquet", "free.parquet"])
@pytest.mark.parametrize("damage", ["cut", "empty", "missing", "another", "other columns"])
def test_a_damaged_state_is_said_to_be(place: Place, name: str, damage: str, tmp_path: Path) -> None:
    """Reading alone finds it, also where nobody has compared the files with the manifest."""
    folder = place(tmp_path) / "s"
    about = put(folder, a_state())
    path = next(tmp_path.rglob(name))
    if damage == "other columns":
        other = {"objects.parquet": "free.parquet"}.get(name, "objects.parquet")
        shutil.copy(next(tmp_path.rglob(other)), path)
    else:
        harm(path, damage)
    with pytest.raises(Damaged, match=name):
        read_state(folder, "b", about)


@pytest.mark.parametrize("what", ["objects", "subscriptions"])
def test_a_table_of_another_board_is_found_by_its_number_of_rows(what: str, tmp_path: Path) -> None:
    folder = Folder.at(tmp_path) / "s"
    about = put(folder, a_state())
    put(Folder.at(tmp_path) / "other", a_state(41, 91))
    for path in (Path((Folder.at(tmp_path) / "other").path) / "boards/b").glob(f"{what}.parquet"):
        shutil.copy(path, Path(folder.path) / "boards/b" / path.name)
    with pytest.raises(Damaged, match="other numbers of rows"):
        read_state(folder, "b", about)


@places
def test_a_good_folder_of_something_else_is_no_image(place: Place, tmp_path: Path) -> None:
    state = place(tmp_path) / "s"
    put(state, a_state())
    with pytest.raises(Damaged):
        read_image(state)
    foreign = place(tmp_path) / "i"
    draft = foreign.draft()
    for name in ("slots.arrow", "nodes.arrow", "objects.arrow"):
        with draft.file(name) as out:
            out.write(b"not Arrow")
    draft.publish({"ks": [3], "head": [[0, 0, 0, 8]]})
    with pytest.raises(Damaged, match="is no image of a board"):
        read_image(foreign)


@pytest.mark.parametrize("missing", ["ks", "head"])
def test_an_image_without_its_classes_is_refused(missing: str, tmp_path: Path) -> None:
    folder = Folder.at(tmp_path) / "i"
    draft = folder.draft()
    write_image(Folder.at(tmp_path) / "good", "boards/b", 12, pack_board(a_state()))
    good = Path((Folder.at(tmp_path) / "good").path)
    for name in ("slots.arrow", "nodes.arrow", "objects.arrow"):
        with draft.file(name) as out:
            out.write((good / name).read_bytes())
    told = json.loads((good / MANIFEST).read_text())
    draft.publish({key: told[key] for key in ("ks", "head") if key != missing})
    with pytest.raises(Damaged, match="is no image of a board"):
        read_image(folder)
