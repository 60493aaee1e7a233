"""A relay's commands in the log, its part of a snapshot and its image, there and back."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from formats import parts, relays
from formats.commands import Damaged, small
from formats.folder import Damaged as DamagedFile
from formats.folder import Folder
from formats.relay_commands import decode, encode
from indexes.core.commands import Create, Drop
from indexes.relays.commands import (
    Acked,
    AddSubscriptions,
    ChangeLinks,
    DeleteSubscriptions,
    EditSubscriptions,
    Notify,
    Receive,
    Rederive,
    Restart,
    SetSubscription,
)
from indexes.relays.config import Link, Message, RelayConfig
from indexes.relays.packing import unpack_indexes
from indexes.relays.state import engine_of, packed_of
from tests.unit.formats.relays import engine, written
from tests.unit.relays.helpers import same_state, state

NORTH = Link("http://north", "edge", "south", "secret")
LINKS = {"north": NORTH, "west": Link("http://west", "edge", "east")}
CONFIGS = [
    RelayConfig(("x",)),
    RelayConfig(("x", "y"), links=LINKS),
    RelayConfig(("x", "y"), k=3, index="zorder", links=LINKS),
    RelayConfig(("x",), index="linear", links=LINKS),
    RelayConfig(("x", "y"), "G*", links=LINKS),
    RelayConfig(("x", "y"), "poset", index="zorder"),
]
LO = np.array([[0.5, -inf], [-0.0, 1e300], [1 / 3, 2.0]])
HI = np.array([[0.5, inf], [0.1, 1e300], [inf, 2.5]])
IDS = pa.array(["a", "\u00e4:b", "c"], pa.string())
LINK = pa.array([None, "north", None], pa.string())
MESSAGES = [
    Message(3, "reset", follow=7),
    Message(4, "subscribe", "n:e:1", ((0.1, 0.2), (-inf, inf))),
    Message(5, "notify", values=(1 / 3, 2.0), payload=b'{"a": 1}', mark=("e0", 9)),
    Message(6, "notify", values=(1.0, 2.0)),
    Message(7, "unsubscribe", "n:e:1"),
]
COMMANDS: list[Any] = [
    AddSubscriptions(IDS, LO, HI, LINK, {1: 2.5}),
    AddSubscriptions(IDS, LO, HI),
    EditSubscriptions(np.array([0, 1, 0], np.uint8), IDS.to_pylist(), LO, HI, LINK.to_pylist(), {2: 1.0}),
    SetSubscription("a", LO[0], HI[0], "north", 3.0),
    DeleteSubscriptions(["a", "b", "c"]),
    Notify(LO[2:] * np.ones((3, 1)), {1: b"{}"}, {2: "north"}),
    ChangeLinks({"north": NORTH, "west": None}),
    Receive("north", "e1", MESSAGES),
    Receive("north", "e1", [Message(0, "reset")] * 3),
    Acked("north", "e1", 12),
    Restart("north", "e2"),
    Rederive(),
    Create(CONFIGS[2]),
    Drop(),
]


def plain(value: Any) -> Any:
    """A command's fields so that they can be compared, numbers bit for bit."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return value.to_pylist() if isinstance(value, pa.Array) else value


@pytest.mark.parametrize("part", [2, 50_000])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: type(one).__name__)
def test_a_command_comes_back_from_the_log(command: Any, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("formats.commands.PART", part)
    count = len(command) if hasattr(command, "__len__") else 1
    rows = list(encode(command, count))
    assert sum(row.size for row in rows) == count and all(row.size <= part for row in rows)
    found = decode([(row.name, row.payload) for row in rows])
    assert type(found) is type(command)
    names = [name for name in command.__dataclass_fields__ if name not in ("skip", "logged")]
    assert getattr(found, "logged", True), "it was taken once"
    assert [plain(getattr(found, name)) for name in names] == [plain(getattr(command, name)) for name in names]


@pytest.mark.parametrize(
    "row",
    [small("nothing", 1, {}), small("add", 1, {}), small("receive", 1, {"link": "n", "epoch": "e", "messages": [1]})],
)
def test_a_row_that_is_no_command_is_told(row: Any) -> None:
    with pytest.raises(Damaged):
        decode([(row.name, row.payload)])
    with pytest.raises(Damaged):
        decode([("add.arrow", b"no stream")])


@pytest.mark.parametrize("n", [0, 150])
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_a_state_and_an_image_make_the_same_relay(config: RelayConfig, n: int, tmp_path: Path) -> None:
    made = engine(config, n)
    one = state(made)
    about = written(Folder.at(tmp_path / "a"), one)
    read = relays.read_state(Folder.at(tmp_path / "a"), "edge", about)
    image = Folder.at(tmp_path / "image")
    parts.write_image(image, "relays/edge", 5, packed_of(one))
    packed = parts.read_image(image)
    assert packed is not None
    for again in (engine_of(read), engine_of(read, unpack_indexes(config, read.relay, packed))):
        again.check()
        same_state(again, made)
        lo, hi = (np.full((2, len(config.attributes)), x) for x in (0.3, 0.6))
        more = AddSubscriptions(pa.array(["one", "all"]), lo, hi)
        again.apply(more)
        again.apply(DeleteSubscriptions(["all", "s7", "s8"]))
        again.check()


@pytest.mark.parametrize("config", CONFIGS[:2], ids=str)
def test_boxes_are_read_alone(config: RelayConfig, tmp_path: Path) -> None:
    one = state(engine(config))
    folder = Folder.at(tmp_path / "a")
    about = written(folder, one)
    points, link = relays.read_boxes(folder, "edge", about)
    assert points.tobytes() == one.relay.points.tobytes() and points.shape == one.relay.points.shape
    assert (link.dtype, link.tolist()) == (np.dtype(np.int32), one.relay.link.tolist())
    path = tmp_path / "a" / relays.subscriptions_at("edge")
    needed = ["row", "link", "lo0", "hi0", "lo1", "hi1"][: 2 + points.shape[1]]
    pq.write_table(pq.read_table(path).select(needed), path)
    assert relays.read_boxes(folder, "edge", about)[0].tobytes() == points.tobytes()
    with pytest.raises(DamagedFile, match="holds other rows"):
        relays.read_boxes(folder, "edge", {**about, "subscriptions": 1})
    pq.write_table(pq.read_table(path).drop(["hi0"]), path)
    with pytest.raises(DamagedFile, match=r"cannot be read: .*hi0"):
        relays.read_boxes(folder, "edge", about)


def test_a_queue_that_is_cut_short_is_told(tmp_path: Path) -> None:
    about = written(Folder.at(tmp_path / "a"), state(engine(CONFIGS[1])))
    about["queues"]["north"]["messages"] += 1
    with pytest.raises(DamagedFile, match="other messages"):
        relays.read_state(Folder.at(tmp_path / "a"), "edge", about)
