"""Sending a call until it is answered: retries with backoff, and one Idempotency-Key for all attempts of a write."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from rankcast_client.calls import Call
from rankcast_client.errors import ProblemError, Unreachable

T = TypeVar("T")

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


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait so many seconds, then send again."""

    seconds: float


Step = Generator[httpx.Request | Pause, httpx.Response | httpx.TransportError | None, Any]


def steps(http: httpx.Client | httpx.AsyncClient, call: Call[T], retry: Retry, key: str | None) -> Step:
    """The conversation for one call: yields requests to send and pauses to keep, returns the answer's value.

    Whoever drives it sends back what became of a request. Raises ProblemError when refused, Unreachable when every
    attempt failed. A write carries the same Idempotency-Key in every attempt, so that it is applied at most once even
    where an answer was lost.
    """
    headers = dict(call.headers)
    if call.write:
        key = key or uuid.uuid4().hex
        headers["Idempotency-Key"] = key
    failures = 0
    lost = False
    while True:
        outcome = yield http.build_request(
            call.method, call.path, params=dict(call.params), content=call.content, headers=headers
        )
        problem: ProblemError | None = None
        if isinstance(outcome, httpx.Response):
            if outcome.is_success:
                return call.read(call.decode(outcome.content))
            problem = problem_of(outcome)
            if not (problem.status in BUSY or (lost and still_running(problem))):
                raise problem
        elif isinstance(outcome, (httpx.UnsupportedProtocol, httpx.LocalProtocolError)):
            raise outcome
        lost = lost or problem is None
        failures += 1
        if failures >= retry.attempts:
            if problem is not None:
                raise problem
            raise Unreachable(f"{http.base_url} does not answer: {describe(outcome)}", key)
        yield Pause(retry.pause(failures, problem.retry_after if problem else None))


def still_running(problem: ProblemError) -> bool:
    """Whether a 409 says that the first attempt, whose connection was lost, is not done yet."""
    return problem.status == 409 and problem.slug == "in-progress"


def problem_of(response: httpx.Response) -> ProblemError:
    """The refusal in a response whose body has been read."""
    return ProblemError.from_response(
        response.status_code, response.reason_phrase, response.content, response.headers.get("retry-after")
    )


def describe(error: object) -> str:
    """An exception in words, also one that has none of its own."""
    return str(error) or type(error).__name__


async def send_async(http: httpx.AsyncClient, call: Call[T], retry: Retry, key: str | None = None) -> T:
    conversation = steps(http, call, retry, key)
    outcome: httpx.Response | httpx.TransportError | None = None
    while True:
        try:
            step = conversation.send(outcome)
        except StopIteration as done:
            value: T = done.value
            return value
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            outcome = None
            continue
        try:
            outcome = await http.send(step)
        except httpx.TransportError as error:
            outcome = error


def send(http: httpx.Client, call: Call[T], retry: Retry, key: str | None = None) -> T:
    conversation = steps(http, call, retry, key)
    outcome: httpx.Response | httpx.TransportError | None = None
    while True:
        try:
            step = conversation.send(outcome)
        except StopIteration as done:
            value: T = done.value
            return value
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            outcome = None
            continue
        try:
            outcome = http.send(step)
        except httpx.TransportError as error:
            outcome = error


def auth_headers(key: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}
