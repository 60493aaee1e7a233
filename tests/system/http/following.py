"""Readers of streams, each in a thread of its own: what came is kept, and checked against the model's history."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgpack
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.oracles.service import BoardModel, TileReader, apply_changes, covers, net_changes, plain
from tests.support.patience import PATIENCE
from tests.system.http.talk import Json, strict


@dataclass
class Said:
    """One event of a stream. A heartbeat of SSE has no event and no data."""

    event: str
    position: str | None
    data: Json = field(default_factory=dict)

    @property
    def seq(self) -> int:
        return int(self.data["seq"])


class Follower:
    """What a stream says. `ended` is how it ended: "clean", or what broke."""

    def __init__(self) -> None:
        self.said: list[Said] = []
        self.ended: str | None = None
        self.beats: list[str] = []
        self._news = threading.Condition()

    def hear(self, said: Said) -> None:
        with self._news:
            if said.event:
                self.said.append(said)
            elif said.position:
                self.beats.append(said.position)
            self._news.notify_all()

    def end(self, how: str) -> None:
        with self._news:
            self.ended = self.ended or how
            self._news.notify_all()

    def wait(self, true: Callable[..., Any], seconds: float = PATIENCE) -> Any:
        """Returns what `true` says once it is true; fails when that takes too long or the stream ends before."""
        deadline = time.monotonic() + seconds
        with self._news:
            while not (found := true()):
                left = deadline - time.monotonic()
                if self.ended or left <= 0:
                    last = [(said.event, said.position, str(said.data)[:300]) for said in self.said[-3:]]
                    raise AssertionError(
                        f"waited in vain; ended: {self.ended}; {len(self.said)} said, the last: {last}"
                    )
                self._news.wait(left)
            return found

    def wait_end(self, seconds: float = PATIENCE) -> str:
        """Returns how the stream ended."""
        deadline = time.monotonic() + seconds
        with self._news:
            while self.ended is None:
                assert self._news.wait(deadline - time.monotonic()), "the stream does not end"
            return self.ended

    def first(self) -> Said:
        """The first event."""
        self.wait(lambda: self.said)
        return self.said[0]

    @property
    def position(self) -> str:
        """The last position heard of."""
        return next(said.position for said in reversed(self.said) if said.position)


class SseFollower(Follower):
    """A stream of server-sent events. `gate` holds the reading up while it is cleared."""

    def __init__(
        self,
        url: str,
        path: str,
        last: str | None = None,
        key: str | None = None,
        buffer: int | None = None,
        paused: bool = False,
        **query: str,
    ) -> None:
        super().__init__()
        parts = urlsplit(url)
        self.gate = threading.Event()
        if not paused:
            self.gate.set()
        self.connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
        sock = socket.socket()
        if buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        sock.settimeout(PATIENCE)
        sock.connect((parts.hostname, parts.port))
        self.connection.sock = sock
        headers = {"Accept": "text/event-stream"}
        if last is not None:
            headers["Last-Event-ID"] = last
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        target = f"{quote(path)}?{urlencode(query)}" if query else quote(path)
        self.connection.request("GET", target, headers=headers)
        self.answer = self.connection.getresponse()
        self.status = self.answer.status
        self.problem: Json = {}
        if self.status != 200:
            self.problem = strict(self.answer.read())
            self.end("refused")
            self.connection.close()
            return
        assert self.answer.headers["content-type"].startswith("text/event-stream")
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        fields: dict[str, str] = {}
        try:
            while True:
                self.gate.wait()
                line = self.answer.readline()
                if not line:
                    assert not fields, "the stream ended within an event"
                    self.end("clean")
                    return
                text = line.decode().rstrip("\n")
                if text:
                    name, _, value = text.partition(":")
                    assert name in ("id", "event", "data") and name not in fields, text
                    fields[name] = value.removeprefix(" ")
                elif fields:
                    data = strict(fields["data"]) if "data" in fields else {}
                    self.hear(Said(fields.get("event", ""), fields.get("id"), data))
                    fields = {}
        except Exception as error:
            self.end(f"{type(error).__name__}: {error}")
        finally:
            self.connection.close()

    def leave(self) -> None:
        """Go away without a word."""
        self.gate.set()
        if self.ended is None:
            self.ended = "left"
            self.connection.sock and self.connection.sock.shutdown(socket.SHUT_RDWR)
            self.thread.join(PATIENCE)


class SocketStream(Follower):
    """One subscription on a WebSocket."""


class WsFollower(Follower):
    """A WebSocket. What it says of each (resource, id) goes to `streams`, all of it to `frames`; `gate` as above."""

    def __init__(self, url: str, key: str | None = None, **more: Any) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        connecting = connect(
            url.replace("http", "ws", 1) + "/v1/stream",
            additional_headers=headers,
            compression=None,
            max_size=None,
            open_timeout=PATIENCE,
            ping_interval=None,
            **more,
        )
        self.socket = connecting.__enter__()
        self.frames: list[Json] = []
        self.streams: dict[tuple[str, str], SocketStream] = {}
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        try:
            while True:
                self.gate.wait()
                said = self.socket.recv()
                self._take(strict(said) if isinstance(said, str) else msgpack.unpackb(said))
        except ConnectionClosed as closed:
            code = closed.rcvd.code if closed.rcvd else None
            how = "clean" if code in (1000, 1001) else f"closed with {code}"
            self.code = code
        except Exception as error:
            how = f"{type(error).__name__}: {error}"
        for stream in self.streams.values():
            stream.end(how)
        self.end(how)

    def _take(self, frame: Json) -> None:
        said = Said(frame["event"], frame.get("cursor"), frame)
        with self._news:
            self.frames.append(frame)
        if frame["event"] not in ("error", "unsubscribed", "pong", "heartbeat", "authenticated"):
            self.streams[frame["resource"], frame["id"]].hear(said)
        self.hear(said)

    def send(self, **operation: Any) -> None:
        self.socket.send(json.dumps(operation))

    def subscribe(self, board: str, key: str, **more: Any) -> SocketStream:
        return self.follow(f"boards/{board}", key, **more)

    def follow(self, resource: str, key: str, **more: Any) -> SocketStream:
        stream = self.streams[resource, key] = SocketStream()
        self.send(op="subscribe", resource=resource, id=key, **more)
        return stream

    def answer(self, event: str, number: int = 1) -> Json:
        """The so-manyth frame with this event."""
        found: Json = self.wait(lambda: [frame for frame in self.frames if frame["event"] == event][number - 1 :])[0]
        return found

    def leave(self) -> None:
        self.gate.set()
        self.ended = self.ended or "left"
        self.socket.close()
        self.thread.join(PATIENCE)


# --- what a stream must say -------------------------------------------------------------------------------------------


class Checked:
    """The messages of one stream form, in order over any number of connections, against the model's history.

    `strictly`: every change must come alone, none may be merged into another or replaced by a reset. A subscription
    that was moved at one of the seqs in `moves` may be carried over by a `reset`.
    """

    def __init__(self, model: BoardModel, key: str, form: str = "changes", strictly: bool = True) -> None:
        self.model, self.key, self.form, self.strictly = model, key, form, strictly
        self.moves: set[int] = set()
        self.entries: list[Json] = []
        self.at = -1
        self._resuming = False
        self.resets = 0
        self.merged = 0
        self.gone: int | None = None

    def take(self, said: list[Said], snapshot: bool = True) -> None:
        """Check what one connection said; with `snapshot` it must begin with one, else with none."""
        for n, one in enumerate(said):
            assert self.gone is None, f"{one} after gone"
            assert one.position is not None and one.position.endswith(f":{one.seq}"), one
            if n == 0 and snapshot:
                assert one.event == "snapshot", one
            else:
                assert one.event != "snapshot", one
            self._resuming = n == 0
            getattr(self, f"_{one.event}")(one)
            self.at = one.seq

    def settled(self) -> bool:
        """Whether all that happened up to now has been heard."""
        return covers(self.entries, self.model.history[self.key][self.model.seq])

    def _list_at(self, seq: int) -> list[Json]:
        return self.model.history[self.key][seq]

    def _nothing_missed(self, through: int) -> None:
        """Between the last message and this one nothing happened to the list."""
        if self.strictly:
            for seq in range(self.at + 1, through):
                missed = net_changes(self._list_at(seq - 1), self._list_at(seq))
                assert not missed, f"{self.key} heard nothing of seq {seq}: {missed}"

    def _snapshot(self, one: Said) -> None:
        self.entries = [plain(entry) for entry in one.data["list"]]
        wanted = self._list_at(one.seq)
        assert covers(self.entries, wanted), (one, wanted)

    def _reset(self, one: Said) -> None:
        assert one.seq >= self.at, (one, self.at)
        if self.strictly:
            assert any(self.at < seq <= one.seq for seq in self.moves), one
            if not self._resuming:
                self._nothing_missed(min(seq for seq in self.moves if seq > self.at))
        self.resets += 1
        self._snapshot(one)

    def _change(self, one: Said) -> None:
        assert self.form == "changes" and one.seq > self.at, (one, self.at)
        was, now = self.entries, self._list_at(one.seq)
        self._nothing_missed(one.seq)
        told = {change["id"]: (change["old_rank"], change["new_rank"]) for change in one.data["changes"]}
        assert len(told) == len(one.data["changes"]), one
        alone = net_changes(self._list_at(one.seq - 1), now)
        assert told == alone or not self.strictly, (self.key, one, alone)
        self.merged += told != alone
        for change in one.data["changes"]:
            assert ("values" in change) == ("created" in change) == (change["new_rank"] is not None), change
        self.entries = apply_changes(self.entries, one.data["changes"])
        assert covers(self.entries, now), (self.key, one, was, now)

    def _tiles(self, one: Said) -> None:
        assert self.form == "tiles" and one.seq > self.at, (one, self.at)
        self._nothing_missed(one.seq)
        assert not any(self.at < seq <= one.seq for seq in self.moves), f"no reset when the question changed: {one}"
        reader = TileReader(self.model, self.model.question_at(self.key, one.seq), self.entries)
        assert len(reader.take(one.data["tiles"])) == len(one.data["tiles"]) > 0, one
        self.entries = reader.entries
        assert covers(self.entries, self._list_at(one.seq)), (self.key, one, self._list_at(one.seq))

    def _gone(self, one: Said) -> None:
        assert one.seq > self.at
        self._nothing_missed(one.seq)
        self.gone = one.seq
