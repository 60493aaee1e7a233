"""Examples of all models, by name: what the OpenAPI document shows, and what the tests validate."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

EPOCH = "x3T9vB2q"
_NEXT = "MURMOTU"


def _page(item: Json, seq: int | None = None) -> Json:
    return {**({} if seq is None else {"seq": seq}), "items": [item], "next": _NEXT}


def _response(seq: int, **fields: Any) -> Json:
    return {"seq": seq, **fields}


# --- boards -----------------------------------------------------------------------------------------------------------

_RANK = {"attribute": "delay", "order": "desc"}
_BOARD_BODY = {"range_attributes": ["distance"], "rank": _RANK, "ks": [5, 10]}
_BOARD = {
    "name": "delays",
    **_BOARD_BODY,
    "algorithm": "sparse",
    "epsilon": None,
    "sketch": None,
    "indexed": [],
    "index": "range-tree",
    "objects": 2,
    "subscriptions": 1,
}
_UPSERT = {"op": "upsert", "id": "UA1545", "values": {"distance": 760, "delay": 11}, "payload": {"to": "IAH"}}
_UPDATE = {"op": "update", "id": "DL95", "values": {"delay": 33}}
_VALUES = {"values": {"distance": 760, "delay": 11}, "payload": {"to": "IAH"}}
_OBJECT = {"id": "UA1545", "values": {"distance": 760, "delay": 11}, "created": 17, "payload": {"to": "IAH"}}
_RANKED = {"rank": 1, **_OBJECT}
_SIDES = {"l_outer": None, "l_inner": 760, "r_inner": 760, "r_outer": 900}
_TILE_OBJECT = {**_OBJECT, "gone": False}
_BOARD_SUBSCRIPTION_FIELDS = {"range": {"distance": [500, 1000]}, "k": 5}
_BOARD_SUBSCRIPTION = {"id": "mine", **_BOARD_SUBSCRIPTION_FIELDS}
_DISC = {"center": [1, 1], "radius": 1.5}
_HALF_PLANE = {"a": [1, 2], "b": 4}
_SIMPLEX = {"points": [[0, 0], [4, 0], [0, 3]]}
_PAINT = {"first_k": 1, "min_y": 0, "snaps": 1, "merges": 0, "refreshes": 0}
_EXPOSED = {"object": _OBJECT, "tiles": [_SIDES], "reached": 1}
_CLASS = {
    "k": 5,
    "before": [],
    "after": [_SIDES],
    "tiles": [{**_SIDES, "k": 5, "object": _TILE_OBJECT}],
    "exposed": [],
    "tile_count": 1,
    "reached": 1,
    "calls": _PAINT,
}
_NEAREST = {"west": [], "east": [900]}

_BOARDS: dict[str, Json] = {
    "Rank": _RANK,
    "BoardBody": _BOARD_BODY,
    "BoardPatch": {"ks": [5, 10, 20]},
    "BoardSummary": _BOARD,
    "Board": _response(3, **_BOARD),
    "BoardPage": _page(_BOARD),
    "BoardEvent": _UPSERT,
    "BoardEventsBody": {"events": [_UPSERT, _UPDATE, {"op": "delete", "id": "B6725"}], "messages": "full"},
    "BoardEventsResponse": _response(
        42, applied=3, tile_count=1, tiles=[{**_SIDES, "event": 0, "k": 5, "object": _TILE_OBJECT}]
    ),
    "BoardObjectBody": _VALUES,
    "BoardObjectPatch": {"values": {"delay": 20}},
    "BoardObject": _OBJECT,
    "BoardObjectResponse": _response(42, **_OBJECT),
    "BoardObjectPage": _page(_OBJECT, 42),
    "RankedObject": _RANKED,
    "BoardTopResponse": _response(42, list=[_RANKED]),
    "TileObject": _TILE_OBJECT,
    "SidesOfTile": _SIDES,
    "Tile": {**_SIDES, "event": 0, "k": 5, "object": _TILE_OBJECT},
    "OwnTile": {**_SIDES, "k": 5, "object": _TILE_OBJECT},
    "FilterReach": {"any": True, "values": ["IAH"]},
    "ExplainBody": {"event": _UPDATE},
    "ExposedObject": _EXPOSED,
    "PaintCalls": _PAINT,
    "TreePaintCalls": {"fetches": 1, "nodes": 7, "counts": 2, "searches": 0, "checks": 0},
    "ExplainedClass": _CLASS,
    "Nearest": _NEAREST,
    "NearestBeforeAfter": {"before": _NEAREST, "after": _NEAREST},
    "EventExplanation": _response(
        42,
        kind="insertion",
        before=None,
        after=_OBJECT,
        near={"before": _NEAREST, "after": _NEAREST},
        classes=[_CLASS],
        tile_count=1,
        affected=1,
    ),
    "SubscriptionExplanation": _response(
        42,
        id="mine",
        k=5,
        objects_in_range=2,
        list_length=2,
        kth=None,
        share=1.0,
        live=True,
        streams=1,
        kept=3,
        changes=3,
        bytes=2048,
    ),
    "Disc": _DISC,
    "HalfPlane": _HALF_PLANE,
    "Simplex": _SIMPLEX,
    "DiscPatch": {"radius": 2},
    "HalfPlanePatch": {"b": 5},
    "NewBoardSubscription": _BOARD_SUBSCRIPTION,
    "BoardSubscriptionsBody": {"subscriptions": [_BOARD_SUBSCRIPTION], "lists": True},
    "BoardSubscriptionBody": _BOARD_SUBSCRIPTION_FIELDS,
    "BoardSubscriptionPatch": {"k": 10},
    "BoardSubscription": _BOARD_SUBSCRIPTION,
    "BoardSubscriptionResponse": _response(42, **_BOARD_SUBSCRIPTION, list=[_RANKED]),
    "BoardSubscriptionsResponse": _response(42, subscriptions=[{**_BOARD_SUBSCRIPTION, "list": [_RANKED]}]),
    "BoardSubscriptionPage": _page(_BOARD_SUBSCRIPTION, 42),
}

# --- matchers ---------------------------------------------------------------------------------------------------------

_MATCHER_BODY = {"dimensions": ["age", "credit"], "mode": "relaxed"}
_MATCHER = {"name": "ads", **_MATCHER_BODY, "combine": "sum", "index": "auto", "subscriptions": 1}
_INTERVALS = {"intervals": {"age": [20, 35], "credit": [400, 500]}, "weights": {"age": 0.7, "credit": 0.3}}
_MATCHER_SUBSCRIPTION = {"id": "a1", **_INTERVALS}
_MATCH_EVENT = {"values": {"age": 28, "credit": 441}}
_WINNER = {"id": "a1", "score": 1.0}

_MATCHERS: dict[str, Json] = {
    "MatcherBody": _MATCHER_BODY,
    "MatcherSummary": _MATCHER,
    "Matcher": _response(1, **_MATCHER),
    "MatcherPage": _page(_MATCHER),
    "NewMatcherSubscription": _MATCHER_SUBSCRIPTION,
    "MatcherSubscriptionsBody": {"subscriptions": [_MATCHER_SUBSCRIPTION]},
    "MatcherSubscriptionBody": _INTERVALS,
    "MatcherSubscriptionPatch": {"weights": {"age": 0.9}},
    "MatcherSubscription": _MATCHER_SUBSCRIPTION,
    "MatcherSubscriptionResponse": _response(1, **_MATCHER_SUBSCRIPTION),
    "MatcherSubscriptionsResponse": _response(1, subscriptions=[_MATCHER_SUBSCRIPTION]),
    "MatcherSubscriptionPage": _page(_MATCHER_SUBSCRIPTION, 1),
    "MatchEvent": _MATCH_EVENT,
    "MatchBody": {"events": [_MATCH_EVENT], "k": 20, "notify": True},
    "Winner": _WINNER,
    "MatchResult": {"winners": [_WINNER]},
    "MatchResponse": _response(2, results=[{"winners": [_WINNER]}]),
}

# --- relays -----------------------------------------------------------------------------------------------------------

_GRAPH = {"kind": "G", "k": 1}
_LINK_BODY = {"url": "https://north.example.org", "relay": "edge", "link": "south", "key": "rk_example"}
_LINK = {
    "url": "https://north.example.org",
    "relay": "edge",
    "link": "south",
    "state": "up",
    "queue": 0,
    "next": 18,
    "peer": "n1:edge",
}
_RELAY_BODY = {"attributes": ["price", "volume"], "graph": _GRAPH, "index": "kd"}
_RELAY = {
    "name": "edge",
    **_RELAY_BODY,
    "service": "s1",
    "subscriptions": 2,
    "forwarded": {"north": 1},
    "covering_ratio": {"north": 0.5},
    "statistics": {"searches": 2, "bytes": 4096},
    "links": {"north": _LINK},
}
_BOX = {"box": {"price": [0, 50]}}
_RELAY_SUBSCRIPTION = {"id": "s1", "box": {"price": [0, 50], "volume": [None, None]}, "link": None}
_FORWARD = {"forward": True, "covered_by": []}
_UNSUBSCRIBED = {"forward_unsubscribe": True, "forward_subscribe": ["s7"]}
_NOTIFICATION = {"values": {"price": 20, "volume": 7}, "payload": {"symbol": "RNK"}}
_RECIPIENTS = {"subscriptions": ["s1", "s7"], "links": ["north"]}
_MESSAGE = {"n": 17, "op": "subscribe", "id": "s1:edge:s1", "box": {"price": [0, 50]}}

_RELAYS: dict[str, Json] = {
    "GraphBody": _GRAPH,
    "RelayLinkBody": _LINK_BODY,
    "RelayBody": _RELAY_BODY,
    "RelayPatch": {"links": {"north": _LINK_BODY}},
    "RefusedMessage": {"message": 17, "field": "box.price"},
    "RelayLink": _LINK,
    "RelaySummary": _RELAY,
    "Relay": _response(2, **_RELAY),
    "RelayPage": _page(_RELAY),
    "NewRelaySubscription": {"id": "s1", **_BOX},
    "RelaySubscriptionsBody": {"subscriptions": [{"id": "s1", **_BOX}]},
    "RelaySubscriptionBody": _BOX,
    "RelaySubscriptionPatch": {"box": {"price": [10, 50]}},
    "RelaySubscription": _RELAY_SUBSCRIPTION,
    "RelaySubscriptionResponse": _response(3, **_RELAY_SUBSCRIPTION, **_FORWARD),
    "RelaySubscriptionPage": _page(_RELAY_SUBSCRIPTION, 3),
    "ForwardingDecision": {"id": "s1", **_FORWARD},
    "RelaySubscriptionsResponse": _response(3, results=[{"id": "s1", **_FORWARD}]),
    "RelaySubscriptionDeleted": _response(4, **_UNSUBSCRIBED),
    "DeletionDecision": {"id": "s1", **_UNSUBSCRIBED},
    "RelaySubscriptionsDeleted": _response(4, deleted=1, results=[{"id": "s1", **_UNSUBSCRIBED}]),
    "RelayCommand": {"op": "subscribe", "id": "s1", **_BOX},
    "Notification": _NOTIFICATION,
    "NotificationsBody": {"notifications": [_NOTIFICATION]},
    "NotificationResult": _RECIPIENTS,
    "NotificationsResponse": _response(5, results=[_RECIPIENTS]),
    "LinkMessage": _MESSAGE,
    "LinkMessagesBody": {"epoch": EPOCH, "messages": [_MESSAGE], "identity": "s1:edge", "behind": []},
    "LinkMessagesResponse": {"epoch": "k8Yw0aLm", "next": 18, "identity": "n1:edge", "behind": []},
    "LinkProbeBody": {"identity": "s1:edge", "behind": []},
    "LinkProbeResponse": {"identity": "n1:edge", "behind": []},
}

# --- maps -------------------------------------------------------------------------------------------------------------

_MAP_BODY = {"attributes": {"price": "low", "rating": "high"}, "bounds": [0, 0, 100, 100], "metric": "euclidean"}
_MAP = {"name": "city", **_MAP_BODY, "objects": 2, "queries": 1}
_PLACE_FIELDS = {"location": [3, 4], "values": {"price": 12, "rating": 4.5}, "payload": {"name": "Ramen"}}
_PLACE = {"id": "r1", **_PLACE_FIELDS, "created": 0}
_ENTRY = {**_PLACE, "distance": 5.0}
_CANDIDATE = {**_ENTRY, "score": 1.7}
_TOP_CANDIDATE = {"rank": 1, **_CANDIDATE}
_SCORE = {"kind": "weighted_sum", "weights": {"price": 0.1, "distance": 0.1}}
_CIRCLE = {"center": [0, 0], "radius": 2.5}
_TOP_RESULT = {"list": [_TOP_CANDIDATE], "candidates": [_CANDIDATE], "zone": _CIRCLE}
_AREA = {"type": "Polygon", "coordinates": [[[0, 0], [6, 0], [0, 6], [0, 0]]]}
_SKYLINE = {"skyline": [_ENTRY], "zone": _AREA}
_TOP = {"k": 1, "score": _SCORE, "location": [0, 0]}
_QUERY = {"kind": "top", **_TOP}
_QUERY_SHOWN = {"id": "me", "kind": "top", "location": [0, 0], "k": 1, "m": 1, "ordered": False, "score": _SCORE}
_MOVE = {"id": "me", "location": [1, 1]}

_MAPS: dict[str, Json] = {
    "RangedAttribute": {"order": "low", "range": [0, 100]},
    "MapBody": _MAP_BODY,
    "MapSummary": _MAP,
    "Map": _response(2, **_MAP),
    "MapPage": _page(_MAP),
    "NewMapObject": {"id": "r1", **_PLACE_FIELDS},
    "MapObjectsBody": {"objects": [{"id": "r1", **_PLACE_FIELDS}]},
    "MapObjectBody": _PLACE_FIELDS,
    "MapObjectPatch": {"values": {"price": 11}},
    "MapObject": _PLACE,
    "MapObjectResponse": _response(2, **_PLACE),
    "MapObjectPage": _page(_PLACE, 2),
    "MapObjectsResponse": _response(2, applied=1),
    "ScoreBody": _SCORE,
    "MapTopBody": _TOP,
    "SkylineBody": {"location": [0, 0]},
    "MapEntry": _ENTRY,
    "Candidate": _CANDIDATE,
    "RankedCandidate": _TOP_CANDIDATE,
    "Circle": _CIRCLE,
    "MapTopResult": _TOP_RESULT,
    "MapTopResponse": _response(2, **_TOP_RESULT),
    "SkylineResult": _SKYLINE,
    "SkylineResponse": _response(2, **_SKYLINE),
    "NewStandingQuery": {"id": "me", **_QUERY},
    "StandingQueriesBody": {"queries": [{"id": "me", **_QUERY}], "lists": True},
    "StandingQueryBody": _QUERY,
    "StandingQueryPatch": {"location": [1, 1]},
    "StandingQuery": _QUERY_SHOWN,
    "StandingQueryResponse": _response(3, **_QUERY_SHOWN, **_TOP_RESULT),
    "StandingQueriesResponse": _response(3, queries=[{**_QUERY_SHOWN, **_TOP_RESULT}]),
    "StandingQueryPage": _page(_QUERY_SHOWN, 3),
    "StandingQueryPatchResponse": _response(4, inside=True),
    "Move": _MOVE,
    "MovesBody": {"moves": [_MOVE]},
    "MoveResult": {"id": "me", "inside": True},
    "MovesResponse": _response(4, results=[{"id": "me", "inside": True}]),
}

# --- feeds ------------------------------------------------------------------------------------------------------------

_FEED_BODY = {"window": 1000, "bounds": [13.0, 52.3, 13.8, 52.7], "weighting": "tfidf"}
_FEED = {"name": "city", **_FEED_BODY, "buffer": "cost", "stop_words": None, "posts": 1, "subscriptions": 1}
_POST_FIELDS = {"location": [13.4, 52.5], "keywords": ["ramen", "coupon"], "payload": {"url": "https://example.org"}}
_POST = {"id": "p1", **_POST_FIELDS}
_RANKED_POST = {"rank": 1, "score": 0.72, **_POST}
_INTEREST = {"keywords": ["ramen"], "location": [13.3, 52.5], "k": 10, "alpha": 0.4}
_FEED_SUBSCRIPTION = {"id": "u1", **_INTEREST}

_FEEDS: dict[str, Json] = {
    "TimeWindow": {"seconds": 3600},
    "FeedBody": _FEED_BODY,
    "FeedSummary": _FEED,
    "Feed": _response(2, **_FEED),
    "FeedPage": _page(_FEED),
    "NewPost": _POST,
    "PostsBody": {"posts": [_POST]},
    "PostResult": {"id": "p1", "reached": 12},
    "PostsResponse": _response(2, results=[{"id": "p1", "reached": 12}]),
    "FeedPost": _POST,
    "FeedPostResponse": _response(2, **_POST),
    "FeedPostPage": _page(_POST, 2),
    "RankedPost": _RANKED_POST,
    "NewFeedSubscription": _FEED_SUBSCRIPTION,
    "FeedSubscriptionsBody": {"subscriptions": [_FEED_SUBSCRIPTION], "lists": False},
    "FeedSubscriptionBody": _INTEREST,
    "FeedSubscriptionPatch": {"alpha": 0.6},
    "FeedSubscription": _FEED_SUBSCRIPTION,
    "FeedSubscriptionResponse": _response(2, **_FEED_SUBSCRIPTION, list=[_RANKED_POST]),
    "FeedSubscriptionsResponse": _response(2, subscriptions=[_FEED_SUBSCRIPTION]),
    "FeedSubscriptionPage": _page(_FEED_SUBSCRIPTION, 2),
}

# --- all resources, administration, health ----------------------------------------------------------------------------

_TIME = "2026-01-31T12:00:00.000+00:00"
_KEY = {"id": "k0a1b2c3d4e5f", "name": "dashboard", "scopes": ["boards:read"], "created": _TIME}
_WEBHOOK_BODY = {"url": "https://example.org/in", "resource": "boards/delays", "ids": ["mine"], "batch": 1}
_WEBHOOK = {
    "name": "ops",
    **_WEBHOOK_BODY,
    "state": "active",
    "failures": 0,
    "last_status": 204,
    "last_error": None,
    "delivered": 17,
    "waiting": 0,
    "created": _TIME,
}
_LAG = {"rows": 1, "seconds": 0.2}
_REPLICA = {
    "node": "8f0e1d2c3b4a5968",
    "name": "second",
    "address": "10.0.0.5",
    "connected": True,
    "durable": 1042,
    "lsn": 1041,
    "lag": _LAG,
    "since": _TIME,
}
_JOB = {
    "job": "j2",
    "kind": "snapshot",
    "state": "running",
    "progress": 0.4,
    "detail": {"step": "writing"},
    "started": _TIME,
    "ended": None,
}

_COMMON: dict[str, Json] = {
    "SkippedElement": {"index": 3, "field": "events[3].values.delay", "reason": "must be a number"},
    "IdsBody": {"ids": ["mine", "yours"]},
    "DeletedResponse": _response(43, deleted=1),
    "SeqResponse": _response(43),
    "NewKey": {"name": "dashboard", "scopes": ["boards:read"]},
    "Key": _KEY,
    "NewKeyResponse": {**_KEY, "key": "rk_example"},
    "KeyPage": _page(_KEY),
    "NewTicket": {"resource": "boards/delays", "ids": ["mine"], "seconds": 60},
    "TicketResponse": {"ticket": "rt_example", "expires": "2026-01-01T00:01:00.000+00:00"},
    "WebhookBody": _WEBHOOK_BODY,
    "Webhook": _WEBHOOK,
    "WebhookResponse": {**_WEBHOOK, "secret": "whsec_example"},
    "WebhookPage": _page(_WEBHOOK),
    "DeletedWebhookResponse": {"name": "ops"},
    "WebhookTestResponse": {"taken": True, "status": 204, "error": None},
    "DeletedKeyResponse": {"id": "k0a1b2c3d4e5f"},
    "SnapshotBody": {},
    "RebuildBody": {"resources": ["boards/delays"], "engine": "local"},
    "VerifyBody": {"resources": ["boards/delays"]},
    "StartedJobResponse": {"job": "j2"},
    "JobResponse": _JOB,
    "JobPage": _page(_JOB),
    "Health": {"status": "ok"},
    "Readiness": {
        "ready": True,
        "warm": 0.83,
        "resources": {"boards": 1.0},
        "compiling": "boards.batch",
        "failed": [],
        "role": "replica",
        "lsn": 1041,
        "durable": 1042,
        "lag": _LAG,
        "term": 1,
        "epoch": "0a1b2c3d4e5f6071",
        "node": "8f0e1d2c3b4a5968",
    },
    "Lagging": _LAG,
    "ReplicaLag": _LAG,
    "Replica": _REPLICA,
    "ReplicaPage": {
        "node": "1a2b3c4d5e6f7081",
        "role": "leader",
        "term": 1,
        "lsn": 1042,
        "leader": None,
        "sync_replicas": 1,
        **_page(_REPLICA),
    },
    "PromoteBody": {"force": False},
    "PromoteResponse": {"role": "leader", "term": 1, "lsn": 1043},
    "Problem": {
        "type": "/problems/invalid",
        "title": "The request is not valid",
        "status": 422,
        "detail": "events[3].values.delay: must be a number",
        "errors": [{"field": "events[3].values.delay", "reason": "must be a number"}],
    },
}

EXAMPLES: dict[str, Json] = {**_BOARDS, **_MATCHERS, **_RELAYS, **_MAPS, **_FEEDS, **_COMMON}
