"""What of a command applies to a map: numbers and places by themselves, and objects by whether they are there."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indexes.commands import Fault, Refused
from indexes.ids import Packed
from indexes.maps.asks import faults_of
from indexes.maps.commands import PutObjects
from indexes.maps.model import MapConfig, Point, Question
from indexes.maps.presence import BULK, Presence, find_many, packed_ids
from indexes.names import Names
from indexes.promised import Steps

Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

MOST = 1e300
"""The largest number, either way."""

EARTH = ((-180.0, 180.0), (-90.0, 90.0))
"""Longitudes and latitudes."""


class Accepted(NamedTuple):
    """Objects to be put that apply; `positions` are their places in the command where some were left out, `packed`
    their sorted ids where there are many. `created` of them are new."""

    command: PutObjects
    faults: list[Fault]
    positions: list[int] | None
    created: int
    packed: Packed | None


def accept_put(config: MapConfig, command: PutObjects, presence: Presence, names: Names) -> Steps[Accepted]:
    """Which objects apply, cut into pieces; nothing changes.

    Raises:
        Refused: some do not apply, and none are to be skipped.
    """
    large = len(command) > BULK
    check = partial(_check, config, command, presence, names)
    ok, faults, created = (yield check) if large else check()
    if faults and not command.skip:
        raise Refused(sorted(faults, key=lambda fault: (fault.kind == "missing", fault.index)))
    positions = None
    if faults:
        rows = np.flatnonzero(ok)
        positions = rows.tolist()
        command = _some(command, rows)
    packed: Packed | None = None
    if len(command) > BULK:
        packed = yield partial(packed_ids, command.ids)
    return Accepted(command, faults, positions, created, packed)


def _check(config: MapConfig, command: PutObjects, presence: Presence, names: Names) -> tuple[Bool, list[Fault], int]:
    """Which elements apply, what is wrong with the others, and how many objects are new. An element of an id that is
    not there has to say everything, unless one before it made it."""
    n = len(command)
    faults, bad = _element_faults(config, command)
    coded = command.ids.dictionary_encode()
    distinct, inverse = coded.dictionary, coded.indices.to_numpy().astype(np.int64)
    # In this order: what is applied meanwhile is no longer promised, and found.
    promised = presence.many(distinct)
    there = np.where(promised >= 0, promised == 1, find_many(names, distinct) >= 0)
    lacks_place = np.isnan(command.points[:, 0])
    whole = ~lacks_place & ~np.isnan(command.values).any(axis=1) & ~bad
    maker = np.full(len(distinct), n)
    if not command.must_exist:
        makers = np.flatnonzero(whole)[::-1]
        maker[inverse[makers]] = makers
    known = there[inverse] | (np.arange(n) >= maker[inverse])
    for i in np.flatnonzero(~known & ~bad).tolist():
        key = command.ids[i].as_py()
        if command.must_exist:
            faults.append(Fault("id", f"there is no object {key!r}", "missing", i))
            continue
        if lacks_place[i]:
            faults.append(Fault("location", "a new object needs a location", index=i))
        for j in np.flatnonzero(np.isnan(command.values[i])).tolist():
            field = f"values.{config.attributes[j].name}"
            faults.append(Fault(field, "a new object needs a value", index=i))
    return known & ~bad, faults, int((~there & (maker < n)).sum())


def _element_faults(config: MapConfig, command: PutObjects) -> tuple[list[Fault], Bool]:
    """What is wrong with elements by themselves, and with which of them."""
    faults: list[Fault] = []
    bad = np.zeros(len(command), bool)
    ends = EARTH if config.metric == "great-circle" else ((-MOST, MOST),) * 2
    columns = [(f"location[{j}]", command.points[:, j], ends[j]) for j in (0, 1)]
    for j, attribute in enumerate(config.attributes):
        columns.append((f"values.{attribute.name}", command.values[:, j], attribute.range or (-MOST, MOST)))
    for field, column, (low, high) in columns:
        wrong = ~((column >= low) & (column <= high)) & ~np.isnan(column)
        bad |= wrong
        faults += [Fault(field, _between(low, high), index=i) for i in np.flatnonzero(wrong).tolist()]
    half = np.isnan(command.points[:, 0]) != np.isnan(command.points[:, 1])
    faults += [Fault("location", "must be two numbers", index=i) for i in np.flatnonzero(half & ~bad).tolist()]
    return faults, bad | half


def _between(low: float, high: float) -> str:
    if (low, high) == (-MOST, MOST):
        return f"must be a number within {MOST}"
    return f"must be from {low:g} to {high:g}"


def _some(command: PutObjects, rows: npt.NDArray[np.int64]) -> PutObjects:
    """Those at these places, in this order."""
    place = {old: new for new, old in enumerate(rows.tolist())}
    payload = {place[i]: text for i, text in command.payload.items() if i in place}
    ids = command.ids.take(pa.array(rows))
    return PutObjects(ids, command.points[rows], command.values[rows], payload, command.skip, command.must_exist)


def question_faults(config: MapConfig, question: Question | None, location: Point | None) -> list[Fault]:
    """What is wrong with a question, and with a place; None is passed over."""
    faults = [] if question is None else [Fault(field, reason) for field, reason in faults_of(config, question)]
    ends = EARTH if config.metric == "great-circle" else ((-MOST, MOST),) * 2
    for j, value in enumerate(location or ()):
        low, high = ends[j]
        if not low <= value <= high:
            faults.append(Fault(f"location[{j}]", _between(low, high)))
    return faults
