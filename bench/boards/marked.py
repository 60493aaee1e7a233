"""`rankcast serve` with a clock between the steps of a small write: ``python -m bench.boards.marked FILE serve ...``.

For one request at a time. When it ends it writes the seconds of each step of each request to FILE, as JSON.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.process import end_with_parent

STEPS = {
    "received": "HTTP: head and body read and checked",
    "taken": "to the end of the loop's turn",
    "turn": "group begun",
    "apply": "columns of the command",
    "prepare": "checked against the board",
    "prepared": "encoded for the log",
    "queued": "to the commit of the turn",
    "flush": "checksum",
    "commit": "row and commit, one statement, with its flush to disk",
    "committed": "end of the log noted, queue",
    "paint": "painted",
    "painted": "published",
    "applied": "back to the group",
    "outcomes": "answer as text",
    "answer": "written to the connection",
}
"""What begins at each mark and ends at the next one, in order."""

LAST = "written"

_marks: list[tuple[str, float]] = []


def main() -> None:
    end_with_parent()
    out = Path(sys.argv.pop(1))
    _patch()
    from app.cli.main import main as command

    try:
        command()
    finally:
        out.write_text(json.dumps(_requests()))


def _requests() -> list[list[float]]:
    """The seconds of the steps of each request that went through all of them, once each."""
    found, names = [], [*STEPS, LAST]
    starts = [i for i, (name, _) in enumerate(_marks) if name == "received"]
    for start, end in zip(starts, [*starts[1:], len(_marks)], strict=True):
        one = _marks[start:end]
        if [name for name, _ in one] == names:
            found.append([later - earlier for (_, earlier), (_, later) in pairwise(one)])
    return found


def _patch() -> None:
    from app.api.boards.together import ObjectChanges
    from app.api.together.lane import Lane
    from app.server.fast_path import ServiceProtocol
    from app.server.short import Short
    from app.storage.session import Session
    from app.write_path.applying import Applier
    from app.write_path.committing import Committer
    from indexes.boards.engine import BoardEngine
    from indexes.boards.plans.events import EventsPlan

    _mark(ServiceProtocol, "data_received", "received", "taken")
    _mark(Lane, "_end_turn", "turn")
    _mark(ObjectChanges, "apply", "apply")
    _mark(BoardEngine, "prepare", "prepare", "prepared")
    _mark(Committer, "_schedule", "queued")
    _mark(Committer, "_flush", "flush")
    _mark(Session, "_once", "commit", "committed")
    _mark(EventsPlan, "execute", "paint", "painted")
    _mark(Applier, "apply", None, "applied")
    _mark(ObjectChanges, "outcomes", "outcomes")
    _mark(Short, "answer", "answer", LAST)


def _mark(owner: type, name: str, before: str | None, after: str | None = None) -> None:
    """Note when a method is called and, unless it is a coroutine's, when it returns."""
    method: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(method)
    def marked(*args: Any, **named: Any) -> Any:
        if before is not None:
            _marks.append((before, perf_counter()))
        found = method(*args, **named)
        if after is not None:
            _marks.append((after, perf_counter()))
        return found

    setattr(owner, name, marked)


if __name__ == "__main__":
    main()
