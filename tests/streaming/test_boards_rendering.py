from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.rendering.boards import BoardJson, end, number, numbers
from indexes.boards.commands import AddSubscriptions
from indexes.boards.regions import Regions, between
from indexes.boards.results import ListEntry, ObjectView, Reach, SubscriptionView, TileRows, TileView

WRITE = BoardJson("distance", "delay")
PLAIN = ObjectView("UA1545", 1400.0, 11.5, 17, None)
LOADED = ObjectView("DL95", 760.0, -0.0, 3, '{"to":"IAH","größe":[1,null]}'.encode())


@given(st.floats(-1e300, 1e300))
def test_a_number_comes_back_exactly(value: float) -> None:
    read = json.loads(number(value))
    assert read == value
    assert isinstance(read, int) == (value == int(value) and abs(value) <= 2**53)
    assert math.copysign(1, read) == 1 or value < 0


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (-0.0, "0"), (2.0**53, "9007199254740992"), (-5.0, "-5"), (2.0**54, "1.8014398509481984e+16")],
)
def test_whole_numbers_up_to_2_53_are_integers(value: float, text: str) -> None:
    assert number(value) == text


def test_unbounded_ends_are_null() -> None:
    assert [end(value) for value in (None, math.inf, -math.inf, 3.0)] == ["null", "null", "null", "3"]


def test_a_list_has_ranks_values_created_and_payloads() -> None:
    assert json.loads(WRITE.list([PLAIN, LOADED])) == [
        {"rank": 1, "id": "UA1545", "values": {"distance": 1400, "delay": 11.5}, "created": 17},
        {
            "rank": 2,
            "id": "DL95",
            "values": {"distance": 760, "delay": 0},
            "created": 3,
            "payload": {"to": "IAH", "größe": [1, None]},
        },
    ]
    assert WRITE.list([]) == "[]"


def test_an_object_takes_a_head() -> None:
    assert json.loads(WRITE.object(PLAIN, '"seq":42,')) == {
        "seq": 42,
        "id": "UA1545",
        "values": {"distance": 1400, "delay": 11.5},
        "created": 17,
    }


def test_changes_carry_values_whenever_there_is_a_new_rank() -> None:
    entries = [
        ListEntry("UA1545", None, 2, PLAIN, None),
        ListEntry("DL95", 5, None, None, LOADED),
        ListEntry("UA1545", 4, 1, LOADED, PLAIN),
    ]
    told = json.loads(WRITE.changes(entries, old=True))
    assert json.loads(WRITE.changes(entries)) == [
        {name: value for name, value in entry.items() if name != "old_values"} for entry in told
    ]
    assert told == [
        {
            "id": "UA1545",
            "old_rank": None,
            "new_rank": 2,
            "values": {"distance": 1400, "delay": 11.5},
            "created": 17,
        },
        {"id": "DL95", "old_rank": 5, "new_rank": None, "old_values": json.loads(WRITE.object(LOADED))["values"]},
        {
            "old_rank": 4,
            "new_rank": 1,
            **json.loads(WRITE.object(LOADED)),
            "id": "UA1545",
            "old_values": {"distance": 1400, "delay": 11.5},
        },
    ]


def test_tiles_are_written_one_by_one_and_by_column_alike() -> None:
    tile = TileView(5, None, 1400.0, 1400.0, 2475.0, PLAIN, False)
    gone = TileView(5, -math.inf, 1.0, 2.0, math.inf, LOADED, True)
    first = {
        "k": 5,
        "l_outer": None,
        "l_inner": 1400,
        "r_inner": 1400,
        "r_outer": 2475,
        "object": {"id": "UA1545", "values": {"distance": 1400, "delay": 11.5}, "created": 17, "gone": False},
    }
    one_by_one = [json.loads(WRITE.tile(one)) for one in (tile, gone)]
    assert one_by_one[0] == first
    assert one_by_one[1]["object"]["gone"] is True
    assert one_by_one[1]["l_outer"] is None
    sides = np.array([[-math.inf, 1400.0, 1400.0, 2475.0], [-math.inf, 1.0, 2.0, math.inf]])
    values = np.array([[one.object.x, one.object.y] for one in (tile, gone)])
    rows = TileRows(
        np.array([0, 3]),
        np.hstack([sides, values]),
        np.array([5, 5]),
        [PLAIN.id, LOADED.id],
        np.array([PLAIN.created, LOADED.created]),
        np.array([False, True]),
        [PLAIN.payload, LOADED.payload],
    )
    by_column = json.loads(f"[{WRITE.tiles(rows, [0, None])}]")
    assert by_column == [{"event": 0, **one_by_one[0]}, {"event": None, **one_by_one[1]}]
    assert [event for event, _ in rows.views()] == [0, 3]
    assert [json.loads(WRITE.tile(view)) for _, view in rows.views()] == one_by_one


ENDS = st.floats(allow_nan=False) | st.sampled_from(
    [0.0, -0.0, 7.0, 2.0**53, 2.0**53 + 2, -(2.0**53), 1e15, 1e16, 1e-7]
)
ROW = st.tuples(
    st.integers(0, 3) | st.none(),
    st.tuples(ENDS, ENDS, ENDS, ENDS, st.floats(-1e300, 1e300), st.floats(-1e300, 1e300)),
    st.integers(1, 10**6),
    st.text("aZ09_.:-", min_size=1, max_size=9),
    st.integers(0, 2**62),
    st.booleans(),
    st.sampled_from([None, b"{}", LOADED.payload]),
    st.tuples(st.builds(Reach, st.booleans(), st.sampled_from([None, '"sea"', "1.5"]))),
)


@given(st.lists(ROW, min_size=1, max_size=20), st.booleans(), st.booleans(), st.data())
def test_tiles_are_the_same_bytes_together_as_put_together_from_their_parts(
    drawn: list[Any], loaded: bool, filtered: bool, data: st.DataObject
) -> None:
    events, values, k, ids, created, gone, payloads, where = (list(column) for column in zip(*drawn, strict=True))
    write = BoardJson("distance", "delay", ("kind",) if filtered else ())
    if not loaded:
        payloads = [None] * len(ids)
    columns = np.array(k), ids, np.array(created), np.array(gone), payloads
    rows = TileRows(np.zeros(len(ids), np.int64), np.array(values), *columns, where=where if filtered else None)

    def whole(t: int, event: int | None) -> str:
        l_outer, l_inner, r_inner, r_outer, x, y = numbers(np.array(values[t]))
        reach, payload = where[t][0], payloads[t]
        field = f'"kind":{{"any":{json.dumps(reach.any)},"values":[{reach.value or ""}]}}'
        reached = f',"where":{{{field}}}' if filtered else ""
        more = "" if payload is None else f',"payload":{payload.decode()}'
        return (
            f'{{"event":{json.dumps(event)},"k":{k[t]},"l_outer":{l_outer},"l_inner":{l_inner},"r_inner":{r_inner},'
            f'"r_outer":{r_outer}{reached},"object":{{"id":"{ids[t]}","values":{{"distance":{x},"delay":{y}}},'
            f'"created":{created[t]}{more},"gone":{json.dumps(gone[t])}}}}}'
        )

    assert write.tiles(rows, events) == ",".join([whole(t, event) for t, event in enumerate(events)])
    ends = sorted(data.draw(st.sets(st.integers(1, len(ids)))) | {len(ids)})
    wanted = [",".join([whole(t, 0) for t in range(*run)]).encode() for run in pairwise([0, *ends])]
    assert write.runs(rows, ends) == wanted


@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_numbers_written_together_read_as_those_written_alone(values: list[float]) -> None:
    together = [json.loads(text) for text in numbers(np.array(values))]
    alone = [json.loads(end(value)) for value in values]
    assert together == alone
    assert [type(one) for one in together] == [type(one) for one in alone]
    assert [math.copysign(1, one) for one in together if one == 0] == [1] * together.count(0)


def test_a_subscription_shows_its_range_and_may_show_its_list() -> None:
    item = SubscriptionView("mine", between(500.0, math.inf), 5, None)
    assert json.loads(WRITE.subscription(item)) == {"id": "mine", "range": {"distance": [500, None]}, "k": 5}
    full = json.loads(WRITE.subscription(item._replace(ttl=60.0), '"seq":1,', [PLAIN]))
    assert (full["seq"], full["ttl"], len(full["list"])) == (1, 60, 1)
    behind = json.loads(WRITE.subscription(item._replace(offset=20), items=[PLAIN, LOADED]))
    assert (behind["k"], behind["offset"], [entry["rank"] for entry in behind["list"]]) == (5, 20, [21, 22])


@given(
    st.lists(
        st.tuples(
            st.one_of(st.just(-math.inf), st.floats(-1e300, 1e300)),
            st.one_of(st.just(math.inf), st.floats(-1e300, 1e300)),
            st.integers(1, 1000),
            st.integers(0, 3),
            st.one_of(st.none(), st.floats(1e-3, 1e9)),
        ),
        min_size=1,
        max_size=8,
    ),
    st.booleans(),
    st.booleans(),
    st.data(),
)
def test_subscriptions_by_column_are_written_as_one_by_one(
    rows: list[tuple[float, float, int, int, float | None]], offsets: bool, heads: bool, data: st.DataObject
) -> None:
    views = [
        SubscriptionView(f"s{i}", between(l, r), k, ttl, offset if offsets else 0, ())
        for i, (l, r, k, offset, ttl) in enumerate(rows)
    ]
    command = AddSubscriptions(
        pa.array([view.id for view in views]),
        Regions.of([view.region for view in views], 1),
        np.array([view.k for view in views], np.int64),
        {i: view.ttl for i, view in enumerate(views) if view.ttl is not None},
        offset=np.array([view.offset for view in views], np.int64) if offsets else None,
    )
    first = data.draw(st.integers(0, len(views) - 1))
    at = range(first, len(views))
    before = [f'"index":{i},' for i in at] if heads else None
    one_by_one = [WRITE.subscription(views[i], before[i - first] if before else "") for i in at]
    by_column = json.loads(f"[{WRITE.subscriptions(command, at, before)}]", object_pairs_hook=list)
    assert by_column == json.loads(f"[{','.join(one_by_one)}]", object_pairs_hook=list)  # 1e-7 is 1e-07 in the other
