"""What the feeds' routes take and answer: models that describe it, and the validators of bodies."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError, SchemaValidator
from pydantic_core import core_schema as cs

from app.api.map_models import LOCATION, Location
from app.api.models import (
    ANY,
    NAME,
    ON_ERROR,
    SECONDS,
    Answer,
    ElementProblem,
    Ignored,
    LeftOut,
    OnError,
    OnErrorQuery,
    Seconds,
    fields,
    listed,
    made,
)
from app.api.values import Name, Number, Strict
from indexes.feeds.model import MOST_LETTERS, MOST_WORDS
from indexes.feeds.theta import MOST_K

MOST_POSTS = 10_000_000
"""Posts that a window may have at most when it counts them."""

MOST_SECONDS = 1e9
"""The longest window of time, in seconds."""

MOST_TEXT = 16_384
"""Characters of a text."""

MOST_STOP_WORDS = 10_000

K = 10
"""How long a list is unless said."""

ALPHA = 0.5
"""How much nearness counts unless said."""

Weighting = Literal["tfidf", "given"]
Buffer = Literal["cost", "kscore", "fixed", "kmax"]
Length = Annotated[int, Field(strict=True, ge=1, description=f"How long the list is at most; {K} unless said.")]
Alpha = Annotated[
    float,
    Field(
        strict=True, ge=0, le=1, description=f"How much nearness counts, and 1 - alpha the words; {ALPHA} if left out."
    ),
]
Entries = list["Ranked"]


class Span(Strict):
    """A window of time."""

    seconds: Annotated[float, Field(strict=True, ge=0.001, le=MOST_SECONDS, description="In whole milliseconds.")]


def _four(given: list[float]) -> list[float]:
    """A list that is longer is wrong, and not too large as a list without a fixed length would be."""
    if len(given) != 4:
        raise PydanticCustomError("length", "must be a list of 4 numbers")
    return given


def _some(given: list[str] | None) -> list[str] | None:
    if given is not None and len(given) > MOST_STOP_WORDS:
        raise PydanticCustomError("length", f"must have at most {MOST_STOP_WORDS} elements")
    return given


StopWord = Annotated[str, Field(strict=True, min_length=1, max_length=MOST_LETTERS)]


class FeedBody(Strict):
    """A feed's configuration, which stays as it is made."""

    window: Annotated[
        Annotated[int, Field(strict=True, ge=1, le=MOST_POSTS)] | Span,
        Field(description='How many posts are kept, the newest; or `{"seconds": s}`, those of so much time.'),
    ]
    bounds: Annotated[
        list[Number],
        AfterValidator(_four),
        Field(
            description="`[x0, y0, x1, y1]`: places that are as far apart as its corners are not near at all.",
            json_schema_extra={"minItems": 4, "maxItems": 4},
        ),
    ]
    weighting: Annotated[
        Weighting, Field(description="What words weigh: as they are given, or times idf, so that rare ones weigh more.")
    ] = "tfidf"
    buffer: Annotated[Buffer, Field(description="How many posts beyond the list are kept for each subscription.")] = (
        "cost"
    )
    stop_words: Annotated[
        list[StopWord] | None,
        AfterValidator(_some),
        Field(description="What texts are read without; null: 33 English words."),
    ] = None
    name: Ignored = None
    seq: Ignored = None
    posts: Ignored = None
    subscriptions: Ignored = None


class Feed(Answer):
    """A feed, how much is in it, and its `seq`."""

    seq: int
    name: str
    window: int | dict[str, float]
    bounds: list[float]
    weighting: Weighting
    buffer: Buffer
    stop_words: list[str] | None
    posts: int
    subscriptions: int


class Feeds(Answer):
    """A page of feeds, without `seq`."""

    items: list[dict[str, Any]]
    next: str | None


# --- posts ------------------------------------------------------------------------------------------------------------

Word = Annotated[str, Field(min_length=1, max_length=MOST_LETTERS)]
Weight = Annotated[float, Field(gt=0, le=1e300)]
GivenKeywords = Annotated[
    Annotated[list[Word], Field(max_length=MOST_WORDS)] | dict[Word, Weight],
    Field(description="A list, in which a word that is there twice counts twice, or weights by word."),
]
Text = Annotated[
    Annotated[str, Field(max_length=MOST_TEXT)] | LeftOut,
    Field(description="In place of `keywords`: its words are, without stop words. Not null."),
]


class NewPost(Strict):
    """A post. An id left out is made up; one is taken as long as its post is in the window."""

    id: Name | None = None
    keywords: Annotated[GivenKeywords | LeftOut, Field(description="This, or `text`. Not null.")] = None
    text: Text = None
    location: Location
    payload: Annotated[Any, Field(description="Any JSON.")] = None


class PostsBody(Strict):
    """Posts, in order."""

    posts: list[NewPost]
    on_error: OnError = "refuse"


class Reached(Answer):
    """In how many lists a post was right after it came."""

    id: str
    reached: int


class PostsAnswer(Answer):
    """The posts in order; with `on_error=skip` each with its `index`."""

    seq: int
    results: list[Reached] | None = None
    errors: list[ElementProblem] | None = None
    replayed: bool = False


class PostShown(Answer):
    """A post of the window."""

    id: str
    location: list[float]
    keywords: list[str] | dict[str, float]
    payload: Any = None


class PostAnswer(PostShown):
    """A post, at the feed's `seq`."""

    seq: int


class PostsPage(Answer):
    """A page of posts."""

    seq: int
    items: list[PostShown]
    next: str | None


# --- subscriptions ----------------------------------------------------------------------------------------------------


class NewFeedSubscription(Strict):
    """Who wants the `k` best posts of the window that share a keyword. An id left out is made up."""

    id: Name | None = None
    keywords: Annotated[GivenKeywords | LeftOut, Field(description="This, or `text`; at least one. Not null.")] = None
    text: Text = None
    location: Location
    k: Length = K
    alpha: Alpha = ALPHA
    ttl: Seconds = None


class FeedSubscriptionsBody(Strict):
    """Subscriptions to be made."""

    subscriptions: list[NewFeedSubscription]
    lists: Annotated[
        bool | None, Field(description="Whether their lists are answered; unless said those of 1,000.")
    ] = None
    on_error: OnError = "refuse"


class FeedListsQuery(OnErrorQuery):
    """What goes with NDJSON and Arrow bodies."""

    lists: bool | None = None


class FeedSubscriptionBody(NewFeedSubscription):
    """What a subscription is from now on."""

    id: Annotated[Name | None, Field(description="That of the path.")] = None
    seq: Ignored = None
    list: Ignored = None


class FeedSubscriptionPatch(Strict):
    """What changes in a subscription; a `ttl` of null takes the time limit away."""

    keywords: Annotated[GivenKeywords | LeftOut, Field(description="This, or `text`. Not null.")] = None
    text: Text = None
    location: Annotated[Location | LeftOut, Field(description="Not null.")] = None
    k: Annotated[Length | LeftOut, Field(description="Not null.")] = None
    alpha: Annotated[Alpha | LeftOut, Field(description="Not null.")] = None
    ttl: Seconds = None


class Ranked(PostShown):
    """A post in a list."""

    rank: int
    score: float


class FeedSubscription(Answer):
    """A subscription, with its list where that was asked for."""

    id: str
    keywords: list[str] | dict[str, float]
    location: list[float]
    k: int
    alpha: float
    ttl: float | None = None


class FeedSubscriptionAnswer(FeedSubscription):
    """A subscription and its list, best first, at the feed's `seq`."""

    seq: int
    list: Entries | None = None
    replayed: bool = False


class FeedSubscriptionsAnswer(Answer):
    """The subscriptions that were made, in the order of the request; with `on_error=skip` each with its `index`."""

    seq: int
    subscriptions: list[FeedSubscription] | None = None
    errors: list[ElementProblem] | None = None
    replayed: bool = False


class FeedSubscriptions(Answer):
    """A page of subscriptions, without lists."""

    seq: int
    items: list[FeedSubscription]
    next: str | None


# --- validators -------------------------------------------------------------------------------------------------------


class FeedValidators(NamedTuple):
    """Validators for the bodies of feeds. Keywords are left to `Words`, which says more of what is wrong."""

    posts: SchemaValidator
    post: SchemaValidator
    subscriptions: SchemaValidator
    subscription: SchemaValidator
    put_subscription: SchemaValidator
    patch_subscription: SchemaValidator


@lru_cache(maxsize=16)
def validators(most: int, max_k: int) -> FeedValidators:
    """The validators; `most` elements in a list, and lists of at most `max_k` posts."""
    words = {"keywords": ANY, "text": cs.str_schema(strict=True, max_length=MOST_TEXT)}
    post = fields({"location": LOCATION}, {"id": cs.nullable_schema(NAME), **words, "payload": ANY})
    asked = {
        **words,
        "k": cs.int_schema(strict=True, ge=1, le=min(max_k, MOST_K)),
        "alpha": cs.float_schema(strict=True, allow_inf_nan=False, ge=0, le=1),
        "ttl": cs.nullable_schema(SECONDS),
    }
    may = {"id": cs.nullable_schema(NAME), **asked}
    subscription = fields({"location": LOCATION}, may)
    lists = {"lists": cs.nullable_schema(cs.bool_schema(strict=True)), "on_error": ON_ERROR}
    return FeedValidators(
        posts=made(fields({"posts": listed(post, most)}, {"on_error": ON_ERROR})),
        post=made(post),
        subscriptions=made(fields({"subscriptions": listed(subscription, most)}, lists)),
        subscription=made(subscription),
        put_subscription=made(fields({"location": LOCATION}, {**may, "seq": ANY, "list": ANY})),
        patch_subscription=made(fields({}, {"location": LOCATION, **asked})),
    )
