"""Painters that paint together make the tiles of one, in its order, whatever happens between and whoever takes part."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexes.boards import painter as painter_module
from indexes.boards import team
from indexes.boards.commands import DELETE, UPSERT, AddSubscriptions, Configure, Events, SetSubscription
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.kernels.changes import Changes
from indexes.boards.painter import Painter
from indexes.boards.regions import between, ranges
from indexes.boards.team import PainterTeam
from indexes.core import helper_threads
from tests.unit.boards.helpers import edits, objects, payloads, small

N = 120


@pytest.fixture(autouse=True)
def helpers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two helpers, whatever the work, and buffers that have to grow."""
    monkeypatch.setattr(team, "WORTH", 0.0)
    monkeypatch.setattr(team, "COPY", 0.0)
    monkeypatch.setattr(team, "PAYS", np.inf)
    monkeypatch.setattr(team, "AGAIN", 1 << 30)
    monkeypatch.setattr(painter_module, "TILES", 16)
    helper_threads.provide(2)
    yield
    helper_threads.provide(0)


class Alone:
    """A board without helpers beside one with them, which get the same commands."""

    def __init__(self, **config: Any) -> None:
        config = {"ks": (1, 2, 5), **config}
        self.alone, self.together = (BoardEngine(BoardConfig(("x",), "y", "asc", **config)) for _ in range(2))

    def apply(self, command: Any, budget: float = 1.0) -> None:
        """Compare what both make of a command, tile by tile."""
        found = []
        for board in (self.alone, self.together):
            with_helpers = board is self.together
            plan: Any = board.prepare(command, keep_tiles=100_000)
            heard = []
            while not plan.done:
                kept = helper_threads._threads
                helper_threads._threads = kept if with_helpers else ()
                plan.execute(budget)
                helper_threads._threads = kept
                heard.append(plan.publish())
            part = [] if not isinstance(command, Events) else [plan.tile_count, plan.tiles]
            slices = [one for one in heard if one is not None]
            told = [[one for each in slices for one in getattr(each, name)] for name in ("changes", "tiles", "gone")]
            found.append(repr((part, told, board.seq)))
            board.check()
        assert found[0] == found[1]
        self._same_objects()

    def watch(self, key: str, tiles: bool = False) -> None:
        """Keep the list of a subscription up to date on both boards."""
        for board in (self.alone, self.together):
            board.want_tiles(board.watch(key), tiles)

    def _same_objects(self) -> None:
        mine, theirs = (sorted(board.objects(None, 1_000)) for board in (self.alone, self.together))
        assert mine == theirs

    @property
    def team(self) -> PainterTeam:
        painter = self.together.painter
        assert isinstance(painter, PainterTeam)
        return painter

    @property
    def fellows(self) -> list[Painter]:
        return self.team._fellows


events = st.lists(
    st.tuples(st.sampled_from([UPSERT, UPSERT, UPSERT, DELETE]), objects, small, small, payloads),
    min_size=1,
    max_size=40,
).map(
    lambda rows: Events(
        np.array([op for op, *_ in rows], np.uint8),
        [key for _, key, *_ in rows],
        np.array([x for _, _, x, _, _ in rows]),
        np.array([y for *_, y, _ in rows]),
        {i: payload for i, (op, *_, payload) in enumerate(rows) if op == UPSERT},
        skip=True,
    )
)


@pytest.mark.parametrize("index", ["range-tree", "kd-tree"])
@pytest.mark.parametrize("algorithm", ["sparse", "dense"])
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(commands=st.lists(st.one_of(events, events, edits), min_size=2, max_size=8), watched=st.integers(0, 5))
def test_insertions_deletions_moves_and_ties_are_painted_as_by_one(
    index: Any, algorithm: Any, commands: list[Any], watched: int
) -> None:
    worlds = Alone(index=index, algorithm=algorithm)
    for i in range(12):
        worlds.apply(SetSubscription(f"s{i}", between(float(i % 5), float(i % 5 + i % 3)), (1, 2, 5)[i % 3]))
    for at, command in enumerate(commands):
        if isinstance(command, Events) or hasattr(command, "k"):
            worlds.apply(command)
        if at == watched:
            worlds.watch("s1")
            worlds.watch("s2", tiles=True)
            worlds.watch("s5")
    assert worlds.fellows or not worlds.together.object_count


def some_events(rng: np.random.Generator, n: int = N, objects_: int = 60) -> Events:
    """Changes of objects with values on a grid, one in eight a deletion."""
    ids = [f"o{i}" for i in rng.integers(0, objects_, n)]
    op = np.where(rng.random(n) < 0.125, DELETE, UPSERT).astype(np.uint8)
    return Events(op, ids, rng.integers(0, 40, n) / 4, rng.integers(0, 50, n) / 4, skip=True)


def crowded(**config: Any) -> Alone:
    """Boards with subscriptions and objects."""
    worlds, rng = Alone(**config), np.random.default_rng(3)
    ends = np.sort(rng.integers(0, 40, (400, 2)) / 4, axis=1)
    ks = rng.choice(np.array([1, 2, 5], np.int32), len(ends))
    command = AddSubscriptions(pa.array([f"s{i}" for i in range(len(ends))]), ranges(*ends.T), ks)
    worlds.apply(command)
    worlds.apply(some_events(rng))
    return worlds


def test_slices_that_end_anywhere_make_the_same_tiles() -> None:
    worlds, rng = crowded(), np.random.default_rng(5)
    for seconds in (1e-9, 1e-5, 1e-4):
        worlds.team.seconds_together = 1e-5
        worlds.apply(some_events(rng), budget=seconds)
    assert len(worlds.fellows) == 2


def test_epsilon_and_a_sketch_are_painted_the_same() -> None:
    worlds, rng = crowded(), np.random.default_rng(6)
    for change in (Configure(None, None, runs=1), Configure(None, None, runs=0, sketch=16), Configure((1, 2, 5, 7))):
        worlds.apply(change)
        assert not worlds.fellows
        worlds.apply(some_events(rng))
        assert len(worlds.fellows) == 2


def test_buffers_of_all_painters_grow() -> None:
    worlds = crowded()
    worlds.apply(some_events(np.random.default_rng(7), 1_000))
    assert len(worlds.team.event) >= int(worlds.team.tiles.n[0]) > 16
    assert all(len(fellow.event) > 16 for fellow in worlds.fellows if int(fellow.tiles.n[0]))


def test_subscriptions_that_change_in_between_are_painted_for_by_all() -> None:
    worlds, rng = crowded(), np.random.default_rng(8)
    for i in range(5):
        worlds.apply(SetSubscription(f"new{i}", between(2.0, 3.0 + i), 5))
        worlds.apply(some_events(rng))


def test_a_helper_that_is_at_work_elsewhere_is_not_waited_for() -> None:
    worlds, rng, go_on = crowded(), np.random.default_rng(9), threading.Event()
    busy = helper_threads.threads()[0]

    def elsewhere() -> None:
        go_on.wait()

    assert busy.begin(elsewhere)
    worlds.apply(some_events(rng))
    go_on.set()
    assert busy.end() is None
    worlds.apply(some_events(rng))


def test_a_painter_that_fails_stops_the_others_and_frees_the_helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    worlds, rng = crowded(), np.random.default_rng(10)
    broken = worlds.fellows[1]

    def fail(*_: Any, **__: Any) -> int:
        raise MemoryError("no room")

    monkeypatch.setattr(broken, "_pass", fail)
    plan = worlds.together.prepare(some_events(rng))
    with pytest.raises(MemoryError, match="no room"):
        plan.execute(1.0)
    monkeypatch.setattr(worlds.team, "_pass", fail)
    with pytest.raises(MemoryError, match="no room"):
        plan.execute(1.0)
    for helper in helper_threads.threads():
        assert helper.begin(lambda: None)
        assert helper.end() is None


def test_live_lists_change_as_with_one_painter() -> None:
    worlds, rng = crowded(), np.random.default_rng(11)
    for at in range(0, 60, 3):
        worlds.watch(f"s{at}", tiles=at % 2 == 0)
    for n, budget in ((5, 1.0), (N, 1.0), (N, 1e-9), (5_000, 1.0)):
        worlds.apply(some_events(rng, n), budget)
        assert worlds.team._late is not None
    assert len(worlds.team.live.arrays.records.event) > 4096


def test_the_late_copy_goes_with_the_last_live_list() -> None:
    worlds, rng = crowded(), np.random.default_rng(12)
    lives = [board.watch("s3") for board in (worlds.alone, worlds.together)]
    worlds.apply(some_events(rng))
    for board, live in zip((worlds.alone, worlds.together), lives, strict=True):
        board.unwatch(live)
    worlds.apply(some_events(rng))
    assert worlds.team._late is None


def test_copies_that_only_follow_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    worlds, rng = crowded(), np.random.default_rng(12)
    worlds.watch("s3")
    worlds.apply(some_events(rng))
    monkeypatch.setattr(team, "WORTH", 10.0)
    monkeypatch.setattr(team, "IDLE", 250 / worlds.together.object_count)
    for copies in (True, True, True, False):
        assert bool(worlds.fellows) == (worlds.team._late is not None) == copies
        worlds.apply(some_events(rng, 5))
    worlds.apply(some_events(rng))


def test_a_batch_gives_up_the_copies() -> None:
    worlds, rng = crowded(), np.random.default_rng(13)
    batch = some_events(rng)
    batch.batch = True
    worlds.apply(batch)
    assert not worlds.fellows
    worlds.apply(some_events(rng))
    assert len(worlds.fellows) == 2


def test_replay_moves_the_copies_on() -> None:
    worlds, rng = crowded(), np.random.default_rng(14)
    for board in (worlds.alone, worlds.together):
        board.replay(some_events(np.random.default_rng(15), 4))
    worlds.together.check()
    worlds.apply(some_events(rng))


def test_little_work_is_done_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team, "WORTH", 10.0)
    assert not crowded().fellows


def test_copies_are_made_once_one_painter_has_worked_long(monkeypatch: pytest.MonkeyPatch) -> None:
    worlds, rng = crowded(), np.random.default_rng(16)
    worlds.team.forget_copies()
    monkeypatch.setattr(team, "COPY", 1.0)
    worlds.apply(some_events(rng))
    assert not worlds.fellows
    assert 0.0 < worlds.team._missed < 2.0 * worlds.together.object_count
    worlds.team._missed = 2.0 * 60
    worlds.apply(some_events(rng))
    assert len(worlds.fellows) == 2
    assert worlds.team._missed == 0.0


def test_the_faster_way_is_taken_and_the_other_tried_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    worlds, rng, together = crowded(), np.random.default_rng(18), list[bool]()
    run_together = PainterTeam.run_together

    def noted(*args: Any) -> tuple[int, int]:
        together[-1] = True
        return run_together(*args)

    monkeypatch.setattr(PainterTeam, "run_together", noted)
    monkeypatch.setattr(team, "PAYS", 0.9)
    monkeypatch.setattr(team, "AGAIN", 3)
    monkeypatch.setattr(team, "IDLE", np.inf)
    worlds.team._slices = 0
    for slow in (2.0, 0.8):
        for _ in range(4):
            worlds.team.seconds_together, worlds.team.seconds_per_event = slow, 1.0
            together.append(False)
            worlds.apply(some_events(rng))
    assert together == [False, False, True, False, True, False, True, True]


def test_whoever_is_free_paints(monkeypatch: pytest.MonkeyPatch) -> None:
    worlds, rng, done = crowded(), np.random.default_rng(17), threading.Event()
    slow: list[Painter] = [worlds.team, worlds.fellows[0]]
    made: list[int] = []
    paint = Painter.paint_share

    def noted(painter: Painter, changes: Changes, progress: Any, stop: int, keep: bool, until: float) -> None:
        if painter in slow:
            done.wait()
        paint(painter, changes, progress, stop, keep, until)
        if painter in slow:
            made.append(int(progress[1]))
        else:
            done.set()

    monkeypatch.setattr(Painter, "paint_share", noted)
    worlds.apply(some_events(rng))
    assert made == [0, 0]


def test_full_buffers_end_a_slice_whose_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    worlds, rng, slices = crowded(), np.random.default_rng(17), list[tuple[int, int]]()
    run_together = PainterTeam.run_together

    def noted(painter: PainterTeam, helpers: Any, changes: Changes, lo: int, hi: int, *rest: Any) -> tuple[int, int]:
        painter.seconds_together = painter.seconds_per_event = 1e-9
        found = run_together(painter, helpers, changes, lo, hi, *rest)
        slices.append((found[0] - lo, hi - lo))
        return found

    monkeypatch.setattr(PainterTeam, "run_together", noted)
    worlds.apply(some_events(rng), budget=0.0)
    assert slices[0][0] < slices[0][1] and slices[-1][0] == slices[-1][1]


def test_a_copy_that_differs_is_found() -> None:
    worlds = crowded()
    worlds.fellows[0].objects.delete(int(worlds.fellows[0].objects.contents()[3][0]))
    with pytest.raises(AssertionError, match="differs from the painting index"):
        worlds.together.check()
