"""How requests are retried and refusals read, without I/O."""

from __future__ import annotations

import random
from dataclasses import dataclass

import httpx

from rankcast_client.errors import ProblemError

BUSY = frozenset({502, 503, 504})
"""Statuses that say "not now": the service's own 503, and those of proxies."""


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how patiently to ask again: `attempts` in all, pauses doubling from `first` to `most` seconds.

    Each pause is drawn at random between half and the whole of that, so that many clients do not come back at once; one
    that the service asks for by `Retry-After` is kept at the least (but never more than 30 s).
    """

    attempts: int = 6
    first: float = 0.1
    most: float = 5.0

    def pause(self, failures: int, retry_after: float | None = None) -> float:
        """Seconds to wait after that many failures in a row."""
        whole = min(self.most, self.first * 2.0 ** min(failures - 1, 30))
        return max(whole * random.uniform(0.5, 1.0), min(retry_after or 0.0, 30.0))


RECONNECT = Retry(attempts=0, first=0.1, most=10.0)
"""The pauses between attempts to restore a lost connection, however many."""

STREAM_HEADERS = {"Accept": "text/event-stream", "Cache-Control": "no-store"}


def problem_of(response: httpx.Response) -> ProblemError:
    """The refusal in a response whose body has been read."""
    return ProblemError.from_response(
        response.status_code, response.reason_phrase, response.content, response.headers.get("retry-after")
    )


def describe(error: object) -> str:
    """An exception in words, also one that has none of its own."""
    return str(error) or type(error).__name__


def auth_headers(key: str | None) -> dict[str, str]:
    """The header that carries an API key; none without one."""
    return {"Authorization": f"Bearer {key}"} if key else {}
