"""Callers: who sent a request, and what it may do."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from app.errors import Forbidden
from app.security.scopes import EVERYTHING, Grants, Need

ANONYMOUS = ""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request.

    `id` names it in logs, and owns its idempotency keys: the id of a key, or a name made of a token's claims. `prefix`
    is what the ids of the subscriptions that it may name begin with. `expires` is in seconds since 1970, or None.
    """

    id: str
    grants: Grants
    prefix: str = ""
    expires: float | None = None

    def expired(self, now: float | None = None) -> bool:
        """Whether its time is over."""
        return self.expires is not None and self.expires <= (time.time() if now is None else now)

    def require(self, need: Need) -> None:
        """Raise `Forbidden` where what is needed is not granted."""
        if not self.grants.allows(need):
            raise Forbidden(f"this needs the scope {need}")

    def require_id(self, id: str) -> None:
        """Raise `Forbidden` for the id of a subscription outside the prefix."""
        if not id.startswith(self.prefix):
            raise Forbidden(f"ids must begin with {self.prefix!r} for this token")

    def require_ids(self, ids: Iterable[str]) -> None:
        """Raise `Forbidden` for the first of these ids that is outside the prefix."""
        if self.prefix:
            for id in ids:
                self.require_id(id)

    def require_whole(self) -> None:
        """Raise `Forbidden` where the response would name subscriptions of others, which a prefix hides."""
        if self.prefix:
            raise Forbidden(f"a token for the ids that begin with {self.prefix!r} does not see those of others")


NOBODY_ASKED = Caller(ANONYMOUS, EVERYTHING)
"""The caller while there are no keys."""
