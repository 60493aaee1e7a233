"""A sink that publishes the lists of a feed on Spark on a board of a service.

A place in a list is an object of the board. `subscription`, its range attribute, is the number of the subscription in
the stream; `place`, its rank attribute, is 1 for the best; the payload is the post and its score. Each subscription of
the feed is one of the board, under its id, to the range of its number, so its list are the places, best first.

Ids of objects are made of number and place, so repeating a batch, after everything was killed, changes nothing. A list
is sent in one request, as one change for its followers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from spark_jobs.feeds.front import Gone, Row
from spark_jobs.feeds.sending import Refused, Sender, Undelivered
from spark_jobs.feeds.sinks import BEFORE

KS = (10, 100, 1_000)
"""The ks of the board: a subscription has the first that suffices."""

CONFIG = {
    "range_attributes": ["subscription"],
    "rank": {"attribute": "place", "order": "asc"},
    "ks": list(KS),
}

MOST = 20_000
"""Events, or subscriptions, of a request, approximately."""

PAGE = 1_000
"""Objects, or subscriptions, that are read in a request."""

Json = dict[str, Any]


class Board:
    """The board at a URL that ends with ``/v1/boards/NAME``. A new stream creates it again."""

    def __init__(self, url: str, sender: Sender) -> None:
        """Raises ValueError for a URL that is no board's."""
        self.url = url.rstrip("/")
        if not self.url.startswith(("http://", "https://")) or "/v1/boards/" not in self.url:
            raise ValueError(f"{url} is not the URL of a board, as http://127.0.0.1:8000/v1/boards/NAME is")
        self._sender = sender
        self._length: dict[int, int] = {}
        """By number: the length of the list on the board."""
        self._asked: dict[int, Json] = {}
        """By number: the subscription of the board."""
        self._known = False

    def write(self, batch: int, lsn: int, rows: Sequence[Row], gone: Sequence[Gone]) -> None:
        """As `Sink.write`. Raises `Undelivered` if the service refuses a request, or cannot be reached."""
        if batch == BEFORE:
            self._begin()
        elif not self._known:
            self._look()
        self._known = True
        length, rows = self._length, sorted(rows)
        left = [Row(one.number, one.subscription, one.k, [], []) for one in gone]
        for events in _in_requests([_events(row, length.get(row.number, 0)) for row in [*left, *rows]]):
            self._tell(events)
        length.update((row.number, len(row.posts)) for row in rows)
        self._ask([row for row in rows if self._asked.get(row.number) != _asked(row)])
        again = {row.subscription for row in rows}
        ids = [one.subscription for one in gone if one.subscription not in again]
        for first in range(0, len(ids), MOST):
            self._send("POST", "/subscriptions/delete", {"ids": ids[first : first + MOST]})
        for one in gone:
            length.pop(one.number, None)
            self._asked.pop(one.number, None)

    def _begin(self) -> None:
        """Create an empty board. Raises `Undelivered` for an existing board of another configuration."""
        try:
            self._send("PUT", "", CONFIG)
        except Refused as refused:
            if refused.status == 409:
                raise Undelivered(f"{self.url} is a board of something else: {refused}") from refused
            raise
        self._send("DELETE", "")
        self._send("PUT", "", CONFIG)
        self._length, self._asked = {}, {}

    def _look(self) -> None:
        """Read the board of an earlier run."""
        for one in self._all("objects"):
            number, place = map(int, one["id"].split(":"))
            self._length[number] = max(place, self._length.get(number, 0))
        for one in self._all("subscriptions"):
            self._asked[int(one["range"]["subscription"][0])] = {"range": one["range"], "k": one["k"]}

    def _all(self, what: str) -> Iterator[Json]:
        after: str | None = ""
        while after is not None:
            page = self._send("GET", f"/{what}?limit={PAGE}{after}")
            yield from page["items"]
            after = page["next"] and f"&cursor={quote(page['next'], safe='')}"

    def _tell(self, events: list[Json]) -> None:
        body = {"mode": "batch", "messages": "none", "on_error": "skip", "events": events}
        answer = self._send("POST", "/events", body)
        for error in answer.get("errors", []):
            # A repeated request may find its objects deleted; nothing else may be refused.
            if events[error["index"]]["op"] != "delete":
                raise Undelivered(f"{self.url} refuses {error['field']}: {error['reason']}")

    def _ask(self, rows: Sequence[Row]) -> None:
        """Add or replace the subscriptions of the board for these lists."""
        for first in range(0, len(rows), MOST):
            some = rows[first : first + MOST]
            asked = [{"id": row.subscription, **_asked(row)} for row in some]
            body = {"subscriptions": asked, "lists": False, "on_error": "skip"}
            for error in self._send("POST", "/subscriptions", body).get("errors", []):
                # It exists, or is invalid.
                row = some[error["index"]]
                self._send("PUT", f"/subscriptions/{quote(row.subscription, safe='')}", _asked(row))
            self._asked.update((row.number, _asked(row)) for row in some)

    def _send(self, method: str, what: str, body: object = None) -> Any:
        return self._sender.send(method, f"{self.url}{what}", body)


def _events(row: Row, length: int) -> list[Json]:
    """Events that replace a list of this length."""
    events: list[Json] = [
        {
            "op": "upsert",
            "id": f"{row.number}:{place}",
            "values": {"subscription": row.number, "place": place},
            "payload": {"id": post, "score": score},
        }
        for place, (post, score) in enumerate(zip(row.posts, row.scores, strict=True), 1)
    ]
    return events + [{"op": "delete", "id": f"{row.number}:{place}"} for place in range(len(events) + 1, length + 1)]


def _asked(row: Row) -> Json:
    """The subscription of the board for a list of the feed."""
    return {"range": {"subscription": [row.number, row.number]}, "k": next((k for k in KS if k >= row.k), KS[-1])}


def _in_requests(lists: Sequence[list[Json]]) -> Iterator[list[Json]]:
    """The events of lists in requests, with each list in one of them."""
    some: list[Json] = []
    for events in lists:
        if some and len(some) + len(events) > MOST:
            yield some
            some = []
        some += events
    if some:
        yield some
