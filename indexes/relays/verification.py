"""A relay against a scan: what has been forwarded, what graphs and indexes hold, and the recipients of
notifications."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from indexes.core.arrays import Floats, Ints32
from indexes.core.verification import Checked, Difference
from indexes.relays.config import UPSTREAM
from indexes.relays.kernels.forward import SUBSCRIBE, UNSUBSCRIBE
from indexes.relays.kernels.points import Points, as_points
from indexes.relays.outbox import RESET, OutboxState
from indexes.relays.plans.maintenance import Captured
from indexes.relays.relations import Known, coverers_among
from indexes.relays.relay import Relay

Called = Callable[[Ints32], list[str]]

SAMPLE = 256
"""Subscriptions that are compared for each neighbour, and notifications."""

PIECE = 16
"""Comparisons between two reports."""


def verify(captured: Captured) -> Iterator[Checked]:
    """Compare ids, queues, and, for a sample that is the same every time, decisions and deliveries. O(d n) each."""
    relay, copied = captured.relay, captured.copied
    assert relay is not None, "the indexes were not copied"
    called = copied.ids.called
    points = relay.table
    by_age = copied.slots[np.argsort(copied.age)]
    sampled = _spread(by_age, SAMPLE)
    tasks = [(neighbour, int(slot)) for neighbour in relay.neighbours for slot in sampled]
    events = _events(points.exact[sampled])
    of = len(tasks) + len(events)
    wrong = copied.ids.compare(copied.slots)
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


def _flags(relay: Relay, neighbour: str, called: Called) -> list[Difference]:
    """In G_k, subscriptions without an edge into them have been forwarded."""
    relations = relay.neighbours[neighbour]
    if not isinstance(relations, Known):
        return []
    slots = relay.concerning(neighbour)
    lost = slots[(relations.graph.degree[slots] == 0) & ~relations.forwarded[slots]]
    kind = _kind("forwarded", neighbour)
    return [Difference(kind, key, "forwarded", "not, and nothing covers it") for key in called(lost)]


def _counts(relay: Relay, neighbour: str) -> list[Difference]:
    """The counters agree with what is there."""
    slots = relay.concerning(neighbour)
    wanted = int(relay.neighbours[neighbour].forwarded[slots].sum()), len(slots)
    found = relay.forwarded_count(neighbour)
    counts = [f"{forwarded} forwarded of {n}" for forwarded, n in (wanted, found)]
    return [Difference(_kind("count", neighbour), "", *counts)] if wanted != found else []


def _decision(relay: Relay, points: Points, neighbour: str, slot: int, called: Called) -> list[Difference]:
    """The edges and flags of one subscription, if it concerns the neighbour."""
    relations, slots = relay.neighbours[neighbour], relay.concerning(neighbour)
    if slot not in slots:
        return []

    def key() -> str:
        return called(np.array([slot], np.int32))[0]

    above = coverers_among(points, slots, slot)
    found = []
    known = np.array(sorted(relations.coverers(slot)), np.int32)
    if not np.isin(known, above).all():
        found.append(Difference(_kind("coverers", neighbour), key(), called(above), called(known)))
    if not relations.forwarded[slot] and not relations.forwarded[above].any():
        found_above = above[relations.forwarded[above]]
        found.append(Difference(_kind("forwarded", neighbour), key(), "covered by what is", called(found_above)))
    inside = np.sort(relations.index.slots())
    wanted, given = coverers_among(points, inside, slot), np.sort(relations.index.cover(points, slot, len(inside)))
    if not np.array_equal(wanted, given):
        found.append(Difference(_kind("index", neighbour), key(), called(wanted), called(given)))
    return found


def _deliveries(relay: Relay, points: Points, slots: Ints32, events: Floats, called: Called) -> list[Difference]:
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
    """A queue that begins with a reset leads to exactly what is forwarded."""
    chunk = box.chunk
    if box.stale or not chunk.size or chunk.op[0] != RESET:
        return []
    queued: set[str] = set()
    for op, key in zip(chunk.op.tolist(), chunk.key.to_pylist(), strict=True):
        if op == SUBSCRIBE:
            queued.add(key)
        elif op == UNSUBSCRIBE:
            queued.discard(key)
    slots = relay.concerning(link)
    forwarded = set(called(slots[relay.neighbours[link].forwarded[slots]]))
    return [Difference(f"queue of {link}", "", sorted(forwarded), sorted(queued))] if queued != forwarded else []


def _events(points: Floats) -> Floats:
    """Notifications at and between the ends of boxes."""
    n, d = len(points), points.shape[1] // 2
    ends = np.nan_to_num(points, posinf=0.0, neginf=0.0)
    lo, hi = -ends[:, 0::2], ends[:, 1::2]
    which = np.arange(n)[:, None] + np.arange(d)
    return np.where(which % 3 == 0, lo, np.where(which % 3 == 1, hi, lo / 2 + hi / 2))


def _spread(slots: Ints32, n: int) -> Ints32:
    """Some of these, evenly."""
    return slots[np.linspace(0, len(slots) - 1, min(n, len(slots))).astype(np.int64)] if len(slots) else slots


def _kind(what: str, neighbour: str) -> str:
    return what if neighbour == UPSTREAM else f"{what} over {neighbour}"
