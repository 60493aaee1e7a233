"""Requests and responses of relays: models that describe them, and validators of a relay's own attributes."""

from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field
from pydantic_core import SchemaValidator
from pydantic_core import core_schema as cs

from app.api.models import (
    ANY,
    ENDS,
    NUMBER,
    BulkBody,
    BulkResponse,
    DeletedCount,
    Enforced,
    Ignored,
    Intervals,
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
    SeqResponse,
    ShownSeconds,
    SubscriptionCount,
    SubscriptionId,
    by_name,
    fields,
    listed,
    made,
)
from app.api.problems import VISIBLE_PATTERN
from app.api.values import Attribute, Name, Number, Strict
from indexes.relays.config import MOST_ID, RelayConfig

RESERVED = frozenset({"op", "id", "k", "payload", "created", "distance"})

MOST_ATTRIBUTES = 16

MOST_LINKS = 64

MOST_K = 64
"""Most coverers that a relation graph may keep of each subscription."""

MOST_URL = 2_000

TRAVELLING = r"^[A-Za-z0-9._:-]{1,400}$"
"""Ids that come over a link."""

Forward = Annotated[
    bool | dict[str, bool], Field(description="Whether to forward it; by link where the relay has links.")
]
CoveredBy = Annotated[
    list[str] | dict[str, list[str]],
    Field(
        description="Its coverers, oldest first; empty exactly if it is forwarded. By link where the relay has links."
    ),
]
ForwardUnsubscribe = Annotated[
    bool | dict[str, bool], Field(description="Whether to forward its end; by link where the relay has links.")
]
ForwardSubscribe = Annotated[
    list[str] | dict[str, list[str]],
    Field(description="What to subscribe before that, oldest first; by link where the relay has links."),
]


class GraphBody(Strict):
    """The relation graph: up to `k` coverers of each subscription (`G`), all (`G*`), or the direct ones (`poset`). What
    is forwarded is the same."""

    kind: Annotated[Literal["G", "G*", "poset"], Field(description="Which coverers of a subscription are kept.")] = "G"
    k: Annotated[int | None, Field(ge=1, le=MOST_K, description="Of `G` only; 1 by default.")] = None


class RelayLinkBody(Strict):
    """A link to a relay of another service. What is absent stays as it is in a PATCH, and in a PUT of a link that
    exists."""

    url: Annotated[str | None, Field(max_length=MOST_URL, description="Where that service is: http or https.")] = None
    relay: Annotated[Name | None, Field(description="The relay there.")] = None
    link: Annotated[Name | None, Field(description="What the link is called there.")] = None
    key: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=256,
            pattern=VISIBLE_PATTERN,
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
    """A relay's configuration. Only its links can be changed."""

    attributes: Annotated[
        list[Attribute], Field(min_length=1, max_length=1000, description="The attributes of notifications.")
    ]
    graph: Annotated[GraphBody, Field(description="The relation graph.")] = GraphBody()
    index: Annotated[
        Literal["kd", "zorder", "linear"], Field(description="How coverers are found; it does not change any response.")
    ] = "kd"
    links: Annotated[
        dict[Name, RelayLinkBody] | None,
        Field(description="Links by name. Those of a relay that exists become these; absent, they stay."),
    ] = None
    name: Ignored = None
    seq: Ignored = None
    service: Ignored = None
    subscriptions: Ignored = None
    forwarded: Ignored = None
    covering_ratio: Ignored = None
    statistics: Ignored = None


class RelayPatch(Strict):
    """Links that are added or changed, and with null removed."""

    links: Annotated[dict[Name, RelayLinkBody | None], Field(description="Links by name; null removes one.")]


class RefusedMessage(ResponseModel):
    """A message that the other side of a link refuses; all that is queued after it waits."""

    message: Annotated[int, Field(description="Its number.")]
    field: Annotated[str | None, Field(description="The refused field, if the other side names it.")]


class RelayLink(ResponseModel):
    """The state of a link. `queue` messages are not yet acknowledged; the next one has the number `next`."""

    url: Annotated[str, Field(description="Where the other service is.")]
    relay: Annotated[str, Field(description="The relay there.")]
    link: Annotated[str, Field(description="Name of the link there.")]
    state: Annotated[
        Literal["up", "down", "syncing"],
        Field(description="`up`: messages flow; `syncing`: positions are being agreed on."),
    ]
    reason: Annotated[str | None, Field(description="Why it is down, if it is.")] = None
    refused: Annotated[
        RefusedMessage | None, Field(description="The message that it is down for, if one is refused.")
    ] = None
    queue: Annotated[int, Field(description="Messages not yet acknowledged.")]
    next: Annotated[int, Field(description="Number of the next message.")]
    peer: Annotated[
        str | None, Field(description="The relay there, as `<service>:<relay>`, once it has responded.")
    ] = None


class RelaySummary(ResponseModel):
    """A relay as a page lists it."""

    name: ResourceName
    attributes: Annotated[list[str], Field(description="The attributes of notifications.")]
    graph: Annotated[dict[str, Any], Field(description="The relation graph.")]
    index: Annotated[str, Field(description="How coverers are found.")]
    service: Annotated[str, Field(description="Name of this service in ids that travel.")]
    subscriptions: SubscriptionCount
    forwarded: Annotated[int | dict[str, int], Field(description="How many are forwarded.")]
    covering_ratio: Annotated[float | dict[str, float], Field(description="Share that is not forwarded.")]
    statistics: Annotated[dict[str, Any], Field(description="Searches and bytes of the index.")]
    links: Annotated[dict[str, RelayLink], Field(description="Links by name.")]


class Relay(RelaySummary):
    """A relay, its sizes and its `seq`.

    `forwarded` counts the subscriptions that are forwarded, `covering_ratio` is the share of those that are not; by
    link where there are links.
    """

    seq: SeqNumber


class RelayPage(Page):
    """A page of relays."""

    items: Annotated[list[RelaySummary], Field(description="The page, in order of name.")]


class RelaySubscriptionFields(Strict):
    """A closed interval for each attribute; an end of null, and an attribute that is left out, is unbounded."""

    box: Annotated[
        dict[Attribute, Range],
        Field(default_factory=dict, description="`[low, high]` by attribute; null or absent: unbounded."),
    ]
    link: Annotated[
        Name | None, Field(description="The link that it counts as received over; null for a local one.")
    ] = None
    ttl: Seconds = None


class NewRelaySubscription(RelaySubscriptionFields):
    """A subscription of a relay. An id left out is made up."""

    id: NewSubscriptionId = None


class RelaySubscriptionsBody(BulkBody):
    """Subscriptions to be made."""

    subscriptions: Annotated[list[NewRelaySubscription], Field(description="The subscriptions.")]


class RelaySubscriptionBody(RelaySubscriptionFields):
    """A subscription as it is to be."""

    id: PathSubscriptionId = None
    seq: Ignored = None
    forward: Ignored = None
    covered_by: Ignored = None
    forward_unsubscribe: Ignored = None
    forward_subscribe: Ignored = None


class RelaySubscriptionPatch(Strict):
    """Changes of a subscription: intervals by attribute, null for unbounded; what is absent stays. A `ttl` of null
    removes the time limit."""

    box: Annotated[
        dict[Attribute, Range | None],
        Field(default_factory=dict, description="Changed intervals, by attribute; null: unbounded."),
    ]
    ttl: Seconds = None


class RelaySubscription(ResponseModel):
    """A subscription: every attribute's interval, and the link that it came over."""

    id: SubscriptionId
    box: Intervals
    link: Annotated[str | None, Field(description="The link that it came over; null: local.")]
    ttl: ShownSeconds = None


class RelaySubscriptionResponse(RelaySubscription):
    """A subscription, at the relay's `seq`; after a change with what to forward."""

    seq: SeqNumber
    forward: Annotated[
        Forward | None, Field(description="Whether to forward it; by link where the relay has links.")
    ] = None
    covered_by: Annotated[
        CoveredBy | None, Field(description="Its coverers, oldest first; by link where the relay has links.")
    ] = None
    forward_unsubscribe: Annotated[
        ForwardUnsubscribe | None, Field(description="Whether to forward the end of the previous one.")
    ] = None
    forward_subscribe: Annotated[
        ForwardSubscribe | None, Field(description="What to subscribe before that, oldest first.")
    ] = None


class ForwardingDecision(ResponseModel):
    """Whether to forward a new subscription; `index` is its index in the body, with `on_error=skip`."""

    index: Annotated[int | None, Field(description="With `on_error=skip`: its index in the body.")] = None
    id: SubscriptionId
    forward: Forward
    covered_by: CoveredBy


class RelaySubscriptionsResponse(BulkResponse):
    """What to forward, in the order of the request."""

    results: Annotated[list[ForwardingDecision] | None, Field(description="One for each subscription.")] = None


class RelaySubscriptionDeleted(SeqResponse):
    """What to forward about a deleted subscription: first `forward_subscribe`."""

    forward_unsubscribe: ForwardUnsubscribe
    forward_subscribe: ForwardSubscribe


class DeletionDecision(ResponseModel):
    """What to forward about one of several deleted subscriptions."""

    id: SubscriptionId
    forward_unsubscribe: ForwardUnsubscribe
    forward_subscribe: ForwardSubscribe


class RelaySubscriptionsDeleted(SeqResponse):
    """How many were deleted, and what to forward about each, in order."""

    deleted: DeletedCount
    results: Annotated[list[DeletionDecision] | None, Field(description="One for each deleted subscription.")] = None


class RelaySubscriptionPage(SeqPage):
    """A page of subscriptions."""

    items: Annotated[list[RelaySubscription], Field(description="The page, in order of id.")]


OPS = frozenset({"reset", "subscribe", "unsubscribe", "notify"})
"""What a message of a link can be: branches of its validator, which are no fields."""


class RelayCommand(NewRelaySubscription):
    """A line of a request: a subscription that begins, or with its `id` alone one that ends."""

    op: Annotated[Literal["subscribe", "unsubscribe"], Field(description="Whether it begins or ends.")]


class CommandsQuery(OnErrorQuery):
    """What happens to lines that cannot be executed."""


class Notification(Strict):
    """A point, with a value for every attribute. The recipients get the payload. A notification does not go back over
    the link `from`."""

    values: Annotated[dict[Attribute, Number], Field(description="Values of all attributes.")]
    payload: Annotated[Any, Field(description="Any JSON value for the recipients.")] = None
    from_: Annotated[
        Name | None, Field(alias="from", description="The link that it came over; null: published here.")
    ] = None


class NotificationsBody(BulkBody):
    """Notifications, in order."""

    notifications: Annotated[list[Notification], Field(description="Notifications, in order.")]


class NotificationResult(ResponseModel):
    """The recipients of a notification: local subscriptions, oldest first, and links."""

    index: Annotated[int | None, Field(description="Its place in the body, with `on_error=skip`.")] = None
    subscriptions: Annotated[list[str], Field(description="Ids of the local recipients, oldest first.")]
    links: Annotated[list[str], Field(description="Links behind which there are recipients.")]
    truncated: Annotated[bool | None, Field(description="Not all recipients are named.")] = None


class NotificationsResponse(BulkResponse):
    """The recipients of each notification, in order."""

    results: Annotated[list[NotificationResult], Field(description="One for each notification.")]


Identity = Annotated[str, Field(strict=True, pattern=r"^[A-Za-z0-9._:-]{1,257}$")]
"""A relay in an overlay, as ``<service>:<relay>``."""

Behind = Annotated[
    list[Identity] | None,
    Field(max_length=10_000, description="Relays that can be reached there, other than over this link."),
]


class LinkMessage(Strict):
    """A message of the relay on the other side, see `docs/relays.md`."""

    n: Annotated[int, Field(ge=0, lt=1 << 62, description="Number of the message on this link.")]
    op: Annotated[Literal["reset", "subscribe", "unsubscribe", "notify"], Field(description="What the message says.")]
    id: Annotated[str | None, Field(pattern=TRAVELLING, description="Id of the subscription.")] = None
    box: Annotated[dict[Attribute, Range] | None, Field(description="`[low, high]` by attribute.")] = None
    follow: Annotated[int | None, Field(ge=0, lt=1 << 31, description="Of `reset`: how many subscriptions follow.")] = (
        None
    )
    values: Annotated[dict[Attribute, Number] | None, Field(description="Of `notify`: values of all attributes.")] = (
        None
    )
    payload: Annotated[Any, Field(description="Of `notify`: the payload.")] = None
    mark: Annotated[tuple[str, int] | None, Field(description="Of `notify`: epoch and number at its origin.")] = None


Epoch = Annotated[str, Field(strict=True, pattern=r"^[!-~]{1,128}$")]


class LinkMessagesBody(Strict):
    """Messages of the relay on the other side of a link, in order of `n`, under its `epoch`."""

    epoch: Annotated[Epoch, Field(description="Epoch of the sender.")]
    messages: Annotated[list[LinkMessage], Field(description="Messages, in order of `n`.")]
    identity: Annotated[Identity | None, Field(description="The sender, as `<service>:<relay>`.")] = None
    behind: Behind = None


class LinkMessagesResponse(ResponseModel):
    """The epoch of what this side sends, and the number of the message that is expected next."""

    epoch: Annotated[str | None, Field(description="Epoch of the receiver; null before the first message to it.")]
    next: Annotated[int, Field(description="Number of the message expected next.")]
    identity: Annotated[str, Field(description="The relay, as `<service>:<relay>`.")]
    behind: Annotated[list[str], Field(description="Relays that can be reached there, other than over this link.")]


class LinkProbeBody(Strict):
    """A relay that wants a link, and the relays that can be reached through it."""

    identity: Annotated[Identity, Field(description="The relay, as `<service>:<relay>`.")]
    behind: Annotated[
        list[Identity],
        Field(
            default_factory=list,
            max_length=10000,
            description="Relays that can be reached there, other than over this link.",
        ),
    ]


class LinkProbeResponse(ResponseModel):
    """This relay, and the relays that can be reached here other than over that link."""

    identity: Annotated[str, Field(description="The relay, as `<service>:<relay>`.")]
    behind: Annotated[list[str], Field(description="Relays that can be reached there, other than over this link.")]


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
    box, values = by_name(attributes, ENDS), fields(dict.fromkeys(attributes, NUMBER), {})
    of = Enforced(most, {"box": box, "values": values}).validator
    changed = Enforced(most, {"box": by_name(attributes, cs.nullable_schema(ENDS))})
    return RelayValidators(
        subscriptions=of(RelaySubscriptionsBody),
        subscription=of(NewRelaySubscription),
        put_subscription=of(RelaySubscriptionBody),
        patch_subscription=changed.validator(RelaySubscriptionPatch),
        command=of(RelayCommand),
        notifications=of(NotificationsBody),
        notification=of(Notification),
        messages=made(_messages(values, box, min(most, MOST_MESSAGES))),
    )


MOST_MESSAGES = 10_000
"""Messages in a request; those who send them send 1,000, and fewer after a 413."""

DECIDED = ("forward", "covered_by", "forward_unsubscribe", "forward_subscribe")
"""Fields of a response that are not of the subscription itself."""


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
