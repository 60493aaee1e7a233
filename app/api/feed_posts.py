"""The posts of feeds."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.api.context import Done, begun, id_in_path, page_response
from app.api.elements import Read
from app.api.feed_context import FeedContext
from app.api.feed_models import PostAnswer, PostsAnswer, PostsBody, PostsPage
from app.api.models import NoQuery, OnErrorQuery, Seq
from app.api.paging import PageQuery, query
from app.api.pieces import KEPT, answer_of, in_pieces, numbered, opened, streamed
from app.api.responses import json_response
from app.api.routing import Routes
from app.delivery.feeds_json import Posts, results
from app.idempotency import Ticket
from app.problems import not_found
from app.writer import Skeleton
from indexes.feeds.commands import Post, Withdraw
from indexes.feeds.plans import PostPlan


class PostRoutes:
    """``/v1/feeds/{feed}/posts``."""

    def __init__(self, context: FeedContext) -> None:
        self._context = context

    def add_routes(self, routes: Routes) -> None:
        """Serve the posts."""
        many, tag, write, see = "/v1/feeds/{feed}/posts", "feeds", "feeds:write", "feeds:read"
        one, add = many + "/{id}", routes.add
        add(
            "POST",
            many,
            self.post_posts,
            needs=write,
            tag=tag,
            answers={201: PostsAnswer},
            body=PostsBody,
            bulk="NewPost",
            query=OnErrorQuery,
        )
        add("GET", many, self.list_posts, needs=see, tag=tag, answers={200: PostsPage}, query=PageQuery)
        add("GET", one, self.get_post, needs=see, tag=tag, answers={200: PostAnswer})
        add("DELETE", one, self.delete_post, needs=write, tag=tag, answers={200: Seq})

    async def post_posts(self, request: Request) -> Response:
        """Post many, in order; all of them or none, unless `on_error` is `skip`.

        `reached` says in how many lists a post is right after it. `on_error` is a query parameter with NDJSON and
        Arrow bodies (columns `id`, `x`, `y`, `text` or `keywords` as lists, with `weights` as lists if they have such,
        `payload` as JSON text); in JSON it is a field. A retry of up to 10,000 posts under an Idempotency-Key gets
        their results again, of more only the `seq`.
        """
        return await self._context.bulk(request, OnErrorQuery(), self._context.post_reader, self._post, _replayed)

    async def _post(self, request: Request, found: Read[Post], ticket: Ticket | None) -> Done:
        def skeleton(plan: PostPlan) -> Skeleton:
            start = begun(found, plan.last_seq, plan.faults)
            return Skeleton(201, {**start, "results": []} if plan.count <= KEPT else start)

        plan: PostPlan = await self._context.submit(request, found.command, ticket=ticket, skeleton=skeleton)
        start = begun(found, plan.last_seq, plan.faults)
        ids = plan.command.ids.to_pylist()

        def write(at: range) -> str:
            heads = found.heads(at if plan.positions is None else plan.positions[at.start : at.stop])
            return results(ids[at.start : at.stop], plan.reached[at.start : at.stop], heads)

        response = await answer_of(streamed(opened(start, "results"), in_pieces(plan.count, write)), 201)
        kept: dict[str, Any] = {}
        if ticket is not None:
            kept = {**start, **plan.told()} if plan.count <= KEPT else start
        return Done(response, kept)

    async def get_post(self, request: Request) -> Response:
        """A post of the window."""
        query(request, NoQuery)
        feed, id = self._context.engine(request), id_in_path(request)
        seq, found = await self._context.between(request, lambda: (feed.seq, feed.post(id)))
        if found is None:
            raise not_found("id", f"there is no post {id[:128]!r}")
        return json_response(Posts().post(found, f'"seq":{seq},'))

    async def list_posts(self, request: Request) -> Response:
        """The posts of the window in order of id."""
        page = query(request, PageQuery)
        feed, after = self._context.engine(request), page.after
        seq, found = await self._context.between(request, lambda: (feed.seq, feed.posts(after, page.limit + 1)))
        return page_response(seq, found, page.limit, Posts().post, lambda item: item.id)

    async def delete_post(self, request: Request) -> Response:
        """Withdraw a post: whoever had it in a list gets the next best."""
        query(request, NoQuery)
        command = Withdraw([id_in_path(request)], must_exist=True)
        return await self._context.delete(request, b"", command, counted=False)


def _replayed(kept: dict[str, Any]) -> dict[str, Any]:
    """A kept answer as it is said again."""
    return numbered(kept) if "results" in kept else kept
