"""The costs by which exact matching chooses its way, measured: every way on the same events, with its estimate.

Subscriptions are those of the workload of [Ranked matching] with one dimension made so much narrower. For each event
the plan's own estimate says how far a way has to go; the time that it takes, by that, is what a step costs.
"""

from __future__ import annotations

from statistics import median
from typing import NamedTuple

import numpy as np

from bench.matchers.workload import K, make_world
from bench.race import micros
from bench.report import Report, count, ratio
from indexes.core.arrays import Floats
from indexes.matchers.kernels import strategies
from indexes.matchers.kernels.answers import new_answers
from indexes.matchers.kernels.blocks import BlockIndex, new_scratch, top_exact
from indexes.matchers.kernels.run_index import RunIndex
from indexes.matchers.kernels.sorted_access import new_sorted_access
from indexes.matchers.kernels.strategies import (
    ALONG,
    BLOCKS,
    TOGETHER,
    Plan,
    match_along,
    match_together,
    plan_exact,
    sample,
)
from indexes.matchers.kernels.table import record

NAMES = {BLOCKS: "blocks", ALONG: "along one dimension", TOGETHER: "intersection"}


class Size(NamedTuple):
    """How much is run: subscriptions, dimensions, by how much one of them is narrower, events of each world."""

    ns: tuple[int, ...] = (20_000, 200_000)
    dimensions: tuple[int, ...] = (2, 4)
    narrower: tuple[float, ...] = (1.0, 0.1, 0.01, 0.001, 0.0001)
    events: int = 50
    rounds: int = 3


QUICK = Size((5_000, 20_000), (2, 4), (1.0, 0.01), 20, 2)


class Measured(NamedTuple):
    """One world, an event on average: nanoseconds of each way, and of what the plan chooses; steps that the plan
    expects of each way (of blocks: rows times dimensions); the share of events that it has go along a dimension."""

    labels: tuple[str, ...]
    nanos: dict[int, float]
    chosen: float
    steps: dict[int, float]
    along: float


def show(report: Report, size: Size) -> None:
    """Measure all worlds, with the estimates of the plan."""
    found = [_world(report, size, n, d, f) for n in size.ns for d in size.dimensions for f in size.narrower]
    report.text(
        f"Exact matching, k = {K}, microseconds an event: each way for all events, what the plan chooses by event, and "
        "how many it has go along one dimension."
    )
    report.table(
        ("subscriptions", "dimensions", "one narrower by", *NAMES.values(), "chosen", "along"),
        [
            (*one.labels, *(count(one.nanos[way] / 1e3) for way in NAMES), count(one.chosen / 1e3), f"{one.along:.0%}")
            for one in found
        ],
    )
    report.text(
        "What a step costs, by the plan's own estimate of their number: a fit to the worlds in which a way takes at "
        "most four times as long as the other of the first two, in relative terms."
    )
    report.table(
        ("way", "assumed, ns", "measured, ns"),
        [
            (f"{NAMES[BLOCKS]}: the first look", count(strategies.BLOCK_START), count(_fit(found, BLOCKS)[0])),
            (
                f"{NAMES[BLOCKS]}: a row and dimension passed over",
                count(strategies.BLOCK_ROW),
                count(_fit(found, BLOCKS)[1]),
            ),
            (f"{NAMES[ALONG]}: opening it", count(strategies.OPEN), count(_fit(found, ALONG)[0])),
            (f"{NAMES[ALONG]}: a row", count(strategies.GETNEXT + strategies.LOOK_UP), count(_fit(found, ALONG)[1])),
            (f"{NAMES[TOGETHER]}: a row", count(strategies.GETNEXT), count(_fit(found, TOGETHER)[1])),
        ],
    )
    best = sum(min(one.nanos[BLOCKS], one.nanos[ALONG]) for one in found)
    chosen = sum(one.chosen for one in found)
    alone = [sum(one.nanos[way] for one in found) / chosen for way in (BLOCKS, ALONG)]
    report.text(
        f"What was chosen took {ratio(chosen / best)} times what the better of the two would have in each world; "
        f"blocks alone would have taken {ratio(alone[0])} times what was chosen, one dimension alone "
        f"{ratio(alone[1])} times."
    )


def _fit(found: list[Measured], way: int) -> tuple[float, float]:
    """Nanoseconds at the start, and a step: of blocks and one dimension where the one takes at most four times as long
    as the other, of the intersection everywhere."""
    other = {BLOCKS: ALONG, ALONG: BLOCKS, TOGETHER: TOGETHER}[way]
    near = [one for one in found if one.nanos[way] <= 4 * one.nanos[other]]
    if not near:
        return 0.0, 0.0
    nanos = np.array([one.nanos[way] for one in near])
    steps = np.array([one.steps[way] for one in near])
    start, step = _not_negative(np.stack([1 / nanos, steps / nanos], axis=1), np.ones(len(near)))
    return float(start), float(step)


def _not_negative(a: Floats, b: Floats) -> Floats:
    """The least-squares solution of two columns that is nowhere negative."""
    best, least = np.zeros(2), float("inf")
    for held in ((0, 1), (0,), (1,)):
        x = np.zeros(2)
        x[list(held)] = np.linalg.lstsq(a[:, held], b, rcond=None)[0]
        off = float(((a @ x - b) ** 2).sum())
        if (x >= 0).all() and off < least:
            best, least = x, off
    return best


def _world(report: Report, size: Size, n: int, d: int, narrower: float) -> Measured:
    report.progress(f"n = {n:,}, d = {d}, one dimension {1 / narrower:,.0f} times narrower")
    world = make_world(n, d, points=size.events)
    half = (world.hi - world.lo) / 2
    middle = world.lo + half
    half[:, 0] *= narrower
    rec = record(middle - half, middle + half, world.weight.sum(axis=1)[:, None])
    rows = np.arange(n, dtype=np.int32)
    blocks = BlockIndex.build(rec, rows, d, None)
    access = new_sorted_access(d, runs=RunIndex.build(rec, rows, d, False))
    taken = sample(rec, rows, d, np.ones(d, np.uint8))
    events = np.repeat(world.points, 2, axis=1)
    m = len(events)
    plan = Plan(np.zeros(m, np.uint8), np.zeros(m, np.int64))
    plan_exact(taken, d, events, K, True, plan)
    chosen = plan.way.copy()
    answers, scratch, along = new_answers(m, K), new_scratch(K), strategies.new_scratch(d, K)

    def run() -> None:
        if (plan.way == BLOCKS).any():
            top_exact(blocks.arrays, d, events, plan.way, scratch, answers)
        if (plan.way == ALONG).any():
            match_along(access, rec, d, False, events, plan, answers)
        if (plan.way == TOGETHER).any():
            match_together(access, rec, d, events, plan, along, answers)

    nanos = {}
    truth = None
    for way in (BLOCKS, ALONG, TOGETHER):
        plan.way[:] = way
        nanos[way] = median(micros(run, m, size.rounds)) * 1e3
        answer = np.where(np.arange(K) < answers.found[:, None], answers.rows, -1)
        truth = answer if truth is None else truth
        assert (answer == truth).all(), NAMES[way]
    plan.way[:] = chosen
    mine = median(micros(run, m, size.rounds)) * 1e3
    labels = f"{n:,}", str(d), f"{1 / narrower:,.0f}"
    return Measured(labels, nanos, mine, _steps(taken, n, d, world.points), float((chosen == ALONG).mean()))


def _steps(taken: strategies.Sample, n: int, d: int, points: Floats) -> dict[int, float]:
    """What `plan_exact` expects on average, in numpy."""
    begun = np.stack([np.searchsorted(taken.left[j], points[:, j], "right") for j in range(d)])
    ended = np.stack([np.searchsorted(taken.right[j], points[:, j]) for j in range(d)])
    shares = np.maximum(0.5, begun - ended) / taken.left.shape[1]
    depth = np.minimum(n, K / shares.prod(axis=0))
    return {
        BLOCKS: float((depth * d).mean()),
        ALONG: float((depth * shares.min(axis=0)).mean()),
        TOGETHER: float((depth * shares.sum(axis=0)).mean()),
    }
