"""Subscriptions that are boxes, what to forward of them to neighbours, and which of them a notification meets.

State is the table of `points.py`, the ids, an index of all subscriptions for notifications, and for each neighbour the
`relations.py` of the subscriptions that concern it. Without links there is one neighbour, `UPSTREAM`, which all
subscriptions concern; with links each is a neighbour, concerned by the subscriptions that did not come from it. The
same steps in the same order give the same results, however they are cut into calls; no clock or random source is read.

A change has two halves: `run` does the work of the kernels and may be in any one thread; `commit` makes the ids known,
in the thread that looks ids up. `release` frees the slots of ended subscriptions, when a whole command is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from copy import deepcopy
from itertools import compress
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indexes.compiled.kept import Keeper
from indexes.core.arrays import Bools, Bytes, Floats, Ints, Ints32, run_lengths
from indexes.core.captured_ids import CapturedIds
from indexes.core.ids import Packed, merge_packed, pack
from indexes.core.names import Names
from indexes.core.pending import RowPool
from indexes.relays.alternatives.graphs import CompleteGraph, Poset
from indexes.relays.alternatives.linear import LinearIndex
from indexes.relays.alternatives.z_order import ZIndex
from indexes.relays.config import UPSTREAM, RelayConfig
from indexes.relays.kernels.by_age import sort_by_age
from indexes.relays.kernels.covering_index import QUERIES, CoverIndex
from indexes.relays.kernels.forward import SUBSCRIBE, UNSUBSCRIBE
from indexes.relays.kernels.kd_tree import KdIndex
from indexes.relays.kernels.points import NO_SLOTS, Points, copied, coverers_first, empty_points, grown
from indexes.relays.kernels.slabs import SlabIndex
from indexes.relays.kernels.table import LOCAL, KeptTable, Table, begin
from indexes.relays.outcomes import FEW, NeighbourOutcomes, StepOutcomes
from indexes.relays.recipients import Recipients, links_of, local_of
from indexes.relays.relations import Decisions, Known, Relations

NOWHERE = -2
"""A link number that no subscription has."""

JOURNAL = 1 << 20
"""Steps that the journal holds at most."""

INDEXES: dict[str, type[CoverIndex]] = {"kd": KdIndex, "zorder": ZIndex, "linear": LinearIndex}


def relations_of(config: RelayConfig) -> Relations:
    """Empty relations, of the graph and the index that a relay is configured with."""
    index = INDEXES[config.index](2 * len(config.attributes))
    if config.graph == "G":
        return Known(index, config.k)
    return CompleteGraph(index) if config.graph == "G*" else Poset(index)


def derived(config: RelayConfig, points: Points, slots: Ints32) -> Relations:
    """The relations of these subscriptions as if they had come in the best order, with the index packed: the least set
    that covers all is forwarded, that is what nothing else covers, and of equal boxes the oldest. The same arguments
    give the same bytes. O(n log^2 n)."""
    relations = relations_of(config)
    first = coverers_first(points, slots)
    relations.apply(points, np.full(len(first), SUBSCRIBE, np.uint8), first)
    relations.lay_out(points)
    return relations


class Steps(NamedTuple):
    """Subscriptions that end and begin, in order: a key and, for one that begins, its point and the link that it came
    over; `links` is None where all are local. An end that is `paired` is followed by the step in which the same
    subscription begins again. `all_begin` says that it is known that none ends."""

    op: Bytes
    keys: list[str]
    points: Floats
    links: list[str | None] | None = None
    paired: Bools | None = None
    all_begin: bool = False

    @classmethod
    def ends(cls, keys: list[str], coordinates: int) -> Steps:
        """The ends of subscriptions."""
        return cls(np.full(len(keys), UNSUBSCRIBE, np.uint8), keys, np.zeros((len(keys), coordinates)))

    def beginnings(self, new: Bools) -> Steps:
        """Those that begin a subscription, which are `new`; the steps themselves where all do."""
        if new.all():
            return self
        links = None if self.links is None else list(compress(self.links, new))
        return Steps(self.op[new], list(compress(self.keys, new)), self.points[new], links, all_begin=True)


class NeighbourDecisions(NamedTuple):
    """The decisions for one neighbour, about those steps that concern it, whose places are in `step`."""

    decisions: Decisions
    step: Ints


class ExecutedSteps(NamedTuple):
    """Steps that `run` has executed: their slots, the keys of slots that are not committed yet, and the decisions by
    neighbour."""

    steps: Steps
    slots: Ints32
    named: dict[int, str]
    decisions: dict[str, NeighbourDecisions]

    @property
    def gone(self) -> list[int]:
        """The slots to be released."""
        steps = self.steps
        found: list[int] = [] if steps.all_begin else self.slots[steps.op == UNSUBSCRIBE].tolist()
        return found


class Outgoing(NamedTuple):
    """The subscriptions that a neighbour must add, with their points, or drop, in order. Where there are many the keys
    are a column."""

    op: Bytes
    keys: list[str] | pa.LargeStringArray
    points: Floats


class Copied(NamedTuple):
    """The subscriptions of a relay as copied from memory: ids as `Names` has them, with slots, and columns in the order
    of `slots`."""

    links: tuple[str, ...]
    slots: Ints32
    points: Floats
    age: Ints
    link: Ints32
    forwarded: Bools
    doubtful: Bools
    ids: CapturedIds


class RelayState(NamedTuple):
    """A relay's subscriptions in order of creation; sorted `ids` have their places as rows. `link` is a number in
    `links` or `LOCAL`. `forwarded` has a column for each neighbour, false for what came from it. A subscription is
    `doubtful` if it came before the latest reset of its link and has not been confirmed since."""

    links: tuple[str, ...]
    ids: Packed
    points: Floats
    link: Ints32
    forwarded: Bools
    doubtful: Bools


class Relay:
    """Subscriptions with the forwarding decisions for each neighbour, and the recipients of notifications."""

    def __init__(self, config: RelayConfig, links: Iterable[str] = ()) -> None:
        if config.k < 1:
            raise ValueError("k must be at least 1")
        self.config = config
        self.names = Names()
        self._pool = RowPool()
        self._born = 0
        self._links: list[str | None] = list(links)
        self._points = empty_points(0, 2 * len(config.attributes))
        self._link = np.empty(0, np.int32)
        self._there = np.empty(0, np.bool_)
        self._doubtful = np.empty(0, np.bool_)
        self._all = SlabIndex(len(config.attributes))
        self._keeper = Keeper(KeptTable)
        self.neighbours: dict[str, Relations] = {name: relations_of(config) for name in self.links or (UPSTREAM,)}
        self._journal: deque[tuple[str, tuple[Any, ...], int]] | None = None
        self._noted = 0
        self._changed = 0

    def __len__(self) -> int:
        return len(self.names)

    @property
    def links(self) -> tuple[str, ...]:
        """The links by name, in order."""
        return tuple(sorted(link for link in self._links if link is not None))

    def forwarded(self, neighbour: str = UPSTREAM) -> list[str]:
        """The keys of the subscriptions forwarded to a neighbour, oldest first. Raises KeyError."""
        return self._keys(self._forwarded_to(neighbour), {})

    def forwards(self, neighbour: str) -> tuple[list[str], Floats]:
        """As `forwarded`, with their points."""
        slots = self._forwarded_to(neighbour)
        keys: list[str] = self.names.many(slots).to_pylist()
        return keys, self._points.exact[slots]

    def _forwarded_to(self, neighbour: str) -> Ints32:
        relations, slots = self.neighbours[neighbour], self._subject(neighbour)
        return slots[relations.forwarded[slots]]

    def forwarded_count(self, neighbour: str = UPSTREAM) -> tuple[int, int]:
        """How many subscriptions have been forwarded to a neighbour, and how many concern it. O(1). Raises KeyError."""
        relations = self.neighbours[neighbour]
        return relations.forwarded_count, len(relations)

    @property
    def churn(self) -> float:
        """How many subscriptions have begun or ended since the indexes were packed, for each present one."""
        return self._changed / max(1, len(self))

    def searches(self) -> int:
        """Searches of covering indexes so far."""
        return sum(int(relations.seen[:, QUERIES].sum()) for relations in self.neighbours.values())

    @property
    def nbytes(self) -> int:
        """Bytes of the table and the indexes, spare room included, without ids and graphs."""
        indexes = sum(relations.index.nbytes for relations in self.neighbours.values())
        return sum(column.nbytes for column in self._points[:2]) + self._all.nbytes + indexes

    # Changes.

    def run(self, steps: Steps) -> ExecutedSteps:
        """Execute valid steps: what ends is present at that point, what begins is not, and its link exists. O(log^2 n)
        each where few cover a subscription and few are covered by it alone; one kernel call for each neighbour."""
        if self._journal is not None:
            self._note(len(steps.op), "run", steps)
        return self._run(steps)

    def _run(self, steps: Steps, slots: Ints32 | None = None) -> ExecutedSteps:
        """`slots` are those of the steps, where they are known."""
        if steps.all_begin:
            slots = self._pool.take_many(len(steps.op))
            beginnings, begun, gone = steps, slots, NO_SLOTS
        else:
            new = steps.op == SUBSCRIBE
            slots = self._slots(steps, new) if slots is None else slots
            beginnings, begun, gone = steps.beginnings(new), slots[new], slots[~new]
        comes, goes = begun, gone
        if len(begun) and len(gone):
            # What comes and goes within the steps was never there for a notification.
            comes, goes = np.setdiff1d(begun, gone), np.setdiff1d(gone, begun)
        if len(begun):
            self._begin(begun, beginnings.points, beginnings.links, comes)
        decisions = {name: self._decide(name, steps.op, slots) for name in self.neighbours}
        if len(gone):
            self._all.delete(self._points, np.sort(goes))
            self._there[gone] = False
        self._changed += len(slots)
        return ExecutedSteps(steps, slots, dict(zip(begun.tolist(), beginnings.keys, strict=True)), decisions)

    def _slots(self, steps: Steps, new: Bools) -> Ints32:
        """The slots of steps. Slots of ended subscriptions are not reused here: see `release`."""
        slots = np.empty(len(new), np.int32)
        now: dict[str, int] = {}
        for i, (begins, key) in enumerate(zip(new.tolist(), steps.keys, strict=True)):
            if begins:
                now[key] = slots[i] = self._pool.take()
            else:
                slot = now.pop(key, -1)
                slots[i] = slot if slot >= 0 else self.names.find(key)
        return slots

    def _begin(self, slots: Ints32, points: Floats, links: list[str | None] | None, comes: Ints32) -> None:
        """Write new subscriptions into the table, and those in `comes` into the index for notifications."""
        if self._pool.high > len(self._points.age):
            self._make_room()
        index = self._all
        index.reserve(len(slots), len(self._points.age))
        before = index.used_before(len(comes))
        if before < 0:
            self._write(slots, points, links, NO_SLOTS)
            index.insert(self._points, np.sort(comes))
        else:
            self._write(slots, points, links, comes)
            index.settle(self._points, before)

    def _make_room(self) -> None:
        """Make room in the table for all slots."""
        room = len(self._points.age)
        self._points = grown(self._points, self._pool.high)
        more = len(self._points.age) - room
        self._link = np.concatenate([self._link, np.full(more, LOCAL, np.int32)])
        self._there = np.concatenate([self._there, np.zeros(more, np.bool_)])
        self._doubtful = np.concatenate([self._doubtful, np.zeros(more, np.bool_)])

    def _write(self, slots: Ints32, points: Floats, links: list[str | None] | None, comes: Ints32) -> None:
        """As `_begin`, where there is room and slabs need not be cut again."""
        numbers = NO_SLOTS
        if links is not None:
            number = {link: i for i, link in enumerate(self._links) if link is not None}
            numbers = np.array([LOCAL if link is None else number[link] for link in links], np.int32)
        index = self._all.arrays
        parts = self._points, self._link, self._there, self._doubtful, index
        kept = self._keeper.kept(parts, lambda: (Table(*parts[:4]), index))
        begin(kept, slots, points, numbers, self._born, comes)
        self._born += len(slots)

    def _decide(self, neighbour: str, op: Bytes, slots: Ints32) -> NeighbourDecisions:
        relations = self.neighbours[neighbour]
        if neighbour == UPSTREAM:
            return NeighbourDecisions(relations.apply(self._points, op, slots), _places(len(slots)))
        mine = np.flatnonzero(self._link[slots] != self._number(neighbour))
        return NeighbourDecisions(relations.apply(self._points, op[mine], slots[mine]), mine)

    def _number(self, neighbour: str) -> int:
        """The link number of subscriptions that came from a neighbour."""
        return NOWHERE if neighbour == UPSTREAM else self._links.index(neighbour)

    def commit(self, ran: ExecutedSteps) -> None:
        """Add the ids of subscriptions that began, and remove those of subscriptions that ended."""
        if ran.steps.all_begin:
            self.names.note_all(ran.steps.keys, ran.slots.tolist())
            return
        begins = (ran.steps.op == SUBSCRIBE).tolist()
        for new, key, slot in zip(begins, ran.steps.keys, ran.slots.tolist(), strict=True):
            if new:
                self.names.note_one(key, slot)
            else:
                self.names.delete(key, slot)

    def names_after(self, rans: Iterable[ExecutedSteps]) -> Names:
        """The ids after these consecutive steps are committed. O(n), in any thread; nothing is changed. It replaces
        `commit` where there are many steps."""
        new: dict[int, str] = {}
        ended: list[Ints32] = []
        for ran in rans:
            new |= ran.named
            ended.append(ran.slots[ran.steps.op == UNSUBSCRIBE])
        gone = np.zeros(len(self._points.age), np.bool_)
        gone[np.concatenate(ended)] = True
        base = self.names.ids.merged()
        row = base.row.copy()
        row[(row >= 0) & gone[row]] = -1
        kept = {slot: key for slot, key in new.items() if not gone[slot]}
        rows = np.fromiter(kept, np.int32, len(kept))
        names = Names()
        names.load(merge_packed(base._replace(row=row), pack(pa.array(list(kept.values()), pa.string()), rows)))
        return names

    def release(self, slots: list[int]) -> None:
        """Free the slots of ended subscriptions. A command that is cut into slices does so at its end alone, so that
        slots do not depend on the cuts."""
        self._pool.give(slots)

    def answers(self, ran: ExecutedSteps) -> StepOutcomes:
        """The outcome of each step, before it is committed."""
        decided = {}
        for name, (decisions, step) in ran.decisions.items():
            about, upto = decisions.named
            decided[name] = NeighbourOutcomes(step, decisions.forward, self._keys(about, ran.named), upto)
        op = ran.steps.op
        begins = _BEGINS[: len(op)] if ran.steps.all_begin and len(op) <= FEW else op == SUBSCRIBE
        return StepOutcomes(begins, ran.steps.keys, decided)

    def outgoing(self, ran: ExecutedSteps, neighbour: str) -> Outgoing:
        """The messages to a neighbour about steps, before they are committed. An end comes after the beginnings of what
        it had covered; a paired end whose beginning is forwarded again is left out, so that there is no gap."""
        decisions, step = ran.decisions[neighbour]
        begins = ran.steps.op[step] == SUBSCRIBE
        begun, ended = step[decisions.forward & begins], step[decisions.forward & ~begins]
        if ran.steps.paired is not None and len(ended):
            again = np.zeros(len(ran.slots) + 1, np.bool_)
            again[begun] = True
            ended = ended[~(ran.steps.paired[ended] & again[ended + 1])]
        by = np.repeat(step, run_lengths(decisions.promoted_upto))
        order = np.argsort(np.concatenate([2 * by, 2 * begun, 2 * ended + 1]), kind="stable")
        op = np.repeat(np.array([SUBSCRIBE, UNSUBSCRIBE], np.uint8), [len(by) + len(begun), len(ended)])[order]
        slots = np.concatenate([decisions.promoted, ran.slots[begun], ran.slots[ended]])[order]
        return Outgoing(op, self._keys(slots, ran.named), self._points.exact[slots])

    def _keys(self, slots: Ints32, named: dict[int, str]) -> list[str]:
        """The keys of slots, some of which are in `named` and not committed yet."""
        if len(slots) <= FEW:
            return [named[slot] if slot in named else self.names.name(slot) for slot in slots.tolist()]
        if not named:
            whole: list[str] = self.names.many(slots).to_pylist()
            return whole
        keys = [named.get(slot) for slot in slots.tolist()]
        known = np.array([key is None for key in keys], np.bool_)
        others = iter(self.names.many(slots[known]).to_pylist())
        return [next(others) if key is None else key for key in keys]

    # Reads.

    def point(self, key: str) -> Floats:
        """The box of a subscription as a point. Raises KeyError."""
        row: Floats = self._points.exact[self._find(key)].copy()
        return row

    def link(self, key: str) -> str | None:
        """The link that a subscription came over, None for a local one. Raises KeyError."""
        number = int(self._link[self._find(key)])
        return None if number == LOCAL else self._links[number]

    def _find(self, key: str) -> int:
        slot = self.names.find(key)
        if slot < 0:
            raise KeyError(key)
        return slot

    # After a reset of a link.

    def mark_doubtful(self, link: str, prefix: str) -> None:
        """Mark the subscriptions that came over a link, and whose keys begin with `prefix`, as doubtful."""
        slots = np.flatnonzero(self._there & (self._link == self._number(link))).astype(np.int32)
        self._note(1 + len(slots), "mark_doubtful", link, prefix)
        doubtful = pc.starts_with(self.names.many(slots), prefix)
        self._doubtful[slots] = doubtful.to_numpy(zero_copy_only=False)

    def confirm(self, keys: list[str]) -> None:
        """Mark subscriptions as no longer doubtful."""
        self._note(len(keys), "confirm", keys)
        for key in keys:
            self._doubtful[self._find(key)] = False

    def doubtful_keys(self, link: str) -> list[str]:
        """The keys of doubtful subscriptions of a link, oldest first."""
        slots = np.flatnonzero(self._there & self._doubtful & (self._link == self._number(link))).astype(np.int32)
        return self._keys(self._by_age(slots), {})

    # Neighbours.

    def change_links(
        self, removed: list[str], added: list[str], begun: dict[str, Relations] | None = None
    ) -> ExecutedSteps:
        """Remove links with all subscriptions that came over them, then add others, with relations that `begin` has
        made where they are given; returns the steps that ended, to be committed and released."""
        begun = self.begin(removed, added) if begun is None else begun
        ended = self._came_over(removed)
        self._note_links(removed, added, len(ended), len(begun))
        for link in removed:
            del self.neighbours[link]
        ran = self._run(Steps.ends(self._keys(ended, {}), self._points.exact.shape[1]), ended)
        for link in removed:
            self._links[self._links.index(link)] = None
        for link in added:
            if None in self._links:
                self._links[self._links.index(None)] = link
            else:
                self._links.append(link)
        if added:
            self.neighbours.pop(UPSTREAM, None)
        self.neighbours |= begun
        room = len(self._points.age)
        for relations in begun.values():
            relations.reach(room)
        return ran

    def _note_links(self, removed: list[str], added: list[str], ended: int, begun: int) -> None:
        """Record a change of links, at its cost: what ends, and for each neighbour that begins all that is left."""
        self._note(1 + ended + begun * (len(self) - ended), "_change_links", removed, added)

    def came_over(self, links: list[str]) -> int:
        """How many subscriptions came over some links. O(n)."""
        return len(self._came_over(links))

    def aside(self) -> Relay:
        """A copy on which to `change_links` in another thread, whose result is taken over by `take_over`. It shares the
        table and the ids, which that does not change. O(n)."""
        copy: Relay = object.__new__(Relay)
        vars(copy).update(vars(self))
        copy._links, copy._there = self._links.copy(), self._there.copy()
        copy._all = copied(self._all, self._all.arrays)
        copy.neighbours = {name: copied(one, one.index.arrays) for name, one in self.neighbours.items()}
        copy._pool, copy._journal, copy._keeper = RowPool(), None, Keeper(KeptTable)
        return copy

    def take_over(self, aside: Relay, removed: list[str], added: list[str]) -> None:
        """Take over a copy made by `aside` in which links were changed; nothing else may have changed since. O(1)."""
        begun = len((aside.neighbours.keys() - self.neighbours.keys()) | set(added))
        self._note_links(removed, added, self.came_over(removed), begun)
        self._links, self._there = aside._links, aside._there
        self._all, self.neighbours, self._changed = aside._all, aside.neighbours, aside._changed
        # The former index would stay in memory with the kept arguments.
        self._keeper.clear()

    def _change_links(self, removed: list[str], added: list[str]) -> None:
        ran = self.change_links(removed, added)
        self.commit(ran)
        self.release(ran.gone)

    def begin(self, removed: list[str], added: list[str]) -> dict[str, Relations]:
        """The relations of neighbours that begin with `change_links`, each `derived` from all that will be left. O(n
        log^2 n); nothing is changed."""
        left = [name for name in self.links if name not in removed] + added
        new = added or ([] if left or UPSTREAM in self.neighbours else [UPSTREAM])
        numbers = [self._number(link) for link in removed]
        slots = np.flatnonzero(self._there & ~np.isin(self._link, numbers)).astype(np.int32)
        return {name: derived(self.config, self._points, slots) for name in new}

    def _came_over(self, links: list[str]) -> Ints32:
        numbers = [self._number(link) for link in links]
        return self._by_age(np.flatnonzero(self._there & np.isin(self._link, numbers)).astype(np.int32))

    def derived(self, neighbour: str) -> Relations:
        """The relations of a neighbour, `derived` from the subscriptions that concern it. Nothing is changed."""
        return derived(self.config, self._points, self.concerning(neighbour))

    def adopt(self, neighbour: str, relations: Relations) -> tuple[Ints32, Ints32]:
        """Use relations that were `derived`; returns the slots that the neighbour must add, and those it must drop,
        each oldest first."""
        self._note(len(self), "_rederive", neighbour)
        slots = self._subject(neighbour)
        before = self.neighbours[neighbour].forwarded[slots]
        self.neighbours[neighbour] = relations
        relations.reach(len(self._points.age))
        after = relations.forwarded[slots]
        return slots[after & ~before], slots[before & ~after]

    def _rederive(self, neighbour: str) -> None:
        self.adopt(neighbour, self.derived(neighbour))

    @property
    def table(self) -> Points:
        """The table of all subscriptions, by slot."""
        return self._points

    def concerning(self, neighbour: str) -> Ints32:
        """The slots of the subscriptions that concern a neighbour."""
        return np.flatnonzero(self._there & (self._link != self._number(neighbour))).astype(np.int32)

    def _subject(self, neighbour: str) -> Ints32:
        """As `concerning`, oldest first."""
        return self._by_age(self.concerning(neighbour))

    def _by_age(self, slots: Ints32) -> Ints32:
        return slots[np.argsort(self._points.age[slots])]

    # Notifications.

    def met(self, values: Floats, origin: Sequence[str | None] | None = None, links_alone: bool = False) -> Recipients:
        """The recipients of notifications, of shape (n, d) in order of the attributes. `origin` names the link that
        each came over, to which it does not go back. With `links_alone` subscriptions are not named."""
        slots, upto = self.meets(values)
        if self._links.count(None) == len(self._links):
            # All of them are local.
            links: list[tuple[str, ...]] = [()] * len(upto)
        else:
            link = self._link[slots]
            links = links_of(link, upto, self._links, origin)
            slots, upto = local_of(slots, upto, link == LOCAL)
        if links_alone:
            return Recipients(slots[:0], np.zeros_like(upto), links)
        sort_by_age(slots, upto, self._points.age)
        return Recipients(slots, upto, links)

    def meets(self, values: Floats) -> tuple[Ints32, Ints]:
        """The slots whose boxes hold each of these points, one point's after the other's, and where each one's end."""
        return self._all.containing(self._points, values)

    # The journal.

    def begin_journal(self) -> None:
        """Start to record changes."""
        self._journal, self._noted = deque(), 0

    def end_journal(self) -> None:
        """Stop recording changes."""
        self._journal = None

    @property
    def journal(self) -> deque[tuple[str, tuple[Any, ...], int]] | None:
        """The recorded changes with their costs, for `replay` on a relay of the state at the start; None where nothing
        is recorded, or there was too much."""
        return self._journal

    def _note(self, size: int, change: str, *of: Any) -> None:
        if self._journal is not None:
            self._noted += size
            self._journal.append((change, of, size))
            if self._noted > JOURNAL:
                self._journal = None

    def replay(self, change: str, of: tuple[Any, ...]) -> None:
        """Repeat a recorded change."""
        if change == "run":
            ran = self._run(of[0])
            self.commit(ran)
            self.release(ran.gone)
        else:
            getattr(self, change)(*of)

    # State.

    def copied(self) -> Copied:
        """A copy of all subscriptions. O(n)."""
        slots = np.flatnonzero(self._there).astype(np.int32)
        links = self.links
        number = np.full(len(self._links) + 1, LOCAL, np.int32)
        for i, link in enumerate(links):
            number[self._links.index(link)] = i
        columns = [
            # What came from a neighbour is not its subject: the slot's flag is there of an earlier subscription.
            self.neighbours[name].forwarded[slots] & (self._link[slots] != self._number(name))
            for name in links or (UPSTREAM,)
        ]
        return Copied(
            links,
            slots,
            self._points.exact[slots],
            self._points.age[slots],
            number[self._link[slots]],
            np.array(columns, np.bool_).T.reshape(len(slots), len(columns)),
            self._doubtful[slots],
            CapturedIds.of(self.names.ids),
        )

    def frozen(self) -> Relay:
        """A copy without ids, to be read in another thread."""
        copy: Relay = object.__new__(Relay)
        vars(copy).update(vars(self))
        copy._points = deepcopy(self._points)
        copy._link, copy._there, copy._doubtful = self._link.copy(), self._there.copy(), self._doubtful.copy()
        copy._links = self._links.copy()
        copy._all, copy.neighbours = deepcopy(self._all), deepcopy(self.neighbours)
        copy.names, copy._pool, copy._journal = Names(), RowPool(), None
        copy._keeper = Keeper(KeptTable)
        return copy

    @classmethod
    def from_state(cls, config: RelayConfig, state: RelayState, indexes: Indexes | None = None) -> Self:
        """The relay in that state, with the same subscriptions forwarded. Which k of many coverers G_k has is
        recomputed. O(n log^2 n); with `indexes`, which become part of it, O(n)."""
        relay = cls(config, state.links)
        n = len(state.link)
        slots = np.arange(n, dtype=np.int32)
        relay._pool.restore(n, [])
        relay.names.load(state.ids._replace(row=state.ids.row.copy()))
        relay._make_room()
        links = [None if i == LOCAL else state.links[i] for i in state.link.tolist()]
        relay._write(slots, np.ascontiguousarray(state.points), links, NO_SLOTS)
        relay._doubtful[:n] = state.doubtful
        room = len(relay._points.age)
        if indexes is None:
            relay._all.load(relay._points, slots)
        else:
            relay._all = indexes.everything
        relay._all.reserve(0, room)
        for i, name in enumerate(state.links or (UPSTREAM,)):
            found = indexes.relations.get(name) if indexes is not None else None
            relations = relay.neighbours[name] = relay.derived(name) if found is None else found
            relations.reach(room)
            relations.index.reserve(0, room)
            relations.mark_forwarded(slots[state.forwarded[:, i]])
        return relay

    def check(self) -> None:
        """Raise AssertionError unless table, ids, indexes and graphs agree. O(n^2)."""
        slots = np.flatnonzero(self._there).astype(np.int32)
        self.names.ids.check()
        assert len(self.names) == len(slots)
        assert all(self.names.find(self.names.name(slot)) == slot for slot in slots.tolist())
        assert not np.isin(self._pool.free(), slots).any() and len(self._pool.free()) + len(slots) == self._pool.high
        self._all.check(self._points)
        assert sorted(self._all.slots().tolist()) == slots.tolist()
        assert sorted(self.neighbours) == sorted(self.links or (UPSTREAM,))
        for name, relations in self.neighbours.items():
            relations.check(self._points, self._subject(name))


class Indexes(NamedTuple):
    """The indexes of a relay whose slots number its subscriptions by age: of all, and the relations by neighbour."""

    everything: SlabIndex
    relations: dict[str, Relations]


_FIRST: Ints = np.arange(FEW)
_BEGINS: Bools = np.ones(FEW, np.bool_)


def _places(n: int) -> Ints:
    """The places of so many steps."""
    return _FIRST[:n] if n <= FEW else np.arange(n)


def wrong_sides(lo: Floats, hi: Floats) -> Bools:
    """Which sides of boxes are invalid: not an interval, or one at infinity."""
    wrong: Bools = ~(lo <= hi) | (lo == np.inf) | (hi == -np.inf)
    return wrong


def in_order(copied: Copied) -> RelayState:
    """Order a copy by creation, in any thread. O(n log n)."""
    order = np.argsort(copied.age)
    place = np.zeros(int(copied.slots.max(initial=-1)) + 1, np.int32)
    place[copied.slots[order]] = np.arange(len(order), dtype=np.int32)
    ids = copied.ids.merged()
    return RelayState(
        copied.links,
        ids._replace(row=place[ids.row]),
        copied.points[order],
        copied.link[order],
        copied.forwarded[order],
        copied.doubtful[order],
    )
