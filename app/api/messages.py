"""What streams send and what a WebSocket takes, as models and one table: the source of asyncapi.yaml.

Nothing is validated by these models, and nothing of the service imports them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StrictFloat, StrictInt, StrictStr

from app.api.boards.models import RankedList, Tile
from app.api.examples import EPOCH, EXAMPLES
from app.api.feeds.models import RankedPost
from app.api.jobs import JobResponse
from app.api.maps.models import CandidateList, EntryList, Numbers
from app.api.maps.models import RankedList as RankedCandidates
from app.api.models import ResponseModel
from app.api.pages import Query
from app.api.streams import FollowQuery, StreamQuery
from app.api.values import Strict

# --- messages of the service ------------------------------------------------------------------------------------------


class SeqMessage(ResponseModel):
    """The sequence number alone."""

    seq: Annotated[int, Field(description="Everything up to this sequence number has been sent.")]


class BoardListMessage(SeqMessage):
    """A whole list."""

    list: Annotated[RankedList, Field(description="The list, best first.")]
    offset: Annotated[int, Field(description="How many ranks are skipped; absent: none.")] = 0


class BoardChange(ResponseModel):
    """An object that entered or left a list, or got new values."""

    id: Annotated[str, Field(description="Id of the object.")]
    old_rank: Annotated[int | None, Field(description="Its rank before; null: it was not in the list.")]
    new_rank: Annotated[int | None, Field(description="Its rank now; null: it left the list.")]
    values: Annotated[dict[str, float] | None, Field(description="Values by attribute; absent where it left.")] = None
    created: Annotated[int | None, Field(description="Number of its insertion; absent where it left.")] = None
    payload: Annotated[Any, Field(description="The payload of the object, if it has one.")] = None
    old_values: Annotated[dict[str, float] | None, Field(description="With `old`: the values before.")] = None


class BoardChangeMessage(SeqMessage):
    """The net change of a list. To apply it, remove all objects listed, then insert those with a `new_rank` in
    ascending order, each at its rank. Objects that only shift are not listed."""

    changes: Annotated[list[BoardChange], Field(description="Objects that entered, left or got new values.")]


class TilesMessage(SeqMessage):
    """The tiles of one sequence number that reach the subscription."""

    tiles: Annotated[list[Tile], Field(description="The tiles, in the order in which they apply.")]


class WinMessage(SeqMessage):
    """An event that the subscription is among the winners of."""

    values: Annotated[dict[str, Any], Field(description="Values of the event, by dimension.")]
    payload: Annotated[Any, Field(description="The payload of the event.")] = None
    rank: Annotated[int, Field(description="Its place among the winners, from 1.")]
    score: Annotated[float, Field(description="Its score.")]


class NotificationMessage(SeqMessage):
    """A notification inside the subscription's box."""

    values: Annotated[dict[str, float], Field(description="Values by attribute.")]
    payload: Annotated[Any, Field(description="The payload of the notification.")] = None


class MapResultMessage(SeqMessage):
    """The whole result of a standing query; it replaces the one before."""

    location: Annotated[Numbers, Field(description="`[x, y]` of the client.")]
    list: Annotated[RankedCandidates | None, Field(description="Of `top`: the k best, best first.")] = None
    candidates: Annotated[CandidateList | None, Field(description="Of `top`: all candidates.")] = None
    skyline: Annotated[EntryList | None, Field(description="Of `skyline`: the skyline, nearest first.")] = None
    zone: Annotated[dict[str, Any] | None, Field(description="The safe zone.")]


class FeedListMessage(SeqMessage):
    """A whole list."""

    list: Annotated[list[RankedPost], Field(description="The list, best first.")]


class FeedChange(ResponseModel):
    """A post that entered or left a list, or got another score. All but id and ranks is absent where it left."""

    id: Annotated[str, Field(description="Id of the post.")]
    old_rank: Annotated[int | None, Field(description="Its rank before; null: it was not in the list.")]
    new_rank: Annotated[int | None, Field(description="Its rank now; null: it left the list.")]
    score: Annotated[float | None, Field(description="Its score.")] = None
    location: Annotated[list[float] | None, Field(description="`[x, y]`.")] = None
    keywords: Annotated[list[str] | dict[str, float] | None, Field(description="A list, or weights by word.")] = None
    payload: Annotated[Any, Field(description="The payload of the post.")] = None


class FeedChangeMessage(SeqMessage):
    """The net change of a list, applied as that of a board."""

    changes: Annotated[list[FeedChange], Field(description="Posts that entered, left or got another score.")]


class JobGoneMessage(ResponseModel):
    """The job has ended."""

    job: Annotated[str, Field(description="Id of the job.")]


# --- operations and replies of the WebSocket --------------------------------------------------------------------------

Resource = Annotated[str, Field(description="Type and name of the resource, such as `boards/delays`.")]
Id = Annotated[str, Field(description="Id of the subscription or standing query.")]


class SubscribeOperation(Strict):
    """Start the stream of a subscription; a second one of the same id replaces the first."""

    op: Literal["subscribe"]
    resource: Resource
    id: Id
    form: Annotated[Literal["changes", "tiles"], Field(description="`tiles` for boards only.")] = "changes"
    after: Annotated[str | None, Field(description="The cursor to resume from.")] = None
    old: Annotated[bool, Field(description="Boards: changes have the previous values.")] = False
    ready: Annotated[bool, Field(description="Send `ready` once the stream has caught up.")] = False
    squash: Annotated[float | None, Field(description="Boards: at most one change in so many seconds.")] = None


class UnsubscribeOperation(Strict):
    """Stop a stream of this socket."""

    op: Literal["unsubscribe"]
    resource: Resource
    id: Id


class MoveOperation(Strict):
    """Move the client of a standing query of a map."""

    op: Literal["move"]
    resource: Resource
    id: Id
    location: Annotated[list[float], Field(description="`[x, y]`.")]


class PingOperation(Strict):
    """Ask for a `pong`."""

    op: Literal["ping"]


class AuthOperation(Strict):
    """Authenticate a socket whose handshake had no Authorization header."""

    op: Literal["auth"]
    key: Annotated[str, Field(description="An API key.")]


Ref = Annotated[
    StrictInt | StrictFloat | StrictStr, Field(description="What the client calls its request: a number or a string.")
]


class RequestOperation(Strict):
    """Carry out a request of the API, but no stream, with the rights of the socket. Many may be under way: writes to
    one resource are applied in the order in which they came in, answers come when they are ready. At most 256 wait."""

    op: Literal["request"]
    ref: Ref
    method: Annotated[str, Field(description="The method, as `POST`.")]
    path: Annotated[str, Field(description="The path, with its query: `/v1/boards/delays/events?messages=count`.")]
    headers: Annotated[
        dict[str, str] | None, Field(description="Headers, as `Idempotency-Key`; `Authorization` is not taken.")
    ] = None
    body: Annotated[Any, Field(description="The body, a value of JSON.")] = None


class ResponseReply(ResponseModel):
    """The answer to a request. One that would be longer than the setting `max_answer` is 413, or of a write its `seq`
    with `truncated`."""

    ref: Ref
    status: Annotated[int, Field(description="The status, as over HTTP.")]
    headers: Annotated[
        dict[str, str] | None, Field(description="`Retry-After`, `Location`, ..., where the answer has such.")
    ] = None
    body: Annotated[Any, Field(description="The body, as over HTTP.")]


class UnsubscribedReply(ResponseModel):
    """The stream has stopped."""

    resource: Resource
    id: Id


class MovedReply(ResponseModel):
    """The move is applied."""

    resource: Resource
    id: Id
    seq: Annotated[int, Field(description="Sequence number of the move.")]
    inside: Annotated[bool, Field(description="Whether the client is still in the zone that it had.")]


class EmptyReply(ResponseModel):
    """Nothing but the event."""


class ErrorReply(ResponseModel):
    """An operation was refused; the socket stays open."""

    resource: Annotated[str | None, Field(description="The resource of the operation, if it names one.")]
    id: Annotated[str | None, Field(description="The id of the operation, if it names one.")]
    op: Annotated[
        Literal["move", "request"] | None,
        Field(description="Present where a move, or what is no request, was refused."),
    ] = None
    ref: Annotated[Ref | None, Field(description="That of what is no request, if it has one.")] = None
    problem: Annotated[dict[str, Any], Field(description="The problem, as in the OpenAPI document.")]


class HeartbeatMessage(ResponseModel):
    """Sent when nothing else is, so that both ends know that the connection lives and cursors stay fresh."""

    cursors: Annotated[dict[str, str], Field(description="The cursor of each resource that is followed.")]


# --- the table --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Event:
    """A message of the service: its name, its data and an example."""

    name: str
    summary: str
    data: type[BaseModel]
    example: Mapping[str, Any]


@dataclass(frozen=True)
class Stream:
    """The stream of one kind of subscription; over the WebSocket its events have an envelope. `resource` is an example
    of what it is of, None where it is only server-sent events."""

    name: str
    path: str
    summary: str
    query: type[Query]
    events: tuple[Event, ...]
    resource: str | None
    parameters: Mapping[str, str] = field(default_factory=dict)


_SEQ = {"seq": 42}
_READY = Event("ready", "The stream has caught up", SeqMessage, _SEQ)
_GONE = Event("gone", "The subscription or its resource was deleted; the stream ends", SeqMessage, _SEQ)
_MISSED = Event("reset", "Some messages up to here may have been missed", SeqMessage, _SEQ)


def _lists(data: type[BaseModel], example: Mapping[str, Any]) -> tuple[Event, Event]:
    return (
        Event("snapshot", "The whole list, at the beginning", data, example),
        Event("reset", "The whole list, where changes may have been missed", data, example),
    )


_BOARD_LIST = {"seq": 42, "list": EXAMPLES["BoardTopResponse"]["list"]}
_FEED_LIST = {"seq": 42, "list": [EXAMPLES["RankedPost"]]}
_RESULT = {"seq": 42, "location": [0, 0], **EXAMPLES["MapTopResult"]}
_BOARD_CHANGES = [
    {**EXAMPLES["BoardObject"], "old_rank": None, "new_rank": 2},
    {"id": "DL95", "old_rank": 5, "new_rank": None},
]
_FEED_CHANGES = [{**EXAMPLES["FeedPost"], "old_rank": None, "new_rank": 1, "score": 0.72}]

STREAMS = (
    Stream(
        "boards",
        "/v1/boards/{board}/subscriptions/{id}/stream",
        "The list of a subscription of a board",
        StreamQuery,
        (
            *_lists(BoardListMessage, _BOARD_LIST),
            Event("change", "The net change of a list", BoardChangeMessage, {"seq": 43, "changes": _BOARD_CHANGES}),
            Event("tiles", "With `form=tiles`: tiles", TilesMessage, {"seq": 43, "tiles": [EXAMPLES["Tile"]]}),
            _READY,
            _GONE,
        ),
        "boards/delays",
    ),
    Stream(
        "matchers",
        "/v1/matchers/{matcher}/subscriptions/{id}/stream",
        "The events that a subscription of a matcher wins",
        FollowQuery,
        (
            Event(
                "win",
                "An event that the subscription won",
                WinMessage,
                {"seq": 42, "values": {"age": 28, "credit": 441}, "payload": None, "rank": 1, "score": 1.0},
            ),
            _READY,
            _MISSED,
            _GONE,
        ),
        "matchers/ads",
    ),
    Stream(
        "relays",
        "/v1/relays/{relay}/subscriptions/{id}/stream",
        "The notifications of a subscription of a relay",
        FollowQuery,
        (
            Event(
                "notification",
                "A notification in the box of the subscription",
                NotificationMessage,
                {"seq": 42, **EXAMPLES["Notification"]},
            ),
            _READY,
            _MISSED,
            _GONE,
        ),
        "relays/edge",
    ),
    Stream(
        "maps",
        "/v1/maps/{map}/queries/{id}/stream",
        "The results of a standing query of a map",
        FollowQuery,
        (
            Event("snapshot", "The whole result, at the beginning", MapResultMessage, _RESULT),
            Event("reset", "The whole result, where some may have been missed", MapResultMessage, _RESULT),
            Event("result", "A new result, whole", MapResultMessage, _RESULT),
            _READY,
            _GONE,
        ),
        "maps/city",
    ),
    Stream(
        "feeds",
        "/v1/feeds/{feed}/subscriptions/{id}/stream",
        "The list of a subscription of a feed",
        FollowQuery,
        (
            *_lists(FeedListMessage, _FEED_LIST),
            Event("change", "The net change of a list", FeedChangeMessage, {"seq": 43, "changes": _FEED_CHANGES}),
            _READY,
            _GONE,
        ),
        "feeds/city",
    ),
    Stream(
        "jobs",
        "/v1/admin/jobs/{id}/stream",
        "The progress of a job",
        Query,
        (
            Event("progress", "The job as it is now", JobResponse, EXAMPLES["JobResponse"]),
            Event("gone", "The job has ended; the stream ends", JobGoneMessage, {"job": "j2"}),
        ),
        None,
    ),
)

_PROBLEM = {**EXAMPLES["Problem"], "detail": "op: must be one of subscribe, unsubscribe, move, ping, auth, request"}
_NAMED = {"resource": "boards/delays", "id": "mine"}

OPERATIONS: dict[str, tuple[type[BaseModel], Mapping[str, Any]]] = {
    "subscribe": (SubscribeOperation, {"op": "subscribe", **_NAMED, "after": f"{EPOCH}:42"}),
    "unsubscribe": (UnsubscribeOperation, {"op": "unsubscribe", **_NAMED}),
    "move": (MoveOperation, {"op": "move", "resource": "maps/city", "id": "me", "location": [1, 1]}),
    "ping": (PingOperation, {"op": "ping"}),
    "auth": (AuthOperation, {"op": "auth", "key": "rk_example"}),
    "request": (
        RequestOperation,
        {
            "op": "request",
            "ref": 7,
            "method": "POST",
            "path": "/v1/boards/delays/events?messages=count",
            "headers": {"Idempotency-Key": "a-1"},
            "body": {"events": [{"op": "update", "id": "AA1141", "values": {"delay": 33}}]},
        },
    ),
}
"""What a client sends over the WebSocket."""

REPLIES = (
    Event("unsubscribed", "A stream was stopped", UnsubscribedReply, _NAMED),
    Event("moved", "A move was applied", MovedReply, {"resource": "maps/city", "id": "me", "seq": 9, "inside": True}),
    Event(
        "response",
        "The answer to a request",
        ResponseReply,
        {"ref": 7, "status": 200, "body": {"seq": 42, "applied": 1, "tile_count": 2}},
    ),
    Event("pong", "The answer to `ping`", EmptyReply, {}),
    Event("authenticated", "The key was accepted", EmptyReply, {}),
    Event("error", "An operation was refused", ErrorReply, {**_NAMED, "problem": _PROBLEM}),
    Event("heartbeat", "Nothing else to send", HeartbeatMessage, {"cursors": {"boards/delays": f"{EPOCH}:43"}}),
)
"""What the service sends over the WebSocket beside the events of streams."""
