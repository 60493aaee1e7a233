"""Translation of the service's exceptions to problems."""

from __future__ import annotations

from collections.abc import Callable

from app.api.problems import Problem, from_error, from_refused
from app.errors import FieldError, LogUnavailable, ServiceError
from app.write_path.idempotency import KeyReused, StillRunning
from app.write_path.writer import Busy, Failed, Unwritable
from indexes.core.commands import Refused

_REUSED = FieldError("Idempotency-Key", "came before with another request")

FAILURES: dict[type[Exception], Callable[[Exception], Problem]] = {
    LogUnavailable: lambda _: Problem("log-unavailable", "nothing was changed; try again later"),
    Busy: lambda busy: Problem("busy", str(busy)),
    Failed: lambda failed: Problem("not-ready", str(failed)),
    Unwritable: lambda error: Problem("internal", f"{error}; nothing was changed"),
    KeyReused: lambda _: Problem("key-reused", errors=[_REUSED]),
    StillRunning: lambda _: Problem("in-progress", "the first request under this key has not been answered yet"),
}


def problem_of(error: Exception) -> Problem | None:
    """The problem that an exception is; None for one that is not expected here."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, ServiceError):
        return from_error(error)
    if isinstance(error, Refused):
        return from_refused(error)
    make = next((FAILURES[kind] for kind in type(error).__mro__ if kind in FAILURES), None)
    return None if make is None else make(error)


def refusal_of(error: Exception) -> Problem:
    """The problem that an exception is for a client; `internal` where it is not expected."""
    return problem_of(error) or Problem("internal")
