"""The workers' half of a feed on Spark: what one partition holds, and does in a round.

An `Owner` has buffers: the shard of a feed with the subscriptions that live here, over the whole window. A `Matcher`
has copies, where who finds whom posts reach is not who owns the buffers. Both are a function of what they were sent,
in order, and of nothing else: sent the same again they come to the same state, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexes.feeds import copies as cp
from indexes.feeds.buffers import lists_of
from indexes.feeds.feed import Epoch, Remembered, Told
from indexes.feeds.frozen import Frozen, freeze, thaw
from indexes.feeds.model import FeedConfig
from indexes.feeds.routed import Hits
from indexes.feeds.shard import FeedShard
from indexes.feeds.words import Documents
from indexes.feeds.work import SCORED, VISITED
from spark_jobs.feed_pack import Pack
from spark_jobs.feed_routers import hashed

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]


class Owner:
    """A partition with buffers."""

    def __init__(self, shard: FeedShard) -> None:
        self.shard = shard
        self.number = np.empty(0, np.int64)
        """By slot: the number of the subscription."""
        self.pending = np.empty(0, bool)
        """By slot: whether its list is to be said at the end of the batch."""
        self._slot = np.empty(0, np.int64)
        self._before = np.empty(0)
        """By slot: theta at the begin of the round; NaN for those that came in it."""

    @classmethod
    def empty(cls, config: FeedConfig, given: bool) -> Owner:
        """Without subscriptions and posts; `given` is whether it is told whom posts reach."""
        return cls(FeedShard(config, given))

    def freeze(self) -> Pack:
        """What it is, as its own memory."""
        about, arrays = freeze(self.shard)
        return Pack(about, {**arrays, "number": self.number, "pending": self.pending})

    @classmethod
    def thaw(cls, kept: Pack) -> Owner:
        """One that goes on where another was frozen."""
        owner = cls(thaw(Frozen(*kept)))
        owner.number, owner.pending = kept.arrays["number"], kept.arrays["pending"]
        owner._find_slots()
        return owner

    def take(self, round_: Pack, partition: int, hits: Iterable[Pack] = ()) -> Pack:
        """A round: its posts, whoever else found whom they reach, and then what else was done, in order. Returns what
        to publish: thetas that are others than before, lists where the batch ends, and how much work it was."""
        shard, (about, arrays) = self.shard, round_
        shard.numbers.count = about["words"]
        self._before, counted = shard.thetas(), shard.work.counted
        counted[:] = 0
        n = len(arrays["post.end"])
        if n:
            posts = Documents(arrays["post.end"], arrays["post.word"], arrays["post.raw"])
            points = np.column_stack([arrays["post.x"], arrays["post.y"]])
            routed = self._hits(hits, n) if shard.given else arrays["routed"]
            self._note(shard.take(posts, points, arrays["post.time"], routed))
            self._note(shard.begin_epoch_if_due()[1])
        for i, op in enumerate(about["ops"]):
            self._do(op, {k.partition(".")[2]: v for k, v in arrays.items() if k.startswith(f"{i}.")}, partition)
        return self._published(about["last"])

    def _do(self, op: dict[str, Any], arrays: dict[str, NDArray[Any]], partition: int) -> None:
        shard = self.shard
        match op["op"]:
            case "tick":
                self._note(shard.expire(op["now"]))
            case "withdraw":
                self._note(shard.withdraw(arrays["posts"].tolist()))
            case "remove":
                self._remove(arrays["numbers"])
            case "put":
                self._put(arrays, partition)
            case "load":
                columns = (arrays[name] for name in ("number", "points", "time"))
                posts = Remembered(op["first"], op["next"], *columns)
                epoch = Epoch(op["posts"], arrays["df"], op["last"], op["last_at"], op["expired"])
                documents = Documents(arrays["end"], arrays["word"], arrays["raw"])
                shard.load(posts, documents, epoch, op["now"])

    def _put(self, arrays: dict[str, NDArray[Any]], partition: int) -> None:
        mine = arrays["owner"] == partition
        self._remove(arrays["numbers"])
        if not mine.any():
            return
        words = np.diff(arrays["end"], prepend=0)
        term = np.repeat(mine, words)
        documents = Documents(np.cumsum(words[mine]), arrays["word"][term], arrays["raw"][term])
        points = np.column_stack([arrays["x"], arrays["y"]])[mine]
        slots = self.shard.subscribe(documents, points, arrays["k"][mine], arrays["alpha"][mine])
        end = self.shard.table.end
        self.number = _grown(self.number, end, -1)
        self.pending = _grown(self.pending, end, False)
        self._before = _grown(self._before, end, np.nan)
        self._before[slots] = np.nan
        self.number[slots], self.pending[slots] = arrays["numbers"][mine], True
        self._find_slots()

    def _remove(self, numbers: Int64) -> None:
        slots = self._slots(numbers)
        slots = slots[slots >= 0]
        if len(slots):
            self.shard.remove(slots)
            self.number[slots], self.pending[slots] = -1, False
            self._find_slots()

    def _hits(self, packs: Iterable[Pack], posts: int) -> Hits:
        found = [pack.arrays for pack in packs]
        none = np.empty(0, np.int64)
        post = np.concatenate([none, *(one["post"] for one in found)])
        number = np.concatenate([none, *(one["number"] for one in found)])
        score = np.concatenate([np.empty(0), *(one["score"] for one in found)])
        by = np.lexsort((number, post))
        return Hits(np.searchsorted(post[by], np.arange(posts), side="right"), self._slots(number[by]), score[by])

    def _note(self, told: Told) -> None:
        self.pending[told.slot] = True

    def _slots(self, numbers: Int64) -> Int64:
        found = np.full(len(numbers), -1, np.int64)
        known = numbers < len(self._slot)
        found[known] = self._slot[numbers[known]]
        return found

    def _find_slots(self) -> None:
        there = np.flatnonzero(self.number >= 0)
        self._slot = np.full(int(self.number.max(initial=-1)) + 1, -1, np.int64)
        self._slot[self.number[there]] = there

    def _published(self, last: bool) -> Pack:
        shard, theta = self.shard, self.shard.thetas()
        slots, counted = shard.table.slots(), shard.work.counted
        slots = slots[theta[slots] != self._before[slots]]
        arrays: dict[str, NDArray[Any]] = {"number": self.number[slots], "theta": theta[slots]}
        if last:
            listed = np.flatnonzero(self.pending)
            s = shard.table.arrays
            count = np.minimum(s.held[listed], s.k[listed]).astype(np.int64)
            posts, scores = np.empty(int(count.sum()), np.int64), np.empty(int(count.sum()))
            lists_of(s, listed, posts, scores)
            arrays |= {"list.number": self.number[listed], "list.count": count, "list.post": posts}
            arrays["list.score"] = scores
            self.pending[:] = False
        load = {"subscriptions": len(shard), "postings": shard.table.terms}
        read = {"read": int(counted[VISITED]), "scored": int(counted[SCORED])}
        return Pack(load if shard.given else load | read, arrays)


class Matcher:
    """A partition with copies of subscriptions, at some of their words."""

    def __init__(self) -> None:
        self.copies = cp.no_copies()
        self.idf = np.empty(0)
        self.order = np.empty(0, np.int64)
        self.unknown = 1.0

    def freeze(self) -> Pack:
        """What it is, as its own memory."""
        return Pack({"unknown": self.unknown}, {**self.copies._asdict(), "idf": self.idf, "order": self.order})

    @classmethod
    def thaw(cls, kept: Pack) -> Matcher:
        """One that goes on where another was frozen."""
        matcher = cls()
        matcher.copies = cp.Copies(*(kept.arrays[name] for name in cp.Copies._fields))
        matcher.idf, matcher.order = kept.arrays["idf"], kept.arrays["order"]
        matcher.unknown = kept.about["unknown"]
        return matcher

    def match(self, message: Pack, diagonal: float, partitions: int) -> tuple[list[Pack], dict[str, int]]:
        """What has been published, and then the posts that were routed here. Returns for each partition whom of those
        with buffers there they reach, and how much work it was."""
        self._publish(message)
        arrays, order = message.arrays, self.order
        posts = cp.Weighed(
            arrays["post.x"], arrays["post.y"], arrays["post.end"], arrays["post.word"], arrays["post.weight"]
        )
        found = cp.reached_by(self.copies, posts, order, diagonal)
        post, at = arrays["post.row"][found.post], hashed(found.number, partitions)
        packs = []
        for p in range(partitions):
            here = at == p
            columns = {"post": post[here], "number": found.number[here], "score": found.score[here]}
            packs.append(Pack({}, columns))
        load = {"copies": len(self.copies.number), "postings": len(self.copies.posting)}
        return packs, load | {"read": int(found.counted[cp.READ]), "scored": int(found.counted[cp.SCORED])}

    def _publish(self, message: Pack) -> None:
        about, arrays = message
        again = False
        if "idf" in arrays:
            self.idf, self.order, self.unknown = arrays["idf"], arrays["order"], about["unknown"]
            again = True
        words, had = about["words"], len(self.idf)
        if words > had:
            more = max(words, 2 * had, 64)
            self.idf = np.append(self.idf, np.full(more - had, self.unknown))
            self.order = np.append(self.order, np.arange(had, more))
        if about.get("afresh"):
            self.copies = cp.no_copies()
        if len(arrays["remove"]):
            self.copies = cp.without_copies(self.copies, arrays["remove"])
            again = True
        cp.with_thetas(self.copies, arrays["number"], arrays["theta"])
        if len(arrays["put.number"]):
            documents = Documents(arrays["put.end"], arrays["put.word"], arrays["put.raw"])
            points = np.column_stack([arrays["put.x"], arrays["put.y"]])
            self.copies = cp.with_copies(
                self.copies, arrays["put.number"], documents, arrays["put.own"], points, arrays["put.alpha"],
                arrays["put.theta"],
            )  # fmt: skip
            again = True
        if again or len(self.copies.first) <= words:
            self.copies = cp.lay_out(self.copies, self.idf, self.order)


def _grown(column: NDArray[Any], room: int, filler: Any) -> NDArray[Any]:
    if len(column) >= room:
        return column
    longer = np.full(max(room, 3 * len(column) // 2), filler, column.dtype)
    longer[: len(column)] = column
    return longer
