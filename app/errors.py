"""Why the service refuses a request, in its own terms; `app.api.problems` translates these for HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple


class FieldError(NamedTuple):
    """One invalid field: its path, as in ``events[3].values.delay``, and the reason in plain words."""

    field: str
    reason: str


class ServiceError(Exception):
    """A refused request. `code` is its stable name, `errors` are the invalid fields, if it is about some."""

    code: ClassVar[str]

    def __init__(self, detail: str, errors: Sequence[FieldError] = (), retry_after: int | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = list(errors)
        self.retry_after = retry_after


class Malformed(ServiceError):
    """The request cannot be read."""

    code = "malformed"


class Unauthorized(ServiceError):
    """There is no valid key."""

    code = "unauthorized"


class Forbidden(ServiceError):
    """The key lacks a scope."""

    code = "forbidden"


class NotFound(ServiceError):
    """What `field` names does not exist."""

    code = "not-found"

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason, [FieldError(field, reason)])


class Cycle(ServiceError):
    """A link would close a cycle."""

    code = "cycle"

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason, [FieldError(field, reason)])


class TooLarge(ServiceError):
    """The request exceeds a limit."""

    code = "too-large"


class Invalid(ServiceError):
    """Fields of the request are invalid."""

    code = "invalid"

    def __init__(self, *errors: FieldError) -> None:
        super().__init__(f"{errors[0].field}: {errors[0].reason}", errors)


class NotReplicated(ServiceError):
    """The write is in the log here, and not enough replicas have said in time that it is in theirs."""

    code = "not-replicated"


class NotPromoted(ServiceError):
    """A replica does not become the leader."""

    code = "not-promoted"


class NotFollowed(ServiceError):
    """The log cannot be followed from the row that a replica asks for."""

    code = "not-followed"


class TooMany(ServiceError):
    """A limit on what runs at the same time is reached."""

    code = "too-many"


class NotReady(ServiceError):
    """The service is starting, ending, or compiling what the request needs."""

    code = "not-ready"


class Internal(ServiceError):
    """Something unexpected happened, which is logged."""

    code = "internal"


class BrokerAway(Exception):
    """NATS cannot be reached, or does not take what it is sent."""


class LogUnavailable(Exception):
    """The database cannot be reached or written. What was being written is not there."""


class DatabaseFailed(LogUnavailable):
    """The database's driver failed: most likely it cannot be reached, or has ended the connection."""


class LogTaken(LogUnavailable):
    """Another service has taken the log over; this one writes no more."""


class DatabaseLost(Exception):
    """The database is another service's now, or lacks what was written: this service has ended for good."""
