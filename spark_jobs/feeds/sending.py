"""Requests to a service over HTTP, retried after temporary errors."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from contextlib import suppress
from typing import Any

_TRIES = 5


class Undelivered(Exception):
    """A request failed; the message is one sentence."""


class Refused(Undelivered):
    """A request was refused with this status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Sender:
    """Sends JSON, with an API key if there is one. `seconds` is the timeout of a request, `wait` the time between two
    tries."""

    def __init__(self, key: str | None = None, seconds: float = 30.0, wait: float = 1.0) -> None:
        self._key = key
        self._seconds = seconds
        self._wait = wait

    def send(self, method: str, url: str, body: object = None, once: str | None = None) -> Any:
        """The body of the response, None if it is not JSON; `once` is an Idempotency-Key. Raises `Refused`, or
        `Undelivered` if the service cannot be reached after all tries."""
        headers = {"Content-Type": "application/json"}
        if once is not None:
            headers["Idempotency-Key"] = once
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 - the service's URL, as the job was given it
        for left in reversed(range(_TRIES)):
            try:
                with urllib.request.urlopen(request, timeout=self._seconds) as answer:  # noqa: S310
                    return _json(answer.read())
            except urllib.error.HTTPError as error:
                if (error.code < 500 and error.code != 429) or not left:
                    raise Refused(error.code, f"{url} answers {error.code}{_reason(error)}") from error
            except OSError as error:
                if not left:
                    raise Undelivered(f"{url} cannot be reached: {error}") from error
            time.sleep(self._wait)
        raise AssertionError


def _json(text: bytes) -> Any:
    with suppress(ValueError):
        return json.loads(text)
    return None


def _reason(error: urllib.error.HTTPError) -> str:
    """The detail of a problem document, if the response is one."""
    with suppress(OSError):
        found = _json(error.read(1 << 16))
        if isinstance(found, dict) and isinstance(found.get("detail"), str):
            return f": {' '.join(found['detail'].split())}"
    return ""
