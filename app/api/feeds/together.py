"""Single posts, carried out together."""

from __future__ import annotations

from typing import Any

from app.api.feeds.context import FeedContext
from app.api.together.kind import Verb
from app.api.together.listed import Form, OneOfMany
from app.rendering.feeds import results
from indexes.feeds.config import FeedConfig
from indexes.feeds.engine import FeedEngine
from indexes.feeds.plans.posts import PostPlan


def single_posts(context: FeedContext) -> list[Verb]:
    """The posts that are carried out together."""
    form: Form[FeedConfig] = Form(
        "posts",
        201,
        lambda config: context.validators(config).posts,
        lambda config, posts: context.post_reader(config).read_items(posts),
        _text,
        _kept,
    )
    return [Verb(OneOfMany[FeedEngine, FeedConfig](context, form), "POST", "/v1/feeds/{feed}/posts")]


def _text(plan: PostPlan, event: int) -> str:
    (id,) = plan.command.ids.slice(event, 1).to_pylist()
    return f'{{"seq":{plan.first_seq + event},"results":[{results([id], [plan.reached[event]])}]}}'


def _kept(plan: PostPlan, event: int, executed: bool) -> dict[str, Any]:
    (id,) = plan.command.ids.slice(event, 1).to_pylist()
    reached = plan.reached[event] if executed else 0
    return {"seq": plan.first_seq + event, "results": [{"id": id, "reached": reached}]}
