"""Whatever happened before a crash, relays come back as the whole log says.

From snapshots, images and the rest of the log, with the same answers to the same requests, and with all that waits for
neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from app.resources.relays import RelayMaintenance, RelayType
from app.write_path.jobs import JobFailed
from app.write_path.maintenance import Maintenance
from app.write_path.writer import Skeleton
from formats.relay_commands import decode
from indexes.core.arrays import Floats
from indexes.core.commands import Refused
from indexes.relays.commands import (
    Acked,
    AddSubscriptions,
    ChangeLinks,
    ChangeSubscription,
    DeleteSubscriptions,
    EditSubscriptions,
    Notify,
    Receive,
    Rederive,
    Restart,
    SetSubscription,
)
from indexes.relays.config import Link, Message, RelayConfig
from indexes.relays.engine import RelayEngine
from tests.recovery.helpers import known
from tests.recovery.kept import (
    LOW,
    HouseOf,
    KeptMachine,
    Truth,
    batches,
    heard_by,
    rebuild_beside,
    same_place,
    spoil,
    starter,
)
from tests.recovery.machine import quiet
from tests.unit.relays.direct import match
from tests.unit.relays.helpers import same_state

NORTH = Link("http://north", "edge", "south", "secret")
PLAIN = RelayConfig(("price", "volume"))
LINKED = RelayConfig(("price", "volume"), k=2, index="zorder", links={"north": NORTH, "west": NORTH})
POINTS = np.array([[1.0, 1.0], [2.5, 4.0], [0.0, 3.0]])


class House(HouseOf[RelayEngine, RelayConfig]):
    """A process over a data directory with boards and relays."""

    KIND = RelayType


def some(values: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Boxes from these (left end, right end, other right end)."""
    lo, length, other = np.array(values, float).T
    return (
        np.column_stack([lo, np.where(other > 3, -np.inf, 0)]),
        np.column_stack([lo + length, np.where(other > 3, np.inf, other)]),
    )


def alone(numbers: tuple[int, int, int]) -> tuple[Floats, Floats]:
    lo, hi = some([numbers])
    return lo[0], hi[0]


def point(numbers: tuple[int, int, int]) -> tuple[tuple[float, float], ...]:
    (lo,), (hi,) = (ends.tolist() for ends in some([numbers]))
    return tuple(zip(lo, hi, strict=True))


numbers = st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 5))
ids = st.sampled_from([f"s{n}" for n in range(9)])
links = st.sampled_from(["north", "west"])
rows = st.lists(st.tuples(ids, numbers, st.sampled_from([None, None, "north"])), min_size=1, max_size=8)


def columns(given: list[tuple[str, tuple[int, int, int], str | None]]) -> tuple[list[str], Floats, Floats, list[Any]]:
    lo, hi = some([n for _, n, _ in given])
    return [key for key, _, _ in given], lo, hi, [link for _, _, link in given]


def added(keys: list[str], lo: Floats, hi: Floats, link: list[Any]) -> AddSubscriptions:
    return AddSubscriptions(pa.array(keys), lo, hi, pa.array(link, pa.string()), {0: 30.0}, True)


adding = rows.map(lambda given: added(*columns(given)))
editing = st.tuples(rows, st.lists(st.integers(0, 1), min_size=8, max_size=8)).map(
    lambda both: EditSubscriptions(np.array(both[1][: len(both[0])], np.uint8), *columns(both[0]), {0: 30.0}, True)
)
messages = st.lists(
    st.one_of(
        st.builds(lambda key, n: ("subscribe", f"n:e:{key}", point(n)), ids, numbers),
        st.builds(lambda key: ("unsubscribe", f"n:e:{key}", ()), ids),
        st.just(("notify", "", ())),
    ),
    max_size=6,
)
resets = st.one_of(st.none(), st.integers(0, 3))


def receive(link: str, epoch: str, first: int, given: list[tuple[str, str, Any]], follow: int | None = None) -> Receive:
    """Messages from a number on, with a reset before them where it is the first, or so many are to follow one."""
    if first == 0 or follow is not None:
        given = [("reset", str(1 if follow is None else follow), ()), *given]
    made = []
    for n, (op, key, box) in enumerate(given, first):
        if op == "notify":
            made.append(Message(n, "notify", values=(1.0, 1.0), payload=b"{}", mark=(epoch, n)))
        elif op == "reset":
            made.append(Message(n, "reset", follow=int(key)))
        else:
            made.append(Message(n, cast("Literal['subscribe', 'unsubscribe']", op), key, box))
    return Receive(link, epoch, made)


epochs = st.sampled_from(["e1", "e2", "e3", "e4"])
commands = st.one_of(
    adding,
    editing,
    st.builds(
        lambda key, n, ttl: SetSubscription(key, *alone(n), None, ttl),
        ids,
        numbers,
        st.sampled_from([None, 9.0]),
    ),
    st.builds(ChangeSubscription, ids, st.just({"price": (0.0, 3.0), "volume": None})),
    st.builds(DeleteSubscriptions, st.lists(ids, max_size=5)),
    st.builds(Notify, st.just(POINTS), st.just({0: b"{}"}), st.sampled_from([{}, {1: "north"}])),
    st.builds(
        ChangeLinks, st.dictionaries(links, st.sampled_from([None, NORTH, Link("http://w", "edge", "e")]), min_size=1)
    ),
    st.builds(receive, links, epochs, st.integers(0, 4), messages, resets),
    st.builds(Acked, links, epochs, st.integers(0, 6)),
    st.builds(Restart, links, epochs),
    st.just(Rederive()),
)


class Carried(KeptMachine):
    """Commands, jobs, failures of the log and crashes in any order, with limits so low that all is cut."""

    LIMITS: ClassVar = {
        **LOW,
        "indexes.core.subscription_engine.BULK": 3,
        "indexes.relays.outbox.HISTORY": 6,
        "indexes.relays.outbox.FULL": 12,
        "indexes.relays.outbox.CHUNK": 32,
        "indexes.relays.plans.maintenance.FOLD": 2,
        "indexes.relays.verification.SAMPLE": 8,
    }
    HOUSE = House
    CONFIG = RelayConfig
    BATCH: ClassVar = batches(commands, PLAIN, LINKED)
    FIRST = LINKED
    PART = "everything.arrow"

    def begin(self) -> Truth[RelayEngine]:
        return Truth(RelayEngine, decode)

    @staticmethod
    def answer(job: Any) -> Skeleton:
        """An answer with the decisions, where there are any."""
        told = job.response_fields()
        return Skeleton(200, {"seq": job.last_seq, **{name: told.get(name) for name in ("results", "epoch", "next")}})

    @rule(in_thread=st.booleans(), in_slices=st.booleans())
    def rebuilt_alone(self, in_thread: bool, in_slices: bool) -> None:
        """Then every neighbour knows the least, and the job says what that changed."""
        names = self.life.resources.names()
        before = {(name, to): told for name in names for to, (told, _) in known(self.life.engine(name)).items()}
        with self.timing(in_thread, in_slices):
            detail = self.life.run(self.life.maintenance.rebuild(quiet, None, "local"))
        assert detail.get("rederived", {}).keys() == {f"relays/{name}" for name in names}
        for name in names:
            told = detail["rederived"][f"relays/{name}"]
            assert told["seq"] == self.life.engine(name).seq
            for to, (after, smallest) in known(self.life.engine(name)).items():
                assert after == smallest
                found = told["links"][to] if to else told
                gone = [key.removeprefix("~") for key in before[name, to] if key not in after]
                assert (found["subscribe"], found["unsubscribe"], found["unsubscribe_count"]) == ([], gone, len(gone))

    def agree(self, engine: RelayEngine, truth: RelayEngine) -> None:
        engine.check()
        same_place(engine, truth)
        same_state(engine, truth)
        assert engine.links() == truth.links()
        assert engine.subscriptions(None, 100) == truth.subscriptions(None, 100)
        assert match(engine.relay, POINTS) == match(truth.relay, POINTS)


Carried.TestCase.settings = settings(max_examples=25, stateful_step_count=10, deadline=None)
TestCarried = Carried.TestCase

make = starter(House)


def many(n: int, start: int = 0) -> AddSubscriptions:
    rng = np.random.default_rng(start)
    lo = rng.random((n, 2)) * 4
    return AddSubscriptions(pa.array([f"s{i}" for i in range(start, start + n)]), lo, lo + rng.random((n, 2)))


def test_what_a_relay_counts_and_tells_has_its_name(make: Callable[..., House]) -> None:
    life = make()
    heard = heard_by(life, lambda engine, part: (engine.seq, [one.id for one in part.notified]))

    async def story() -> None:
        await life.resources.put("edge", PLAIN)
        await life.resources.submit("edge", AddSubscriptions(pa.array(["s0"]), *some([(0, 3, 5)]), None, {0: 2.0}))
        life.engine("edge").watch("s0")
        await life.resources.submit("edge", Notify(POINTS))
        await life.resources.drop("edge")

    life.run(story())
    assert heard[0] == ("edge", [("s0", 2.0)]) and heard[-1] == ("edge", 5)
    assert [key for _, _, told in heard[1:-1] for key in told] == ["s0", "s0", "s0"]
    text = life.metrics.render().decode()
    assert 'rankcast_changes_total{command="Notify",resource="relays/edge"} 3.0' in text
    assert [row.command for row in life.rows] == ["create", "add", "notify", "drop"]


def test_only_links_may_change_and_a_key_that_is_not_said_stays(make: Callable[..., House]) -> None:
    life = make()

    async def story() -> None:
        await life.resources.put("edge", LINKED)
        assert (await life.resources.put("edge", LINKED)).count == 0
        with pytest.raises(Refused) as refused:
            await life.resources.put("edge", PLAIN)
        assert [fault.field for fault in refused.value.faults] == ["graph.k", "index"]
        shown = Link(NORTH.url, NORTH.relay, NORTH.link)
        other = RelayConfig(LINKED.attributes, k=2, index="zorder", links={"north": shown})
        assert (await life.resources.put("edge", other)).count == 1

    life.run(story())
    assert life.engine("edge").config.links == {"north": NORTH}


@pytest.mark.parametrize("image", ["whole", "damaged", "of another version", "none"])
@pytest.mark.parametrize("config", [PLAIN, LINKED, RelayConfig(("price", "volume"), "G*")], ids=str)
def test_a_rebuilt_relay_comes_back(
    make: Callable[..., House], config: RelayConfig, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = make()

    async def story() -> dict[str, Any]:
        await life.resources.put("edge", config)
        await life.resources.submit("edge", many(90))
        if config.links:
            await life.resources.submit("edge", Restart("north", "e1"))
            await life.resources.submit("edge", receive("west", "w1", 0, [("subscribe", "w:e:s1", point((0, 2, 2)))]))
        await life.resources.submit("edge", DeleteSubscriptions([f"s{n}" for n in range(0, 90, 2)]))
        await life.resources.submit("edge", AddSubscriptions(pa.array(["wide"]), *some([(0, 9, 3)])))
        detail = await life.maintenance.rebuild(quiet, None, "local")
        await life.resources.submit("edge", many(30, 900))
        await life.resources.submit("edge", DeleteSubscriptions([f"s{n}" for n in range(1, 90, 4)]))
        return detail

    detail = life.run(story())
    assert detail["rows"] == 46 + bool(config.links)
    anew = detail["rederived"]["relays/edge"]
    assert all(one["unsubscribe"] and not one["subscribe"] for one in anew.get("links", {"": anew}).values())
    assert [(row.command, row.last_seq) for row in life.rows if row.command == "rederive"] == [
        ("rederive", anew["seq"])
    ]
    before = life.engine("edge")
    before.check()
    spoil(life, image, monkeypatch, "everything.arrow")
    life = make()
    life.engine("edge").check()
    same_state(life.engine("edge"), before)


def test_a_rebuild_goes_on_beside_changes(make: Callable[..., House], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexes.relays.plans.maintenance.FOLD", 3)
    life = make()

    async def begin() -> None:
        await life.resources.put("a", LINKED)
        await life.resources.submit("a", many(100))

    def changes(round: int) -> list[Any]:
        n = 100 + 2 * round
        edited = ChangeSubscription(f"s{n + 1}", {"price": (0.0, 9.0)})
        return [many(2, n), DeleteSubscriptions([f"s{n}", f"s{n - 100}"]), edited, Rederive()]

    rebuild_beside(life, begin, changes)
    life.engine("a").check()
    same_state(life.engine("a"), Truth.of(life, RelayEngine, decode))


def test_without_the_log_a_rebuild_decides_nothing(make: Callable[..., House], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its indexes are in place; what came of relays before is told."""
    life = make()

    async def story() -> dict[str, Any]:
        for name in ("a", "b"):
            await life.resources.put(name, PLAIN)
            await life.resources.submit(name, many(60))
        before, fresh = {name: known(life.engine(name)) for name in ("a", "b")}, RelayMaintenance.fresh

        def breaks(self: RelayMaintenance, image: Any, of: Any) -> Any:
            life.broken = life.rows[-1].command == "rederive"
            return fresh(self, image, of)

        monkeypatch.setattr(RelayMaintenance, "fresh", breaks)
        relays = [life.engine(name).relay for name in ("a", "b")]
        with pytest.raises(JobFailed, match="relays/b is laid out again, but what it decided stands") as failed:
            await life.maintenance.rebuild(quiet, None, "local")
        life.broken = False
        assert not any(life.engine(name).relay is old for name, old in zip(("a", "b"), relays, strict=True))
        (told, smallest), after = before["a"][""], known(life.engine("a"))[""]
        assert after == (smallest, smallest) and told != smallest
        assert known(life.engine("b")) == before["b"]
        return failed.value.detail

    detail = life.run(story())
    assert detail.keys() == {"rederived"} and detail["rederived"].keys() == {"relays/a"}
    life.engine("b").check()


def test_a_relay_that_goes_meanwhile_is_no_failure(make: Callable[..., House], monkeypatch: pytest.MonkeyPatch) -> None:
    life = make()

    async def story() -> dict[str, Any]:
        await life.resources.put("a", PLAIN)
        await life.resources.submit("a", many(60))
        swap = Maintenance._swap

        async def drops(self: Maintenance, *given: Any) -> float:
            pause = await swap(self, *given)
            await life.resources.drop("a")
            return pause

        monkeypatch.setattr(Maintenance, "_swap", drops)
        return await life.maintenance.rebuild(quiet, None, "local")

    assert "rederived" not in life.run(story())
    assert [row.command for row in life.rows] == ["create", "add", "drop"]


def plant_flag(engine: RelayEngine) -> None:
    relations = engine.relay.neighbours["north"]
    relations.forwarded[:] = False


def plant_count(engine: RelayEngine) -> None:
    engine.relay.neighbours["north"]._unforwarded += 1


def plant_edge(engine: RelayEngine) -> None:
    relations: Any = engine.relay.neighbours["north"]
    child = int(np.flatnonzero(relations.graph.degree)[0])
    relations.graph.parent[child * relations.k] = child


def plant_box(engine: RelayEngine) -> None:
    engine.relay._all.delete(engine.relay.table, np.array([7], np.int32))


def plant_message(engine: RelayEngine) -> None:
    engine.outboxes["north"]._recent.pop()
    engine.outboxes["north"]._size -= 1


def plant_id(engine: RelayEngine) -> None:
    engine.relay.names.ids.recent["nobody"] = 3


PLANTED = [
    (plant_flag, "forwarded over north"),
    (plant_count, "count over north"),
    (plant_edge, "coverers over north"),
    (plant_box, "notification"),
    (plant_message, "queue of north"),
    (plant_id, "ids"),
]


@pytest.mark.parametrize(("plant", "kind"), PLANTED, ids=lambda one: getattr(one, "__name__", one))
def test_verifying_finds_what_is_wrong(
    make: Callable[..., House], plant: Callable[[RelayEngine], None], kind: str
) -> None:
    life = make()

    async def story() -> None:
        await life.resources.put("edge", LINKED)
        await life.resources.submit("edge", many(60))
        await life.resources.submit(
            "edge", AddSubscriptions(pa.array(["all"]), np.full((1, 2), -1.0), np.full((1, 2), 9.0))
        )
        await life.resources.submit("edge", Restart("north", "e1"))
        await life.resources.submit("edge", many(20, 100))
        await life.resources.submit("edge", DeleteSubscriptions(["all"]))
        detail = await life.maintenance.verify(quiet, None, "local")
        assert detail["compared"] == 240 and not detail["differences"]
        plant(life.engine("edge"))
        with pytest.raises(JobFailed) as failed:
            await life.maintenance.verify(quiet, None, "local")
        found = failed.value.detail["differences"]
        assert found[0]["resource"] == "relays/edge" and kind in {one["kind"] for one in found}, found

    life.run(story())
