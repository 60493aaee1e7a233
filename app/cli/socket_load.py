"""What ``rankcast load --socket`` sends: rows as requests over one WebSocket, many of them under way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from app.cli.options import OnError
    from app.cli.rows import Chunk
    from rankcast_client import Published
    from rankcast_client.blocking_ws import Socket


class SocketTarget:
    """A board behind a socket: requests of `rows` events, at most `window` of them under way."""

    def __init__(self, socket: Socket, name: str, rows: int, window: int) -> None:
        self.name = name
        self.window = window
        self._socket = socket
        self._rows = rows

    def pieces(self, chunk: Chunk) -> Iterator[Chunk]:
        """The requests that a chunk becomes; bad rows go with the last of those before them."""
        count, bad = len(chunk.rows), chunk.bad
        for start in range(0, max(count, 1), self._rows):
            rows = chunk.rows[start : start + self._rows]
            last = start + self._rows >= count
            mine = bad if last else [one for one in bad if one.row < rows[-1]]
            bad = bad[len(mine) :]
            yield chunk._replace(batch=chunk.batch.slice(start, len(rows)), rows=rows, bad=mine)

    def begin(self, batch: pa.RecordBatch, on_error: OnError) -> Future[Published]:
        """Send events; the answer comes in the future."""
        return self._socket.begin_publish(self.name, events_of(batch), messages="none", on_error=on_error)


def events_of(batch: pa.RecordBatch) -> list[Any]:
    """The rows of a batch as events: `op`, `id`, a column for each attribute, `payload` as JSON text."""
    names = [name for name in batch.schema.names if name not in ("op", "id", "payload")]
    events = []
    for row in batch.to_pylist():
        event = {"op": row["op"], "id": row["id"]}
        values = {name: row[name] for name in names if row[name] is not None}
        if values or row["op"] != "delete":
            event["values"] = values
        if row.get("payload") is not None:
            event["payload"] = json.loads(row["payload"])
        events.append(event)
    return events
