"""What makes every kernel of the relays ready: each is called once, on tiny relays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from indexes.compiled.text import pieces_of
from indexes.core import cutting
from indexes.core.arrays import Floats
from indexes.core.plan import applied
from indexes.core.subscription_engine import BULK
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
from indexes.relays.kernels.forward import SUBSCRIBE, UNSUBSCRIBE
from indexes.relays.kernels.recipient_text import quoted, write_answers
from indexes.relays.packing import unpack_indexes
from indexes.relays.plans.links import FEW
from indexes.relays.state import engine_of, packed_of, relay_of, state_of
from indexes.relays.verification import verify

CONFIGS = (
    RelayConfig(("a", "b")),
    RelayConfig(("a", "b"), k=2, index="zorder"),
    RelayConfig(("a", "b"), index="linear"),
    RelayConfig(("a",), "G*", index="kd"),
    RelayConfig(("a",), "poset", index="zorder"),
    RelayConfig(("a",), "G*", index="linear"),
)
"""Together they take every kernel. What arrays it is given does not depend on the number of attributes."""


def main() -> None:
    """Subscriptions, links and notifications under the graph and the index that a relay has by default."""
    cutting.exercise()
    large = RelayEngine(CONFIGS[0])
    large.apply(
        AddSubscriptions(pa.array([f"w{i}" for i in range(BULK + 1)]), *_boxes(np.random.default_rng(0), BULK + 1, 2))
    )
    exercise(RelayEngine(CONFIGS[0]), 100)


def maintain() -> None:
    """Snapshots, rebuilds and verification of these."""
    exercise_maintenance(_filled(RelayEngine(CONFIGS[0]), 100))


def alternatives() -> None:
    """All of it under the graphs and indexes that a configuration can name."""
    for config in CONFIGS[1:]:
        engine = RelayEngine(config)
        exercise(engine, 100)
        exercise_maintenance(engine)


def warm() -> None:
    """Make every kernel ready."""
    for ready in GROUPS.values():
        ready()


def _filled(engine: RelayEngine, n: int) -> RelayEngine:
    """An engine with `n` subscriptions, w0 and so on."""
    boxes = _boxes(np.random.default_rng(0), n, len(engine.config.attributes))
    engine.apply(AddSubscriptions(pa.array([f"w{i}" for i in range(n)]), *boxes))
    return engine


def exercise(engine: RelayEngine, n: int) -> None:
    """Run the paths of an engine once that requests take, from a load of `n` subscriptions on."""
    rng, config = np.random.default_rng(0), engine.config
    d = len(config.attributes)
    _filled(engine, n)
    west = Link("http://west", "e", "e")
    engine.apply(ChangeLinks({"north": Link("http://north", "edge", "south"), "west": west}))
    _unlink(engine, rng)
    engine.apply(ChangeLinks({"west": west}))
    engine.apply(Restart("north", "e1"))
    sent = [Message(0, "reset", follow=1), Message(1, "subscribe", "n:e:1", ((0.0, 1.0),) * d)]
    engine.apply(Receive("west", "e1", [*sent, Message(2, "notify", values=(0.5,) * d, mark=("e1", 0))]))
    engine.apply(Acked("north", "e1", 1))
    for op in ([SUBSCRIBE, SUBSCRIBE], [UNSUBSCRIBE, UNSUBSCRIBE]):
        engine.apply(EditSubscriptions(np.array(op, np.uint8), ["one", "other"], *_boxes(rng, 2, d)))
    for key in ("new", "w1"):
        engine.apply(SetSubscription(key, *(ends[0] for ends in _boxes(rng, 1, d))))
    engine.apply(ChangeSubscription("w2", {"a": (0.0, 0.5)}))
    engine.apply(DeleteSubscriptions([f"w{i}" for i in range(30)]))
    found = engine.apply(Notify(rng.random((3, d))))[0].found
    quoted(found.part(0, 2).ids, np.concatenate([[0], found.upto[:2]]))
    write_answers(found.ids, found.upto, 1, pieces_of([""]), np.zeros(3, np.int32))
    engine.apply(Rederive())
    engine.subscriptions("s3", 3)


def exercise_maintenance(engine: RelayEngine) -> None:
    """Run once what maintenance and a start do with an engine that has a subscription w60."""
    captured = applied(engine.capture(journal=True, indexes=True))[0].captured
    assert captured is not None
    for checked in verify(captured):
        assert not checked.differences, checked.differences
    state = state_of(captured)
    image = packed_of(state)
    fresh = relay_of(state, unpack_indexes(engine.config, state.relay, image))
    engine.apply(DeleteSubscriptions(["w60"]))
    fold, _ = applied(engine.fold(fresh))
    assert fold.swapped
    again = engine_of(state, unpack_indexes(engine.config, state.relay, image))
    again.apply(ChangeLinks({"west": Link("http://west", "e", "e")}))
    _unlink(again, np.random.default_rng(0))


def _unlink(engine: RelayEngine, rng: np.random.Generator) -> None:
    """Take out the link to the west with so much that came over it that this is worked out in a copy."""
    keys = pa.array([f"x{i}" for i in range(FEW + 1)])
    boxes = _boxes(rng, len(keys), len(engine.config.attributes))
    engine.apply(AddSubscriptions(keys, *boxes, link=pa.array(["west"] * len(keys))))
    engine.apply(ChangeLinks({"west": None}))


def _boxes(rng: np.random.Generator, n: int, d: int) -> tuple[Floats, Floats]:
    lo = rng.random((n, d))
    hi = lo + rng.random((n, d)) / 2
    lo[: n // 100, 0], hi[: n // 100, 0] = -np.inf, np.inf
    return lo, hi


GROUPS: dict[str, Callable[[], None]] = {"main": main, "maintenance": maintain, "alternatives": alternatives}
"""Kernels that become ready together, by name; what each takes to become so."""
