"""The kernels on one core, compared with the prototype's: the same subscriptions and events, in alternating rounds.

Answers are compared before they are timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from bench import prototypes
from bench.baselines.unscored import UNSCORED
from bench.matchers.scored import INDEXES
from bench.matchers.workload import K, World, make_world
from bench.race import Contender, race
from bench.report import Report, middle, ratio
from indexes.core.arrays import Floats, Ints, Ints32
from indexes.matchers.config import MatcherConfig, Subscriptions
from indexes.matchers.kernels.answers import new_answers
from indexes.matchers.kernels.cells import top_of_cells
from indexes.matchers.kernels.runs import new_walk, top_of_runs
from indexes.matchers.kernels.table import points, record
from indexes.matchers.layout import build_indexes
from indexes.matchers.matcher import Matcher

CHURN = (0.01, 0.1, 0.3)

BATCH = 1_000
"""Scores changed at once."""

COMPILING = 10_000
"""Changes before the first that are timed: enough to fill a tail, of intervals that are enough for cells."""

TIMES_SCAN, BYTES, TIMES_STATIC, CHANGES, TIMES_THRESHOLD, EXACT_MICROS = 15, 22, 2, 200_000, 10, 100
"""What is wanted: the SOPT-R-tree as a multiple of a scan's speed, its bytes an interval, the time with a tenth changed
as a multiple of that with nothing changed, changes a second, blocks as a multiple of the Threshold Algorithm's speed,
an exact event of four dimensions."""

LINEAR = ("interval", "scored-r", *UNSCORED)
"""Asked for few events only."""


class Size(NamedTuple):
    """How much is run."""

    n: int = 1_000_000
    points: int = 20_000
    few: int = 200
    rounds: int = 5


QUICK = Size(n=50_000, points=2_000, few=50, rounds=3)


class Bench:
    """The races, written to a report."""

    def __init__(self, report: Report, size: Size, folder: Path | None) -> None:
        self._report = report
        self._size = size
        self._theirs = prototypes.load_matchers(folder)

    def show(self) -> None:
        """Run everything."""
        size = self._size
        self._report.text(
            f"One thread, {size.n:,} subscriptions of the paper's workload, k = {K}; microseconds of thread time an "
            f"event, the median of {size.rounds} rounds in alternation, and the least and greatest."
        )
        prototypes.say_missing(self._report, self._theirs, prototypes.MATCHERS)
        self._line()
        self._changes()
        for d in (2, 4):
            self._boxes(d)

    def _table(self, head: str, contenders: Sequence[Contender]) -> dict[str, float]:
        self._report.progress(head)
        times = race(contenders, self._size.rounds)
        rows = [(one.name, middle(mine, 2), one.note) for one, mine in zip(contenders, times, strict=True)]
        self._report.table((head, "us/event", ""), rows, text=("",))
        return {one.name: median(mine) for one, mine in zip(contenders, times, strict=True)}

    def _against(self, what: str, ours: float, theirs: Sequence[float]) -> None:
        """Judge a kernel against the fastest of the prototype's."""
        if theirs:
            fastest = min(theirs)
            self._report.verdict(
                f"{what}: at least as fast as the prototype",
                f"{ours:.2f} us against {fastest:.2f} us, {ratio(fastest / ours)} times as fast",
                ours <= fastest,
            )

    def _line(self) -> None:
        """One dimension: every index, a scan by numpy, the unscored indexes, the prototype's."""
        size = self._size
        world = make_world(size.n, 1, points=size.points)
        columns = world.lo[:, 0].copy(), world.hi[:, 0].copy(), world.weight[:, 0].copy()
        events = points(world.points[:, 0])
        contenders: list[Contender] = []
        bytes_each = {}
        truth: Any = None
        for kind, cls in {**INDEXES, **UNSCORED}.items():
            began = time.perf_counter()
            index: Any = cls(*columns)
            built = time.perf_counter() - began
            mine = events[: size.few] if kind in LINEAR else events
            answer = index.top_many(mine, K)[0]
            truth = answer if truth is None else truth
            assert (answer == truth[: len(answer)]).all(), kind
            bytes_each[kind] = index.nbytes / size.n
            note = f"built in {built:.2f} s, {bytes_each[kind]:.1f} bytes an interval"
            contenders.append(Contender(kind, partial(index.top_many, mine, K), len(mine), note))
        contenders.append(scan(columns, world.points[: size.few, 0], truth))
        theirs = (
            list(_prototypes(self._theirs, columns, world.points[:, 0].copy(), size, truth)) if self._theirs else []
        )
        contenders += [one for _, one in theirs]
        self._report.heading("One dimension", 3)
        times = self._table("index", contenders)
        for kind in INDEXES:
            self._against(f"{kind}, one dimension", times[kind], [times[one.name] for of, one in theirs if of == kind])
        factor = times[SCAN] / times["sopt-r"]
        self._report.verdict(
            f"the SOPT-R-tree at least {TIMES_SCAN} times as fast as a scan by numpy in order of score",
            f"{ratio(factor)} times",
            factor >= TIMES_SCAN,
        )
        self._report.verdict(
            f"the SOPT-R-tree in at most {BYTES} bytes an interval",
            f"{bytes_each['sopt-r']:.1f}",
            bytes_each["sopt-r"] <= BYTES,
        )
        unscored = ", ".join(
            f"the {name} takes {ratio(times[name] / times[scored])} times the time of the scored one"
            for name, scored in zip(UNSCORED, ("interval", "scored-r"), strict=True)
        )
        self._report.text(f"The paper leaves the unscored indexes out as orders of magnitude slower: {unscored}.")

    def _changes(self) -> None:
        """One dimension while scores change: microseconds an event and changes a second, by how much has changed."""
        size = self._size
        world = make_world(size.n, 1, points=size.points)
        rescored = Rescored(world, self._theirs)
        rng = np.random.default_rng(1)
        changed = rng.permutation(size.n).astype(np.int32)
        factor = rng.uniform(0.5, 2.0, size.n)
        small = Rescored(make_world(COMPILING, 1, points=10), self._theirs)
        small.change(np.arange(COMPILING, dtype=np.int32), np.ones(COMPILING))
        table = []
        at = 0
        static = 0.0
        for churn in (0.0, *CHURN):
            upto = int(churn * size.n)
            self._report.progress(f"{churn:.0%} of the scores changed")
            ours, theirs = rescored.change(changed[at:upto], factor)
            n, at = upto - at, upto
            times = [median(one) for one in race(rescored.contenders(), size.rounds)]
            rescored.compare()
            static = static or times[0]
            rates = [n / spent if spent else 0.0 for spent in (ours, theirs)]
            table.append(
                (
                    f"{churn:.0%}",
                    f"{times[0]:.2f}",
                    ratio(times[0] / static),
                    f"{rates[0]:,.0f}" if n else "",
                    f"{rescored.indexes.nbytes / size.n:.1f}",
                    f"{times[1]:.2f}" if times[1:] else "",
                    f"{rates[1]:,.0f}" if rates[1] else "",
                )
            )
            if churn == 0.1:
                self._report.verdict(
                    "with a tenth changed at most twice the time of the static tree",
                    f"{ratio(times[0] / static)} times",
                    times[0] <= TIMES_STATIC * static,
                )
                self._report.verdict(
                    f"at least {CHANGES:,} changes of scores a second", f"{rates[0]:,.0f}", rates[0] >= CHANGES
                )
                self._against("an event with a tenth changed", times[0], times[1:])
                self._against("a change of a score", 1e6 / rates[0], [1e6 / rates[1]] if rates[1] else [])
        self._report.heading("Changes of scores", 3)
        self._report.text(
            f"In batches of {BATCH:,}: so many of the {size.n:,} have a new score since the base was built."
        )
        head = (
            "changed",
            "us/event",
            "of static",
            "changes/s",
            "bytes/interval",
            "prototype, us/event",
            "its changes/s",
        )
        self._report.table(head, table)

    def _boxes(self, d: int) -> None:
        """Several dimensions: blocks, the indexes by dimension, and the prototype's of both."""
        size = self._size
        world = make_world(size.n, d, points=size.few)
        self._report.heading(f"{d} dimensions", 3)
        for mode in ("exact", "relaxed"):
            contenders = list(ways(world, mode, d, size))
            others = list(rivals(self._theirs.ranked, world, mode, size)) if self._theirs else []
            times = self._table(f"{mode}, `index`", contenders + others)
            self._against(f"{mode}, d = {d}", times["auto"], [times[one.name] for one in others[:1]])
            if mode == "relaxed":
                for kind, one in zip(("sopt-r", "ir"), others[1:], strict=False):
                    self._against(f"Threshold Algorithm over {kind}, d = {d}", times[kind], [times[one.name]])
                factor = min(times["sopt-r"], times["ir"]) / times["auto"]
                self._report.verdict(
                    f"blocks at least {TIMES_THRESHOLD} times as fast as the Threshold Algorithm, d = {d}",
                    f"{ratio(factor)} times",
                    factor >= TIMES_THRESHOLD,
                )
            elif d == 4:
                self._report.verdict(
                    f"an exact event of 4 dimensions in less than {EXACT_MICROS} us",
                    f"{times['auto']:.1f} us",
                    times["auto"] < EXACT_MICROS,
                )


def ways(
    world: World, mode: str, d: int, size: Size, kinds: Sequence[str] = ("auto", "sopt-r", "ir")
) -> Iterator[Contender]:
    """Ours, by the index that a matcher is configured with. Answers are compared."""
    events = np.repeat(world.points, 2, axis=1)
    scores = world.weight if mode == "relaxed" else world.weight.sum(axis=1)[:, None]
    truth: Ints32 | None = None
    for kind in kinds:
        matcher = Matcher(MatcherConfig(tuple(f"d{j}" for j in range(d)), mode, "sum", kind))  # type: ignore[arg-type]
        began = time.perf_counter()
        matcher.hold(Subscriptions(world.lo, world.hi, scores), afresh=True)
        built = time.perf_counter() - began
        mine = events if kind == "auto" or mode == "exact" else events[: _fewer(size)]
        found = matcher.match(mine, K)
        truth = found.rows.copy() if truth is None else truth
        assert (found.rows == truth[: len(mine)]).all(), kind
        note = f"{found.looked_at.mean():,.0f} entries, inserted in {built:.1f} s"
        yield Contender(kind, partial(matcher.match, mine, K), len(mine), note)


class Rescored:
    """One dimension of ours and, if there, of the prototype's, whose scores change in step."""

    def __init__(self, world: World, theirs: prototypes.Matchers | None) -> None:
        n = len(world.lo)
        self._rec = record(world.lo, world.hi, world.weight)
        self._events, self._q = points(world.points[:, 0]), world.points[:, 0].copy()
        self.indexes = build_indexes(MatcherConfig(("d0",), "exact"), self._rec, np.arange(n, dtype=np.int32))
        assert self.indexes.runs is not None
        assert self.indexes.cells is not None
        self._runs, self._cells = self.indexes.runs, self.indexes.cells
        events = len(self._events)
        self._answers, self._walk = new_answers(events, K), new_walk(K)
        self.longest = 0.0
        """Seconds of the longest pause for changes so far, in which nobody reads: a batch, or the step that ends a
        merge, which is made beforehand while others read, as the service does it."""
        self._theirs: Any = None
        if theirs is not None:
            columns = (column[:, 0].copy() for column in (world.lo, world.hi, world.weight))
            self._theirs = theirs.dynamic.Dynamic(*columns, caps=[int(0.4 * n), int(0.016 * n)])

    def change(self, rows: Ints32, factor: Floats) -> tuple[float, float]:
        """Give rows new scores; returns the seconds that it took ours and theirs."""
        spent = [0.0, 0.0]
        for begin in range(0, len(rows), BATCH):
            part = rows[begin : begin + BATCH]
            fresh = 1 - (1 - self._rec[part, 2]) * factor[part]
            began = time.thread_time()
            ends = self._runs.relieved(self._rec, len(part)) if self._runs.crowded(len(part)) else []
            spent[0] += time.thread_time() - began
            changes: list[Callable[[], None]] = [*ends, partial(self._rescore, part, fresh)]
            for change in changes:
                began = time.thread_time()
                change()
                took = time.thread_time() - began
                spent[0] += took
                self.longest = max(self.longest, took)
            if self._theirs is not None:
                nothing = np.zeros(len(part))
                began = time.thread_time()
                self._theirs.apply(np.full(len(part), 2, np.int8), part.astype(np.int64), nothing, nothing, fresh)
                spent[1] += time.thread_time() - began
        return spent[0], spent[1]

    def _rescore(self, rows: Ints32, fresh: Floats) -> None:
        self.indexes.remove(self._rec, rows)
        self._rec[rows, 2] = fresh
        self.indexes.add(self._rec, rows)

    def contenders(self) -> list[Contender]:
        mine = [Contender("ours", self._ask, len(self._q))]
        if self._theirs is not None:
            mine.append(Contender("theirs", lambda: self._theirs.topk(self._q, K), len(self._q)))
        return mine

    def _ask(self) -> None:
        self._answers.found[:] = 0
        top_of_cells(self._cells.arrays, self._rec, self._events, self._answers)
        top_of_runs(self._runs.arrays, self._rec, 0, 2, self._events, self._walk, self._answers)

    def answers(self) -> Ints32:
        """The best of each point, now."""
        self._ask()
        return self._answers.rows.copy()

    def compare(self) -> None:
        """Raise AssertionError unless both answer the same."""
        assert self._theirs is None or (self._theirs.topk(self._q, K)[0] == self._answers.rows).all()


SCAN = "numpy, scan in order of score"


def scan(columns: Sequence[Floats], q: Floats, truth: Any) -> Contender:
    """By numpy: ever longer prefixes of the order of scores, until k are found."""
    order = np.argsort(-columns[2], kind="stable")
    left, right = columns[0][order], columns[1][order]

    def best(one: float) -> Ints:
        size = 4_096
        while True:
            met = np.flatnonzero((left[:size] <= one) & (right[:size] >= one))
            if len(met) >= K or size >= len(left):
                return order[met[:K]]
            size *= 4

    assert all((best(one) == right_ones).all() for one, right_ones in zip(q, truth, strict=False))

    def run() -> None:
        for one in q:
            best(one)

    return Contender(SCAN, run, len(q))


def _prototypes(
    theirs: prototypes.Matchers, columns: Sequence[Floats], q: Floats, size: Size, truth: Any
) -> Iterator[tuple[str, Contender]]:
    """The prototype's indexes of one dimension, each with the name of ours that it is compared with."""
    ranked, n = theirs.ranked, len(columns[0])
    for kind, name, ix in (
        ("sopt-r", "scalar walk", ranked.build_rtree(*columns, 5, True)),
        ("scored-r", "scalar walk", ranked.build_rtree(*columns, 6)),
        ("ir", "", ranked.build_itree(*columns, 4, 64)),
        ("interval", "", ranked.build_itree(*columns, ranked.NOBRANCH, 64)),
        ("segment", "", ranked.build_segtree(*columns)),
    ):
        mine = q[: size.few] if kind in LINEAR else q
        assert (ranked.topk(ix, mine, K)[0] == truth[: len(mine)]).all(), kind
        title = ", ".join(part for part in ("prototype", kind, name) if part)
        note = f"{ranked.nbytes(ix) / n:.1f} bytes an interval"
        yield kind, Contender(title, partial(ranked.topk, ix, mine, K), len(mine), note)
    dynamic = theirs.dynamic.Dynamic(*columns, caps=[int(0.4 * n), int(0.016 * n)])
    assert (dynamic.topk(q, K)[0] == truth).all()
    note = f"{dynamic.nbytes()[0] / n:.1f} bytes an interval"
    yield "sopt-r", Contender("prototype, sopt-r, mask walk", lambda: dynamic.topk(q, K), len(q), note)


def rivals(ranked: Any, world: World, mode: str, size: Size) -> Iterator[Contender]:
    """The prototype's blocks, and in relaxed mode its Threshold Algorithm over SOPT-R-trees and over IR-trees."""
    q = world.points
    ids, total = np.full((len(q), K), -1, np.int32), np.zeros((len(q), K))
    out = ids, total, np.zeros(len(q), np.int32), np.zeros(len(q), np.int64)
    if mode == "exact":
        exact = ranked.build_exact(world.lo, world.hi, world.weight.sum(axis=1))
        yield Contender("prototype, blocks", lambda: ranked.exact_many(exact, q, K, *out), len(q))
        return
    blocks = ranked.build_ubb(world.lo, world.hi, world.weight)
    yield Contender("prototype, blocks", lambda: ranked.ubb_many(blocks, q, K, *out), len(q))
    few, table = q[: _fewer(size)], ranked.records(world.lo, world.hi, world.weight)
    columns = [[column[:, j].copy() for column in (world.lo, world.hi, world.weight)] for j in range(q.shape[1])]
    runs = ranked.rforest([ranked.build_rtree(*column, 4, True) for column in columns])
    yield Contender(
        "prototype, Threshold Algorithm, sopt-r", lambda: ranked.ta_rtree(runs, table, few, K, *out), len(few)
    )
    lists = ranked.iforest([ranked.build_itree(*column, 4, 64) for column in columns])
    yield Contender("prototype, Threshold Algorithm, ir", lambda: ranked.ta_itree(lists, table, few, K, *out), len(few))


def _fewer(size: Size) -> int:
    """Events for the Threshold Algorithm."""
    return min(size.few, 20)
