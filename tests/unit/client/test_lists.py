"""Lists that a subscriber keeps itself, by changes and by tiles, equal brute force."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast_client import (
    ChangedEntry,
    Disc,
    Entry,
    HalfPlane,
    Sides,
    Simplex,
    Tile,
    TopKList,
    apply_changes,
    near,
)

NUMBERS = st.integers(-4, 4)
ENDS = st.one_of(st.none(), NUMBERS)
World = dict[str, Entry]


def changes_between(old: list[Entry], new: list[Entry]) -> list[ChangedEntry]:
    """What the service would send: who entered, left or has other values."""
    before = {entry.id: (rank, entry) for rank, entry in enumerate(old, 1)}
    after = {entry.id: (rank, entry) for rank, entry in enumerate(new, 1)}
    changes = [ChangedEntry(id, rank, None, None) for id, (rank, _) in before.items() if id not in after]
    for id, (rank, entry) in after.items():
        held = before.get(id)
        if held is None or held[1] != entry:
            changes.append(ChangedEntry(id, held[0] if held else None, rank, entry))
    return changes


def truth(world: World, l: int | None, r: int | None, k: int, sign: int) -> list[Entry]:
    inside = [
        entry
        for entry in world.values()
        if (l is None or l <= entry.values["x"]) and (r is None or entry.values["x"] <= r)
    ]
    return sorted(inside, key=lambda entry: (sign * entry.values["y"], entry.created))[:k]


@st.composite
def histories(draw: st.DrawFn) -> list[World]:
    """Worlds, each one event from the last: upserts with ties in x and y, moves and deletions."""
    world: World = {}
    worlds = [world]
    created = 0
    for _ in range(draw(st.integers(1, 25))):
        world = dict(world)
        id = draw(st.sampled_from("abcdefgh"))
        if id in world and draw(st.integers(0, 3)) == 0:
            del world[id]
        else:
            if id not in world:
                created += 1
            values = {"x": draw(NUMBERS), "y": draw(NUMBERS)}
            world[id] = Entry(id, values, world[id].created if id in world else created, draw(st.integers(0, 1)))
        worlds.append(world)
    return worlds


@given(histories(), ENDS, ENDS, st.integers(1, 4), st.randoms(use_true_random=False))
def test_a_list_kept_by_changes_in_any_order_equals_brute_force(
    worlds: list[World], l: int | None, r: int | None, k: int, random: Any
) -> None:
    kept: list[Entry] = []
    for old, new in pairwise(worlds):
        changes = changes_between(truth(old, l, r, k, 1), truth(new, l, r, k, 1))
        random.shuffle(changes)
        kept = apply_changes(kept, changes)
        assert kept == truth(new, l, r, k, 1)


@given(histories(), ENDS, ENDS, st.integers(1, 4), st.sampled_from(["asc", "desc"]))
def test_a_list_kept_by_tiles_equals_brute_force(
    worlds: list[World], l: int | None, r: int | None, k: int, order: Any
) -> None:
    sign = 1 if order == "asc" else -1
    best = TopKList(l, r, k, order, rank="y")
    mine = {"": Sides(l, l, r, r)} if l is None and r is None else {"": Sides(None, l, r, None)}
    for old, new in pairwise(worlds):
        before, after = truth(old, l, r, k, sign), truth(new, l, r, k, sign)
        (id,) = {entry.id for entry in {**old, **new}.values() if old.get(entry.id) != new.get(entry.id)} or {"-"}
        tiles = []
        if id in old and id in new and old[id].values["x"] != new[id].values["x"] and old[id] in before:
            tiles.append(Tile(k, mine, old[id], gone=True))
        if id not in new and old.get(id) in before:
            tiles.append(Tile(k, mine, old[id], gone=True))
        elif id in new and (new[id] in after or (old.get(id) in before and not tiles)):
            tiles.append(Tile(k, mine, new[id]))
        tiles += [Tile(k, mine, entry) for entry in after if entry.id != id and entry not in before]
        tiles = [tile for tile in tiles if tile.reaches((l, r))]
        changed = [best.apply(tile) for tile in tiles]
        assert list(best.entries) == after
        assert any(changed) or before == after


@given(st.tuples(ENDS, ENDS, ENDS, ENDS), ENDS, ENDS)
def test_a_tile_is_open_outside_closed_inside_and_null_is_infinite(
    sides: tuple[Any, Any, Any, Any], l: int | None, r: int | None
) -> None:
    l_outer, l_inner, r_inner, r_outer = sides
    west = l_outer is None or (l is not None and l_outer < l)
    west &= l is None or (l_inner is not None and l <= l_inner)
    east = r_outer is None or (r is not None and r < r_outer)
    east &= r is None or (r_inner is not None and r_inner <= r)
    tile = Tile(5, {"": Sides(*sides)}, Entry("a", {}, 0))
    assert tile.reaches((l, r)) == (west and east)
    assert tile.reaches((-math.inf if l is None else l, math.inf if r is None else r)) == (west and east)


def test_with_several_attributes_a_tile_reaches_who_is_inside_in_each() -> None:
    tile = Tile.from_json(
        {"k": 1, "box": {"x": [0, 2, 2, None], "y": [None, 5, 6, 7]}, "object": {"id": "a", "values": {}, "created": 0}}
    )
    assert tile.reaches({"x": (1, None), "y": (None, 6)})
    assert not tile.reaches({"x": (None, 3), "y": (5, 6)})
    assert not tile.reaches({"x": (1, 3)}), "unbounded in y, where the outer side is finite"
    with pytest.raises(ValueError, match="x, y"):
        tile.reaches((1, 3))


def test_a_tile_for_others_changes_nothing() -> None:
    best = TopKList(0, 10, 2, rank="y")
    tile: dict[str, Any] = {"k": 2, "l_outer": None, "l_inner": 5, "r_inner": 5, "r_outer": 10}
    thing = {"object": {"id": "a", "values": {"x": 5, "y": 1}, "created": 0, "gone": False}}
    assert not best.apply(tile | thing), "its outer side is open"
    assert not best.apply(tile | {"r_outer": None, "k": 3} | thing)
    assert best.apply(tile | {"r_outer": None} | thing)
    assert not best.apply(tile | {"r_outer": None} | thing), "said again"
    assert len(best) == 1


def test_an_object_beyond_the_best_k_is_passed_over() -> None:
    best = TopKList(None, None, 1, "desc", rank="y")
    best.reset([Entry("a", {"y": 5}, 1), Entry("b", {"y": 5}, 0)])
    assert [entry.id for entry in best.entries] == ["b"], "created first"
    everyone = {"": Sides(None, None, None, None)}
    assert not best.apply(Tile(1, everyone, Entry("c", {"y": 5}, 2)))
    assert not best.apply(Tile(1, everyone, Entry("c", {"y": 9}, 2), gone=True))
    assert best.apply(Tile(1, everyone, Entry("c", {"y": 9}, 2)))


def test_a_missed_change_shows() -> None:
    with pytest.raises(ValueError, match="rank 3 of a list of 0"):
        apply_changes([], [ChangedEntry("a", None, 3, Entry("a", {}, 0))])


def test_near_is_a_range() -> None:
    assert near(760, 40) == (720, 800)
    assert near({"x": 5, "y": 0}, 2) == {"x": (3, 7), "y": (-2, 2)}
    assert near({"x": 5, "y": 0}, {"x": 1, "y": 2}) == {"x": (4, 6), "y": (-2, 2)}
    with pytest.raises(ValueError, match="radius"):
        near(1, -1)


TRIANGLE = Simplex(((0, 0), (4, 0), (0, 3)))


@pytest.mark.parametrize(
    ("shape", "field", "sides"),
    [
        (Disc((1, 2), 3), "disc", {"center": [[0, 1], [2, 2]], "radius": [3, 4]}),
        (HalfPlane((1, 2), 3), "half_plane", {"a": [[0, 1], [2, 2]], "b": [3, 4]}),
        (TRIANGLE, "simplex", {"points": [[[0, 0], [0, 1]], [[4, 4], [0, 0]], [[0, 2], [3, 3]]]}),
    ],
)
def test_a_tile_of_another_shape_reaches_who_lies_between_its_bounds(shape: Any, field: str, sides: Any) -> None:
    data = {"k": 2, field: sides, "object": {"id": "a", "values": {"rent": 1}, "created": 0}}
    tile = Tile.from_json(data)
    assert (tile.shape, tile.reaches(shape)) == (field, True)
    outside: list[Any] = [{"x": (0, 9)}, Disc((1, 2), 2.9), HalfPlane((1, 2), 4.5), Simplex(((0, 0), (4, 0), (3, 3)))]
    assert not any(map(tile.reaches, outside))
    best = TopKList.of(shape, 2, rank="rent")
    assert best.apply(data) and [entry.id for entry in best.entries] == ["a"]
    assert not TopKList.of(outside[1], 2, rank="rent").apply(data)


def test_ranges_and_shapes_do_not_hear_of_each_others_tiles() -> None:
    box = Tile.from_json({"k": 1, "box": {"x": [None, 9, 0, None]}, "object": {"id": "a", "values": {}, "created": 0}})
    assert box.reaches({"x": (1, 2)}) and not box.reaches(Disc((1, 1), 1))


@pytest.mark.parametrize(
    ("where", "any_too", "values", "reached"),
    [
        ({}, True, [], True),
        ({}, False, ["IAH"], False),
        ({"to": "IAH"}, True, [], False),
        ({"to": "IAH"}, False, ["IAH"], True),
        ({"to": "ORD"}, True, ["IAH"], False),
        ({"to": 1}, False, [1.0], True),
        ({"to": True}, False, [1], False),
        ({"to": None}, False, [None], True),
        ({"carrier": "UA"}, True, [], False),
    ],
)
def test_a_tile_reaches_by_filters_too(where: Any, any_too: bool, values: list[Any], reached: bool) -> None:
    sides = {"l_outer": None, "l_inner": 5, "r_inner": 5, "r_outer": None}
    told = {"to": {"any": any_too, "values": values}, "carrier": {"any": True, "values": []}}
    thing = {"id": "a", "values": {"x": 5, "y": 1}, "created": 0, "gone": False}
    data = {"k": 2, **sides, "where": told, "object": thing}
    assert Tile.from_json(data).reaches((0, 9), where) is reached
    mine = TopKList(0, 9, 2, rank="y", where=where)
    assert mine.apply(data) is reached
    assert not Tile.from_json(data).reaches((6, 9), where)
