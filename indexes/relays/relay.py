"""What a relay knows: subscriptions that are boxes, what to forward of them, and which of them a notification meets.

State is the table of `points.py`, the ids, an index of all subscriptions for notifications, and for each neighbour the
`relations.py` of the subscriptions that it may have to hear of. Without links there is one neighbour, `UPSTREAM`, which
may have to hear of all; with links each is one, and may have to hear of what did not come from it. The same steps in
the same order give the same answers, however they are cut; no clock or random source is read.

A change is made in two halves: `run` does the work of the kernels and may be in any one thread, `commit` makes the ids
known, in the thread that looks ids up. `release` gives away the slots of what has gone, when a whole command is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indexes.ids import Packed, merge_packed, pack
from indexes.names import Names
from indexes.overlay import RowPool
from indexes.relays.delivered import Met, links_of, local_of
from indexes.relays.forward import SUBSCRIBE, UNSUBSCRIBE
from indexes.relays.kd_tree import KdIndex
from indexes.relays.linear import LinearIndex
from indexes.relays.model import UPSTREAM, Anew, Delivery, RelayConfig, Subscribed, Unsubscribed, shown
from indexes.relays.points import Points, as_boxes, as_points, copied, coverers_first, empty_points, grown, write
from indexes.relays.relations import Decisions, Everything, Known, Poset, Relations
from indexes.relays.search import QUERIES, CoverIndex
from indexes.relays.slabs import SlabIndex
from indexes.relays.z_order import ZIndex

Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

LOCAL = -1
"""Where a subscription comes from that came over no link."""

NOWHERE = -2
"""Where none comes from."""

JOURNAL = 1 << 20
"""Steps that are noted at most for a relay that is laid out anew."""

INDEXES: dict[str, type[CoverIndex]] = {"kd": KdIndex, "zorder": ZIndex, "linear": LinearIndex}


def relations_of(config: RelayConfig) -> Relations:
    """New relations of the kind that a relay has, without subscriptions."""
    index = INDEXES[config.index](2 * len(config.attributes))
    if config.graph == "G":
        return Known(index, config.k)
    return Everything(index) if config.graph == "G*" else Poset(index)


def derived(config: RelayConfig, points: Points, slots: Int32) -> Relations:
    """The relations of these subscriptions as if they had come in the best order, with the index laid out as tightly as
    it can be: forwarded is the least that covers all, what nothing else covers, of equal boxes the oldest. Nothing but
    what is given is looked at, and the same gives the same bytes. O(n log^2 n)."""
    relations = relations_of(config)
    first = coverers_first(points, slots)
    relations.apply(points, np.full(len(first), SUBSCRIBE, np.uint8), first)
    relations.lay_out(points)
    return relations


class Subscribe(NamedTuple):
    """A new subscription: its box, (lo, hi) by attribute in order, and the link that it came over, if any."""

    id: str
    lo: Sequence[float]
    hi: Sequence[float]
    link: str | None = None


class Unsubscribe(NamedTuple):
    """The end of a subscription."""

    id: str


class Steps(NamedTuple):
    """Subscriptions that end and begin, in order: a key and, of one that begins, its point and the link that it came
    over; `links` is None where all are local. Where one that ends is `paired`, the next step begins it anew."""

    op: npt.NDArray[np.uint8]
    keys: list[str]
    points: Float64
    links: list[str | None] | None = None
    paired: Bool | None = None

    @classmethod
    def ends(cls, keys: list[str], coordinates: int) -> Steps:
        """The ends of subscriptions."""
        return cls(np.full(len(keys), UNSUBSCRIBE, np.uint8), keys, np.zeros((len(keys), coordinates)))


class Told(NamedTuple):
    """What steps come to for a neighbour: decisions about those steps that concern it, in `step`."""

    decisions: Decisions
    step: Int64


class Ran(NamedTuple):
    """Steps that were run: their slots, the keys of the slots that are not known yet, and what they come to by
    neighbour."""

    steps: Steps
    slots: Int32
    named: dict[int, str]
    told: dict[str, Told]

    @property
    def gone(self) -> list[int]:
        """The slots to be released."""
        found: list[int] = self.slots[self.steps.op == UNSUBSCRIBE].tolist()
        return found


class Outgoing(NamedTuple):
    """What a neighbour has to hear, in order: keys that it is to know, with their points, or to forget. Where there are
    very many, the keys are a column."""

    op: npt.NDArray[np.uint8]
    keys: list[str] | pa.LargeStringArray
    points: Float64


class Copied(NamedTuple):
    """The subscriptions of a relay as they lay in memory: ids as `Names` has them, with slots, and columns by
    `slots`."""

    links: tuple[str, ...]
    slots: Int32
    points: Float64
    age: Int64
    link: Int32
    forwarded: Bool
    doubtful: Bool
    ids: Packed
    recent: dict[str, int]


class RelayState(NamedTuple):
    """A relay's subscriptions in order of creation; sorted `ids` have their places as rows. `link` is the number of one
    in `links` or `LOCAL`. `forwarded` has a column for each neighbour, false for what came from it. What is `doubtful`
    was said before the latest reset of its link, and has not been said again."""

    links: tuple[str, ...]
    ids: Packed
    points: Float64
    link: Int32
    forwarded: Bool
    doubtful: Bool


class Relay:
    """Subscriptions towards neighbours, and the notifications that come back."""

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
        """The keys of what a neighbour has been told of, oldest first. Raises KeyError."""
        return self._keys(self._told_of(neighbour), {})

    def forwards(self, neighbour: str) -> tuple[list[str], Float64]:
        """As `forwarded`, with their points."""
        slots = self._told_of(neighbour)
        keys: list[str] = self.names.many(slots).to_pylist()
        return keys, self._points.exact[slots]

    def _told_of(self, neighbour: str) -> Int32:
        relations, slots = self.neighbours[neighbour], self._subject(neighbour)
        return slots[relations.forwarded[slots]]

    def forwarded_count(self, neighbour: str = UPSTREAM) -> tuple[int, int]:
        """How many subscriptions a neighbour has been told of, and how many it may have to hear of. O(1). Raises
        KeyError."""
        relations = self.neighbours[neighbour]
        return relations.forwarded_count, len(relations)

    def covering_ratio(self, neighbour: str = UPSTREAM) -> float:
        """The share of subscriptions that a neighbour need not hear of; 0 where there are none. Raises KeyError."""
        told, n = self.forwarded_count(neighbour)
        return 1 - told / n if n else 0.0

    @property
    def worn(self) -> float:
        """How many subscriptions have come or gone since all was laid out, for each that is there."""
        return self._changed / max(1, len(self))

    def searches(self) -> int:
        """Searches of covering indexes so far."""
        return sum(int(relations.seen[:, QUERIES].sum()) for relations in self.neighbours.values())

    @property
    def nbytes(self) -> int:
        """Bytes of the table and the indexes, without ids and graphs, room kept for more included."""
        indexes = sum(relations.index.nbytes for relations in self.neighbours.values())
        return sum(column.nbytes for column in self._points[:2]) + self._all.nbytes + indexes

    # Changes.

    def run(self, steps: Steps) -> Ran:
        """Carry out steps that apply: what ends is there then, what begins is not, and its link is. O(log^2 n) each
        where few cover a subscription and few are covered by it alone, in one call of kernels for each neighbour."""
        self._note(len(steps.op), "run", steps)
        return self._run(steps)

    def _run(self, steps: Steps, slots: Int32 | None = None) -> Ran:
        """`slots` are those of the steps, where they are known."""
        new = steps.op == SUBSCRIBE
        slots = self._slots(steps, new) if slots is None else slots
        begun = slots[new]
        self._write(begun, steps.points[new], None if steps.links is None else list(compress(steps.links, new)))
        self._all.reserve(len(begun), len(self._points.age))
        told = {name: self._decide(name, steps.op, slots) for name in self.neighbours}
        # What comes and goes within the steps was never there for a notification.
        gone = slots[~new]
        self._all.insert(self._points, np.setdiff1d(begun, gone).astype(np.int32))
        self._all.delete(self._points, np.setdiff1d(gone, begun).astype(np.int32))
        self._there[begun] = True
        self._there[gone] = False
        self._changed += len(slots)
        return Ran(steps, slots, dict(zip(begun.tolist(), compress(steps.keys, new), strict=True)), told)

    def _slots(self, steps: Steps, new: Bool) -> Int32:
        """The slots of steps. Those of what ends are not given to what begins: see `release`."""
        if new.all():
            return np.array(self._pool.take_many(len(new)), np.int32)
        slots = np.empty(len(new), np.int32)
        now: dict[str, int] = {}
        for i, (begins, key) in enumerate(zip(new.tolist(), steps.keys, strict=True)):
            if begins:
                now[key] = slots[i] = self._pool.take()
            else:
                slot = now.pop(key, -1)
                slots[i] = slot if slot >= 0 else self.names.find(key)
        return slots

    def _write(self, slots: Int32, points: Float64, links: list[str | None] | None) -> None:
        self._points = grown(self._points, self._pool.high)
        room = len(self._points.age)
        more = room - len(self._link)
        if more > 0:
            self._link = np.concatenate([self._link, np.full(more, LOCAL, np.int32)])
            self._there = np.concatenate([self._there, np.zeros(more, np.bool_)])
            self._doubtful = np.concatenate([self._doubtful, np.zeros(more, np.bool_)])
        write(self._points, slots, points, self._born + np.arange(len(slots)))
        number = {link: i for i, link in enumerate(self._links) if link is not None}
        self._link[slots] = LOCAL if links is None else [LOCAL if link is None else number[link] for link in links]
        self._doubtful[slots] = False
        self._born += len(slots)

    def _decide(self, neighbour: str, op: npt.NDArray[np.uint8], slots: Int32) -> Told:
        mine = np.flatnonzero(self._link[slots] != self._number(neighbour))
        return Told(self.neighbours[neighbour].apply(self._points, op[mine], slots[mine]), mine)

    def _number(self, neighbour: str) -> int:
        """What `_link` has for subscriptions that come from a neighbour."""
        return NOWHERE if neighbour == UPSTREAM else self._links.index(neighbour)

    def commit(self, ran: Ran) -> None:
        """Make the ids of steps known and forget those that ended."""
        begins = (ran.steps.op == SUBSCRIBE).tolist()
        for new, key, slot in zip(begins, ran.steps.keys, ran.slots.tolist(), strict=True):
            if new:
                self.names.note_one(key, slot)
            else:
                self.names.delete(key, slot)

    def names_after(self, rans: Iterable[Ran]) -> Names:
        """The ids as they are when these steps, which follow each other, are committed. O(n), in any thread; nothing is
        changed. Where there are many steps, this takes the place of `commit`."""
        new: dict[int, str] = {}
        ended: list[Int32] = []
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
        """What was in these slots is gone for good: others may have them. Where a command is cut, it is done at its end
        alone, so that slots do not depend on the cuts."""
        self._pool.give(slots)

    def answers(self, ran: Ran) -> list[Subscribed | Unsubscribed]:
        """What each step comes to, before it is committed."""
        n = len(ran.slots)
        forward: list[dict[str, bool]] = [{} for _ in range(n)]
        named: list[dict[str, list[str]]] = [{} for _ in range(n)]
        begins = (ran.steps.op == SUBSCRIBE).tolist()
        for name, (decisions, step) in ran.told.items():
            for at, (i, forwarded) in enumerate(zip(step.tolist(), decisions.forward.tolist(), strict=True)):
                forward[i][name] = forwarded
                about = decisions.covered_by(at) if begins[i] else decisions.promoted_by(at)
                named[i][name] = [shown(key) for key in self._keys(about, ran.named)] if len(about) else []
        rows = zip(begins, ran.steps.keys, forward, named, strict=True)
        return [(Subscribed if new else Unsubscribed)(shown(key), told, about) for new, key, told, about in rows]

    def outgoing(self, ran: Ran, neighbour: str) -> Outgoing:
        """What a neighbour has to hear of steps, before they are committed. What ends goes after what it had covered;
        what ends to begin anew at once and is forwarded again is not ended, so that there is no gap."""
        decisions, step = ran.told[neighbour]
        begins = ran.steps.op[step] == SUBSCRIBE
        begun, ended = step[decisions.forward & begins], step[decisions.forward & ~begins]
        if ran.steps.paired is not None and len(ended):
            again = np.zeros(len(ran.slots) + 1, np.bool_)
            again[begun] = True
            ended = ended[~(ran.steps.paired[ended] & again[ended + 1])]
        by = np.repeat(step, np.diff(decisions.promoted_upto, prepend=0))
        order = np.argsort(np.concatenate([2 * by, 2 * begun, 2 * ended + 1]), kind="stable")
        op = np.repeat(np.array([SUBSCRIBE, UNSUBSCRIBE], np.uint8), [len(by) + len(begun), len(ended)])[order]
        slots = np.concatenate([decisions.promoted, ran.slots[begun], ran.slots[ended]])[order]
        return Outgoing(op, self._keys(slots, ran.named), self._points.exact[slots])

    def _keys(self, slots: Int32, named: dict[int, str]) -> list[str]:
        """The keys of slots, some of which are `named` and not known yet."""
        if len(slots) <= 64:
            return [named[slot] if slot in named else self.names.name(slot) for slot in slots.tolist()]
        if not named:
            whole: list[str] = self.names.many(slots).to_pylist()
            return whole
        keys = [named.get(slot) for slot in slots.tolist()]
        known = np.array([key is None for key in keys], np.bool_)
        others = iter(self.names.many(slots[known]).to_pylist())
        return [next(others) if key is None else key for key in keys]

    # One change at once, for those who have no writer.

    def apply(self, commands: Sequence[Subscribe | Unsubscribe]) -> list[Subscribed | Unsubscribed]:
        """Carry out commands in order; returns what each comes to.

        Raises ValueError or KeyError, with nothing changed, for a wrong box, an id that is taken at that point or not
        there, or an unknown link.
        """
        points = self._checked(commands)
        begins = [isinstance(c, Subscribe) for c in commands]
        op = np.array([SUBSCRIBE if new else UNSUBSCRIBE for new in begins], np.uint8)
        every = np.zeros((len(commands), points.shape[1]))
        every[begins] = points
        links = [c.link if isinstance(c, Subscribe) else None for c in commands]
        return self._at_once(Steps(op, [c.id for c in commands], every, links))

    def _at_once(self, steps: Steps) -> list[Subscribed | Unsubscribed]:
        ran = self.run(steps)
        answers = self.answers(ran)
        self.commit(ran)
        self.release(ran.gone)
        if self.names.crowded:
            self.names.swap(self.names.merged())
        return answers

    def subscribe(self, key: str, box: Mapping[str, tuple[float, float]], link: str | None = None) -> Subscribed:
        """One subscription; attributes that the box leaves out are unbounded. Raises as `apply`, and ValueError for an
        unknown attribute."""
        (answer,) = self.apply([Subscribe(key, *self.sides(box), link)])
        assert isinstance(answer, Subscribed)
        return answer

    def unsubscribe(self, key: str) -> Unsubscribed:
        """The end of one subscription. Raises KeyError."""
        (answer,) = self.apply([Unsubscribe(key)])
        assert isinstance(answer, Unsubscribed)
        return answer

    def replace(self, key: str, box: Mapping[str, tuple[float, float]]) -> tuple[Unsubscribed, Subscribed]:
        """Give a subscription another box: it ends and begins anew, as the youngest. Raises as `apply`."""
        link = self.link(key)
        ended, begun = self.apply([Unsubscribe(key), Subscribe(key, *self.sides(box), link)])
        assert isinstance(ended, Unsubscribed) and isinstance(begun, Subscribed)
        return ended, begun

    def sides(self, box: Mapping[str, tuple[float, float]]) -> tuple[list[float], list[float]]:
        """A box by name as its least and greatest ends in order of the attributes. Raises ValueError for an unknown
        one."""
        for name in box:
            if name not in self.config.attributes:
                raise ValueError(f"box.{name}: there is no such attribute")
        ends = [box.get(name, (-np.inf, np.inf)) for name in self.config.attributes]
        return [lo for lo, _ in ends], [hi for _, hi in ends]

    def _checked(self, commands: Sequence[Subscribe | Unsubscribe]) -> Float64:
        """The points of the new subscriptions."""
        lo, hi = [], []
        now: dict[str, bool] = {}
        for command in commands:
            there = now.get(command.id, self.names.find(command.id) >= 0)
            if isinstance(command, Subscribe):
                if there:
                    raise ValueError(f"id: {command.id!r} is taken")
                if command.link is not None and command.link not in self._links:
                    raise ValueError(f"link: there is no link {command.link!r}")
                lo.append(command.lo)
                hi.append(command.hi)
            elif not there:
                raise KeyError(command.id)
            now[command.id] = isinstance(command, Subscribe)
        shape = (len(lo), len(self.config.attributes))
        least, most = np.array(lo, np.float64).reshape(shape), np.array(hi, np.float64).reshape(shape)
        for i, j in np.argwhere(wrong_sides(least, most))[:1].tolist():
            raise ValueError(f"box.{self.config.attributes[j]}: lo must be at most hi (subscription {i})")
        return as_points(least, most)

    # What stands.

    def box(self, key: str) -> dict[str, tuple[float, float]]:
        """The box of a subscription. Raises KeyError."""
        lo, hi = as_boxes(self.point(key)[None])
        return dict(zip(self.config.attributes, zip(lo[0].tolist(), hi[0].tolist(), strict=True), strict=True))

    def point(self, key: str) -> Float64:
        """The box of a subscription as a point. Raises KeyError."""
        row: Float64 = self._points.exact[self._find(key)].copy()
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

    # What is said again after a reset.

    def doubt(self, link: str, prefix: str) -> None:
        """What came over a link and whose key begins with `prefix` may not stand any more."""
        slots = np.flatnonzero(self._there & (self._link == self._number(link))).astype(np.int32)
        self._note(1 + len(slots), "doubt", link, prefix)
        told = pc.starts_with(self.names.many(slots), prefix)
        self._doubtful[slots] = told.to_numpy(zero_copy_only=False)

    def confirm(self, keys: list[str]) -> None:
        """These stand still."""
        self._note(len(keys), "confirm", keys)
        for key in keys:
            self._doubtful[self._find(key)] = False

    def doubted(self, link: str) -> list[str]:
        """The keys of what has not been confirmed since `doubt`, oldest first."""
        slots = np.flatnonzero(self._there & self._doubtful & (self._link == self._number(link))).astype(np.int32)
        return self._keys(self._by_age(slots), {})

    # Neighbours.

    def add_link(self, link: str) -> list[str]:
        """Add a link; returns what to subscribe over it, oldest first: the least that covers everything. Raises
        ValueError for a name that is taken or empty."""
        if link == UPSTREAM or link in self._links:
            raise ValueError(f"link: {link!r} is taken")
        self.change_links([], [link])
        return self.forwarded(link)

    def remove_link(self, link: str) -> list[Subscribed | Unsubscribed]:
        """Take out a link with the subscriptions that came over it; returns what their ends come to elsewhere. After
        the last one, `UPSTREAM` begins with the least that covers everything. Raises KeyError."""
        if link not in self._links:
            raise KeyError(link)
        ran = self.change_links([link], [])
        answers = self.answers(ran)
        self.commit(ran)
        self.release(ran.gone)
        return answers

    def change_links(self, removed: list[str], added: list[str], begun: dict[str, Relations] | None = None) -> Ran:
        """Take out links with all that came over them, then add others, whose relations `begin` has made where they are
        given; returns what ended, to be committed and released."""
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
        """Note a change of links by what it costs: what ends, and all that is left for each of the relations begun."""
        self._note(1 + ended + begun * (len(self) - ended), "_change_links", removed, added)

    def came_over(self, links: list[str]) -> int:
        """How many subscriptions came over some links. O(n)."""
        return len(self._came_over(links))

    def aside(self) -> Relay:
        """A copy to `change_links` of, while this one is asked as it stands, and then to be `taken_over`. It shares the
        table and the ids, which that leaves alone. O(n)."""
        copy: Relay = object.__new__(Relay)
        vars(copy).update(vars(self))
        copy._links, copy._there = self._links.copy(), self._there.copy()
        copy._all = copied(self._all, self._all.arrays)
        copy.neighbours = {name: copied(one, one.index.arrays) for name, one in self.neighbours.items()}
        copy._pool, copy._journal = RowPool(), None
        return copy

    def take_over(self, aside: Relay, removed: list[str], added: list[str]) -> None:
        """Links were changed in a copy that was made `aside`, and nothing else has changed since. O(1)."""
        begun = len((aside.neighbours.keys() - self.neighbours.keys()) | set(added))
        self._note_links(removed, added, self.came_over(removed), begun)
        self._links, self._there = aside._links, aside._there
        self._all, self.neighbours, self._changed = aside._all, aside.neighbours, aside._changed

    def _change_links(self, removed: list[str], added: list[str]) -> None:
        ran = self.change_links(removed, added)
        self.commit(ran)
        self.release(ran.gone)

    def begin(self, removed: list[str], added: list[str]) -> dict[str, Relations]:
        """The relations of neighbours that `change_links` makes: each forwards the least that covers all that will be
        left. O(n log^2 n); nothing is changed."""
        left = [name for name in self.links if name not in removed] + added
        new = added or ([] if left or UPSTREAM in self.neighbours else [UPSTREAM])
        numbers = [self._number(link) for link in removed]
        slots = np.flatnonzero(self._there & ~np.isin(self._link, numbers)).astype(np.int32)
        return {name: derived(self.config, self._points, slots) for name in new}

    def _came_over(self, links: list[str]) -> Int32:
        numbers = [self._number(link) for link in links]
        return self._by_age(np.flatnonzero(self._there & np.isin(self._link, numbers)).astype(np.int32))

    def rederive(self, neighbour: str = UPSTREAM) -> Anew:
        """Find anew the least that covers everything, and lay out the index and the graph from it: a neighbour that was
        told of a subscription before one that covers it came need not know it any more. O(n log^2 n). Raises
        KeyError."""
        subscribe, unsubscribe = self.adopt(neighbour, self.derived(neighbour))
        return Anew(self._keys(subscribe, {}), self._keys(unsubscribe, {}))

    def derived(self, neighbour: str) -> Relations:
        """Relations of what a neighbour may have to hear of, `derived`. Nothing is changed."""
        return derived(self.config, self._points, self.concerning(neighbour))

    def adopt(self, neighbour: str, relations: Relations) -> tuple[Int32, Int32]:
        """Take up relations that were `derived`; returns the slots that the neighbour is to know, and to forget, each
        oldest first."""
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

    def concerning(self, neighbour: str) -> Int32:
        """The slots that a neighbour may have to hear of."""
        return np.flatnonzero(self._there & (self._link != self._number(neighbour))).astype(np.int32)

    def _subject(self, neighbour: str) -> Int32:
        """As `concerning`, oldest first."""
        return self._by_age(self.concerning(neighbour))

    def _by_age(self, slots: Int32) -> Int32:
        return slots[np.argsort(self._points.age[slots])]

    # Notifications.

    def match(
        self, values: Float64, origin: Sequence[str | None] | None = None, links_alone: bool = False
    ) -> list[Delivery]:
        """Who is to get notifications, of shape (n, d) in order of the attributes. `origin` names the link that each
        came over, to which it does not go back. With `links_alone` subscriptions are not named."""
        met = self.met(values, origin, links_alone)
        keys = self._keys(met.slots, {})
        ends = met.upto.tolist()
        begins = [0, *ends[:-1]]
        return [Delivery(keys[a:b], list(links)) for a, b, links in zip(begins, ends, met.links, strict=True)]

    def met(self, values: Float64, origin: Sequence[str | None] | None = None, links_alone: bool = False) -> Met:
        """As `match`, by column and without ids."""
        slots, upto = self.meets(values)
        link = self._link[slots]
        links = links_of(link, upto, self._links, origin)
        if links_alone:
            return Met(slots[:0], np.zeros_like(upto), links)
        return Met(*local_of(slots, upto, link == LOCAL, self._points.age), links)

    def meets(self, values: Float64) -> tuple[Int32, Int64]:
        """The slots whose boxes hold each of these points, one point's after the other's, and where each one's end."""
        return self._all.containing(self._points, values)

    # What changes while all is laid out anew.

    def begin_journal(self) -> None:
        """Note from now on what changes."""
        self._journal, self._noted = deque(), 0

    def end_journal(self) -> None:
        """Note it no more."""
        self._journal = None

    @property
    def journal(self) -> deque[tuple[str, tuple[Any, ...], int]] | None:
        """What has changed since, and how much that is, for `replay` on a relay of the state of then; None where nobody
        notes it, or there was too much."""
        return self._journal

    def _note(self, size: int, change: str, *of: Any) -> None:
        if self._journal is not None:
            self._noted += size
            self._journal.append((change, of, size))
            if self._noted > JOURNAL:
                self._journal = None

    def replay(self, change: str, of: tuple[Any, ...]) -> None:
        """Make a change that a journal holds."""
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
        ids = self.names.ids
        return Copied(
            links,
            slots,
            self._points.exact[slots],
            self._points.age[slots],
            number[self._link[slots]],
            np.array(columns, np.bool_).T.reshape(len(slots), len(columns)),
            self._doubtful[slots],
            ids.base._replace(row=ids.base.row.copy()),
            ids.recent.copy(),
        )

    def state(self) -> RelayState:
        """All subscriptions in order of creation. O(n log n)."""
        return in_order(self.copied())

    def frozen(self) -> Relay:
        """A copy of all but the ids, to be asked in another thread."""
        copy: Relay = object.__new__(Relay)
        vars(copy).update(vars(self))
        copy._points = deepcopy(self._points)
        copy._link, copy._there, copy._doubtful = self._link.copy(), self._there.copy(), self._doubtful.copy()
        copy._links = self._links.copy()
        copy._all, copy.neighbours = deepcopy(self._all), deepcopy(self.neighbours)
        copy.names, copy._pool, copy._journal = Names(), RowPool(), None
        return copy

    @classmethod
    def from_state(cls, config: RelayConfig, state: RelayState, indexes: Indexes | None = None) -> Relay:
        """The relay in that state, which forwards what the other would have: neighbours know what they were told. Which
        k of many coverers G_k knows is found anew. O(n log^2 n), with indexes, which become part of it, O(n)."""
        relay = cls(config, state.links)
        n = len(state.link)
        slots = np.arange(n, dtype=np.int32)
        relay._pool.restore(n, [])
        relay.names.load(state.ids._replace(row=state.ids.row.copy()))
        relay._write(slots, state.points, [None if i == LOCAL else state.links[i] for i in state.link.tolist()])
        relay._there[:n] = True
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
            relations.tell(slots[state.forwarded[:, i]])
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
    """The indexes of a relay whose slots count its subscriptions by age: of all, and the relations by neighbour."""

    everything: SlabIndex
    relations: dict[str, Relations]


def wrong_sides(lo: Float64, hi: Float64) -> Bool:
    """Which sides of boxes cannot be: no interval, or one at infinity."""
    wrong: Bool = ~(lo <= hi) | (lo == np.inf) | (hi == -np.inf)
    return wrong


def in_order(copied: Copied) -> RelayState:
    """Put what was copied in order of creation, in any thread. O(n log n)."""
    order = np.argsort(copied.age)
    place = np.zeros(int(copied.slots.max(initial=-1)) + 1, np.int32)
    place[copied.slots[order]] = np.arange(len(order), dtype=np.int32)
    recent = copied.recent
    rows = np.fromiter(recent.values(), np.int32, len(recent))
    ids = merge_packed(copied.ids, pack(pa.array(list(recent), pa.string()), rows))
    return RelayState(
        copied.links,
        ids._replace(row=place[ids.row]),
        copied.points[order],
        copied.link[order],
        copied.forwarded[order],
        copied.doubtful[order],
    )
