"""Single posts in groups: by one command."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

from app.api.feeds.context import FeedContext
from app.api.feeds.parsing.cut import CuttingValidator
from app.api.feeds.parsing.posts import PostReader
from app.api.together.kind import Verb
from app.api.together.latest import Latest
from app.api.together.listed import Form, OneOfMany
from app.rendering.feeds import result
from indexes.feeds.config import FeedConfig
from indexes.feeds.engine import FeedEngine
from indexes.feeds.kernels.record import Cutter
from indexes.feeds.plans.posts import PostPlan

MOST = 64
"""Posts of a group. A client with twice as many under way keeps two processors busy: the kernels' thread executes one
group while the event loop reads the next and answers the one before."""


class _Readers(NamedTuple):
    """What checks bodies with one post, and what makes a command of posts, by one configuration."""

    validator: Any
    posts: PostReader

    @staticmethod
    def of(context: FeedContext, cutter: Callable[[], Cutter], config: FeedConfig) -> _Readers:
        posts = context.post_reader(config)
        return _Readers(CuttingValidator(cutter(), posts.validators.posts), posts)


def single_posts(context: FeedContext) -> list[Verb]:
    """The posts that are carried out together."""
    # A kernel is loaded for it, once a feed gets a post.
    cutter = cache(Cutter)
    readers: Latest[FeedConfig, _Readers] = Latest(partial(_Readers.of, context, cutter))
    form: Form[FeedConfig] = Form(
        "posts",
        201,
        lambda config: readers.of(config).validator,
        lambda config, posts: readers.of(config).posts.read_items(posts),
        _texts,
        _kept,
        lambda config, burst: readers.of(config).posts.cut(burst),
    )
    posts = OneOfMany[FeedEngine, FeedConfig](context, form)
    return [Verb(posts, "POST", "/v1/feeds/{feed}/posts", most=MOST, bursts=True)]


def _texts(plan: PostPlan) -> list[str]:
    rows = zip(range(plan.first_seq, plan.last_seq + 1), plan.command.ids, plan.reached, strict=True)
    return [f'{{"seq":{seq},"results":[{result(id, reached)}]}}' for seq, id, reached in rows]


def _kept(plan: PostPlan, event: int) -> dict[str, Any]:
    return {"seq": plan.first_seq + event, "results": [{"id": plan.command.ids[event], "reached": 0}]}
