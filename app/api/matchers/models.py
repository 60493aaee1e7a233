"""Requests and responses of matchers: models that describe them, and validators of a matcher's own dimensions."""

from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field
from pydantic_core import SchemaValidator
from pydantic_core import core_schema as cs

from app.api.models import (
    ANY,
    ENDS,
    BulkBody,
    BulkResponse,
    Enforced,
    Ignored,
    LeftOut,
    NewSubscriptionId,
    OnErrorQuery,
    Page,
    PathSubscriptionId,
    Range,
    ResourceName,
    ResponseModel,
    Seconds,
    SeqNumber,
    SeqPage,
    ShownSeconds,
    SubscriptionCount,
    SubscriptionId,
    by_name,
    whole,
)
from app.api.values import LARGEST, Attribute, Number, Strict
from indexes.matchers.config import MatcherConfig

RESERVED = frozenset({"op", "id", "k", "payload", "created", "distance"})

MOST_DIMENSIONS = 16

K = 20
"""Default number of winners."""

_MOST = f"How many winners each event has at most; {K} by default."

Most = Annotated[int | None, Field(ge=1, description=_MOST)]

Weight = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0, le=LARGEST)]


class MatcherBody(Strict):
    """A matcher's configuration. It cannot be changed."""

    dimensions: Annotated[
        list[Attribute],
        Field(
            min_length=1,
            max_length=1000,
            description="The attributes of events, in the order in which scores are summed.",
        ),
    ]
    mode: Annotated[
        Literal["relaxed", "exact"],
        Field(
            description="`exact`: a subscription matches when all of its intervals do, and has one score. `relaxed`: "
            "when one of them does, and has a weight for each."
        ),
    ]
    combine: Annotated[
        Literal["sum", "max", "product"] | None,
        Field(description="How the weights that match make a score, in relaxed mode; `sum` by default."),
    ] = None
    index: Annotated[
        Literal["auto", "sopt-r", "ir", "segment", "interval", "scored-r"],
        Field(description="How subscriptions are kept. `auto` is the fastest that is known for each event."),
    ] = "auto"
    name: Ignored = None
    seq: Ignored = None
    subscriptions: Ignored = None


class MatcherSummary(ResponseModel):
    """A matcher as a page lists it."""

    name: ResourceName
    dimensions: Annotated[
        list[str], Field(description="The attributes of events, in the order in which scores are summed.")
    ]
    mode: Annotated[Literal["relaxed", "exact"], Field(description="Whether all dimensions must match or any.")]
    combine: Annotated[Literal["sum", "max", "product"] | None, Field(description="How weights become a score.")]
    index: Annotated[str, Field(description="How subscriptions are kept.")]
    subscriptions: SubscriptionCount


class Matcher(MatcherSummary):
    """A matcher, its size and its `seq`. `combine` is null in exact mode."""

    seq: SeqNumber


class MatcherPage(Page):
    """A page of matchers."""

    items: Annotated[list[MatcherSummary], Field(description="The page, in order of name.")]


class MatcherSubscriptionFields(Strict):
    """Closed intervals by dimension, and weights for the same dimensions (relaxed) or a score (exact).

    An end of null is unbounded. A dimension that is left out matches everything in exact mode and takes no part in
    relaxed mode.
    """

    intervals: Annotated[
        dict[Attribute, Range], Field(default_factory=dict, description="`[low, high]` by dimension; null: unbounded.")
    ]
    weights: Annotated[dict[Attribute, Weight], Field(default_factory=dict, description="In relaxed mode.")]
    score: Annotated[Number | LeftOut, Field(description="In exact mode, where it is needed and not null.")] = None
    ttl: Seconds = None


class NewMatcherSubscription(MatcherSubscriptionFields):
    """A subscription to a matcher's events. An absent id is generated."""

    id: NewSubscriptionId = None


class MatcherSubscriptionsBody(BulkBody):
    """Subscriptions to create."""

    subscriptions: Annotated[list[NewMatcherSubscription], Field(description="The subscriptions.")]


class MatcherSubscriptionBody(MatcherSubscriptionFields):
    """A subscription as it is to be."""

    id: PathSubscriptionId = None
    seq: Ignored = None


class MatcherSubscriptionPatch(Strict):
    """Changes of a subscription, by dimension: null removes one with its weight, what is absent stays. A `ttl` of null
    removes the time limit."""

    intervals: Annotated[
        dict[Attribute, Range | None],
        Field(default_factory=dict, description="Changed intervals, by dimension; null takes one out."),
    ]
    weights: Annotated[
        dict[Attribute, Weight | None], Field(default_factory=dict, description="Changed weights, by dimension.")
    ]
    score: Annotated[Number | LeftOut, Field(description="In exact mode. Not null: it cannot be taken away.")] = None
    ttl: Seconds = None


class MatcherSubscription(ResponseModel):
    """A subscription, with `weights` in relaxed mode and a `score` in exact mode."""

    id: SubscriptionId
    intervals: Annotated[dict[str, Range], Field(description="`[low, high]` by dimension; null: unbounded.")]
    weights: Annotated[dict[str, float] | None, Field(description="In relaxed mode: weights by dimension.")] = None
    score: Annotated[float | None, Field(description="In exact mode: its score.")] = None
    ttl: ShownSeconds = None


class MatcherSubscriptionResponse(MatcherSubscription):
    """A subscription, at the matcher's `seq`."""

    seq: SeqNumber


class MatcherSubscriptionsResponse(BulkResponse):
    """The new subscriptions, in the order of the request; with `on_error=skip` each with its `index`."""

    subscriptions: Annotated[list[MatcherSubscription] | None, Field(description="The new subscriptions.")] = None


class MatcherSubscriptionPage(SeqPage):
    """A page of subscriptions."""

    items: Annotated[list[MatcherSubscription], Field(description="The page, in order of id.")]


class MatchEvent(Strict):
    """An event: for each dimension a number, a range `[lo, hi]` which matches what it overlaps, or nothing, which is
    matched only by what is unbounded on both sides. The streams of the winners get the payload."""

    values: Annotated[
        dict[Attribute, Number | Range | None],
        Field(description="A number, a range `[low, high]` or null by dimension."),
    ]
    payload: Annotated[Any, Field(description="Any JSON value for the streams of the winners.")] = None


class MatchBody(BulkBody):
    """Events to match. With `notify` the streams of the winners receive them."""

    events: Annotated[list[MatchEvent], Field(description="The events.")]
    k: Annotated[Annotated[int, Field(ge=1)] | LeftOut, Field(description=f"{_MOST} Not null.")] = None
    explain: Annotated[bool, Field(description="Whether winners say what each dimension added.")] = False
    notify: Annotated[bool, Field(description="Whether the streams of the winners receive the events.")] = False


class MatchQuery(OnErrorQuery):
    """Query parameters for NDJSON and Arrow bodies."""

    k: Most = None
    explain: Annotated[bool, Field(description="Whether winners say what each dimension added.")] = False
    notify: Annotated[bool, Field(description="Whether the streams of the winners receive the events.")] = False


class Winner(ResponseModel):
    """A subscription that an event won. `matched`, with `explain`, is what each dimension that matches added; null in
    exact mode."""

    id: SubscriptionId
    score: Annotated[float, Field(description="Its score.")]
    matched: Annotated[
        dict[str, float | None] | None, Field(description="With `explain`: what each dimension added.")
    ] = None


class MatchResult(ResponseModel):
    """The winners of one event, best first. `looked_at`, with `explain`, counts the index entries that were read."""

    index: Annotated[int | None, Field(description="The event's place in the body, with `on_error=skip`.")] = None
    winners: Annotated[list[Winner], Field(description="The winners, best first.")]
    looked_at: Annotated[int | None, Field(description="With `explain`: index entries read.")] = None


class MatchResponse(BulkResponse):
    """The winners of each event, in order."""

    results: Annotated[list[MatchResult], Field(description="One for each event.")]


# --- validators that know a matcher's dimensions --------------------------------------------------------------------


class MatcherValidators(NamedTuple):
    """Validators for the bodies of matchers with these dimensions and this mode."""

    subscriptions: SchemaValidator
    subscription: SchemaValidator
    put_subscription: SchemaValidator
    patch_subscription: SchemaValidator
    match: SchemaValidator
    event: SchemaValidator


@lru_cache(maxsize=256)
def validators(config: MatcherConfig, most: int, max_k: int) -> MatcherValidators:
    """The validators of a matcher; `most` elements in a list. The values of events are left to `EventReader`, which
    checks them by column."""
    names = config.dimensions
    weight = cs.float_schema(strict=True, allow_inf_nan=False, ge=0, le=LARGEST)
    special: dict[str, cs.CoreSchema | None] = {
        "values": by_name(names, ANY),
        "intervals": by_name(names, ENDS),
        "weights": by_name(names, weight) if config.relaxed else None,
        "k": whole(max_k),
    }
    changed = {**special, "intervals": by_name(names, cs.nullable_schema(ENDS))}
    needed: tuple[str, ...] = ()
    if config.relaxed:
        changed["weights"] = by_name(names, cs.nullable_schema(weight))
        special["score"] = changed["score"] = None
    else:
        needed = ("score",)
    of = Enforced(most, special, needed).validator
    return MatcherValidators(
        subscriptions=of(MatcherSubscriptionsBody),
        subscription=of(NewMatcherSubscription),
        put_subscription=of(MatcherSubscriptionBody),
        patch_subscription=Enforced(most, changed).validator(MatcherSubscriptionPatch),
        match=of(MatchBody),
        event=of(MatchEvent),
    )
