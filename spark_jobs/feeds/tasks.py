"""The tasks of a round of a feed: for each partition one that finds the recipients of posts, and one with buffers.

State has versions, with a file for each partition and version. A task goes from one version to the next: a worker that
has the former in memory continues with it, any other reads its file, so a task that runs twice, or again after
everything was killed, has the same result.

Rows between tasks are (to, kind, payload), where `to` is a partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyarrow import fs

from formats.folder import Folder
from spark_jobs.feeds.pack import Pack, pack, read, unpack, write

if TYPE_CHECKING:
    from indexes.feeds.config import FeedConfig

ROWS = "to int, kind string, payload binary"
SCHEMA = pa.schema([("to", pa.int32()), ("kind", pa.string()), ("payload", pa.binary())])

MATCH, HITS, OWN, LOAD, PUBLISHED = "match", "hits", "own", "load", "published"
"""Kinds of rows: messages to matchers, hits, messages to owners, the work of matchers, and what owners publish."""

Batches = Iterator[pa.RecordBatch]


class Step(NamedTuple):
    """The folder of states, the version that the round begins with, and the number of partitions. Arguments of tasks
    are plain values, since they are unpickled before the project's classes can be imported."""

    system: fs.FileSystem
    path: str
    begin: int
    partitions: int


_kept: dict[tuple[str, str, int], tuple[int, Any]] = {}
"""States in the memory of this worker: by folder, kind and partition the version, and the state."""


def state_name(kind: str, partition: int, version: int) -> str:
    """The name of a file in the folder of states."""
    return f"{kind}-{partition:04}-{version:010}"


def _taken_up(step: Step, kind: str, partition: int, thaw: Callable[[Pack], Any], empty: Callable[[], Any]) -> Any:
    version, known = _kept.pop((step.path, kind, partition), (-1, None))
    if version == step.begin and known is not None:
        return known
    if step.begin == 0:
        return empty()
    return thaw(read(Folder(step.system, step.path), state_name(kind, partition, step.begin)))


def _put_away(step: Step, kind: str, partition: int, what: Any) -> None:
    """Write the next version, and keep it in memory; changes in memory do not affect the file."""
    write(Folder(step.system, step.path), state_name(kind, partition, step.begin + 1), *what.freeze())
    _kept[step.path, kind, partition] = step.begin + 1, what


def match(batches: Batches, step: tuple[Any, ...], diagonal: float) -> Batches:
    """For each message to a matcher, hits for the owners and the work done. Other rows are passed on."""
    from spark_jobs.feeds.partitions import Matcher

    now = Step(*step)
    for to, kind, payload in _rows(batches):
        if kind != MATCH:
            yield _row([(to, kind, payload)])
            continue
        matcher = _taken_up(now, MATCH, to, Matcher.thaw, Matcher)
        packs, load = matcher.match(_opened(payload), diagonal, now.partitions)
        hits = [len(one.arrays["post"]) for one in packs]
        _put_away(now, MATCH, to, matcher)
        found = [(owner, HITS, pack(*one)) for owner, one in enumerate(packs) if hits[owner]]
        yield _row([*found, (to, LOAD, pack({**load, "hits": sum(hits)}, {}))])


def own(batches: Batches, step: tuple[Any, ...], config: tuple[Any, ...], given: bool) -> Batches:
    """For each message to an owner, with all its hits, what it publishes. Other rows are passed on to the driver."""
    from spark_jobs.feeds.partitions import Owner

    now = Step(*step)
    messages: dict[int, bytes] = {}
    hits: dict[int, list[bytes]] = {}
    for to, kind, payload in _rows(batches):
        if kind == OWN:
            messages[to] = payload
        elif kind == HITS:
            hits.setdefault(to, []).append(payload)
        else:
            yield _row([(to, kind, payload)])
    for to, message in messages.items():
        owner = _taken_up(now, OWN, to, Owner.thaw, lambda: Owner.empty(config_of(config), given))
        published = owner.take(_opened(message), to, [_opened(one) for one in hits.get(to, [])])
        _put_away(now, OWN, to, owner)
        yield _row([(to, PUBLISHED, pack(*published))])


def config_of(fields: tuple[Any, ...]) -> FeedConfig:
    """A feed's configuration from plain values, as `fields_of` gives them."""
    from indexes.feeds.config import FeedConfig

    bounds, posts, span, tfidf, buffer = fields
    x0, y0, x1, y1 = bounds
    return FeedConfig((x0, y0, x1, y1), posts, span, tfidf, buffer)


def fields_of(config: FeedConfig) -> tuple[Any, ...]:
    """A feed's configuration as plain values."""
    return tuple(config.bounds), config.posts, config.span, config.tfidf, config.buffer


def table_of(rows: list[tuple[int, str, bytes]]) -> pa.Table:
    """Rows for tasks."""
    return pa.Table.from_batches([_row(rows)], SCHEMA)


def _row(rows: list[tuple[int, str, bytes]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA
    )


def _rows(batches: Batches) -> Iterator[tuple[int, str, bytes]]:
    for batch in batches:
        yield from zip(*(batch[name].to_pylist() for name in SCHEMA.names), strict=True)


def _opened(payload: bytes) -> Pack:
    """An unpacked payload with writable arrays, for which kernels are compiled."""
    return unpack(memoryview(bytearray(payload)))
