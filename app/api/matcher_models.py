"""What the matchers' routes take and answer: models that describe it, and validators of a matcher's own dimensions."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field
from pydantic_core import SchemaValidator
from pydantic_core import core_schema as cs

from app.api.models import (
    ANY,
    ENDS,
    NAME,
    NUMBER,
    ON_ERROR,
    SECONDS,
    Answer,
    ElementProblem,
    Ignored,
    LeftOut,
    OnError,
    Range,
    Seconds,
    fields,
    listed,
    made,
)
from app.api.paging import Query
from app.api.values import LARGEST, Attribute, Name, Number, Strict
from indexes.matchers.model import MatcherConfig

RESERVED = frozenset({"op", "id", "k", "payload", "created", "distance"})

MOST_DIMENSIONS = 16

K = 20
"""How many winners an event has unless said."""

_MOST = f"How many winners each event has at most; {K} unless said."

Most = Annotated[int | None, Field(ge=1, description=_MOST)]

Weight = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0, le=LARGEST)]


class MatcherBody(Strict):
    """A matcher's configuration, which stays as it is made."""

    dimensions: Annotated[list[Attribute], Field(min_length=1, max_length=1000)]
    mode: Annotated[
        Literal["relaxed", "exact"],
        Field(
            description="`exact`: a subscription matches when all of its intervals do, and has one score. `relaxed`: "
            "when one of them does, and has a weight for each."
        ),
    ]
    combine: Annotated[
        Literal["sum", "max", "product"] | None,
        Field(description="How the weights that match make a score, in relaxed mode; `sum` unless said."),
    ] = None
    index: Annotated[
        Literal["auto", "sopt-r", "ir", "segment", "interval", "scored-r"],
        Field(description="How subscriptions are kept. `auto` is the fastest that is known for each event."),
    ] = "auto"
    name: Ignored = None
    seq: Ignored = None
    subscriptions: Ignored = None


class Matcher(Answer):
    """A matcher, its size and its `seq`. `combine` is null in exact mode."""

    seq: int
    name: str
    dimensions: list[str]
    mode: Literal["relaxed", "exact"]
    combine: Literal["sum", "max", "product"] | None
    index: str
    subscriptions: int


class Matchers(Answer):
    """A page of matchers, without `seq`."""

    items: list[dict[str, Any]]
    next: str | None


class Scored(Strict):
    """Closed intervals by dimension, and weights for the same dimensions (relaxed) or a score (exact).

    An end of null is unbounded. A dimension that is left out matches everything in exact mode and takes no part in
    relaxed mode.
    """

    intervals: dict[Attribute, Range] = Field(default_factory=dict)
    weights: Annotated[dict[Attribute, Weight], Field(default_factory=dict, description="In relaxed mode.")]
    score: Annotated[Number | LeftOut, Field(description="In exact mode, where it is needed and not null.")] = None
    ttl: Seconds = None


class NewInterest(Scored):
    """A subscription to a matcher's events. An id left out is made up."""

    id: Name | None = None


class InterestsBody(Strict):
    """Subscriptions to be made."""

    subscriptions: list[NewInterest]
    on_error: OnError = "refuse"


class InterestBody(Scored):
    """What a subscription is from now on."""

    id: Annotated[Name | None, Field(description="That of the path.")] = None
    seq: Ignored = None


class InterestPatch(Strict):
    """What changes in a subscription, by dimension: null takes one out with its weight, what is left out stays. A `ttl`
    of null takes the time limit away."""

    intervals: dict[Attribute, Range | None] = Field(default_factory=dict)
    weights: dict[Attribute, Weight | None] = Field(default_factory=dict)
    score: Annotated[Number | LeftOut, Field(description="In exact mode. Not null: it cannot be taken away.")] = None
    ttl: Seconds = None


class Interest(Answer):
    """A subscription, with `weights` in relaxed mode and a `score` in exact mode."""

    id: str
    intervals: dict[str, Range]
    weights: dict[str, float] | None = None
    score: float | None = None
    ttl: float | None = None


class InterestAnswer(Interest):
    """A subscription, at the matcher's `seq`."""

    seq: int


class InterestsAnswer(Answer):
    """The subscriptions that were made, in the order of the request; with `on_error=skip` each with its `index`."""

    seq: int
    subscriptions: list[Interest] | None = None
    errors: list[ElementProblem] | None = None
    replayed: bool = False


class Interests(Answer):
    """A page of subscriptions."""

    seq: int
    items: list[Interest]
    next: str | None


class MatchedEvent(Strict):
    """An event: for each dimension a number, a range `[lo, hi]` which matches what it overlaps, or nothing, which is
    matched only by what is unbounded on both sides. The payload goes to those who are told of it."""

    values: dict[Attribute, Number | Range | None]
    payload: Any = None


class MatchBody(Strict):
    """Events, and what is asked about them. With `notify` the winners' streams are told."""

    events: list[MatchedEvent]
    k: Annotated[Annotated[int, Field(ge=1)] | LeftOut, Field(description=f"{_MOST} Not null.")] = None
    explain: bool = False
    notify: bool = False
    on_error: OnError = "refuse"


class MatchQuery(Query):
    """What goes with NDJSON and Arrow bodies."""

    k: Most = None
    explain: bool = False
    notify: bool = False
    on_error: OnError = "refuse"


class Winner(Answer):
    """A subscription that an event won. `matched`, with `explain`, is what each dimension that matches added; null in
    exact mode."""

    id: str
    score: float
    matched: dict[str, float | None] | None = None


class MatchResult(Answer):
    """The winners of one event, best first. `looked_at`, with `explain`, counts the index entries that were read."""

    index: Annotated[int | None, Field(description="The event's place in the body, with `on_error=skip`.")] = None
    winners: list[Winner]
    looked_at: int | None = None


class Matched(Answer):
    """The winners of each event, in order."""

    seq: int
    results: list[MatchResult]
    errors: list[ElementProblem] | None = None
    replayed: bool = False


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
    whole = {"intervals": fields({}, dict.fromkeys(names, ENDS)), "ttl": cs.nullable_schema(SECONDS)}
    part = {**whole, "intervals": fields({}, dict.fromkeys(names, cs.nullable_schema(ENDS)))}
    needed: dict[str, cs.CoreSchema] = {}
    if config.relaxed:
        whole["weights"] = fields({}, dict.fromkeys(names, weight))
        part["weights"] = fields({}, dict.fromkeys(names, cs.nullable_schema(weight)))
    else:
        needed["score"] = part["score"] = NUMBER
    subscription = fields(needed, {"id": cs.nullable_schema(NAME), **whole})
    event = fields({"values": fields({}, dict.fromkeys(names, ANY))}, {"payload": ANY})
    switch = cs.bool_schema(strict=True)
    asked = {"k": cs.int_schema(strict=True, ge=1, le=max_k), "explain": switch, "notify": switch, "on_error": ON_ERROR}
    return MatcherValidators(
        subscriptions=made(fields({"subscriptions": listed(subscription, most)}, {"on_error": ON_ERROR})),
        subscription=made(subscription),
        put_subscription=made(fields(needed, {"id": cs.nullable_schema(NAME), **whole, "seq": ANY})),
        patch_subscription=made(fields({}, part)),
        match=made(fields({"events": listed(event, most)}, asked)),
        event=made(event),
    )
