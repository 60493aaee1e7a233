"""Engines of relays, and comparison of their states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from indexes.relays.commands import (
    AddSubscriptions,
)
from indexes.relays.config import Link, Message, RelayConfig
from indexes.relays.engine import RelayEngine
from indexes.relays.state import state_of
from tests.support.values import present

NAMES = ("a", "b")


def link_to(name: str) -> Link:
    return Link(f"http://{name}", "edge", "me", "secret")


def add(rows: list[Any], **more: Any) -> AddSubscriptions:
    """A command that adds (id, box) rows."""
    sides = np.array([box for _, box in rows], float).reshape(len(rows), -1, 2)
    return AddSubscriptions(pa.array([key for key, _ in rows], pa.string()), sides[:, :, 0], sides[:, :, 1], **more)


def state(engine: RelayEngine) -> Any:
    plan = engine.capture()
    while not plan.done:
        plan.execute(1.0)
        plan.publish()
    return state_of(present(plan.captured))


def same_state(a: RelayEngine, b: RelayEngine) -> None:
    """Bit for bit."""
    one, other = state(a), state(b)
    assert (one.config, one.seq, one.ttl, one.inboxes) == (other.config, other.seq, other.ttl, other.inboxes)
    same_columns(one.relay, other.relay)
    assert one.outboxes.keys() == other.outboxes.keys()
    for name, box in one.outboxes.items():
        assert box[:-1] == other.outboxes[name][:-1]
        assert a.messages(name, box.first, 10**6) == b.messages(name, box.first, 10**6)
        same_columns(box.chunk, other.outboxes[name].chunk)


def same_columns(one: Any, other: Any) -> None:
    for a, b in zip(one, other, strict=True):
        if isinstance(a, np.ndarray):
            assert a.shape == b.shape and a.tobytes() == b.tobytes()
        elif hasattr(a, "row"):
            same_columns(a, b)
        else:
            assert a == b


def engine(links: list[str] | tuple[()] = (), **more: Any) -> RelayEngine:
    return RelayEngine(RelayConfig(NAMES[:1], links={name: link_to(name) for name in links}, **more))


def reset(*rows: Any) -> list[Message]:
    """The first messages of an epoch: a reset, and (id, box) rows."""
    told = [Message(0, "reset", follow=len(rows))]
    return told + [Message(n, "subscribe", key, tuple(box)) for n, (key, box) in enumerate(rows, 1)]
