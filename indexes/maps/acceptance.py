"""Validation of commands of a map: their numbers and places, and which objects and queries exist."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from indexes.core.arrays import Bools, Floats, Ints, Ints32
from indexes.core.commands import Fault, Refused
from indexes.core.ids import Packed
from indexes.core.names import Names
from indexes.core.pending_subscriptions import Steps
from indexes.maps.commands import ChangeQuery, PutObjects
from indexes.maps.config import MapConfig, Point, QueryState, Question, Skyline, Top
from indexes.maps.kernels.limits import are_known
from indexes.maps.pending_objects import BULK, PendingObjects, distinct_ids, find_many, packed_ids
from indexes.maps.questions import faults_of, too_costly

MOST = 1e300
"""The largest number, either way."""

EARTH = ((-180.0, 180.0), (-90.0, 90.0))
"""Longitudes and latitudes."""


FEW = 256
"""Objects of a command that is accepted at once where all of them are there."""


class Limits(NamedTuple):
    """The least and the greatest that the numbers of an object may be: its place, then its values."""

    lowest: Floats
    highest: Floats


class Accepted(NamedTuple):
    """Objects to be put that apply; `positions` are their places in the command where some were left out, `packed`
    their sorted ids where there are many. `makers` are the places in what was sent of those that make an object."""

    command: PutObjects
    faults: list[Fault]
    positions: list[int] | None
    makers: Ints
    packed: Packed | None


def known_slots(limits: Limits, command: PutObjects, pending: PendingObjects, names: Names) -> Ints32 | None:
    """The slots of the objects of a command that only changes numbers of existing objects, as most commands do: a few
    objects, each once and without a payload, which no command under way makes or deletes, with valid numbers. None for
    any other command."""
    n, points, values = len(command), command.points, command.values
    if not 0 < n <= FEW or command.payload or not (points.flags.carray and values.flags.carray):
        return None
    keys = command.keys
    if n > 1 and len(set(keys)) < n:
        return None
    if pending and any(pending.get(key) is not None for key in keys):
        return None
    slots = names.find_all(keys)
    return slots if are_known(slots, points, values, *limits) else None


def accept_put(config: MapConfig, command: PutObjects, pending: PendingObjects, names: Names) -> Steps[Accepted]:
    """Which elements of a command apply, in steps; nothing changes.

    Raises:
        Refused: some do not apply, and none are to be skipped.
    """
    large = len(command) > BULK
    check = partial(_check, config, command, pending, names)
    ok, faults, makers = (yield check) if large else check()
    if faults and not command.skip:
        raise Refused(sorted(faults, key=lambda fault: (fault.kind == "missing", fault.index)))
    positions = None
    if faults:
        positions = np.flatnonzero(ok).tolist()
        command = command.take(positions)
    packed: Packed | None = None
    if len(command) > BULK:
        packed = yield partial(packed_ids, command.ids)
    return Accepted(command, faults, positions, makers, packed)


def _check(
    config: MapConfig, command: PutObjects, pending: PendingObjects, names: Names
) -> tuple[Bools, list[Fault], Ints]:
    """Which elements apply, what is wrong with the others, and which make an object. An element for an unknown id
    has to give all values, unless one before it creates the object."""
    n = len(command)
    faults, bad = _element_faults(config, command)
    distinct, inverse = distinct_ids(command.ids)
    # In this order: what is applied meanwhile is no longer pending, and is found.
    will_exist = pending.many(distinct)
    there = np.where(will_exist >= 0, will_exist == 1, find_many(names, distinct) >= 0)
    if there.all():
        return ~bad, faults, np.empty(0, np.int64)
    inverse = np.arange(n) if inverse is None else inverse
    lacks_place = np.isnan(command.points[:, 0])
    whole = ~lacks_place & ~np.isnan(command.values).any(axis=1) & ~bad
    maker = np.full(len(distinct), n)
    if not command.must_exist:
        makers = np.flatnonzero(whole)[::-1]
        maker[inverse[makers]] = makers
    known = there[inverse] | (np.arange(n) >= maker[inverse])
    for i in np.flatnonzero(~known & ~bad).tolist():
        key = distinct[inverse[i]].as_py()
        if command.must_exist:
            faults.append(Fault("id", f"there is no object {key!r}", "missing", i))
            continue
        if lacks_place[i]:
            faults.append(Fault("location", "a new object needs a location", index=i))
        for j in np.flatnonzero(np.isnan(command.values[i])).tolist():
            field = f"values.{config.attributes[j].name}"
            faults.append(Fault(field, "a new object needs a value", index=i))
    return known & ~bad, faults, np.sort(maker[~there & (maker < n)])


def _element_faults(config: MapConfig, command: PutObjects) -> tuple[list[Fault], Bools]:
    """What is wrong with elements whatever the state of the map, and with which of them."""
    rows = np.concatenate([command.points, command.values], axis=1)
    lowest, highest = limits_of(config)
    given = ~np.isnan(rows)
    wrong = given & ~((rows >= lowest) & (rows <= highest))
    half = given[:, 0] != given[:, 1]
    bad = wrong.any(axis=1)
    faults: list[Fault] = []
    if (bad | half).any():
        fields = ["location[0]", "location[1]", *[f"values.{name}" for name in config.names]]
        for j, field in enumerate(fields):
            reason = _between(float(lowest[j]), float(highest[j]))
            faults += [Fault(field, reason, index=i) for i in np.flatnonzero(wrong[:, j]).tolist()]
        faults += [Fault("location", "must be two numbers", index=i) for i in np.flatnonzero(half & ~bad).tolist()]
    return faults, bad | half


@lru_cache(maxsize=256)
def limits_of(config: MapConfig) -> Limits:
    """The least and the greatest of the numbers of an object."""
    ends = EARTH if config.metric == "great-circle" else ((-MOST, MOST),) * 2
    ranges = [*ends, *[attribute.range or (-MOST, MOST) for attribute in config.attributes]]
    lowest, highest = np.array(ranges, np.float64).T
    return Limits(np.ascontiguousarray(lowest), np.ascontiguousarray(highest))


def _between(low: float, high: float) -> str:
    if (low, high) == (-MOST, MOST):
        return f"must be a number within {MOST}"
    return f"must be from {low:g} to {high:g}"


def question_faults(config: MapConfig, question: Question | None, location: Point | None) -> list[Fault]:
    """What is wrong with a question and a place; None for neither."""
    faults = [] if question is None else [Fault(field, reason) for field, reason in faults_of(config, question)]
    ends = EARTH if config.metric == "great-circle" else ((-MOST, MOST),) * 2
    for j, value in enumerate(location or ()):
        low, high = ends[j]
        if not low <= value <= high:
            faults.append(Fault(f"location[{j}]", _between(low, high)))
    return faults


def merged(before: QueryState, change: ChangeQuery) -> tuple[QueryState, list[Fault]]:
    """A standing query with a change, and what is wrong with the change: fields of a top-k for a skyline, or a question
    that takes too long.
    """
    location = before.location if change.location is None else change.location
    ttl = before.ttl if change.ttl is None else change.ttl or None
    question = before.question
    if isinstance(question, Skyline):
        given = [name for name in ("k", "m", "ordered", "score") if getattr(change, name) is not None]
        return QueryState(question, location, ttl), [Fault(name, "a skyline has none") for name in given]
    question = Top(
        question.k if change.k is None else change.k,
        question.score if change.score is None else change.score,
        question.m if change.m is None else change.m,
        question.ordered if change.ordered is None else change.ordered,
    )
    # Not where the question stays: what is in the log already is valid.
    costly = too_costly(question, 0) if question != before.question else []
    return QueryState(question, location, ttl), [Fault(field, reason) for field, reason in costly]
