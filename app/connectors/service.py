"""The service as a connector uses it: one request after the other, each until one of its nodes answers it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from app.connectors.errors import ConnectorError, TakenBefore, Unreadable
from app.connectors.pauses import pause
from rankcast_client.nodes import ASK_SECONDS, Nodes

BUSY = frozenset({425, 429, 500, 502, 503, 504})
"""Statuses after which the same request may succeed."""

UNREADABLE = frozenset({400, 413})
"""Statuses of a body that is no JSON, or too large."""

SECONDS = 60.0
"""Until an answer counts as lost."""

_LONGEST_ANSWER = 64 << 20


class Service:
    """The running service. `url` may name several nodes, with commas: a request goes on at another one, under the same
    key. `away` is called with the reason when none of them answers, and with None when one is back.
    """

    def __init__(self, url: str, key: str | None, away: Callable[[str | None], None]) -> None:
        self._nodes = nodes_of(url)
        self._away = away
        self._is_away = False
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        try:
            for node in self._nodes.urls:
                httpx.URL(node)
            self._http = httpx.AsyncClient(headers=headers, timeout=httpx.Timeout(SECONDS, connect=10.0))
        except (httpx.InvalidURL, TypeError) as error:
            raise ConnectorError(f"the URL of the service is none: {error}") from None

    async def close(self) -> None:
        await self._http.aclose()

    async def post(self, path: str, body: bytes, key: str | None) -> Mapping[str, Any]:
        """The answer to a write under an Idempotency-Key, waiting while the service is away.

        Raises Unreadable, TakenBefore, and ConnectorError where it refuses.
        """
        headers = {} if key is None else {"Idempotency-Key": key}
        failures, nodes = 0, self._nodes
        tried: set[str] = set()
        while True:
            asked = 0.0
            if nodes.wants_leader:
                await self._ask_who_leads()
            node = nodes.turn(tried)
            tried.add(node)
            try:
                answer = await self._http.post(node + path, content=body, headers=headers)
            except (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL) as error:
                raise ConnectorError(f"the service cannot be asked: {error}") from None
            except httpx.TransportError as error:
                why = str(error) or type(error).__name__
                nodes.failed(node)
            else:
                nodes.worked(node)
                if answer.is_success:
                    self._note(None)
                    return _object(answer)
                problem = _problem(answer)
                slug = str(problem.get("type", "")).rpartition("/")[2]
                why = _told(answer.status_code, problem)
                if answer.status_code in UNREADABLE:
                    raise Unreadable(why)
                if slug == "key-reused":
                    raise TakenBefore(why)
                if answer.status_code not in BUSY and slug != "in-progress":
                    raise ConnectorError(f"the service refuses: {why}")
                asked = _seconds(answer.headers.get("retry-after"))
                nodes.doubt(node)
            if nodes.left(tried):
                continue
            failures += 1
            self._note(why)
            await asyncio.sleep(pause(failures, asked))

    async def _ask_who_leads(self) -> None:
        """Ask the nodes what they are. One that does not say it in time is none that leads."""

        async def ask(node: str) -> tuple[str, Any]:
            try:
                answer = await self._http.get(f"{node}/readyz", timeout=ASK_SECONDS)
                return node, _problem(answer)
            except (httpx.TransportError, httpx.InvalidURL):
                return node, None

        self._nodes.learn(dict(await asyncio.gather(*map(ask, self._nodes.asking()))))

    def _note(self, why: str | None) -> None:
        if self._is_away != (why is not None):
            self._is_away = why is not None
            self._away(why)


def nodes_of(url: str) -> Nodes:
    """The nodes of a service by their URLs, with commas. Raises ConnectorError."""
    try:
        return Nodes(url)
    except ValueError as error:
        raise ConnectorError(f"the URL of the service is none: {error}") from None


def _object(answer: httpx.Response) -> Mapping[str, Any]:
    if len(answer.content) > _LONGEST_ANSWER:
        raise ConnectorError(f"an answer of the service has more than {_LONGEST_ANSWER} bytes")
    found = json.loads(answer.content)
    if not isinstance(found, dict):
        raise ConnectorError("the service answers no object: is the URL that of Rankcast?")
    return found


def _problem(answer: httpx.Response) -> Mapping[str, Any]:
    try:
        found = json.loads(answer.content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _told(status: int, problem: Mapping[str, Any]) -> str:
    detail = problem.get("detail") or problem.get("title") or ""
    return f"{status} {detail}".strip()


def _seconds(text: str | None) -> float:
    try:
        return max(0.0, float(text)) if text else 0.0
    except ValueError:
        return 0.0
