"""Trajectories through a map, and what a job says of them against brute force at every place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from indexes.maps.state import MapState
from tests.oracles import maps as skylines
from tests.oracles import top_k
from tests.spark.maps import ids_of

CLOSE = 1e-9
"""What equal scores may differ by: far less than anything in these worlds, far more than rounding."""

SCORE = {"kind": "weighted_sum", "weights": {"distance": 0.5, "price": 0.25, "rating": 0.1}}
TOP = {"kind": "top", "k": 3, "m": 4, "score": SCORE}


def trajectories(seed: int, clients: int, steps: int, most: float = 8.0) -> pa.Table:
    """Ways of clients in steps that are small, with a jump now and then, some on a grid.

    The rows come in any order, some at the same time, with a column that is nobody's.
    """
    rng = np.random.default_rng(seed)
    columns: dict[str, list[Any]] = {name: [] for name in ("client", "t", "x", "y")}
    for client in range(clients):
        jumps = np.where(rng.random((steps, 1)) < 0.1, 2.0, 0.05)
        way = np.clip(rng.random(2) * most + np.cumsum(rng.normal(size=(steps, 2)) * jumps, axis=0), -1, most + 1)
        way = np.round(way * 4) / 4 if client % 4 == 0 else way
        columns["client"] += [f"c{client}"] * steps
        columns["t"] += (client + np.cumsum(rng.integers(0, 3, steps))).tolist()
        columns["x"] += way[:, 0].tolist()
        columns["y"] += way[:, 1].tolist()
    order = rng.permutation(clients * steps)
    table = pa.table({**columns, "speed": rng.random(clients * steps)})
    return table.take(pa.array(order))


def by_client(table: pa.Table) -> dict[Any, list[dict[str, Any]]]:
    """The rows of each client, in order of t."""
    found: dict[Any, list[dict[str, Any]]] = {}
    for row in sorted(table.to_pylist(), key=lambda row: row["t"]):  # stable
        found.setdefault(row["client"], []).append(row)
    return found


def check(state: MapState, question: dict[str, Any], points: pa.Table, result: pa.Table) -> int:
    """Hold a result against the answers at all rows of the points; returns how many changes are not the first."""
    rows = [(row["client"], row["t"]) for row in result.to_pylist()]
    assert rows == sorted(rows)
    ways, changes = by_client(points), by_client(result)
    assert changes.keys() == ways.keys()
    for client, way in ways.items():
        held: list[dict[str, Any]] = []
        left = iter(changes[client])
        change: dict[str, Any] | None = next(left)
        for i, row in enumerate(way):
            if change is not None and all(change[name] == row[name] for name in ("t", "x", "y")):
                _check_change(change, held if i else None, question.get("ordered", False))
                held, change = change["answer"], next(left, None)
                _check_numbers(state, question, row, held)
            _check_right(state, question, row, [one["id"] for one in held])
        assert change is None
    return len(result) - len(ways)


def _check_change(change: dict[str, Any], before: list[dict[str, Any]] | None, ordered: bool) -> None:
    ids = [one["id"] for one in change["answer"]]
    if before is None:
        assert change["change"] == "first"
        return
    old = [one["id"] for one in before]
    assert ids != old and change["change"] == ("order" if set(ids) == set(old) else "members")
    assert ordered or change["change"] == "members"


def _check_numbers(
    state: MapState, question: dict[str, Any], row: dict[str, Any], answer: list[dict[str, Any]]
) -> None:
    """The distances and scores of an answer are those at the place, and it is in order of them."""
    far = _distances(state, row)
    assert [one["distance"] for one in answer] == [far[one["id"]] for one in answer]
    key = "distance" if question["kind"] == "skyline" else "score"
    assert [one[key] for one in answer] == sorted(one[key] for one in answer)
    if key == "score":
        scores = _scores(state, question["score"], row)
        assert [one["score"] for one in answer] == [scores[one["id"]] for one in answer]


def _check_right(state: MapState, question: dict[str, Any], row: dict[str, Any], ids: list[str]) -> None:
    if question["kind"] == "skyline":
        found = skylines.skyline(state.points, state.statics, row["x"], row["y"], state.config.metric)
        assert set(ids) == {ids_of(state)[slot] for slot in found} and len(ids) == len(found)
        return
    scores = _scores(state, question["score"], row)
    mine, wanted = [scores[one] for one in ids], sorted(scores.values())[: question["k"]]
    assert len(set(ids)) == len(ids)
    for a, b in zip(mine if question.get("ordered") else sorted(mine), wanted, strict=True):
        assert abs(a - b) <= CLOSE * max(1.0, abs(a))


def _distances(state: MapState, row: dict[str, Any]) -> dict[str, float]:
    at = row["x"], row["y"]
    places = state.points.tolist()
    return {
        id: top_k.distance(state.config.metric, at, (x, y)) for id, (x, y) in zip(ids_of(state), places, strict=True)
    }


def _scores(state: MapState, score: dict[str, Any], row: dict[str, Any]) -> dict[str, float]:
    attributes, found = state.config.attributes, {}
    for (id, far), statics in zip(_distances(state, row).items(), state.statics.tolist(), strict=True):
        signed = zip(attributes, statics, strict=True)
        values = {one.name: -value if one.high else value for one, value in signed}
        found[id] = top_k.score(score["kind"], attributes, score["weights"], far, values)
    return found
