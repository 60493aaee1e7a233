"""Idempotency keys: a retry of a write gets the first answer.

A key is claimed when its request's body is complete, its answer is stored in the log's own transaction with the write,
and what only applying tells (how many tiles) is added afterwards. Answers are kept for a day.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import Any, NamedTuple

from app.storage.log import CompletedAnswer, StoredAnswer

LEFT_OUT = ("tiles", "truncated", "list", "skyline", "candidates", "key")
"""What a replayed answer does not carry."""


IN_MEMORY = 32 << 20
"""Bytes of answers in memory; what has no room there is looked up."""

OVERHEAD = 500
"""Bytes that an answer takes beside its text."""

AT_START = 256
"""The latest answers that are read at start-up, beside those that lack something."""


class KeyReused(Exception):
    """Another request was made under this key."""


class StillRunning(Exception):
    """The first request under this key has not been answered yet."""


class Replay(NamedTuple):
    """The first answer under a key."""

    status: int
    answer: dict[str, Any]


class Ticket:
    """A claimed key: `store` gives what goes into the log, then `complete` or `abandon` ends it."""

    def __init__(self, answers: Answers, scope: str, key: str, request_hash: bytes) -> None:
        self._answers = answers
        self._place = (scope, key)
        self._hash = request_hash
        self._stored = False
        self._lacks = False

    def store(self, lsn: int, status: int, answer: dict[str, Any], now: float, *, lacks: bool = False) -> StoredAnswer:
        """The row to be written with the command; `lacks` says that applying row `lsn` tells more of the answer.

        Only one answer may lack something beside a row. One that wrote no row stands beside the last one before it.
        """
        self._stored = True
        self._lacks = lacks
        scope, key = self._place
        return StoredAnswer(scope, key, self._hash, lsn, status, _pack(answer), not lacks, now)

    def applied(self, answer: dict[str, Any], told: Mapping[str, Any]) -> None:
        """The command was applied, which told these fields; `answer` as it was stored may lack some."""
        if self._lacks:
            self._lacks = False
            self._answers.learned(self._place, _filled(answer, told))

    def complete(self, status: int, answer: dict[str, Any]) -> None:
        """The request is answered with this."""
        self._answers.finish(self._place, self._hash, status, _without(answer), self._stored)

    def abandon(self) -> None:
        """The request was refused: the key is free again."""
        self._answers.release(self._place)


class _Kept(NamedTuple):
    request_hash: bytes
    status: int
    answer: dict[str, Any] | None
    created_at: float
    stored: bool
    size: int


def _kept(row: StoredAnswer) -> _Kept:
    size = OVERHEAD + 3 * len(row.answer)
    return _Kept(row.request_hash, row.status, json.loads(row.answer), row.created_at, True, size)


class Answers:
    """The answers kept by scope (whose keys they are) and key, oldest first.

    The latest are in memory. Older ones are looked up by `find`, which knows those that were stored.
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
        self._find = find
        self._remote = remote
        self._some_left = False
        self._bytes = 0
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._completed: dict[tuple[str, str], CompletedAnswer] = {}
        self._awaited: dict[int, tuple[str, str]] = {}

    def load(self, rows: list[StoredAnswer]) -> None:
        """Take the stored answers at start-up, oldest first, before the log is replayed: the latest `AT_START`, and
        those that lack something."""
        self._some_left = len(rows) >= AT_START
        for row in rows:
            place = (row.scope, row.key)
            self._put(place, _kept(row))
            if not row.complete:
                self._awaited[row.lsn] = place

    def awaits(self, lsn: int) -> bool:
        """Whether the answer to the command in this row still lacks what applying tells."""
        return lsn in self._awaited

    def learn(self, lsn: int, told: Mapping[str, Any]) -> None:
        """The command in this row was applied again, which told these fields."""
        place = self._awaited.pop(lsn)
        kept = self._kept[place]
        if kept.answer is not None:
            kept.answer.update(_filled(kept.answer, told))
        self.learned(place, kept.answer or {})

    def learned(self, place: tuple[str, str], answer: dict[str, Any]) -> None:
        """Add this to what is stored, with the next write."""
        self._completed[place] = CompletedAnswer(*place, _pack(answer))

    def elsewhere(self, scope: str, key: str) -> bool:
        """Whether an answer under this key may be stored that is not in memory."""
        return self._some_left and (scope, key) not in self._kept

    async def look_up(self, scope: str, key: str) -> StoredAnswer | None:
        """The stored answer under a key, from the database; a server's is waited for in a thread."""
        return await asyncio.to_thread(self._find, scope, key) if self._remote else self._find(scope, key)

    def claim(self, scope: str, key: str, request_hash: bytes, row: StoredAnswer | None = None) -> Ticket | Replay:
        """Claim a key for a request, or get the answer that the same request had; `row` is what `look_up` found, to be
        asked where an answer may be `elsewhere`.

        Raises:
            KeyReused: another request came under the key.
            StillRunning: the same request has not been answered yet.
        """
        now = time.time()
        place = (scope, key)
        kept = self._kept.get(place)
        if kept is None and row is not None:
            kept = _kept(row)
            if not row.complete:
                raise StillRunning
        if kept is None or kept.created_at < now - self.seconds:
            self._drop(place)
            self._make_room()
            self._put(place, _Kept(request_hash, 0, None, now, False, OVERHEAD))
            return Ticket(self, scope, key, request_hash)
        if kept.request_hash != request_hash:
            raise KeyReused
        if kept.answer is None:
            raise StillRunning
        return Replay(kept.status, {**kept.answer, "replayed": True})

    def finish(
        self, place: tuple[str, str], request_hash: bytes, status: int, answer: dict[str, Any], stored: bool
    ) -> None:
        text = _pack(answer)
        before = self._kept[place]
        self._bytes -= before.size
        self._put(place, _Kept(request_hash, status, answer, before.created_at, stored, OVERHEAD + 3 * len(text)))
        if stored:
            self._completed[place] = CompletedAnswer(*place, text)

    def _put(self, place: tuple[str, str], kept: _Kept) -> None:
        self._kept[place] = kept
        self._bytes += kept.size

    def _drop(self, place: tuple[str, str]) -> None:
        kept = self._kept.pop(place, None)
        if kept is not None:
            self._bytes -= kept.size

    def _make_room(self) -> None:
        """Let the oldest answers go from memory: those that were given and are stored."""
        while self._bytes > self.in_memory:
            place, kept = next(iter(self._kept.items()))
            if kept.answer is None or not kept.stored:
                break
            self._drop(place)
            self._some_left = True

    def release(self, place: tuple[str, str]) -> None:
        kept = self._kept.get(place)
        if kept is not None and kept.answer is None:
            self._drop(place)

    def take_completed(self) -> list[CompletedAnswer]:
        """What is to be added to stored answers with the next write."""
        completed, self._completed = self._completed, {}
        return list(completed.values())

    def give_back(self, completed: list[CompletedAnswer]) -> None:
        """It could not be written: keep it for the write after."""
        self._completed = {(one.scope, one.key): one for one in completed} | self._completed

    def expire(self) -> float:
        """Forget what is older than the limit; returns the time before which stored answers may go."""
        before = time.time() - self.seconds
        old = takewhile(lambda item: item[1].created_at < before, self._kept.items())
        for place in [place for place, kept in old if kept.answer is not None]:
            self._drop(place)
        return before


def hash_request(method: str, path: str, query: str, body: bytes) -> bytes:
    """What makes two requests the same."""
    digest = hashlib.sha256()
    for part in (method.encode(), path.encode(), query.encode(), body):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def _filled(answer: dict[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """An answer with the fields that it lacked."""
    return {key: told.get(key, value) for key, value in answer.items()}


def _without(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer as it is kept; lists inside subscriptions are left out too."""
    kept = {key: value for key, value in answer.items() if key not in LEFT_OUT}
    many = kept.get("subscriptions")
    if isinstance(many, list):
        kept["subscriptions"] = [{k: v for k, v in one.items() if k not in LEFT_OUT} for one in many]
    return kept


def _pack(answer: dict[str, Any]) -> bytes:
    return json.dumps(_without(answer), separators=(",", ":")).encode()
