"""Rows of the log: read as a command, or refused as damaged."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import msgpack
import pyarrow as pa

from formats import board_commands, feed_commands, map_commands, matcher_commands, relay_commands
from formats.commands import ARROW, MORE, Damaged
from tests.fuzz.fuzzing import bounded
from tests.fuzz.grammar import World
from tests.fuzz.requests import rendered, request_of
from tests.fuzz.sessions import serve
from tests.fuzz.values import NUMBERS, mutate_bytes, mutate_table, mutate_tree

CODECS = {
    "boards": board_commands,
    "matchers": matcher_commands,
    "relays": relay_commands,
    "maps": map_commands,
    "feeds": feed_commands,
}
Row = tuple[str, str, bytes]
"""The kind of the resource, the name of the command, and the payload."""


class Rows:
    """Rows that a service wrote, as msgpack and as Arrow; their trees, tables and bytes are changed."""

    name = "rows"

    def __init__(self) -> None:
        self._rows: list[Row] = []

    def make(self, rng: Random) -> bytes:
        if not self._rows:
            self._rows = asyncio.run(_some_rows())
        kind, name, payload = rng.choice(self._rows)
        if rng.random() < 0.05:
            kind = rng.choice(list(CODECS))
        if rng.random() < 0.05:
            name = rng.choice(self._rows)[1]
        return written(kind, name, _mutated(rng, name, payload))

    def run(self, data: bytes) -> int:
        row = json.loads(data)
        with bounded(f"a row {row['name']!r} of {row['kind']}"), suppress(Damaged):
            CODECS[row["kind"]].decode([(row["name"], base64.b64decode(row["payload"]))])
        return 1

    def smaller(self, data: bytes) -> Iterator[bytes]:
        return iter(())

    def close(self) -> None:
        """Nothing is held."""


def written(kind: str, name: str, payload: bytes) -> bytes:
    """A row as an input."""
    return json.dumps({"kind": kind, "name": name, "payload": base64.b64encode(payload).decode()}).encode()


def _mutated(rng: Random, name: str, payload: bytes) -> bytes:
    if rng.random() < 0.3:
        return mutate_bytes(rng, payload)
    try:
        if name.removesuffix(MORE).endswith(ARROW):
            table = mutate_table(rng, pa.ipc.open_stream(payload).read_all())
            if table.schema.metadata and rng.random() < 0.3:
                table = table.replace_schema_metadata(rng.choice((None, {"at": "x"}, {"k": "-1", "explain": "9"})))
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            return bytes(sink.getvalue())
        tree: Any = msgpack.unpackb(payload, strict_map_key=False)
        if rng.random() < 0.5 and isinstance(tree, dict) and tree:
            field = rng.choice(list(tree))
            odd = (
                *(x for x in NUMBERS if isinstance(x, float) or abs(x) < 2**63),
                b"",
                b"x" * 8,
                b"\xff" * 16,
                None,
                [None],
                {1: 2},
                [[0]],
            )
            tree[field] = rng.choice(odd)
        else:
            tree = mutate_tree(rng, tree)
        return bytes(msgpack.packb(tree))
    except (pa.ArrowException, OSError, ValueError, TypeError, OverflowError, KeyError):
        return mutate_bytes(rng, payload)


async def _some_rows() -> list[Row]:
    """The rows of a service to which all kinds of requests were sent."""
    rng = Random(1)
    path = Path(tempfile.mkdtemp(prefix="fuzz-"))
    found: dict[tuple[str, str, int], bytes] = {}
    try:
        with patch("formats.commands.PART", 4):
            async with serve(path / "data") as served:
                for _ in range(2):
                    world = World(rng)
                    requests = [rendered(rng, plan, 0.0) for plan in world.setup()]
                    for request in (*requests, *(request_of(rng, world, 0.0) for _ in range(40))):
                        if "/admin/" not in request["target"]:
                            await served.send(request)
                for row in served.service.stores.log.replay(0):
                    kind, _, name = row.resource.partition("/")
                    if kind in CODECS and name:
                        found[kind, row.command, len(row.payload) // 64] = bytes(row.payload)
    finally:
        shutil.rmtree(path, ignore_errors=True)
    return [(kind, name, payload) for (kind, name, _), payload in sorted(found.items())]
