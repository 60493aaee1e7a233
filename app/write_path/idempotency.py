"""Idempotency keys: a retry of a write gets the first response.

A key is claimed when its request's body is complete, its response (`answer`) is stored in the transaction of the write,
and fields that only applying gives (how many tiles) are added afterwards. Responses are kept for a day.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import islice, takewhile
from typing import Any, NamedTuple

from app.runtime import clock
from app.storage.rows import CompletedAnswer, StoredAnswer

LEFT_OUT = ("tiles", "truncated", "list", "skyline", "candidates", "key", "secret")
"""Members that are not stored, and that a replayed response lacks."""


IN_MEMORY = 32 << 20
"""Bytes of responses in memory; others are looked up."""

OVERHEAD = 500
"""Bytes of memory for a response besides its text."""

SCAN = 1_000
"""Responses that are examined, oldest first, to drop some from memory: the oldest may belong to running requests."""

AT_START = 256
"""The latest responses that are read at start-up, besides incomplete ones."""


class KeyReused(Exception):
    """Another request was made under this key."""


class StillRunning(Exception):
    """The first request under this key is still running."""


class Replay(NamedTuple):
    """The first response under a key."""

    status: int
    answer: dict[str, Any]


class Ticket:
    """A claimed key: `store` makes the row for the log, then `complete` or `abandon` ends it."""

    def __init__(self, answers: Answers, scope: str, key: str, request_hash: bytes) -> None:
        self._answers = answers
        self._place = (scope, key)
        self._hash = request_hash
        self._stored = False
        self._lacks = False
        self._abandoned = False

    @property
    def lacks(self) -> bool:
        """Whether applying the command adds fields to the stored response."""
        return self._lacks

    def store(self, lsn: int, status: int, answer: dict[str, Any], now: float, *, lacks: bool = False) -> StoredAnswer:
        """The row that stores the response, to be written with the command; with `lacks`, applying row `lsn` adds
        fields to it. `lsn` is the last row of the log if the command has none.
        """
        self._stored = True
        self._lacks = lacks
        scope, key = self._place
        return StoredAnswer(scope, key, self._hash, lsn, status, _pack(answer), not lacks, now)

    def applied(self, answer: dict[str, Any], fields: Mapping[str, Any]) -> None:
        """Add the fields that applying the command gave to the stored `answer`."""
        if self._lacks:
            self._lacks = False
            self._answers.add_completed(self._place, filled(answer, fields))

    def complete(self, status: int, answer: dict[str, Any]) -> None:
        """Note the response to the request."""
        self._answers.finish(self._place, self._hash, status, _pack(answer), self._stored)

    def abandon(self) -> None:
        """Free the key of a refused request. Idempotent."""
        if not self._abandoned:
            self._abandoned = True
            self._answers.release(self._place)


class _Kept(NamedTuple):
    """A response in memory, as JSON text, since objects would take many times as much; None while the request runs."""

    request_hash: bytes
    status: int
    answer: bytes | None
    created_at: float
    stored: bool

    @property
    def size(self) -> int:
        """Bytes of memory."""
        return OVERHEAD + len(self.answer or b"")


def _kept(row: StoredAnswer) -> _Kept:
    return _Kept(row.request_hash, row.status, row.answer, row.created_at, True)


class Answers:
    """The responses by scope (of the API key) and idempotency key, oldest first.

    The latest are in memory, up to `in_memory` bytes, older ones are looked up by `find` among those stored.
    """

    def __init__(
        self,
        hours: float = 24.0,
        find: Callable[[str, str], StoredAnswer | None] = lambda scope, key: None,
        in_memory: int = IN_MEMORY,
        remote: bool = False,
    ) -> None:
        self.seconds = hours * 3600
        self.in_memory = in_memory
        self.find = find
        self.remote = remote
        self.confirmed: Callable[[], Awaitable[None]] | None = None
        """If set, waits until enough replicas have the log, before a response is replayed."""
        self._some_left = False
        self._bytes = 0
        self._bytes_to_complete = 0
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._completed: dict[tuple[str, str], CompletedAnswer] = {}
        self._awaited: dict[int, list[tuple[str, str]]] = {}

    def load(self, rows: list[StoredAnswer]) -> None:
        """Load the stored responses at start-up, oldest first, before the log is replayed.

        These are the latest `AT_START`, and incomplete ones.
        """
        self._some_left = len(rows) >= AT_START
        for row in rows:
            place = (row.scope, row.key)
            self._put(place, _kept(row))
            if not row.complete:
                self._awaited.setdefault(row.lsn, []).append(place)

    def take(self, rows: Iterable[StoredAnswer]) -> None:
        """Take responses that the leader has stored, whose rows are logged and applied here next."""
        for row in rows:
            place = (row.scope, row.key)
            self._drop(place)
            # One that is not complete stays in memory until its command is applied.
            self._put(place, _kept(row)._replace(stored=row.complete))
            if not row.complete:
                self._awaited.setdefault(row.lsn, []).append(place)
        self._make_room()

    def reload(self, rows: list[StoredAnswer]) -> None:
        """Load the stored responses of a shared log that another node has written, oldest first: the latest `AT_START`,
        and incomplete ones.
        """
        self.take(rows)
        self._some_left = self._some_left or len(rows) >= AT_START

    def forget(self, places: Iterable[tuple[str, str]]) -> None:
        """Forget responses whose rows are undone."""
        for place in places:
            self._drop(place)
            self._completed.pop(place, None)

    def awaits(self, lsn: int) -> bool:
        """Whether a response to the command in this row is incomplete."""
        return lsn in self._awaited

    def learn(self, lsn: int, fields_of: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
        """Add the fields that replaying a row has given to its incomplete responses."""
        for place in self._awaited.pop(lsn):
            if place not in self._kept:
                continue
            answer = json.loads(self._kept[place].answer or b"{}")
            text = _pack(filled(answer, fields_of(answer)))
            self._replace(place, self._kept[place]._replace(answer=text, stored=True))
            self._complete(place, text)

    def add_completed(self, place: tuple[str, str], answer: dict[str, Any]) -> None:
        """Have the next commit replace the stored response by a complete one."""
        self._complete(place, _pack(answer))

    @property
    def bytes_to_complete(self) -> int:
        """Bytes of the responses that the next commit replaces."""
        return self._bytes_to_complete

    def _complete(self, place: tuple[str, str], text: bytes) -> None:
        before = self._completed.get(place)
        self._bytes_to_complete += len(text) - (0 if before is None else len(before.answer))
        self._completed[place] = CompletedAnswer(*place, text)

    def elsewhere(self, scope: str, key: str) -> bool:
        """Whether a response under this key may be in the database only."""
        return self._some_left and (scope, key) not in self._kept

    async def look_up(self, scope: str, key: str) -> StoredAnswer | None:
        """The stored response under a key, from the database; a remote one is queried in a thread."""
        return await asyncio.to_thread(self.find, scope, key) if self.remote else self.find(scope, key)

    def claim(self, scope: str, key: str, request_hash: bytes, row: StoredAnswer | None = None) -> Ticket | Replay:
        """Claim a key for a request, or get the response to the same request before.

        `row` is the result of `look_up`, which is needed where a response may be `elsewhere`.

        Raises:
            KeyReused: another request came under the key.
            StillRunning: the same request is still running.
        """
        now = clock.now()
        place = (scope, key)
        kept = self._kept.get(place)
        if kept is None and row is not None:
            completed = self._completed.get(place)
            if completed is not None:
                row = row._replace(answer=completed.answer)
            elif not row.complete:
                raise StillRunning
            kept = _kept(row)
        if kept is None or kept.created_at < now - self.seconds:
            self._drop(place)
            self._make_room()
            self._put(place, _Kept(request_hash, 0, None, now, False))
            return Ticket(self, scope, key, request_hash)
        if kept.request_hash != request_hash:
            raise KeyReused
        if kept.answer is None:
            raise StillRunning
        return Replay(kept.status, {**json.loads(kept.answer), "replayed": True})

    def finish(self, place: tuple[str, str], request_hash: bytes, status: int, text: bytes, stored: bool) -> None:
        self._replace(place, _Kept(request_hash, status, text, self._kept[place].created_at, stored))
        if stored:
            self._complete(place, text)
        self._make_room()

    def _replace(self, place: tuple[str, str], kept: _Kept) -> None:
        self._bytes -= self._kept[place].size
        self._put(place, kept)

    def _put(self, place: tuple[str, str], kept: _Kept) -> None:
        self._kept[place] = kept
        self._bytes += kept.size

    def _drop(self, place: tuple[str, str]) -> None:
        kept = self._kept.pop(place, None)
        if kept is not None:
            self._bytes -= kept.size

    def _make_room(self) -> None:
        """Drop the oldest stored responses from memory."""
        if self._bytes <= self.in_memory:
            return
        for place, kept in list(islice(self._kept.items(), SCAN)):
            if kept.answer is not None and kept.stored:
                self._drop(place)
                self._some_left = True
                if self._bytes <= self.in_memory:
                    return

    def release(self, place: tuple[str, str]) -> None:
        kept = self._kept.get(place)
        if kept is not None and kept.answer is None:
            self._drop(place)

    def take_completed(self) -> list[CompletedAnswer]:
        """Take the responses that the next commit replaces."""
        if not self._completed:
            return []
        completed, self._completed = self._completed, {}
        self._bytes_to_complete = 0
        return list(completed.values())

    def give_back(self, completed: list[CompletedAnswer]) -> None:
        """Put back responses that could not be written."""
        self._completed = {(one.scope, one.key): one for one in completed} | self._completed
        self._bytes_to_complete = sum(len(one.answer) for one in self._completed.values())

    def expire(self) -> float:
        """Forget responses older than the limit; return the time before which stored ones may be deleted."""
        before = clock.now() - self.seconds
        old = takewhile(lambda item: item[1].created_at < before, self._kept.items())
        for place in [place for place, kept in old if kept.answer is not None]:
            self._drop(place)
        return before


def hash_request(method: str, path: str, query: str, body: bytes) -> bytes:
    """A digest that two requests share only if they are the same."""
    digest = hashlib.sha256()
    for part in (method.encode(), path.encode(), query.encode(), body):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def filled(answer: dict[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """A response with the fields that it lacked."""
    return {key: fields.get(key, value) for key, value in answer.items()}


def _without(answer: dict[str, Any]) -> dict[str, Any]:
    """A response without the members in `LEFT_OUT`, its own and those of its subscriptions."""
    kept = {key: value for key, value in answer.items() if key not in LEFT_OUT}
    many = kept.get("subscriptions")
    if isinstance(many, list):
        kept["subscriptions"] = [{k: v for k, v in one.items() if k not in LEFT_OUT} for one in many]
    return kept


def _pack(answer: dict[str, Any]) -> bytes:
    return json.dumps(_without(answer), separators=(",", ":")).encode()
