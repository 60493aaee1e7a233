"""The driver's part of a feed on Spark: it numbers words, posts and subscriptions, cuts operations into rounds, and
makes the messages to partitions.

A round is some posts, at most up to the begin of an epoch, and then the operations before the next post. The front has
the window, without buffers, and all subscriptions with their thetas as of the begin of a round, by which routers
decide. What partitions publish at its end is used in the next round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.core.arrays import Bools, Floats, Ints, Ints32
from indexes.feeds.config import FeedConfig
from indexes.feeds.epochs import Epoch
from indexes.feeds.feed import Remembered
from indexes.feeds.kernels import copies as cp
from indexes.feeds.kernels.window import FIRST, NEXT, TERM_NEXT
from indexes.feeds.shards.frozen import Frozen, freeze, thaw
from indexes.feeds.shards.shard import FeedShard
from indexes.feeds.words import Documents, Vocabulary
from spark_jobs.feeds.pack import Pack
from spark_jobs.feeds.routers import Keyword, Location, make_router

Bag = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Posts:
    """Posts, in order, at times that never decrease."""

    ids: Sequence[str]
    bags: Sequence[Bag]
    points: Floats
    times: Ints

    def part(self, first: int, end: int) -> Posts:
        """Those from `first` to `end` - 1."""
        return Posts(self.ids[first:end], self.bags[first:end], self.points[first:end], self.times[first:end])


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Withdrawals of posts; unknown ids are ignored."""

    ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class Tick:
    """The advance of time to `now`."""

    now: int


@dataclass(frozen=True, slots=True)
class Subscribe:
    """New or replaced subscriptions, each id once."""

    ids: Sequence[str]
    bags: Sequence[Bag]
    points: Floats
    k: Ints
    alpha: Floats


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Removals of subscriptions; unknown ids are ignored."""

    ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class Load:
    """The window and the epoch of another feed, for one without posts: posts by number, their ids, and how many of
    `epoch.posts` posts contained each of these words when the epoch began."""

    posts: Remembered
    ids: Sequence[str]
    bags: Sequence[Bag]
    epoch: Epoch
    words: Sequence[str]
    now: int


Operation = Posts | Withdraw | Tick | Subscribe | Unsubscribe | Load


class Round(NamedTuple):
    """The messages to partitions: to owners, and to matchers if these are apart."""

    owners: list[Pack]
    matchers: list[Pack]
    routed: int
    posts: int


class Row(NamedTuple):
    """A list at the end of a batch. `number` counts the subscriptions of a stream: a later one of the same id has
    another number."""

    number: int
    subscription: str
    k: int
    posts: list[str]
    scores: list[float]


class Gone(NamedTuple):
    """A subscription that was removed in a batch."""

    number: int
    subscription: str
    k: int


@dataclass
class Counts:
    """Counters of what was sent since the start of the stream."""

    posts: int = 0
    rounds: int = 0
    routed: int = 0
    """Copies of posts that were routed."""
    bytes_routed: int = 0
    bytes_window: int = 0
    """Of the window, to every owner of buffers."""
    copies: int = 0
    """Copies of subscriptions that were sent, the first of each included."""
    bytes_copies: int = 0
    thetas: int = 0
    hits: int = 0
    """Hits that were sent from matchers to owners, and their bytes."""
    bytes_hits: int = 0
    read: list[int] = field(default_factory=list)
    """By partition: postings read and scores computed, and the subscriptions and postings that it has."""
    scored: list[int] = field(default_factory=list)
    subscriptions: list[int] = field(default_factory=list)
    postings: list[int] = field(default_factory=list)


class Front:
    """The driver's state; deterministic, as that of partitions."""

    def __init__(self, config: FeedConfig, mechanism: str, partitions: int, split: bool = True) -> None:
        """Raises ValueError for an invalid feed, mechanism or number of partitions."""
        if partitions < 1:
            raise ValueError(f"there cannot be {partitions} partitions")
        self.config = config
        self.mechanism = mechanism
        self.partitions = partitions
        self.split = split
        self.router = make_router(mechanism, partitions, config.diagonal, split)
        self.shard = FeedShard(config)
        self.words = Vocabulary()
        self.subscriptions = cp.no_copies()
        self.owner = np.empty(0, np.int64)
        """By subscription."""
        self.order = np.empty(0, np.int64)
        """By word: rarer ones first, as of the last epoch."""
        self.idf = np.empty(0)
        self.unknown = 1.0
        self.ids: dict[str, int] = {}
        self.names: dict[int, str] = {}
        """The subscriptions' numbers, and their ids."""
        self.ks: dict[int, int] = {}
        self.gone: list[Gone] = []
        """Subscriptions that were removed in this batch."""
        self.posts: dict[int, str] = {}
        """The window's posts by number, and their numbers by id."""
        self.numbers: dict[str, int] = {}
        self.counts = Counts()
        n = partitions
        self.counts.read, self.counts.scored = [0] * n, [0] * n
        self.counts.subscriptions, self.counts.postings = [0] * n, [0] * n
        self._next = 0
        self._laid = False
        self._held = np.zeros((0, n), bool)
        """By subscription and partition: whether there is a copy."""
        self._afresh = False
        self._epoch_sent = True
        self._gone: list[int] = []
        self._moved = (np.empty(0, np.int64), np.empty(0))
        """Thetas that were not sent to matchers yet."""

    def rounds(self, operations: Sequence[Operation]) -> Iterator[Round]:
        """The rounds of a batch of operations, at least one; call `done` for each before the next. In the last one
        partitions publish their lists."""
        self.gone = []
        posts: Posts | None = None
        rest: list[Operation] = []
        waiting = list(operations)
        while waiting:
            operation = waiting.pop(0)
            if not isinstance(operation, Posts):
                rest.append(operation)
            elif not len(operation.ids):
                continue
            elif rest or posts is not None:
                waiting.insert(0, operation)
                yield self._round(posts, rest, last=False)
                posts, rest = None, []
            else:
                operation = _joined(operation, waiting)
                fits = self.shard.posts_before_epoch(operation.times)
                posts = operation.part(0, fits)
                if fits < len(operation.ids):
                    waiting.insert(0, operation.part(fits, len(operation.ids)))
        yield self._round(posts, rest, last=True)

    def done(self, published: Sequence[Pack]) -> list[Row]:
        """Apply what the owners published, in order of partitions. Returns their lists."""
        number = np.concatenate([pack.arrays["number"] for pack in published])
        theta = np.concatenate([pack.arrays["theta"] for pack in published])
        cp.with_thetas(self.subscriptions, number, theta)
        if self.router.apart:
            self._moved = (np.append(self._moved[0], number), np.append(self._moved[1], theta))
        rows = []
        for p, pack in enumerate(published):
            about, arrays = pack
            self.counts.subscriptions[p] = about["subscriptions"]
            if not self.router.apart:
                self._count(p, about)
            if "list.number" in arrays:
                rows += self._rows(arrays)
        return rows

    def matched(self, partition: int, load: dict[str, int], hits: int) -> None:
        """Count the work and the hits of a matcher."""
        self._count(partition, load)
        self.counts.hits += hits
        self.counts.bytes_hits += 24 * hits

    def _count(self, partition: int, load: dict[str, int]) -> None:
        counts = self.counts
        counts.read[partition] += load["read"]
        counts.scored[partition] += load["scored"]
        counts.postings[partition] = load["postings"]

    def _rows(self, arrays: dict[str, NDArray[Any]]) -> list[Row]:
        numbers = arrays["list.number"].tolist()
        end = np.cumsum(arrays["list.count"]).tolist()
        posts = [self.posts[number] for number in arrays["list.post"].tolist()]
        scores = arrays["list.score"].tolist()
        return [
            Row(number, self.names[number], self.ks[number], posts[begin:upto], scores[begin:upto])
            for number, begin, upto in zip(numbers, [0, *end][:-1], end, strict=True)
        ]

    def _round(self, posts: Posts | None, rest: Sequence[Operation], last: bool) -> Round:
        """Apply posts and other operations, and make the messages."""
        n, counts = len(posts.ids) if posts else 0, self.counts
        documents = self.words.documents(posts.bags if posts else [])
        self._see_words()
        arrays: dict[str, NDArray[Any]] = {
            "post.end": documents.end, "post.word": documents.word, "post.raw": documents.weight,
            "post.time": posts.times if posts else np.empty(0, np.int64),
        }  # fmt: skip
        points = (np.asarray(posts.points, np.float64) + 0.0) if posts else np.empty((0, 2))
        arrays["post.x"], arrays["post.y"] = np.ascontiguousarray(points.T)
        weighed, epoch = self._take(posts, documents, points)
        routed = self.router.route(weighed, self.subscriptions, self.owner, self.order)
        matchers = [self._to_matcher(weighed, routed[:, p], p) for p in range(self.partitions)] if self._apart else []
        self._sent(matchers)
        if epoch:
            self._begin_epoch()
        ops = self._do(rest, arrays)
        about = {"words": len(self.words), "ops": ops, "last": last}
        owners = []
        for p in range(self.partitions):
            own = {} if self._apart else {"routed": np.ascontiguousarray(routed[:, p], np.uint8)}
            owners.append(Pack(about, arrays | own))
        counts.posts += n
        counts.rounds += 1
        counts.routed += int(routed.sum())
        size = sum(column.nbytes for name, column in arrays.items() if name.startswith("post."))
        counts.bytes_window += size * self.partitions
        if not self._apart:
            counts.bytes_routed += n * self.partitions
        return Round(owners, matchers, int(routed.sum()), n)

    @property
    def _apart(self) -> bool:
        return self.router.apart

    def _take(self, posts: Posts | None, documents: Documents, points: Floats) -> tuple[cp.Weighed, bool]:
        """Add posts to the window; returns them with their unit weights, and whether an epoch began."""
        if posts is None:
            none = np.empty(0)
            return cp.Weighed(none, none, np.empty(0, np.int64), np.empty(0, np.int32), none), False
        shard, first = self.shard, int(self.shard.window.size[NEXT])
        changed = shard.publish_round(documents, points, posts.times, np.ones(len(posts.ids), np.uint8))
        assert not len(changed.slot)
        v = shard.window
        places = np.arange(v.size[TERM_NEXT] - len(documents.word), v.size[TERM_NEXT]) & (len(v.word) - 1)
        x, y = np.ascontiguousarray(points.T)
        weighed = cp.Weighed(x, y, documents.end, documents.word, v.weight[places])
        for number, id in enumerate(posts.ids, first):
            self.posts[number] = id
            self.numbers[id] = number
        due, _ = shard.begin_epoch_if_due()
        return weighed, due

    def _do(self, rest: Sequence[Operation], arrays: dict[str, NDArray[Any]]) -> list[dict[str, Any]]:
        ops: list[dict[str, Any]] = []
        for operation in rest:
            i = len(ops)
            match operation:
                case Tick(now):
                    begun = self.shard.epochs
                    self.shard.expire(now)
                    ops.append({"op": "tick", "now": now})
                    if self.shard.epochs > begun:
                        self._begin_epoch()
                case Withdraw(ids):
                    numbers = [self.numbers[id] for id in ids if self.shard.holds(self.numbers.get(id, -1))]
                    self.shard.withdraw(numbers)
                    arrays[f"{i}.posts"] = np.array(numbers, np.int64)
                    ops.append({"op": "withdraw"})
                case Unsubscribe(ids):
                    gone = np.array([self.ids.pop(id) for id in ids if id in self.ids], np.int64)
                    self._remove(gone)
                    self.gone += [Gone(number, self.names.pop(number), self.ks.pop(number)) for number in gone.tolist()]
                    arrays[f"{i}.numbers"] = gone
                    ops.append({"op": "remove"})
                case Subscribe():
                    more = self._put(operation)
                    arrays.update({f"{i}.{name}": column for name, column in more.items()})
                    ops.append({"op": "put"})
                case Load():
                    about, more = self._load(operation)
                    arrays.update({f"{i}.{name}": column for name, column in more.items()})
                    ops.append({"op": "load", **about})
        self._forget_posts()
        return ops

    def _load(self, given: Load) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        documents, epoch, posts = self.words.documents(given.bags), given.epoch, given.posts
        self.words.documents([dict.fromkeys(given.words, 1.0)])
        known = np.array(self.words.numbers(given.words), np.int64)
        self._see_words()
        df = np.zeros(len(self.words), np.int32)
        df[known] = epoch.df
        self.shard.load(posts, documents, epoch._replace(df=df), given.now)
        for number, id in zip(posts.number.tolist(), given.ids, strict=True):
            self.posts[number] = id
            self.numbers[id] = number
        if epoch.posts:
            self._begin_epoch(df)
        about = {
            "first": posts.first, "next": posts.next, "now": given.now, "posts": epoch.posts, "last": epoch.last,
            "last_at": epoch.last_at, "expired": epoch.expired,
        }  # fmt: skip
        return about, {
            "number": posts.number, "points": posts.points, "time": posts.time, "df": df, "end": documents.end,
            "word": documents.word, "raw": documents.weight,
        }  # fmt: skip

    def _put(self, s: Subscribe) -> dict[str, NDArray[Any]]:
        documents = self.words.documents(s.bags)
        self._see_words()
        old = np.array([self.ids[id] for id in s.ids if id in self.ids], np.int64)
        self._remove(old)
        for id in s.ids:
            if id not in self.ids:
                self.ids[id], self._next = self._next, self._next + 1
        numbers = np.array([self.ids[id] for id in s.ids], np.int64)
        self.names.update(zip(numbers.tolist(), s.ids, strict=True))
        self.ks.update(zip(numbers.tolist(), np.asarray(s.k, np.int64).tolist(), strict=True))
        points = np.asarray(s.points, np.float64).reshape(-1, 2) + 0.0
        had = self.subscriptions.number
        own = np.ones(len(documents.word), np.uint8)
        alpha = np.asarray(s.alpha, np.float64)
        self.subscriptions = cp.with_copies(
            self.subscriptions, numbers, documents, own, points, alpha, np.zeros(len(numbers))
        )
        self._weigh()
        if not self._laid:
            self._lay_out()
        owner, held = self.owner, self._held
        place = np.searchsorted(self.subscriptions.number, had)
        self.owner = np.zeros(len(self.subscriptions.number), np.int64)
        self._held = np.zeros((len(self.owner), self.partitions), bool)
        self.owner[place], self._held[place] = owner, held
        mine = self.router.owners(numbers, points)
        self.owner[np.searchsorted(self.subscriptions.number, numbers)] = mine
        x, y = np.ascontiguousarray(points.T)
        k = np.asarray(s.k, np.int64)
        if not self._apart:
            self.counts.copies += len(numbers)
            self.counts.bytes_copies += 44 * len(numbers) + 12 * len(documents.word)
        return {
            "numbers": numbers, "owner": mine, "end": documents.end, "word": documents.word, "raw": documents.weight,
            "x": x, "y": y, "k": k, "alpha": alpha,
        }  # fmt: skip

    def _remove(self, numbers: Ints) -> None:
        kept = ~np.isin(self.subscriptions.number, numbers)
        if kept.all():
            return
        self.owner, self._held = self.owner[kept], self._held[kept]
        self.subscriptions = cp.without_copies(self.subscriptions, numbers)
        self._gone += numbers.tolist()

    def _begin_epoch(self, df: Ints32 | None = None) -> None:
        """Begin an epoch: take idf and the order of words from the window, or from `df`, and send all copies again."""
        if df is None:
            self._forget_words()
            df = self.shard.window.df
        else:
            df = np.append(df, np.zeros(len(self.shard.window.df) - len(df), np.int32))
        self.order = df.astype(np.int64) << 32 | np.arange(len(df))
        self.idf, self.unknown = self.shard.window.idf.copy(), self.shard._unknown
        self._epoch_sent = False
        self._see_words()
        self._weigh()
        self._lay_out()
        if self._apart:
            self._afresh = True
            self._held[:] = False

    def _lay_out(self) -> None:
        df = np.zeros(len(self.order), np.int32)
        n = min(len(df), len(self.shard.window.df))
        df[:n] = self.shard.window.df[:n]
        self.router.lay_out(self.subscriptions, self.order, df)
        self._laid = len(self.subscriptions.number) > 0

    def _weigh(self) -> None:
        s = self.subscriptions
        cp.weigh_copies(s, self.idf, self.order)

    def _see_words(self) -> None:
        """Make room for new words, as the rarest."""
        had, words = len(self.order), len(self.words)
        self.shard.numbers.count = words
        if words > had:
            more = max(words, 2 * had, 64)
            self.order = np.append(self.order, np.arange(had, more))
            self.idf = np.append(self.idf, np.full(more - had, self.unknown))

    def _forget_posts(self) -> None:
        """Forget the ids of posts that have left the window."""
        first = int(self.shard.window.size[FIRST])
        for number in list(self.posts):
            if number >= first:
                break
            id = self.posts.pop(number)
            if self.numbers.get(id) == number:
                del self.numbers[id]

    def _forget_words(self) -> None:
        """Forget words without posts and subscriptions: in a new epoch they weigh what unknown words do."""
        used = np.zeros(max(len(self.words), len(self.shard.window.df)), bool)
        used[: len(self.shard.window.df)] = self.shard.window.df > 0
        used[self.subscriptions.word] = True
        v = self.shard.window
        gone = np.arange(v.size[FIRST], v.size[NEXT])
        gone = gone[v.gone[gone & (len(v.x) - 1)] == 1]
        for at in (gone & (len(v.x) - 1)).tolist():
            used[v.word[np.arange(v.term[at], v.term[at] + v.terms[at]) & (len(v.word) - 1)]] = True
        self.words.forget(used)

    def _to_matcher(self, weighed: cp.Weighed, routed: Bools, partition: int) -> Pack:
        """The message to a matcher: changes since the last one, and the posts that are routed there."""
        s = self.subscriptions
        words = np.diff(weighed.end, prepend=0)
        term = np.repeat(routed, words)
        about: dict[str, Any] = {"words": len(self.order)}
        arrays: dict[str, NDArray[Any]] = {
            "post.row": np.flatnonzero(routed), "post.x": weighed.x[routed], "post.y": weighed.y[routed],
            "post.end": np.cumsum(words[routed]), "post.word": weighed.word[term], "post.weight": weighed.weight[term],
        }  # fmt: skip
        self.counts.bytes_routed += sum(column.nbytes for column in arrays.values())
        if not self._epoch_sent:
            arrays["idf"], arrays["order"] = self.idf, self.order
            about["unknown"] = self.unknown
        if self._afresh:
            about["afresh"] = True
        if partition == 0:
            self._wanted = self.router.wanted(s)
        wanted, at = self._wanted
        fresh = wanted[:, partition] & ~self._held[:, partition]
        term = np.repeat(fresh, np.diff(s.begin))
        put = {
            "number": s.number[fresh], "end": np.cumsum(np.diff(s.begin)[fresh]), "word": s.word[term],
            "raw": s.raw[term], "own": (at[term] == partition).astype(np.uint8), "x": s.x[fresh], "y": s.y[fresh],
            "alpha": s.alpha[fresh], "theta": s.theta[fresh],
        }  # fmt: skip
        self.counts.copies += int(fresh.sum())
        self.counts.bytes_copies += sum(column.nbytes for column in put.values())
        number, theta = self._moved
        place = np.searchsorted(s.number, number)
        there = (place < len(s.number)) & (s.number[np.minimum(place, max(0, len(s.number) - 1))] == number)
        here = np.zeros(len(number), bool)
        here[there] = self._held[place[there], partition]
        self.counts.thetas += int(here.sum())
        arrays |= {f"put.{name}": column for name, column in put.items()}
        arrays |= {"number": number[here], "theta": theta[here], "remove": np.array(sorted(set(self._gone)), np.int64)}
        self._held[:, partition] |= fresh
        return Pack(about, arrays)

    def _sent(self, matchers: Sequence[Pack]) -> None:
        self._gone = []
        if matchers:
            self._moved = (np.empty(0, np.int64), np.empty(0))
            self._afresh, self._epoch_sent = False, True

    def freeze(self) -> Pack:
        """The state between two batches."""
        about, arrays = freeze(self.shard)
        arrays = {f"shard.{name}": column for name, column in arrays.items()}
        arrays |= {f"all.{name}": column for name, column in self.subscriptions._asdict().items()}
        arrays |= {"owner": self.owner, "order": self.order, "held": self._held, "idf": self.idf}
        arrays |= {"moved.number": self._moved[0], "moved.theta": self._moved[1]}
        router = self.router
        if isinstance(router, Keyword):
            arrays |= {"router.shards": router.shards, "router.cut": router.cut}
        more = {
            "shard": about, "mechanism": self.mechanism, "partitions": self.partitions, "split": self.split,
            "words": self.words.freeze(), "ids": self.ids,
            "ks": [self.ks[number] for number in self.ids.values()], "posts": list(self.posts.items()),
            "next": self._next, "unknown": self.unknown,
            "laid": self._laid, "afresh": self._afresh, "sent": self._epoch_sent, "gone": self._gone,
            "cuts": router.cuts if isinstance(router, Location) else [], "counts": vars(self.counts),
        }  # fmt: skip
        return Pack(more, arrays)

    @classmethod
    def thaw(cls, kept: Pack) -> Front:
        """A front in a frozen state."""
        about, arrays = kept
        under = {name.partition(".")[2]: column for name, column in arrays.items() if name.startswith("shard.")}
        shard = thaw(Frozen(about["shard"], under))
        front = cls(shard.config, about["mechanism"], about["partitions"], about["split"])
        front.shard = shard
        front.words = Vocabulary.thaw(*about["words"])
        front.subscriptions = cp.Copies(*(arrays[f"all.{name}"] for name in cp.Copies._fields))
        front.owner, front.order, front._held = arrays["owner"], arrays["order"], arrays["held"]
        front.idf, front.unknown = arrays["idf"], about["unknown"]
        front._moved = (arrays["moved.number"], arrays["moved.theta"])
        if isinstance(front.router, Keyword):
            front.router.shards, front.router.cut = arrays["router.shards"], arrays["router.cut"]
        if isinstance(front.router, Location):
            front.router.cuts = [(axis, at, left) for axis, at, left in about["cuts"]]
        front.ids = about["ids"]
        front.names = {number: id for id, number in front.ids.items()}
        front.ks = dict(zip(front.ids.values(), about["ks"], strict=True))
        front.posts = dict(about["posts"])
        front.numbers = {id: number for number, id in front.posts.items()}
        front._next, front._laid, front._gone = about["next"], about["laid"], about["gone"]
        front._afresh, front._epoch_sent = about["afresh"], about["sent"]
        front.counts = Counts(**about["counts"])
        return front


def _joined(first: Posts, waiting: list[Operation]) -> Posts:
    """These posts, joined with those that follow immediately."""
    some = [first]
    while waiting and isinstance(waiting[0], Posts):
        more = waiting.pop(0)
        assert isinstance(more, Posts)
        some.append(more)
    if len(some) == 1:
        return first
    return Posts(
        [id for one in some for id in one.ids],
        [bag for one in some for bag in one.bags],
        np.concatenate([one.points for one in some]),
        np.concatenate([one.times for one in some]),
    )
