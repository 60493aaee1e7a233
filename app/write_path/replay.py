"""Replay: the rows of the log applied to a catalog, all of them or those of one resource.

A resource whose engine fails on a command that is in the log already is rebuilt without it. A row *undone* says so, for
every later replay: the rows of the same resource from the one in its payload on, up to itself, are skipped, and the
resource goes on behind the last seq that they took. With `dropped` the resource is deleted instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from app.errors import LogUnavailable
from app.resources.base import UnknownResourceType
from app.runtime import clock
from app.storage.log import Log
from app.storage.rows import NOTE, UNDONE, LogEntry, LogRow
from app.write_path.catalog import Catalog, DropJob
from app.write_path.idempotency import Answers
from formats.commands import MORE, fields_of, small


def undoing(resource: str, since: int, last_seq: int, dropped: bool = False) -> LogEntry:
    """The row that undoes the rows of a resource from `since` on, which took seqs up to `last_seq`."""
    payload = small(UNDONE, 0, {"from": since, "dropped": dropped}).payload
    return LogEntry(resource, last_seq, last_seq, UNDONE, payload)


class Follower(Protocol):
    """Follows subscriptions while the log is replayed, as streams do later. Resources have their full names."""

    def follows(self, resource: str, seq: int, last_seq: int, /) -> bool:
        """Whether it wants the slices of a command, which takes the seqs after `seq` up to `last_seq`."""

    def deliver(self, resource: str, part: Any, /) -> None:
        """Take a slice of such a command."""

    def dropped(self, resource: str, seq: int, /) -> None:
        """A resource was deleted at a seq."""


class _Undone:
    """The undone rows, by resource, as half-open ranges."""

    def __init__(self, rows: Iterable[LogRow]) -> None:
        self._spans: dict[str, list[tuple[int, int]]] = {}
        for row in rows:
            self._spans.setdefault(row.resource, []).append((int(fields_of(row.payload)["from"]), row.lsn))

    def __contains__(self, row: LogRow) -> bool:
        spans = self._spans.get(row.resource)
        return spans is not None and any(since <= row.lsn < until for since, until in spans)


class Followers:
    """Several followers of a replay as one."""

    def __init__(self, *followers: Follower) -> None:
        self._followers = followers
        self._wanting: list[Follower] = []

    def follows(self, resource: str, seq: int, last_seq: int) -> bool:
        """Whether any of them wants the slices of a command."""
        self._wanting = [one for one in self._followers if one.follows(resource, seq, last_seq)]
        return bool(self._wanting)

    def deliver(self, resource: str, part: Any) -> None:
        """Give a slice of such a command to those that want it."""
        for one in self._wanting:
            one.deliver(resource, part)

    def dropped(self, resource: str, seq: int) -> None:
        """A resource was deleted at a seq."""
        for one in self._followers:
            one.dropped(resource, seq)


def replay(
    log: Log,
    catalog: Catalog,
    after_lsn: int,
    answers: Answers | None = None,
    only: str | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    until: int | None = None,
    follower: Follower | None = None,
) -> int:
    """Apply the rows after one, up to `until`, to the catalog as of that row, with `only` those of one resource; return
    their number.

    Raises LogUnavailable: the log cannot be read, has a row that does not apply, or an unknown resource type.
    """
    parts: list[tuple[str, bytes]] = []
    rows = 0
    undone = _Undone(log.undone(after_lsn))
    for row in log.replay(after_lsn):
        if until is not None and row.lsn > until:
            break
        rows += 1
        clock.clock.not_before(row.created_at)
        if row.command == NOTE or (only is not None and row.resource != only):
            continue
        if row.command == UNDONE:
            _type_of(catalog, row)
            dropped = bool(fields_of(row.payload)["dropped"])
            catalog.entry(row.resource).go_on(row.last_seq, dropped)
            if dropped and follower is not None:
                follower.dropped(row.resource, row.last_seq)
            continue
        if row in undone:
            if answers is not None and answers.awaits(row.lsn):
                answers.learn(row.lsn, lambda answer: {})
            continue
        parts.append((row.command, row.payload))
        if rows % 1000 == 0:
            progress(row.lsn, log.last_lsn)
        if row.command.endswith(MORE):
            continue
        _apply(catalog, row, parts, answers, follower)
        parts.clear()
    return rows


def _type_of(catalog: Catalog, row: LogRow) -> Any:
    try:
        return catalog.resource_types.split(row.resource)[0]
    except UnknownResourceType as error:
        raise UnknownResourceType(f"row {row.lsn} of the log: {error}") from None


def _apply(
    catalog: Catalog,
    row: LogRow,
    parts: list[tuple[str, bytes]],
    answers: Answers | None,
    follower: Follower | None,
) -> None:
    """Apply the command whose last row this is."""
    lsn, resource = row.lsn, row.resource
    resource_type = _type_of(catalog, row)
    awaited = answers is not None and answers.awaits(lsn)
    engine = catalog.engine(resource)
    if follower is not None and (engine is None or not follower.follows(resource, engine.seq, row.last_seq)):
        follower = None
    try:
        job = catalog.replay(resource, resource_type.decode(parts))
        if job.last_seq != row.last_seq:
            raise ValueError(f"it ends at seq {row.last_seq}, but replay is at {job.last_seq}")
        job.silent, job.counted = not awaited and follower is None, awaited
        while not job.done:
            job.execute(1.0)
            part = job.publish()
            if follower is not None and part is not None:
                follower.deliver(resource, part)
        if follower is not None and isinstance(job, DropJob):
            follower.dropped(resource, job.last_seq)
    except Exception as error:
        # Any error: without this row the state would differ from what responses have acknowledged.
        why = str(error) or type(error).__name__
        raise LogUnavailable(
            f"row {lsn} of the log, a {row.command!r} of {resource}, does not apply: {why}. "
            "Nothing was changed. Start the version that wrote it, or restore a snapshot into a new directory: see "
            "'A row that does not apply' in docs/operations.md"
        ) from error
    if awaited and answers is not None:
        answers.learn(lsn, job.fields_of)
