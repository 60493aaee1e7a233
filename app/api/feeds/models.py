"""Requests and responses of feeds: models that describe them, and validators of bodies."""

from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError, SchemaValidator

from app.api.maps.models import LOCATION, Location
from app.api.models import (
    ANY,
    BulkBody,
    BulkResponse,
    Enforced,
    Ignored,
    LeftOut,
    ListsBody,
    NewSubscriptionId,
    Page,
    PathSubscriptionId,
    Replayed,
    ResourceName,
    ResponseModel,
    Seconds,
    SeqNumber,
    SeqPage,
    ShownSeconds,
    SubscriptionCount,
    SubscriptionId,
    whole,
)
from app.api.problems import BRANCH
from app.api.values import Name, Number, Strict
from indexes.feeds.config import MOST_LETTERS, MOST_WORDS
from indexes.feeds.theta import MOST_K

MOST_POSTS = 10_000_000
"""Posts that a window may have at most when it counts them."""

MOST_SECONDS = 1e9
"""The longest window of time, in seconds."""

MOST_TEXT = 16_384
"""Characters of a text."""

MOST_STOP_WORDS = 10_000

K = 10
"""Default length of lists."""

ALPHA = 0.5
"""Default weight of nearness."""

Weighting = Literal["tfidf", "given"]
Buffer = Literal["cost", "kscore", "fixed", "kmax"]
Length = Annotated[int, Field(strict=True, ge=1, description=f"How long the list is at most; {K} by default.")]
Alpha = Annotated[
    float,
    Field(
        strict=True,
        allow_inf_nan=False,
        ge=0,
        le=1,
        description=f"How much nearness counts, and 1 - alpha the words; {ALPHA} if left out.",
    ),
]
Entries = list["RankedPost"]


class TimeWindow(Strict):
    """A window of time."""

    seconds: Annotated[float, Field(strict=True, ge=0.001, le=MOST_SECONDS, description="In whole milliseconds.")]


_POSTS, _TIME = BRANCH + "posts", BRANCH + "time"


def _kind(given: Any) -> str | None:
    """The branch of a window: what is wrong with it is said of that alone."""
    if isinstance(given, dict | TimeWindow):
        return _TIME
    return _POSTS if isinstance(given, int | float) and not isinstance(given, bool) else None


_WINDOW = Discriminator(_kind, "window", 'must be a number of posts or {"seconds": s}')


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
    """A feed's configuration. It cannot be changed."""

    window: Annotated[
        Annotated[int, Field(strict=True, ge=1, le=MOST_POSTS), Tag(_POSTS)] | Annotated[TimeWindow, Tag(_TIME)],
        _WINDOW,
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


class FeedSummary(ResponseModel):
    """A feed as a page lists it."""

    name: ResourceName
    window: Annotated[
        int | dict[str, float], Field(description="How many of the newest posts are kept, or for how many seconds.")
    ]
    bounds: Annotated[list[float], Field(description="`[x0, y0, x1, y1]`.")]
    weighting: Annotated[Weighting, Field(description="How words are weighted.")]
    buffer: Annotated[Buffer, Field(description="How many posts beyond the list are kept for each subscription.")]
    stop_words: Annotated[
        list[str] | None, Field(description="Words that texts are stripped of; null: the default 33.")
    ]
    posts: Annotated[int, Field(description="How many posts the window has.")]
    subscriptions: SubscriptionCount


class Feed(FeedSummary):
    """A feed, how much is in it, and its `seq`."""

    seq: SeqNumber


class FeedPage(Page):
    """A page of feeds."""

    items: Annotated[list[FeedSummary], Field(description="The page, in order of name.")]


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
    """A post. An absent id is generated; an id is taken as long as its post is in the window."""

    id: Annotated[Name | None, Field(description="Id of the post; absent: generated.")] = None
    keywords: Annotated[GivenKeywords | LeftOut, Field(description="This, or `text`. Not null.")] = None
    text: Text = None
    location: Location
    payload: Annotated[Any, Field(description="Any JSON.")] = None


class PostsBody(BulkBody):
    """Posts, in order."""

    posts: Annotated[list[NewPost], Field(description="Posts, in order.")]


class PostResult(ResponseModel):
    """How many lists a post entered."""

    id: Annotated[str, Field(description="Id of the post.")]
    reached: Annotated[int, Field(description="How many lists it entered.")]


class PostsResponse(BulkResponse):
    """The posts in order; with `on_error=skip` each with its `index`."""

    results: Annotated[list[PostResult] | None, Field(description="One for each post.")] = None


class FeedPost(ResponseModel):
    """A post of the window."""

    id: Annotated[str, Field(description="Id of the post.")]
    location: Annotated[list[float], Field(description="`[x, y]`.")]
    keywords: Annotated[list[str] | dict[str, float], Field(description="A list, or weights by word.")]
    payload: Annotated[Any, Field(description="The payload of the post.")] = None


class FeedPostResponse(FeedPost):
    """A post, at the feed's `seq`."""

    seq: SeqNumber


class FeedPostPage(SeqPage):
    """A page of posts."""

    items: Annotated[list[FeedPost], Field(description="The page, in order of id.")]


# --- subscriptions ----------------------------------------------------------------------------------------------------


class NewFeedSubscription(Strict):
    """A subscription to the `k` best posts of the window that share a keyword. An absent id is generated."""

    id: NewSubscriptionId = None
    keywords: Annotated[GivenKeywords | LeftOut, Field(description="This, or `text`; at least one. Not null.")] = None
    text: Text = None
    location: Location
    k: Length = K
    alpha: Alpha = ALPHA
    ttl: Seconds = None


class FeedSubscriptionsBody(ListsBody):
    """Subscriptions to create."""

    subscriptions: Annotated[list[NewFeedSubscription], Field(description="The subscriptions.")]


class FeedSubscriptionBody(NewFeedSubscription):
    """A subscription as it is to be."""

    id: PathSubscriptionId = None
    seq: Ignored = None
    list: Ignored = None


class FeedSubscriptionPatch(Strict):
    """Changes of a subscription; a `ttl` of null removes the time limit."""

    keywords: Annotated[GivenKeywords | LeftOut, Field(description="This, or `text`. Not null.")] = None
    text: Text = None
    location: Annotated[Location | LeftOut, Field(description="Not null.")] = None
    k: Annotated[Length | LeftOut, Field(description="Not null.")] = None
    alpha: Annotated[Alpha | LeftOut, Field(description="Not null.")] = None
    ttl: Seconds = None


class RankedPost(FeedPost):
    """A post in a list."""

    rank: Annotated[int, Field(description="Its place, from 1.")]
    score: Annotated[float, Field(description="Its score, from 0 to 1; higher is better.")]


class FeedSubscription(ResponseModel):
    """A subscription, with its list if the request wanted lists."""

    id: SubscriptionId
    keywords: Annotated[list[str] | dict[str, float], Field(description="A list, or weights by word.")]
    location: Annotated[list[float], Field(description="`[x, y]`.")]
    k: Annotated[int, Field(description="How long the list is at most.")]
    alpha: Annotated[float, Field(description="How much nearness counts, from 0 to 1.")]
    ttl: ShownSeconds = None


class FeedSubscriptionResponse(FeedSubscription):
    """A subscription and its list, best first, at the feed's `seq`."""

    seq: SeqNumber
    list: Annotated[Entries | None, Field(description="The list, best first.")] = None
    replayed: Replayed = False


class FeedSubscriptionsResponse(BulkResponse):
    """The new subscriptions, in the order of the request; with `on_error=skip` each with its `index`."""

    subscriptions: Annotated[list[FeedSubscription] | None, Field(description="The new subscriptions.")] = None


class FeedSubscriptionPage(SeqPage):
    """A page of subscriptions, without lists."""

    items: Annotated[list[FeedSubscription], Field(description="The page, in order of id.")]


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
    of = Enforced(most, {"location": LOCATION, "keywords": ANY, "k": whole(min(max_k, MOST_K))}).validator
    return FeedValidators(
        posts=of(PostsBody),
        post=of(NewPost),
        subscriptions=of(FeedSubscriptionsBody),
        subscription=of(NewFeedSubscription),
        put_subscription=of(FeedSubscriptionBody),
        patch_subscription=of(FeedSubscriptionPatch),
    )
