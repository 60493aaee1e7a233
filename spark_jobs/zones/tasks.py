"""The tasks of a round: each takes one part from the end of the last round to that of this one, and writes its tiles.

A round is a file of commands, which all parts read, so that whatever runs twice, or again after everything was killed,
has the same result. A worker that has a part in memory goes on with it; any other loads the last base and replays the
rounds since. What a part publishes goes to a file for each zone and batch, which a repetition replaces by the same one.
"""

from __future__ import annotations

import io
import json
import uuid
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from formats.commands import MORE
from formats.folder import Damaged, Folder

if TYPE_CHECKING:
    from indexes.boards.commands import Command
    from spark_jobs.zones.part import Part, ZoneMessage

REPORT = pa.schema([("part", pa.int64()), ("report", pa.string())])
SPARK_REPORT = "part bigint, report string"

COMMANDS = pa.schema(
    [("lsn", pa.int64()), ("first_seq", pa.int64()), ("command", pa.string()), ("payload", pa.binary())]
)
"""A round: rows as the log has them; a `first_seq` of 0 is the seq that follows."""

TILE = pa.struct(
    [
        ("k", pa.int64()),
        ("l_outer", pa.float64()),
        ("l_inner", pa.float64()),
        ("r_inner", pa.float64()),
        ("r_outer", pa.float64()),
        ("id", pa.string()),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("created", pa.int64()),
        ("payload", pa.string()),
        ("gone", pa.bool_()),
        ("recipients", pa.int64()),
    ]
)
MESSAGES = pa.schema([("seq", pa.int64()), ("lsn", pa.int64()), ("tiles", pa.list_(TILE))])
"""What is written of a zone: a row for each event that touches it. A side that is null is unbounded."""

Batches = Iterator[pa.RecordBatch]


class Work(NamedTuple):
    """What all tasks of a round get, in plain values, since they are unpickled before the project's classes can be
    imported. `since` is the round with which the layout began, `base` the round before which the base was written."""

    system: fs.FileSystem
    root: str
    name: str
    round: int
    since: int
    base: int
    folders: tuple[tuple[fs.FileSystem, str, tuple[float, ...]], ...]
    parts: tuple[Any, ...]
    version: int
    batch: int
    output: tuple[fs.FileSystem, str] | None
    save: bool
    held: int


_held: OrderedDict[tuple[str, int, int], tuple[int, Part]] = OrderedDict()
"""Parts in the memory of this worker, the last used one last: by checkpoint, layout and number the round that it has
taken all before, and the part."""


def round_name(number: int) -> str:
    """The name of the file of a round."""
    return f"round-{number:010}.arrow"


def base_path(root: str, number: int, part: int) -> str:
    """The folder of a part in the base before a round."""
    return f"{root}/bases/{number:010}/part-{part:05}"


def batch_name(batch: int) -> str:
    """The name of the file of a batch in the folder of a zone."""
    return f"batch-{batch:010}.parquet"


def pack_round(rows: list[tuple[int, int, str, bytes]]) -> bytes:
    """The file of a round."""
    out = io.BytesIO()
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    table = pa.table([pa.array(column, field.type) for column, field in zip(columns, COMMANDS, strict=True)], COMMANDS)
    with pa.ipc.new_stream(out, COMMANDS) as writer:
        writer.write_table(table)
    return out.getvalue()


def disseminate(batches: Batches, work: tuple[Any, ...]) -> Batches:
    """Take the parts with the numbers in `batches` through a round; reports on each."""
    told = Work(*work)
    for batch in batches:
        for number in batch["id"].to_pylist():
            yield _report(number, _take(told, number))


def _take(work: Work, number: int) -> dict[str, Any]:
    from indexes.boards.zones import Zone
    from spark_jobs.zones.bases import save
    from spark_jobs.zones.layout import PartPlan

    area, zones = work.parts[number]
    plan = PartPlan(Zone(*area), tuple((i, Zone(*zone)) for i, zone in zones))
    part = _taken_up(work, number, plan)
    part.tiles = part.recipients = 0
    messages: dict[int, list[tuple[int, ZoneMessage]]] = {}
    for lsn, first_seq, command in _commands(work, work.round):
        for message in part.take(command, first_seq):
            messages.setdefault(message.zone, []).append((lsn, message))
    size = 0
    if work.output is not None:
        for zone, found in messages.items():
            size += _write(*work.output, work, zone, found)
    if work.save:
        folder = Folder(work.system, base_path(work.root, work.round + 1, number))
        save(folder, work.name, part.board, part.board.config, part.seq, objects=number == 0)
    _put_away(work, number, part)
    sent = sum(map(len, messages.values()))
    about = {"seq": part.seq, "messages": sent, "tiles": part.tiles, "recipients": part.recipients}
    return {**about, "bytes": size, "subscriptions": part.subscriptions}


def _taken_up(work: Work, number: int, plan: Any) -> Part:
    """A part as it is before the round."""
    from indexes.boards.zones import Zone
    from spark_jobs.zones.bases import Base, load
    from spark_jobs.zones.part import Part

    before, held = _held.pop((work.root, work.since, number), (-1, None))
    if held is not None and before == work.round:
        return held
    system = work.folders[0][0]
    base = Base(system, work.name, tuple((path, Zone(*area)) for _, path, area in work.folders))
    board = load(base, plan.area)
    part = Part(board, plan, board.seq)
    for passed in range(work.base, work.round):
        for _, first_seq, command in _commands(work, passed):
            part.replay(command, first_seq)
    return part


def _put_away(work: Work, number: int, part: Part) -> None:
    """Keep a part for the next round, as far as that many may be held."""
    for root, since, other in list(_held):
        if root == work.root and since != work.since:
            del _held[root, since, other]
    _held[work.root, work.since, number] = work.round + 1, part
    while len(_held) > work.held:
        _held.popitem(last=False)


def _commands(work: Work, number: int) -> Iterator[tuple[int, int, Command]]:
    """The commands of a round, each with the lsn of its last row and its first seq."""
    from formats.board_commands import decode
    from indexes.core.commands import Create, Drop

    folder = Folder(work.system, f"{work.root}/rounds")
    try:
        with folder.open(round_name(number)) as file:
            rows = pa.ipc.open_stream(file).read_all().to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise Damaged(f"{folder}/{round_name(number)} cannot be read: {str(error).splitlines()[0]}") from error
    parts: list[tuple[str, bytes]] = []
    first_seq = 0
    for row in rows:
        first_seq = row["first_seq"] if not parts else first_seq
        parts.append((row["command"], row["payload"]))
        if not row["command"].endswith(MORE):
            command = decode(parts)
            assert not isinstance(command, (Create, Drop)), "the driver ends with these"
            yield row["lsn"], first_seq, command
            parts = []


def _write(system: fs.FileSystem, path: str, work: Work, zone: int, found: list[tuple[int, ZoneMessage]]) -> int:
    """Write what a zone gets in a batch, atomically; returns the size of the file."""
    folder = f"{path}/version={work.version}/zone={zone}"
    table = pa.table(
        [
            pa.array([message.seq for _, message in found], pa.int64()),
            pa.array([lsn for lsn, _ in found], pa.int64()),
            pa.array([message.tiles for _, message in found], MESSAGES.field("tiles").type),
        ],
        schema=MESSAGES,
    )
    system.create_dir(folder, recursive=True)
    draft = f"{folder}/.{uuid.uuid4().hex}.new"
    with system.open_output_stream(draft) as out:
        pq.write_table(table, out, compression="zstd")
        size = int(out.tell())
    system.move(draft, f"{folder}/{batch_name(work.batch)}")
    return size


def _report(number: int, about: dict[str, Any]) -> pa.RecordBatch:
    return pa.record_batch([pa.array([number], pa.int64()), pa.array([json.dumps(about)], pa.string())], REPORT)
