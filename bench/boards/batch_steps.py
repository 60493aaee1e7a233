"""Batches step by step on worlds small enough to check: the paper's four steps (IV-A), and the rule that is right.

For one subscription an influence region is a yes or no: an object is in its list while fewer than k objects of its
range are better. So both are played range by range, over all ranges that differ, and the list that the subscriber's
protocol makes of the messages is compared with the one that is true.

**The paper.** Updates of an object are one. What improves is applied at once and sent last. What worsens is processed
in descending order of the new values; an exposed object that is itself updated and not yet sent is passed over, and
when its turn comes it is sent where it is in the list now, or was before anything worsened.

**The rule.** With R0 the region at the old value among the old objects, R1 that at the new value among the new ones,
and R01 that at the old value among the new ones: each worsened object in descending order on (R0 and R01) or R1, then
the objects that were not updated on R1 minus R0, then the improved ones on R1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

INF = float("inf")

Values = dict[int, float]
"""y by object; an object that is not there has y = inf."""

Message = tuple[int, float]


class Batch(NamedTuple):
    """A small world: x and y of the objects, and the updates (object, new y) in order. Objects are in order of x."""

    y: Values
    updates: list[Message]

    def after(self) -> Values:
        """The values when all is done."""
        return self.y | dict(self.updates)


def ranges(n: int) -> Iterator[range]:
    """All ranges over n objects that hold different ones."""
    for l in range(n):
        for r in range(l, n):
            yield range(l, r + 1)


def listed(y: Values, inside: range, i: int, value: float, k: int) -> bool:
    """Is object i, were it at `value`, among the best k of a range?"""
    return i in inside and value < INF and sum(y[j] < value for j in inside if j != i) < k


def best(y: Values, inside: range, k: int) -> list[int]:
    """The list of a range."""
    return sorted((i for i in inside if y[i] < INF), key=lambda i: y[i])[:k]


def received(start: Values, inside: range, k: int, messages: list[Message]) -> list[Message]:
    """The list that the subscriber's protocol (II-A) makes of what it receives."""
    held = {i: start[i] for i in best(start, inside, k)}
    for i, y in messages:
        held[i] = y
        kept = sorted((other for other in held if held[other] < INF), key=lambda other: held[other])[:k]
        held = {other: held[other] for other in kept}
    return sorted(held.items(), key=lambda one: one[1])


Messages = dict[range, list[Message]]


def paper_steps(batch: Batch, k: int) -> Messages:
    """The four steps of IV-A; what each range receives, in order."""
    before, after = batch.y, batch.after()
    everywhere = list(ranges(len(before)))
    sent: Messages = {inside: [] for inside in everywhere}
    improved = [i for i in before if after[i] < before[i]]
    worsened = sorted((i for i in before if after[i] > before[i]), key=lambda i: -after[i])
    y = before | {i: after[i] for i in improved}
    unworsened = dict(y)
    passed_over: set[int] = set()
    waiting = set(improved) | set(worsened)
    for i in worsened:
        waiting.discard(i)
        lowered = y | {i: after[i]}
        for inside in everywhere:
            if i in passed_over:
                receives = listed(lowered, inside, i, after[i], k) or listed(unworsened, inside, i, before[i], k)
            else:
                receives = listed(y, inside, i, before[i], k)
            if receives:
                sent[inside].append((i, after[i]))
            was = best(y, inside, k)
            for h in best(lowered, inside, k):
                if h != i and h not in was:
                    if h in waiting:
                        passed_over.add(h)
                    else:
                        sent[inside].append((h, lowered[h]))
        y = lowered
    for i in improved:
        for inside in everywhere:
            if listed(y, inside, i, after[i], k):
                sent[inside].append((i, after[i]))
    return sent


def right_steps(batch: Batch, k: int) -> Messages:
    """The rule."""
    before, after = batch.y, batch.after()
    sent: Messages = {}
    for inside in ranges(len(before)):
        old, new = best(before, inside, k), best(after, inside, k)
        worsened = sorted((i for i in inside if after[i] > before[i]), key=lambda i: -after[i])
        messages = [
            (i, after[i]) for i in worsened if i in new or (i in old and listed(after, inside, i, before[i], k))
        ]
        messages += [(i, after[i]) for i in new if after[i] == before[i] and i not in old]
        messages += [(i, after[i]) for i in new if after[i] < before[i]]
        sent[inside] = messages
    return sent


def random_batch(rng: np.random.Generator) -> Batch:
    """Two to six objects with distinct values, and as many updates, which insert and delete too."""
    n = int(rng.integers(2, 7))
    values = rng.permutation(4 * n).astype(float)
    y = {i: INF if rng.random() < 0.2 else values[i] for i in range(n)}
    updates = [
        (int(i), INF if rng.random() < 0.15 else values[n + at])
        for at, i in enumerate(rng.integers(n, size=int(rng.integers(1, n + 2))))
    ]
    return Batch(y, updates)


class Faults(NamedTuple):
    """Of the paper's steps: worlds, worlds with a wrong list somewhere, and with more messages to someone than the rule
    sends; lists, wrong ones, and those that received too much. And wrong lists by the rule."""

    worlds: int
    wrong_worlds: int
    wasteful_worlds: int
    lists: int
    wrong: int
    wasteful: int
    wrong_by_rule: int


def count_faults(worlds: int, seed: int = 1) -> Faults:
    """Play random small batches, k = 1 to 3, both ways."""
    rng = np.random.default_rng(seed)
    counts = np.zeros(6, np.int64)
    for _ in range(worlds):
        batch, k = random_batch(rng), int(rng.integers(1, 4))
        paper, right = paper_steps(batch, k), right_steps(batch, k)
        found = np.zeros(4, np.int64)
        for inside, messages in paper.items():
            true = [(i, batch.after()[i]) for i in best(batch.after(), inside, k)]
            by_paper, by_rule = (received(batch.y, inside, k, sent) for sent in (messages, right[inside]))
            found += (1, by_paper != true, len(messages) > len(right[inside]), by_rule != true)
        counts += (found[1] > 0, found[2] > 0, *found)
    return Faults(worlds, *counts.tolist())
