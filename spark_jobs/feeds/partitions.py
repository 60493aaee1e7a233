"""The partitions of a feed on Spark: their state, and what they do in a round.

An `Owner` has buffers: a shard of a feed with its subscriptions, over the whole window. A `Matcher` has copies, under
mechanisms in which other partitions find the recipients of posts. Both are deterministic: the same messages in the same
order give the same state, to the bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexes.core.arrays import Ints
from indexes.feeds.config import FeedConfig
from indexes.feeds.epochs import Epoch
from indexes.feeds.feed import Remembered
from indexes.feeds.kernels import copies as cp
from indexes.feeds.kernels.buffers import lists_of
from indexes.feeds.kernels.scratch import SCORED, VISITED
from indexes.feeds.report import ChangedLists
from indexes.feeds.shards.frozen import Frozen, freeze, thaw
from indexes.feeds.shards.rounds import Hits
from indexes.feeds.shards.shard import FeedShard
from indexes.feeds.words import Documents
from spark_jobs.feeds.pack import Pack
from spark_jobs.feeds.routers import hashed


class Owner:
    """A partition with buffers."""

    def __init__(self, shard: FeedShard) -> None:
        self.shard = shard
        self.number = np.empty(0, np.int64)
        """By slot: the number of the subscription."""
        self.pending = np.empty(0, bool)
        """By slot: whether its list is published at the end of the batch."""
        self._slot = np.empty(0, np.int64)
        self._before = np.empty(0)
        """By slot: theta at the begin of the round; NaN for new subscriptions."""

    @classmethod
    def empty(cls, config: FeedConfig, given: bool) -> Owner:
        """An owner without subscriptions and posts; `given`: matchers find the recipients of posts."""
        return cls(FeedShard(config, given))

    def freeze(self) -> Pack:
        """The state, as its own memory."""
        about, arrays = freeze(self.shard)
        return Pack(about, {**arrays, "number": self.number, "pending": self.pending})

    @classmethod
    def thaw(cls, kept: Pack) -> Owner:
        """A partition in a frozen state."""
        owner = cls(thaw(Frozen(*kept)))
        owner.number, owner.pending = kept.arrays["number"], kept.arrays["pending"]
        owner._find_slots()
        return owner

    def take(self, round_: Pack, partition: int, hits: Iterable[Pack] = ()) -> Pack:
        """Execute a round: its posts, with the hits of matchers, and then its other operations, in order. Returns what
        to publish: changed thetas, lists at the end of the batch, and the work done."""
        shard, (about, arrays) = self.shard, round_
        shard.numbers.count = about["words"]
        self._before, counted = shard.thetas(), shard.scratch.counted
        counted[:] = 0
        n = len(arrays["post.end"])
        if n:
            posts = Documents(arrays["post.end"], arrays["post.word"], arrays["post.raw"])
            points = np.column_stack([arrays["post.x"], arrays["post.y"]])
            routed = self._hits(hits, n) if shard.given else arrays["routed"]
            self._note(shard.publish_round(posts, points, arrays["post.time"], routed))
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

    def _remove(self, numbers: Ints) -> None:
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

    def _note(self, changed: ChangedLists) -> None:
        self.pending[changed.slot] = True

    def _slots(self, numbers: Ints) -> Ints:
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
        slots, counted = shard.table.slots(), shard.scratch.counted
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
    """A partition with copies of subscriptions, for some of their words."""

    def __init__(self) -> None:
        self.copies = cp.no_copies()
        self.idf = np.empty(0)
        self.order = np.empty(0, np.int64)
        self.unknown = 1.0

    def freeze(self) -> Pack:
        """The state, as its own memory."""
        return Pack({"unknown": self.unknown}, {**self.copies._asdict(), "idf": self.idf, "order": self.order})

    @classmethod
    def thaw(cls, kept: Pack) -> Matcher:
        """A partition in a frozen state."""
        matcher = cls()
        matcher.copies = cp.Copies(*(kept.arrays[name] for name in cp.Copies._fields))
        matcher.idf, matcher.order = kept.arrays["idf"], kept.arrays["order"]
        matcher.unknown = kept.about["unknown"]
        return matcher

    def match(self, message: Pack, diagonal: float, partitions: int) -> tuple[list[Pack], dict[str, int]]:
        """Apply what was published, and match the posts that were routed here. Returns the hits for each partition with
        buffers, and the work done."""
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
