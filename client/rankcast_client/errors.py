"""What can go wrong: the service refused (`ProblemError`), or could not be reached (`Unreachable`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class RankcastError(Exception):
    """The base of every error that this package raises on purpose."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One reason for a refusal. `field` reads like `events[3].values.delay`; `index` is that element's place."""

    field: str
    reason: str
    index: int | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FieldError:
        field = str(data.get("field", ""))
        index = data.get("index")
        if index is None and "[" in field:
            digits = field.partition("[")[2].partition("]")[0]
            index = int(digits) if digits.isdigit() else None
        return cls(field, str(data.get("reason", "")), index)

    @classmethod
    def all_in(cls, data: Mapping[str, Any]) -> tuple[FieldError, ...]:
        """The errors that an answer lists."""
        return tuple(cls.from_json(error) for error in data.get("errors") or ())


def outcome(data: Mapping[str, Any]) -> tuple[bool, int]:
    """Whether an answer to many elements is replayed, and how many errors there are, listed or not."""
    return bool(data.get("replayed", False)), int(data.get("error_count", len(data.get("errors") or ())))


class ProblemError(RankcastError):
    """The service refused a request, and nothing was changed by it (RFC 9457).

    `type` is stable and looks like `/problems/<slug>`; `errors` names each field and the reason.
    """

    def __init__(
        self,
        status: int,
        type: str,
        title: str,
        detail: str = "",
        errors: tuple[FieldError, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        self.status = status
        self.type = type
        self.title = title
        self.detail = detail
        self.errors = errors
        self.retry_after = retry_after
        super().__init__(self._text())

    @property
    def slug(self) -> str:
        """The last part of `type`."""
        return self.type.rsplit("/", 1)[-1]

    def _text(self) -> str:
        text = f"{self.status} {self.title}"
        if self.detail and self.detail != self.title:
            text += f": {self.detail}"
        missing = [error for error in self.errors if error.reason not in self.detail]
        shown = [f"{error.field}: {error.reason}" if error.field else error.reason for error in missing[:5]]
        if len(missing) > 5:
            shown.append(f"and {len(missing) - 5} more")
        return text + (f" ({'; '.join(shown)})" if shown else "")

    @classmethod
    def from_json(cls, data: Mapping[str, Any], status: int | None = None) -> ProblemError:
        """The problem of a WebSocket's `error` message, or of a response's body."""
        errors = FieldError.all_in(data)
        code = int(data.get("status") or status or 0)
        title = str(data.get("title") or "Refused")
        return cls(code, str(data.get("type") or "about:blank"), title, str(data.get("detail") or ""), errors)

    @classmethod
    def from_response(cls, status: int, reason: str, body: bytes, retry_after: str | None = None) -> ProblemError:
        """Read any refusal, also one by something between us and the service that speaks no JSON."""
        try:
            data = json.loads(body)
        except ValueError:
            data = None
        if not isinstance(data, dict):
            data = {"title": reason or f"HTTP {status}", "detail": body[:200].decode("utf-8", "replace").strip()}
        problem = cls.from_json(data, status)
        problem.retry_after = seconds(retry_after)
        return problem


class Unreachable(RankcastError):
    """The service did not respond, to none of the attempts.

    Whether a write was applied is then not known. Sending it once more with the same `idempotency_key`
    is safe: it is applied at most once.
    """

    def __init__(self, message: str, idempotency_key: str | None = None) -> None:
        super().__init__(message)
        self.idempotency_key = idempotency_key


def seconds(retry_after: str | None) -> float | None:
    """`Retry-After` in seconds; its date form is not used by the service and counts as not there."""
    try:
        return max(0.0, float(retry_after)) if retry_after else None
    except ValueError:
        return None
