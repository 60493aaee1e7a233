"""The fewest messages by which a subscriber can be brought over a batch, by exhaustion.

Objects are `tests.oracles.painting.Object`; a world is a list of them. A subscriber keeps the best k of what it holds,
by the values that it was told (paper, II-A). An object moved in x, or deleted and inserted again, counts as two.
"""

from __future__ import annotations

import itertools
from typing import Any

from tests.oracles.painting import top


def messages_in_order(before: Any, after: Any) -> Any:
    """Every message that could be sent, as (object, gone), in the order of Paint-Batch.

    What fell or went by descending new rank, what stayed as it was, what rose or came.
    """
    old = {name(one): one for one in before}
    new = {name(one): one for one in after}
    fell, stayed, rose = [], [], []
    for one in {**old, **new}:
        was, now = old.get(one), new.get(one)
        if now is None:
            fell.append(((float("inf"), was.created), was, True))
        elif was is None:
            rose.append((now, False))
        elif now.y > was.y:
            fell.append(((now.y, now.created), now, False))
        elif now.y < was.y:
            rose.append((now, False))
        else:
            stayed.append((now, False))
    fell.sort(key=lambda item: item[0], reverse=True)
    return [(one, gone) for _, one, gone in fell] + stayed + rose


def name(one: Any) -> Any:
    """What is one object throughout the batch."""
    return one.id, one.x, one.created


def after_messages(mine: Any, messages: Any, k: Any) -> Any:
    """A subscriber's list after these messages, in order."""
    held = {name(one): one for one in mine}
    for one, gone in messages:
        if gone:
            held.pop(name(one), None)
        else:
            held[name(one)] = one
        held = {name(kept): kept for kept in sorted(held.values(), key=lambda kept: (kept.y, kept.created))[:k]}
    return list(held.values())


def fewest_messages(before: Any, after: Any, l: Any, r: Any, k: Any) -> Any:
    """The least number of messages, in that order, that turn the list of (l, r) before the batch into that after it."""
    mine, want = top(before, l, r, k), top(after, l, r, k)
    useful = [(one, gone) for one, gone in messages_in_order(before, after) if l <= one.x <= r]
    for size in range(len(useful) + 1):
        if any(after_messages(mine, some, k) == want for some in itertools.combinations(useful, size)):
            return size
    raise AssertionError("no messages lead there")


def told_by_rule(before: Any, after: Any, l: Any, r: Any, k: Any) -> Any:
    """The names of the objects that the rule of Paint-Batch sends a subscriber.

    Those that fell and that it has and would still have at their old y, or has afterwards; and those it has afterwards
    that rose or that it had not.
    """
    old = {name(one): one for one in before}
    new = {name(one): one for one in after}
    had = {name(one) for one in top(before, l, r, k)}
    has = {name(one) for one in top(after, l, r, k)}
    told = set()
    for one in {**old, **new}:
        was, now = old.get(one), new.get(one)
        if was is not None and (now is None or now.y > was.y):
            others = [other for other in after if name(other) != one]
            keeps = was in top([*others, was], l, r, k)
            if (one in had and keeps) or one in has:
                told.add(one)
        elif one in has and (was is None or now.y < was.y or one not in had):
            told.add(one)
    return told
