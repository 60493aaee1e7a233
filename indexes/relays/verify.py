"""A relay against a scan: what its neighbours know, what its graphs and indexes say, and who gets notifications."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from indexes.checked import Checked, Difference, compare_ids
from indexes.relays.forward import SUBSCRIBE, UNSUBSCRIBE
from indexes.relays.model import UPSTREAM
from indexes.relays.outbox import RESET, OutboxState
from indexes.relays.points import Points, as_points
from indexes.relays.relations import Known
from indexes.relays.relay import Copied, Relay
from indexes.relays.upkeep import Captured

Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Called = Callable[[Int32], list[str]]

SAMPLE = 256
"""Subscriptions that are compared for each neighbour, and notifications."""

PIECE = 16
"""Answers between two reports."""


def verify(captured: Captured) -> Iterator[Checked]:
    """Compare ids, queues, and, for a sample that is the same every time, decisions and deliveries. O(d n) each."""
    relay, copied = captured.relay, captured.copied
    assert relay is not None, "the indexes were not copied"
    called = partial(_called, copied)
    points = relay.table
    by_age = copied.slots[np.argsort(copied.age)]
    sampled = _spread(by_age, SAMPLE)
    tasks = [(neighbour, int(slot)) for neighbour in relay.neighbours for slot in sampled]
    events = _events(points.exact[sampled])
    of = len(tasks) + len(events)
    wrong = compare_ids(copied.ids, copied.recent, copied.slots)
    for neighbour in relay.neighbours:
        wrong += _flags(relay, neighbour, called)
        wrong += _counts(relay, neighbour)
    for link, box in captured.outboxes.items():
        wrong += _queue(relay, link, box, called)
    yield Checked(0, of, len(wrong), wrong)
    for start in range(0, len(tasks), PIECE):
        some = tasks[start : start + PIECE]
        wrong = [d for neighbour, slot in some for d in _decision(relay, points, neighbour, slot, called)]
        yield Checked(len(some), of, len(wrong), wrong)
    for start in range(0, len(events), PIECE):
        part = events[start : start + PIECE]
        wrong = _deliveries(relay, points, copied.slots, part, called)
        yield Checked(len(part), of, len(wrong), wrong)


def _called(copied: Copied, slots: Int32) -> list[str]:
    """Keys, for a reader. O(n)."""
    base = copied.ids
    name = {slot: key for key, slot in copied.recent.items()}
    for i in np.flatnonzero(np.isin(base.row, slots)).tolist():
        name[int(base.row[i])] = base.text[base.offset[i] : base.offset[i + 1]].tobytes().decode()
    return [name.get(slot, str(slot)) for slot in slots.tolist()]


def _flags(relay: Relay, neighbour: str, called: Called) -> list[Difference]:
    """In G_k, what nothing is known to cover has been forwarded."""
    relations = relay.neighbours[neighbour]
    if not isinstance(relations, Known):
        return []
    slots = relay.concerning(neighbour)
    lost = slots[(relations.graph.degree[slots] == 0) & ~relations.forwarded[slots]]
    kind = _kind("forwarded", neighbour)
    return [Difference(kind, key, "forwarded", "not, and nothing covers it") for key in called(lost)]


def _counts(relay: Relay, neighbour: str) -> list[Difference]:
    """What is counted as subscriptions come and go is what there is."""
    slots = relay.concerning(neighbour)
    wanted = int(relay.neighbours[neighbour].forwarded[slots].sum()), len(slots)
    found = relay.forwarded_count(neighbour)
    told = [f"{forwarded} forwarded of {n}" for forwarded, n in (wanted, found)]
    return [Difference(_kind("count", neighbour), "", *told)] if wanted != found else []


def _decision(relay: Relay, points: Points, neighbour: str, slot: int, called: Called) -> list[Difference]:
    """What is known of one subscription, if the neighbour may have to hear of it."""
    relations, slots = relay.neighbours[neighbour], relay.concerning(neighbour)
    if slot not in slots:
        return []

    def key() -> str:
        return called(np.array([slot], np.int32))[0]

    above = _coverers(points, slots, slot)
    found = []
    known = np.array(sorted(relations.coverers(slot)), np.int32)
    if not np.isin(known, above).all():
        found.append(Difference(_kind("coverers", neighbour), key(), called(above), called(known)))
    if not relations.forwarded[slot] and not relations.forwarded[above].any():
        told = above[relations.forwarded[above]]
        found.append(Difference(_kind("forwarded", neighbour), key(), "covered by what is", called(told)))
    inside = np.sort(relations.index.slots())
    wanted, given = _coverers(points, inside, slot), np.sort(relations.index.cover(points, slot, len(inside)))
    if not np.array_equal(wanted, given):
        found.append(Difference(_kind("index", neighbour), key(), called(wanted), called(given)))
    return found


def _deliveries(relay: Relay, points: Points, slots: Int32, events: Float64, called: Called) -> list[Difference]:
    """Which subscriptions notifications meet."""
    found, upto = relay.meets(events)
    wrong, begin = [], 0
    for event, end in zip(events, upto.tolist(), strict=True):
        point = as_points(event[None], event[None])[0]
        wanted = slots[(points.exact[slots] >= point).all(axis=1)]
        given = np.sort(found[begin:end])
        if not np.array_equal(wanted, given):
            wrong.append(Difference("notification", f"{event.tolist()}", called(wanted), called(given)))
        begin = end
    return wrong


def _queue(relay: Relay, link: str, box: OutboxState, called: Called) -> list[Difference]:
    """A queue that begins with a reset says in the end what is forwarded, and nothing else."""
    chunk = box.chunk
    if box.stale or not chunk.size or chunk.op[0] != RESET:
        return []
    said: set[str] = set()
    for op, key in zip(chunk.op.tolist(), chunk.key.to_pylist(), strict=True):
        if op == SUBSCRIBE:
            said.add(key)
        elif op == UNSUBSCRIBE:
            said.discard(key)
    slots = relay.concerning(link)
    told = set(called(slots[relay.neighbours[link].forwarded[slots]]))
    return [Difference(f"queue of {link}", "", sorted(told), sorted(said))] if said != told else []


def _coverers(points: Points, among: Int32, t: int) -> Int32:
    """Which of some slots, which ascend, cover t, by the definition. O(d n)."""
    exact, age = points.exact, points.age
    contains = (exact[among] >= exact[t]).all(axis=1)
    older = (exact[among] != exact[t]).any(axis=1) | (age[among] < age[t])
    return among[contains & older]


def _events(points: Float64) -> Float64:
    """Notifications at and between the ends of boxes."""
    n, d = len(points), points.shape[1] // 2
    ends = np.nan_to_num(points, posinf=0.0, neginf=0.0)
    lo, hi = -ends[:, 0::2], ends[:, 1::2]
    which = np.arange(n)[:, None] + np.arange(d)
    return np.where(which % 3 == 0, lo, np.where(which % 3 == 1, hi, lo / 2 + hi / 2))


def _spread(slots: Int32, n: int) -> Int32:
    """Some of these, evenly."""
    return slots[np.linspace(0, len(slots) - 1, min(n, len(slots))).astype(np.int64)] if len(slots) else slots


def _kind(what: str, neighbour: str) -> str:
    return what if neighbour == UPSTREAM else f"{what} over {neighbour}"
