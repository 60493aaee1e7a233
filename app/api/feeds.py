"""Feeds themselves: their configuration."""

from __future__ import annotations

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import validated
from app.api.feed_context import FeedContext
from app.api.feed_models import Feed, FeedBody, Feeds
from app.api.feed_posts import PostRoutes
from app.api.feed_subscriptions import SubscriptionRoutes
from app.api.map_questions import bad_bounds
from app.api.models import Seq
from app.api.paging import PageQuery
from app.api.routing import Routes
from app.problems import FieldError, many
from app.service import Service
from indexes.feeds.model import MOST_LETTERS, FeedConfig
from indexes.feeds.tokens import STOP_WORDS

_PUT = TypeAdapter(FeedBody)


class FeedRoutes:
    """Everything under ``/v1/feeds`` but the streams."""

    def __init__(self) -> None:
        self._context = FeedContext()

    def start(self, service: Service) -> None:
        """Give the routes the service that was started."""
        self._context.start(service)

    def add_routes(self, routes: Routes) -> None:
        """Serve the feeds."""
        all_, one, tag = "/v1/feeds", "/v1/feeds/{feed}", "feeds"
        write, see, add = "feeds:write", "feeds:read", routes.add
        add("GET", all_, self.list_feeds, needs=see, tag=tag, answers={200: Feeds}, query=PageQuery)
        add("PUT", one, self.put_feed, needs=write, tag=tag, answers={201: Feed, 200: Feed}, body=FeedBody)
        add("GET", one, self.get_feed, needs=see, tag=tag, answers={200: Feed})
        add("DELETE", one, self.delete_feed, needs=write, tag=tag, answers={200: Seq})
        PostRoutes(self._context).add_routes(routes)
        SubscriptionRoutes(self._context).add_routes(routes)

    async def list_feeds(self, request: Request) -> Response:
        """The feeds in order of name."""
        return await self._context.listing(request)

    async def put_feed(self, request: Request) -> Response:
        """Make a feed. One that is there stays as it is: with another configuration 409."""
        return await self._context.put(request, lambda raw: _config(validated(raw, _PUT)))

    async def get_feed(self, request: Request) -> Response:
        """A feed's configuration and sizes."""
        return await self._context.get(request)

    async def delete_feed(self, request: Request) -> Response:
        """Delete a feed with all that is in it; its streams end."""
        return await self._context.drop(request)


def _config(body: FeedBody) -> FeedConfig:
    """The configuration that a body says. Raises the problem 422."""
    errors = bad_bounds(body.bounds, "euclidean")
    stop_words = None
    if body.stop_words is not None:
        folded = [word.casefold() for word in body.stop_words]
        for i, word in enumerate(folded):
            if len(word) > MOST_LETTERS:
                errors.append(FieldError(f"stop_words[{i}]", f"must be at most {MOST_LETTERS} characters, casefolded"))
        if set(folded) != STOP_WORDS:
            stop_words = tuple(sorted(set(folded)))
    if errors:
        raise many(errors)
    x0, y0, x1, y1 = (value + 0.0 for value in body.bounds)
    posts = body.window if isinstance(body.window, int) else None
    span = None if isinstance(body.window, int) else round(body.window.seconds * 1000)
    return FeedConfig((x0, y0, x1, y1), posts, span, body.weighting == "tfidf", body.buffer, stop_words=stop_words)
