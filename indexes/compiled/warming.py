"""Groups of kernels that become ready together, and the process that compiles them.

A group is exercised once in a process of its own, which compiles the kernels that are not on disk yet. A mark in the
cache then records that the group is ready for exactly these sources, and lists its kernels, so that a service loads
them without exercising anything. After an edit the group is exercised again; unaffected kernels come from the disk.

``python -m indexes.compiled.warming`` reads names of groups, one a line, and prints JSON: ``{"kernel", "seconds"}`` for
each kernel that it compiles, ``{"group", "seconds"}`` when a group is ready, ``{"group", "error"}`` when it failed.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from indexes.core.deep_calls import with_room
from indexes.core.sources import sources


class Group(NamedTuple):
    """A group of the package `resource` of indexes. `kernels` is an estimate of those to compile after the groups
    before it, for reports of progress. `main` groups are needed for common requests to resources of default
    configuration."""

    resource: str
    part: str
    kernels: int
    main: bool = False

    @property
    def name(self) -> str:
        return f"{self.resource}.{self.part}"


GROUPS: tuple[Group, ...] = (
    Group("boards", "main", 91, main=True),
    Group("matchers", "main", 42, main=True),
    Group("relays", "main", 46, main=True),
    Group("feeds", "main", 74, main=True),
    Group("maps", "main", 226, main=True),
    Group("boards", "batch", 103),
    Group("boards", "explain", 10),
    Group("boards", "maintenance", 8),
    Group("matchers", "maintenance", 1),
    Group("relays", "maintenance", 3),
    Group("boards", "space", 128),
    Group("boards", "kd-tree", 79),
    Group("relays", "alternatives", 19),
    Group("matchers", "alternatives", 28),
)
"""All groups, in the order in which they are made ready."""


_BY_NAME = {group.name: group for group in GROUPS}


BUSY = 0.05
"""The share of the time above which other threads count as busy."""


def by_name(name: str) -> Group:
    """The group of a name such as ``boards.main``. Raises KeyError."""
    return _BY_NAME[name]


def _mark(group: Group) -> Path:
    from indexes.compiled.cache import folder

    return folder() / f"{group.name}-{sources(f'indexes.{group.resource}')}.ready"


def is_ready(group: Group) -> bool:
    """Whether all kernels of a group are on disk. O(bytes of the resource's sources), once a process."""
    return _mark(group).exists()


def load(group: Group, share: float = 1.0) -> int:
    """Load the kernels of a group that is ready; returns how many were not loaded before.

    Each takes some milliseconds, in which it holds the interpreter. With a `share` below 1 the thread takes no more of
    the time than that while other threads of the process are busy.
    """
    loaded = 0
    pace = _Pace(share)
    for kernel, args in _kernels(group):
        if args not in kernel.overloads:
            kernel.compile(args)
            loaded += 1
            pace.rest()
    return loaded


class _Pace:
    """Holds a thread to a share of the time while the others of its process are busy."""

    def __init__(self, share: float) -> None:
        self._rest = 1.0 / share - 1.0
        self._begin()

    def _begin(self) -> None:
        self._wall, self._all, self._own = time.perf_counter(), time.process_time(), time.thread_time()

    def rest(self) -> None:
        """Sleep as long as the work since the last rest asks for."""
        own = time.thread_time() - self._own
        others = time.process_time() - self._all - own
        busy = others > BUSY * (time.perf_counter() - self._wall)
        self._begin()
        if busy and self._rest > 0:
            time.sleep(own * self._rest)


def files() -> list[Path]:
    """The files of the cache of all groups that are ready: their kernels and their marks."""
    found: set[Path] = set()
    for group in GROUPS:
        if is_ready(group):
            found.add(_mark(group))
            found.update(kernel._cache.path(args) for kernel, args in _kernels(group))
    return sorted(found)


def _kernels(group: Group) -> list[tuple[Any, tuple[Any, ...]]]:
    """The kernels of a group that is ready, each with its argument types. A mark that cannot be read is deleted, so
    that the next start compiles the group again."""
    from indexes.compiled import cache

    mark = _mark(group)
    try:
        return [(cache.find(wanted), wanted.args) for wanted in pickle.loads(mark.read_bytes())]  # noqa: S301 - this user's own cache
    except Exception:
        mark.unlink(missing_ok=True)
        raise


def exercise(group: Group) -> None:
    """Compile the missing kernels of a group in this process, and mark it as ready."""
    from indexes.compiled import cache

    made: Callable[[], None] = importlib.import_module(f"indexes.{group.resource}.warm").GROUPS[group.part]
    made()
    mark = _mark(group)
    mark.parent.mkdir(parents=True, exist_ok=True)
    cache.replace_file(mark, pickle.dumps(sorted(cache.used or (), key=str), protocol=5))


def main() -> None:
    """Compile the groups named on standard input, until its end or that of the parent process."""
    gc.set_threshold(100_000, 50, 1_000)
    from indexes.compiled import cache

    parent, out = os.getppid(), os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output of libraries goes to standard error

    def say(**what: Any) -> None:
        if os.getppid() != parent:
            os._exit(1)
        out.write(json.dumps(what) + "\n")

    cache.observers.append(lambda made: say(kernel=made.kernel, seconds=round(made.seconds, 4)))
    cache.used = set()
    for line in sys.stdin:
        group = by_name(line.strip())
        began = time.process_time()
        try:
            with_room(partial(exercise, group))
        except Exception as error:
            traceback.print_exc()
            say(group=group.name, error=f"{type(error).__name__}: {error}"[:500])
        else:
            say(group=group.name, seconds=round(time.process_time() - began, 3))
        cache.used.clear()


if __name__ == "__main__":
    main()
