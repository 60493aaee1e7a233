"""The nodes of a service: which of them is asked next, and which leads. No I/O."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

AWAY = 5.0
"""Seconds for which a node that failed is tried after the others."""

BELIEVED = 10.0
"""Seconds after which a client that writes asks again who leads."""

UNKNOWN = 1.0
"""The same where nobody is known to lead."""

ASK_SECONDS = 1.0
"""Seconds that a node has to say what it is."""

PROMOTE = "/v1/admin/promote"
"""How the path begins that makes the node that is asked the leader."""

MOST = 16
"""URLs that a client takes."""


class Nodes:
    """The URLs of a service in their order, with what is known of each.

    `urls` is a text with commas, or several. Raises ValueError for none and for more than 16. Threads may share it.
    """

    def __init__(self, urls: str | Iterable[str], clock: Callable[[], float] = time.monotonic) -> None:
        given = urls.split(",") if isinstance(urls, str) else urls
        self.urls = tuple(dict.fromkeys(url.strip().rstrip("/") for url in given))
        if not self.urls or len(self.urls) > MOST or (len(self.urls) > 1 and not all(self.urls)):
            raise ValueError(f"a client takes from 1 to {MOST} URLs, none of them empty")
        self.leader: str | None = None
        """The node that is known to lead."""
        self._clock = clock
        self._failed: dict[str, float] = {}
        self._ask_at = 0.0

    def __str__(self) -> str:
        return ", ".join(self.urls)

    @property
    def several(self) -> bool:
        """Whether there is another one to go on at."""
        return len(self.urls) > 1

    @property
    def ordered(self) -> tuple[str, ...]:
        """All of them as they are tried: the one known to lead, the others as they were given, and last those that
        failed a moment ago, the one that failed first before the others."""
        away = {url: self._failed[url] for url in self.urls if self._is_away(url)}
        here = [url for url in self.urls if url not in away]
        return (*sorted(here, key=lambda url: url != self.leader), *sorted(away, key=lambda url: away[url]))

    def check_path(self, path: str) -> None:
        """Raise ValueError for a request that is about one node and does not say which."""
        if self.several and path.startswith(PROMOTE):
            raise ValueError(f"name the node that is to lead, one of {self}")

    def left(self, tried: Collection[str]) -> bool:
        """Whether one has not been tried."""
        return any(url not in tried for url in self.urls)

    def turn(self, tried: set[str]) -> str:
        """The node that is tried next. Once all were tried, they begin again and `tried` is emptied."""
        if not self.left(tried):
            tried.clear()
        return next(url for url in self.ordered if url not in tried)

    def worked(self, url: str) -> None:
        """Note that a node answered."""
        self._failed.pop(url, None)

    def failed(self, url: str) -> None:
        """Note that a node could not be reached. One that led is asked no more whether it does, but others are."""
        self._failed[url] = self._clock()
        self.lost(url)

    def lost(self, url: str) -> None:
        """Note that a connection to a node ended. If it led, who leads now is asked before the next write."""
        if url == self.leader:
            self.leader, self._ask_at = None, 0.0

    def doubt(self, url: str) -> None:
        """Note that a node refused a write for now: if it leads, this may be about to end."""
        if url == self.leader:
            self._ask_at = min(self._ask_at, self._clock() + UNKNOWN)

    @property
    def wants_leader(self) -> bool:
        """Whether it is time to ask who leads."""
        return self.several and self._clock() >= self._ask_at

    def asking(self) -> tuple[str, ...]:
        """The nodes to ask now; nobody else asks them meanwhile."""
        self._ask_at = self._clock() + UNKNOWN
        return tuple(url for url in self.urls if not self._is_away(url))

    def learn(self, said: Mapping[str, Any]) -> None:
        """Take what nodes said at ``/readyz``: of those that lead, the one with the highest term does."""
        terms = {url: term_of(about) for url, about in said.items() if role_of(about) == "leader"}
        self.leader = max(terms, key=lambda url: terms[url], default=None)
        self._ask_at = self._clock() + (UNKNOWN if self.leader is None else BELIEVED)

    def _is_away(self, url: str) -> bool:
        at = self._failed.get(url)
        return at is not None and self._clock() - at < AWAY


def role_of(about: Any) -> str:
    """What a node says that it is at ``/readyz``: `leader`, `replica`, or nothing."""
    role = about.get("role") if isinstance(about, dict) else None
    return role if isinstance(role, str) else ""


def term_of(about: Any) -> int:
    """The term that a node says at ``/readyz``."""
    term = about.get("term")
    return term if isinstance(term, int) else 0
