"""Recipients of notifications, by column: a notification may meet all subscriptions that there are.

While a command is executed, recipients are kept as slots, four bytes each, and up to a limit. Slots of ended
subscriptions are reused later, so once all notifications are matched the slots are replaced by the places of their ids,
which stay as they are; no id is copied before its text is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from indexes.core.arrays import Bools, Ints, Ints32, run_lengths
from indexes.core.names import Names
from indexes.core.texts import LaterTexts, Placed, gathered
from indexes.relays.kernels.points import NO_SLOTS
from indexes.relays.results import Delivery

FEW = 1 << 18
"""Up to so many slots, the places of their ids are looked up at once: some hundred microseconds."""

IDS_A_SEARCH = 20
"""Ids of slots that are found in the time that the slot of one id takes."""


class Recipients(NamedTuple):
    """The recipients of some notifications: the slots of local subscriptions, notification by notification and each
    oldest first, where those of each end, and its links by name, in order."""

    slots: Ints32
    upto: Ints
    links: list[tuple[str, ...]]


def links_of(
    link: Ints32, upto: Ints, names: Sequence[str | None], origin: Sequence[str | None] | None
) -> list[tuple[str, ...]]:
    """The links that notifications go over. `link` has, for each subscription that they meet, the number in `names`
    of its link, negative for none; `origin` names the link that each notification came over, to which it does not go
    back."""
    found: list[tuple[str, ...]] = [()] * len(upto)
    far = link >= 0
    if not far.any():
        return found
    of = np.repeat(np.arange(len(upto)), run_lengths(upto))[far]
    for code in np.unique(of * len(names) + link[far]).tolist():
        e, number = divmod(code, len(names))
        name = names[number]
        assert name is not None, "what came over a link goes with it"
        if origin is None or name != origin[e]:
            found[e] = tuple(sorted((*found[e], name)))
    return found


def local_of(slots: Ints32, upto: Ints, local: Bools) -> tuple[Ints32, Ints]:
    """The `local` slots of those that notifications meet, and where those of each end."""
    kept = slots[local]
    if len(kept) < len(slots):
        upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(local)])[upto]
    return kept, upto


def live_recipients(names: Names, watched: Sequence[str], met: Recipients) -> dict[int, list[str]]:
    """The ids of `watched` among the recipients of each notification that has any, by its place."""
    found: dict[int, list[str]] = {}
    if not watched or not len(met.slots):
        return found
    if len(watched) * IDS_A_SEARCH < len(met.slots):
        slots = np.fromiter(map(names.find, watched), np.int32, len(watched))
        places = np.flatnonzero(np.isin(met.slots, slots))
        keys = names.many(met.slots[places]).to_pylist()
    else:
        every, live = names.many(met.slots).to_pylist(), frozenset(watched)
        places = np.array([i for i, key in enumerate(every) if key in live], np.int64)
        keys = [every[i] for i in places.tolist()]
    for e, key in zip(np.searchsorted(met.upto, places, "right").tolist(), keys, strict=True):
        found.setdefault(e, []).append(key)
    return found


@dataclass(frozen=True, slots=True)
class Deliveries:
    """As `Recipients`, with ids in place of slots. Notifications that do not name all of theirs are `truncated`."""

    ids: Placed
    upto: Ints
    links: list[tuple[str, ...]]
    truncated: Bools

    def __len__(self) -> int:
        return len(self.links)

    @property
    def named(self) -> int:
        """Number of subscriptions named."""
        return len(self.ids.at)

    def part(self, begin: int, end: int) -> Deliveries:
        """The notifications from one place to another; the ids are shared."""
        start = int(self.upto[begin - 1]) if begin else 0
        stop = int(self.upto[end - 1]) if end > begin else start
        rest = self.upto[begin:end] - start, self.links[begin:end], self.truncated[begin:end]
        return Deliveries(self.ids.part(start, stop), *rest)

    def first(self, most: int) -> Deliveries:
        """The same notifications with the first `most` subscriptions, and as many links."""
        upto = np.minimum(self.upto, most)
        ends = np.cumsum([len(links) for links in self.links], dtype=np.int64)
        fit = ends <= most
        links = [links if fits else () for links, fits in zip(self.links, fit.tolist(), strict=True)]
        cut = run_lengths(upto) < run_lengths(self.upto)
        without = ~fit & (run_lengths(ends) > 0)
        return Deliveries(self.ids.part(0, most), upto, links, self.truncated | cut | without)

    def results(self) -> Iterator[Delivery]:
        """One by one. O(n), with a string for each subscription named."""
        keys, start = gathered(self.ids).array().to_pylist(), 0
        for end, links, truncated in zip(self.upto.tolist(), self.links, self.truncated.tolist(), strict=True):
            yield Delivery(keys[start:end], list(links), truncated)
            start = end


_NO_TEXTS = LaterTexts().taken()

NONE = Deliveries(Placed(_NO_TEXTS, _NO_TEXTS, NO_SLOTS, 0), np.empty(0, np.int64), [], np.empty(0, np.bool_))


class CollectedRecipients:
    """The recipients of the notifications of a command so far, of which `most` subscriptions are kept."""

    def __init__(self, most: int) -> None:
        self.size = 0
        self._most = most
        self._met = 0
        self._parts: list[Recipients] = []

    def add(self, met: Recipients) -> None:
        """Add notifications."""
        slots, room = met.slots, self._most - self.size
        if len(slots) > room:
            # What is cut off would stay in memory behind a view of the rest.
            slots = slots[:room].copy()
        self._parts.append(Recipients(slots, met.upto + self._met if self._met else met.upto, met.links))
        self._met += len(met.slots)
        self.size += len(slots)

    def named(self, names: Names) -> Deliveries:
        """All of them, by the current ids. O(n), in any thread while no id changes."""
        slots, upto, links = self._parts[0] if len(self._parts) == 1 else _joined(self._parts)
        truncated = np.zeros(len(upto), np.bool_)
        if self.size < self._met:
            whole, upto = upto, np.minimum(upto, self._most)
            truncated = run_lengths(upto) < run_lengths(whole)
        return Deliveries(names.placed(slots), upto, links, truncated)


def _joined(parts: Sequence[Recipients]) -> Recipients:
    """Consecutive parts as one; there may be none."""
    slots = np.concatenate([NO_SLOTS, *[part.slots for part in parts]])
    upto = np.concatenate([NONE.upto, *[part.upto for part in parts]])
    return Recipients(slots, upto, [links for part in parts for links in part.links])
