"""What the relays' routes take and answer: models that describe it, and validators of a relay's own attributes."""

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
    OnError,
    Range,
    Seconds,
    fields,
    listed,
    made,
)
from app.api.paging import Query
from app.api.values import Attribute, Name, Number, Strict
from indexes.relays.model import MOST_ID, RelayConfig

RESERVED = frozenset({"op", "id", "k", "payload", "created", "distance"})

MOST_ATTRIBUTES = 16

MOST_LINKS = 64

MOST_K = 64
"""Most coverers that a relation graph may keep of each subscription."""

MOST_URL = 2_000

TRAVELLING = r"^[A-Za-z0-9._:-]{1,400}$"
"""What ids look like that come over a link."""

Forward = Annotated[
    bool | dict[str, bool], Field(description="Whether to forward it; by link where the relay has links.")
]
CoveredBy = Annotated[
    list[str] | dict[str, list[str]],
    Field(description="What covers it, oldest first; empty exactly where it is forwarded. By link where there are."),
]
ForwardUnsubscribe = Annotated[
    bool | dict[str, bool], Field(description="Whether to forward that it has ended; by link where there are.")
]
ForwardSubscribe = Annotated[
    list[str] | dict[str, list[str]],
    Field(description="What to subscribe before that, oldest first; by link where there are."),
]


class GraphBody(Strict):
    """What is kept of which subscription covers which: up to `k` coverers of each (`G`), all (`G*`), or the direct ones
    (`poset`). What is forwarded is the same."""

    kind: Literal["G", "G*", "poset"] = "G"
    k: Annotated[int | None, Field(ge=1, le=MOST_K, description="Of G only; 1 unless said.")] = None


class LinkBody(Strict):
    """A link to a relay of another service. In a PATCH, and in a PUT of a link that stands, what is left out stays."""

    url: Annotated[str | None, Field(max_length=MOST_URL, description="Where that service is: http or https.")] = None
    relay: Annotated[Name | None, Field(description="The relay there.")] = None
    link: Annotated[Name | None, Field(description="What the link is called there.")] = None
    key: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=256,
            pattern=r"^[!-~]+$",
            description="A key of that service with relays:write; never shown again.",
        ),
    ] = None
    state: Ignored = None
    reason: Ignored = None
    refused: Ignored = None
    queue: Ignored = None
    next: Ignored = None
    peer: Ignored = None


class RelayBody(Strict):
    """A relay's configuration, which stays as it is made but for its links."""

    attributes: Annotated[list[Attribute], Field(min_length=1, max_length=1000)]
    graph: GraphBody = GraphBody()
    index: Annotated[
        Literal["kd", "zorder", "linear"], Field(description="How coverers are found. What is answered is the same.")
    ] = "kd"
    links: Annotated[
        dict[Name, LinkBody] | None,
        Field(description="By name. Where the relay is there they become these; left out, they stay as they are."),
    ] = None
    name: Ignored = None
    seq: Ignored = None
    service: Ignored = None
    subscriptions: Ignored = None
    forwarded: Ignored = None
    covering_ratio: Ignored = None
    statistics: Ignored = None


class RelayPatch(Strict):
    """What changes in a relay: links that are added or changed, and with null taken out."""

    links: dict[Name, LinkBody | None]


class RefusedMessage(Answer):
    """A message that the other side of a link does not take; all that is queued behind it waits."""

    message: Annotated[int, Field(description="Its number.")]
    field: Annotated[str | None, Field(description="What of it is refused, where the other side says so.")]


class Link(Answer):
    """A link as it stands. `queue` messages wait until the other side has them; the next one has the number `next`."""

    url: str
    relay: str
    link: str
    state: Literal["up", "down", "syncing"]
    reason: Annotated[str | None, Field(description="Why it is down, where it is.")] = None
    refused: Annotated[RefusedMessage | None, Field(description="What it is down for, where it is for that.")] = None
    queue: int
    next: int
    peer: Annotated[str | None, Field(description="Who answers there, as `<service>:<relay>`, once it has.")] = None


class Relay(Answer):
    """A relay, its sizes and its `seq`.

    `forwarded` counts the subscriptions that are forwarded, `covering_ratio` is the share of those that are not; by
    link where there are links.
    """

    seq: int
    name: str
    attributes: list[str]
    graph: dict[str, Any]
    index: str
    service: str
    subscriptions: int
    forwarded: int | dict[str, int]
    covering_ratio: float | dict[str, float]
    statistics: dict[str, Any]
    links: dict[str, Link]


class Relays(Answer):
    """A page of relays, without `seq`."""

    items: list[dict[str, Any]]
    next: str | None


class Boxed(Strict):
    """A closed interval for each attribute; an end of null, and an attribute that is left out, is unbounded."""

    box: dict[Attribute, Range] = Field(default_factory=dict)
    link: Annotated[
        Name | None, Field(description="The link that it is to be taken to have come over; null for a local one.")
    ] = None
    ttl: Seconds = None


class NewBox(Boxed):
    """A subscription of a relay. An id left out is made up."""

    id: Name | None = None


class BoxesBody(Strict):
    """Subscriptions to be made."""

    subscriptions: list[NewBox]
    on_error: OnError = "refuse"


class BoxBody(Boxed):
    """What a subscription is from now on."""

    id: Annotated[Name | None, Field(description="That of the path.")] = None
    seq: Ignored = None
    forward: Ignored = None
    covered_by: Ignored = None
    forward_unsubscribe: Ignored = None
    forward_subscribe: Ignored = None


class BoxPatch(Strict):
    """What changes in a subscription: ends by attribute, null for unbounded; what is left out stays. A `ttl` of null
    takes the time limit away."""

    box: dict[Attribute, Range | None] = Field(default_factory=dict)
    ttl: Seconds = None


class Box(Answer):
    """A subscription: every attribute's interval, and the link that it came over."""

    id: str
    box: dict[str, Range]
    link: str | None
    ttl: float | None = None


class BoxAnswer(Box):
    """A subscription, at the relay's `seq`; after it was made or changed with what to do about it upstream."""

    seq: int
    forward: Forward | None = None
    covered_by: CoveredBy | None = None
    forward_unsubscribe: ForwardUnsubscribe | None = None
    forward_subscribe: ForwardSubscribe | None = None


class Decision(Answer):
    """What to do upstream about a new subscription; `index` is its place in the body, with `on_error=skip`."""

    index: int | None = None
    id: str
    forward: Forward
    covered_by: CoveredBy


class Decisions(Answer):
    """What to do upstream, in the order of the request."""

    seq: int
    results: list[Decision] | None = None
    errors: list[ElementProblem] | None = None
    replayed: bool = False


class Ended(Answer):
    """What to do upstream about a subscription that has ended: first `forward_subscribe`."""

    seq: int
    forward_unsubscribe: ForwardUnsubscribe
    forward_subscribe: ForwardSubscribe
    replayed: bool = False


class EndedOne(Answer):
    """What to do upstream about one of several that have ended."""

    id: str
    forward_unsubscribe: ForwardUnsubscribe
    forward_subscribe: ForwardSubscribe


class EndedMany(Answer):
    """How many have ended, and what to do upstream about each, in order."""

    seq: int
    deleted: int
    results: list[EndedOne] | None = None
    replayed: bool = False


class Boxes(Answer):
    """A page of subscriptions."""

    seq: int
    items: list[Box]
    next: str | None


OPS = frozenset({"reset", "subscribe", "unsubscribe", "notify"})
"""What a message of a link can be: branches of its validator, which are no fields."""


class CommandsQuery(Query):
    """What becomes of lines that cannot be carried out."""

    on_error: OnError = "refuse"


class Notification(Strict):
    """A point, with a value for every attribute. The payload goes to those who are told of it; it does not go back over
    the link `from`."""

    values: dict[Attribute, Number]
    payload: Any = None
    from_: Annotated[Name | None, Field(alias="from")] = None


class NotificationsBody(Strict):
    """Notifications for those whose subscriptions they meet."""

    notifications: list[Notification]
    on_error: OnError = "refuse"


class DeliveryResult(Answer):
    """Who gets a notification: local subscriptions, oldest first, and links."""

    index: Annotated[int | None, Field(description="Its place in the body, with `on_error=skip`.")] = None
    subscriptions: list[str]
    links: list[str]
    truncated: Annotated[bool | None, Field(description="Not all who get it are named.")] = None


class Notified(Answer):
    """Who gets each notification, in order."""

    seq: int
    results: list[DeliveryResult]
    errors: list[ElementProblem] | None = None
    replayed: bool = False


Identity = Annotated[str, Field(strict=True, pattern=r"^[A-Za-z0-9._:-]{1,257}$")]
"""A relay in an overlay, as ``<service>:<relay>``."""

Behind = Annotated[
    list[Identity] | None, Field(max_length=10_000, description="Who can be reached there but over this link.")
]


class LinkMessage(Strict):
    """A message of the relay on the other side, see `docs/relays.md`."""

    n: Annotated[int, Field(ge=0, lt=1 << 62)]
    op: Literal["reset", "subscribe", "unsubscribe", "notify"]
    id: Annotated[str | None, Field(pattern=TRAVELLING)] = None
    box: dict[Attribute, Range] | None = None
    follow: Annotated[int | None, Field(ge=0, lt=1 << 31)] = None
    values: dict[Attribute, Number] | None = None
    payload: Any = None
    mark: tuple[str, int] | None = None


Epoch = Annotated[str, Field(strict=True, pattern=r"^[!-~]{1,128}$")]


class MessagesBody(Strict):
    """What a relay on the other side of a link has to say, in order of `n`, under its `epoch`."""

    epoch: Epoch
    messages: list[LinkMessage]
    identity: Annotated[Identity | None, Field(description="Who sends it.")] = None
    behind: Behind = None


class MessagesAnswer(Answer):
    """The epoch of what this side sends, and the number of the message that is expected next."""

    epoch: str | None
    next: int
    identity: str
    behind: list[str]


class ProbeBody(Strict):
    """Who asks whether a link to it could be, and who can be reached there."""

    identity: Identity
    behind: Annotated[list[Identity], Field(default_factory=list, max_length=10_000)]


class ProbeAnswer(Answer):
    """Who is here, and who can be reached here but over that link."""

    identity: str
    behind: list[str]


# --- validators that know a relay's attributes ------------------------------------------------------------------------


class RelayValidators(NamedTuple):
    """Validators for the bodies of relays with these attributes."""

    subscriptions: SchemaValidator
    subscription: SchemaValidator
    put_subscription: SchemaValidator
    patch_subscription: SchemaValidator
    command: SchemaValidator
    notifications: SchemaValidator
    notification: SchemaValidator
    messages: SchemaValidator


@lru_cache(maxsize=256)
def validators(attributes: tuple[str, ...], most: int) -> RelayValidators:
    """The validators of a relay; `most` elements in a list."""
    box = fields({}, dict.fromkeys(attributes, ENDS))
    values = fields(dict.fromkeys(attributes, NUMBER), {})
    rest = {"box": box, "link": cs.nullable_schema(NAME), "ttl": cs.nullable_schema(SECONDS)}
    new = {"id": cs.nullable_schema(NAME), **rest}
    part = fields({}, dict.fromkeys(attributes, cs.nullable_schema(ENDS)))
    subscription = fields({}, new)
    notification = fields({"values": values}, {"payload": ANY, "from": cs.nullable_schema(NAME)})
    return RelayValidators(
        subscriptions=made(fields({"subscriptions": listed(subscription, most)}, {"on_error": ON_ERROR})),
        subscription=made(subscription),
        put_subscription=made(fields({}, {**new, **dict.fromkeys(("seq", *DECIDED), ANY)})),
        patch_subscription=made(fields({}, {"box": part, "ttl": cs.nullable_schema(SECONDS)})),
        command=made(fields({"op": cs.literal_schema(["subscribe", "unsubscribe"])}, new)),
        notifications=made(fields({"notifications": listed(notification, most)}, {"on_error": ON_ERROR})),
        notification=made(notification),
        messages=made(_messages(values, box, min(most, MOST_MESSAGES))),
    )


MOST_MESSAGES = 10_000
"""Messages in a request; those who send them send 1,000, and fewer after a 413."""

DECIDED = ("forward", "covered_by", "forward_unsubscribe", "forward_subscribe")
"""What answers say beside a subscription."""


def _messages(values: cs.CoreSchema, box: cs.CoreSchema, most: int) -> cs.CoreSchema:
    """What comes over a link. A box that lacks an attribute is unbounded there."""
    n = {"n": cs.int_schema(strict=True, ge=0, lt=1 << 62)}
    id = cs.str_schema(strict=True, min_length=1, max_length=MOST_ID, pattern=TRAVELLING)
    identity = cs.str_schema(strict=True, pattern=r"^[A-Za-z0-9._:-]{1,257}$")
    epoch = cs.str_schema(strict=True, pattern=r"^[!-~]{1,128}$")
    mark = cs.tuple_schema([epoch, cs.int_schema(strict=True, ge=0, lt=1 << 62)])

    def op(name: str, needed: dict[str, cs.CoreSchema], rest: dict[str, cs.CoreSchema] | None = None) -> cs.CoreSchema:
        return fields({**n, "op": cs.literal_schema([name]), **needed}, rest or {})

    choices = {
        "reset": op("reset", {"follow": cs.int_schema(strict=True, ge=0, lt=1 << 31)}),
        "subscribe": op("subscribe", {"id": id, "box": box}),
        "unsubscribe": op("unsubscribe", {"id": id}),
        "notify": op("notify", {"values": values}, {"payload": ANY, "mark": cs.nullable_schema(mark)}),
    }
    message = cs.tagged_union_schema(choices, "op")
    return fields(
        {"epoch": epoch, "messages": listed(message, most)},
        {
            "identity": cs.nullable_schema(identity),
            "behind": cs.nullable_schema(cs.list_schema(identity, max_length=10_000, strict=True)),
        },
    )


def graph_of(config: RelayConfig) -> dict[str, Any]:
    """A relay's graph as it is shown."""
    return {"kind": config.graph, **({"k": config.k} if config.graph == "G" else {})}
