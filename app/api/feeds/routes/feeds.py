"""Feeds themselves: their configuration."""

from __future__ import annotations

from starlette.requests import Request

from app.api.feeds.context import FeedContext
from app.api.feeds.models import Feed, FeedBody, FeedPage
from app.api.feeds.router import feeds, router
from app.api.maps.parsing.questions import bad_bounds
from app.api.problems import many
from app.api.resources import ResourceRoutes
from app.errors import FieldError
from indexes.feeds.config import MOST_LETTERS, FeedConfig
from indexes.feeds.tokens import STOP_WORDS


class FeedRoutes(ResourceRoutes[FeedContext]):
    """``/v1/feeds`` and ``/v1/feeds/{feed}``."""

    noun = "feed"
    body, shown, page = FeedBody, Feed, FeedPage

    def context(self, request: Request) -> FeedContext:
        return feeds(request)

    def config(self, context: FeedContext, body: FeedBody) -> FeedConfig:
        """The configuration that a body says. Raises the problem 422."""
        errors = bad_bounds(body.bounds, "euclidean")
        stop_words = None
        if body.stop_words is not None:
            folded = [word.casefold() for word in body.stop_words]
            for i, word in enumerate(folded):
                if len(word) > MOST_LETTERS:
                    errors.append(
                        FieldError(f"stop_words[{i}]", f"must be at most {MOST_LETTERS} characters, casefolded")
                    )
            if set(folded) != STOP_WORDS:
                stop_words = tuple(sorted(set(folded)))
        if errors:
            raise many(errors)
        x0, y0, x1, y1 = (value + 0.0 for value in body.bounds)
        posts = body.window if isinstance(body.window, int) else None
        span = None if isinstance(body.window, int) else round(body.window.seconds * 1000)
        return FeedConfig((x0, y0, x1, y1), posts, span, body.weighting == "tfidf", body.buffer, stop_words=stop_words)


FeedRoutes().add_to(router)
