"""The posts of feeds."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.api.bulk import Read
from app.api.chunked_response import KEPT, answer_of, in_pieces, numbered, opened, streamed
from app.api.context import Done, begun, begun_kept, id_in_path
from app.api.feeds.models import FeedPostPage, FeedPostResponse, NewPost, PostsBody, PostsResponse
from app.api.feeds.router import PUBLISH, READ, feeds, router
from app.api.models import NoQuery, OnErrorQuery, SeqResponse
from app.api.pages import PageQuery, query
from app.api.routing import accepts
from app.rendering.feeds import Posts, results
from app.write_path.idempotency import Ticket
from app.write_path.writer import Skeleton
from indexes.feeds.commands import Post, Withdraw
from indexes.feeds.engine import FeedEngine
from indexes.feeds.plans.posts import PostPlan


@router.post(
    "/{feed}/posts",
    status_code=201,
    response_model=PostsResponse,
    dependencies=PUBLISH,
    openapi_extra=accepts(PostsBody, element=NewPost, query=OnErrorQuery),
)
async def post_posts(request: Request) -> Response:
    """Publish posts, in order; all or none, unless `on_error` is `skip`.

    `reached` is the number of lists that a post entered. `on_error` is a query parameter with NDJSON and
    Arrow bodies (columns `id`, `x`, `y`, `text` or `keywords` as lists, with `weights` as lists if they have such,
    `payload` as JSON text); in JSON it may be a field instead. A retry of up to 10,000 posts under an
    Idempotency-Key gets their results again, of more only the `seq`.
    """
    context = feeds(request)
    return await context.bulk(request, OnErrorQuery(), context.post_reader, _post, numbered)


async def _post(request: Request, found: Read[Post], ticket: Ticket | None) -> Done:
    context = feeds(request)

    def start(plan: PostPlan) -> dict[str, Any]:
        if plan.count > KEPT:
            return begun(found, plan.last_seq, plan.faults)
        return begun_kept(found, plan.last_seq, plan.count, plan.faults, plan.positions)

    def skeleton(plan: PostPlan) -> Skeleton:
        return Skeleton(201, {**start(plan), "results": []} if plan.count <= KEPT else start(plan))

    plan: PostPlan = await context.submit(request, found.command, ticket=ticket, skeleton=skeleton)
    begin = opened(begun(found, plan.last_seq, plan.faults), "results")
    ids = plan.command.ids

    def write(at: range) -> str:
        heads = found.heads_at(plan.positions, at)
        return results(ids[at.start : at.stop], plan.reached[at.start : at.stop], heads)

    response = await answer_of(streamed(begin, in_pieces(plan.count, write)), 201)
    kept: dict[str, Any] = {}
    if ticket is not None:
        kept = {**start(plan), **plan.response_fields()} if plan.count <= KEPT else start(plan)
    return Done(response, kept)


@router.get("/{feed}/posts/{id}", response_model=FeedPostResponse, dependencies=READ)
async def get_post(request: Request) -> Response:
    """Get a post of the window."""
    context = feeds(request)
    return await context.item(request, "post", FeedEngine.post, lambda _: Posts().post)


@router.get("/{feed}/posts", response_model=FeedPostPage, dependencies=READ, openapi_extra=accepts(query=PageQuery))
async def list_posts(request: Request) -> Response:
    """List the posts of the window in order of id."""
    context = feeds(request)
    return await context.page(request, FeedEngine.posts, lambda _: Posts().post, lambda item: item.id)


@router.delete("/{feed}/posts/{id}", response_model=SeqResponse, dependencies=PUBLISH)
async def delete_post(request: Request) -> Response:
    """Withdraw a post; lists that had it get the next best one."""
    context = feeds(request)
    query(request, NoQuery)
    command = Withdraw([id_in_path(request)], must_exist=True)
    return await context.delete(request, b"", command, counted=False)
