"""Engines of relays as snapshots and images have them."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pyarrow as pa

from formats import relays
from formats.folder import Folder
from indexes.relays.commands import (
    Acked,
    AddSubscriptions,
    DeleteSubscriptions,
    Notify,
    Receive,
    Restart,
)
from indexes.relays.config import Message, RelayConfig
from indexes.relays.engine import RelayEngine
from indexes.relays.state import State


def engine(config: RelayConfig, n: int = 150) -> RelayEngine:
    rng, d = np.random.default_rng(4), len(config.attributes)
    made = RelayEngine(config, 3)
    lo = rng.random((n, d))
    lo[::5, 0] = -inf
    hi = np.where(np.isfinite(lo), lo, 0.5) + rng.random((n, d)) / 4
    keys = [f"s{i}" for i in rng.permutation(n)]
    made.apply(AddSubscriptions(pa.array(keys, pa.string()), lo, hi, None, {2: 5.0} if n else {}))
    made.apply(DeleteSubscriptions(keys[5::7]))
    if config.links:
        made.apply(Restart("north", "e1"))
        box = ((0.0, 1.0),) * d
        told = [Message(0, "reset", follow=2), Message(1, "subscribe", "w:e:1", box)]
        made.apply(Receive("west", "w1", [*told, Message(2, "subscribe", "w:e:2", box)]))
        point = Message(1, "notify", values=(0.5,) * d, mark=("w1", 4))
        made.apply(Receive("west", "w2", [Message(0, "reset", follow=3), point]))
        made.apply(Receive("north", "n1", [Message(0, "reset"), Message(1, "subscribe", "n:e:1", box)]))
        made.apply(Notify(np.full((2, d), 0.5), {1: b"{}"}))
        made.apply(Acked("north", "e1", 2))
    return made


def written(folder: Folder, one: State) -> dict[str, Any]:
    with folder.draft() as draft:
        about = relays.write_state(draft, "edge", one)
        draft.publish({"about": about})
    told: dict[str, Any] = folder.manifest()["about"]
    return told
