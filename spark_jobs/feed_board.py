"""Lists of a feed on Spark, handed back to a service: on a board, which keeps, shows and streams them as all its lists.

A place in a list is an object of the board. `subscription`, its range attribute, is the number of the subscription,
which counts those of the stream; `place`, its rank attribute, is 1 for the best; the payload is the post and its score.
Each subscription of the feed is one of the board's too, under its id, to the range of its number: its list are the
places, best first, and what it hears of are changes of its list.

Objects are named by number and place, so what is said again, after everything was killed, changes nothing. A list goes
in one request, as one change for whoever follows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from spark_jobs.feed_front import Gone, Row
from spark_jobs.feed_sinks import BEFORE
from spark_jobs.sending import Refused, Sender, Undelivered

KS = (10, 100, 1_000)
"""What the board is asked for: the first that is enough. A list is never longer than what the feed keeps."""

CONFIG = {
    "range_attributes": ["subscription"],
    "rank": {"attribute": "place", "order": "asc"},
    "ks": list(KS),
}

MOST = 20_000
"""Events, or subscriptions, of a request, about."""

PAGE = 1_000
"""Objects, or subscriptions, that are looked at in a request."""

Json = dict[str, Any]


class Board:
    """The board at a URL, which ends with ``/v1/boards/NAME``. A stream that begins anew makes it anew."""

    def __init__(self, url: str, sender: Sender) -> None:
        """Raises ValueError for a URL that is no board's."""
        self.url = url.rstrip("/")
        if not self.url.startswith(("http://", "https://")) or "/v1/boards/" not in self.url:
            raise ValueError(f"{url} is not the URL of a board, as http://127.0.0.1:8000/v1/boards/NAME is")
        self._sender = sender
        self._length: dict[int, int] = {}
        """By number: how long the list is that the board has."""
        self._asked: dict[int, Json] = {}
        """By number: the subscription that the board has."""
        self._known = False

    def write(self, batch: int, lsn: int, rows: Sequence[Row], gone: Sequence[Gone]) -> None:
        """Raises `Undelivered` when the service refuses something, or cannot be reached for long."""
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
        """An empty board; one that is kept otherwise is left as it is, and refused."""
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
        """See what is on a board that an earlier run has left."""
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
            # A request that is sent again finds deleted what it has deleted; that is all that may be.
            if events[error["index"]]["op"] != "delete":
                raise Undelivered(f"{self.url} refuses {error['field']}: {error['reason']}")

    def _ask(self, rows: Sequence[Row]) -> None:
        """Have subscriptions on the board that ask for these lists."""
        for first in range(0, len(rows), MOST):
            some = rows[first : first + MOST]
            asked = [{"id": row.subscription, **_asked(row)} for row in some]
            body = {"subscriptions": asked, "lists": False, "on_error": "skip"}
            for error in self._send("POST", "/subscriptions", body).get("errors", []):
                # It is there already, or cannot be.
                row = some[error["index"]]
                self._send("PUT", f"/subscriptions/{quote(row.subscription, safe='')}", _asked(row))
            self._asked.update((row.number, _asked(row)) for row in some)

    def _send(self, method: str, what: str, body: object = None) -> Any:
        return self._sender.send(method, f"{self.url}{what}", body)


def _events(row: Row, length: int) -> list[Json]:
    """What makes the list this one that was so long."""
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
    """What a subscription of the board is for a list of the feed."""
    return {"range": {"subscription": [row.number, row.number]}, "k": next((k for k in KS if k >= row.k), KS[-1])}


def _in_requests(lists: Sequence[list[Json]]) -> Iterator[list[Json]]:
    """The events of lists, one behind the other, so that a list is not cut."""
    some: list[Json] = []
    for events in lists:
        if some and len(some) + len(events) > MOST:
            yield some
            some = []
        some += events
    if some:
        yield some
