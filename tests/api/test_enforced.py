"""What the document says of a body is what is enforced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError
from pydantic_core import SchemaValidator

from app.api.boards import models as boards
from app.api.examples import EXAMPLES
from app.api.feeds import models as feeds
from app.api.maps import models as maps
from app.api.matchers import models as matchers
from app.api.models import Enforced
from app.api.relays import models as relays
from indexes.maps.attributes import Attribute
from indexes.maps.config import MapConfig
from indexes.matchers.config import MatcherConfig

BY_RESOURCE = {"payload", "keywords", "where"}
"""Fields that may be anything, or are checked by what reads them."""


def enforced() -> Iterator[tuple[type[BaseModel], SchemaValidator]]:
    board = boards.validators(("distance",), "delay", 10, 10)
    yield boards.BoardEventsBody, board.events
    yield boards.BoardEvent, board.event
    yield boards.BoardObjectBody, board.put_object
    yield boards.BoardObjectPatch, board.patch_object
    yield boards.BoardSubscriptionsBody, board.subscriptions
    yield boards.NewBoardSubscription, board.subscription
    yield boards.BoardSubscriptionBody, board.put_subscription
    yield boards.BoardSubscriptionPatch, board.patch_subscription
    matcher = matchers.validators(MatcherConfig(("age", "credit"), "relaxed", "sum", "auto"), 10, 100)
    yield matchers.MatcherSubscriptionsBody, matcher.subscriptions
    yield matchers.MatcherSubscriptionBody, matcher.put_subscription
    yield matchers.MatcherSubscriptionPatch, matcher.patch_subscription
    yield matchers.MatchBody, matcher.match
    relay = relays.validators(tuple(EXAMPLES["RelayBody"]["attributes"]), 10)
    yield relays.RelaySubscriptionsBody, relay.subscriptions
    yield relays.RelaySubscriptionBody, relay.put_subscription
    yield relays.RelaySubscriptionPatch, relay.patch_subscription
    yield relays.NotificationsBody, relay.notifications
    attributes = tuple(Attribute(name, True) for name in EXAMPLES["MapBody"]["attributes"])
    map_ = maps.validators(MapConfig(attributes, (0.0, 0.0, 10.0, 10.0), "euclidean"), 10, 100)
    yield maps.MapObjectsBody, map_.objects
    yield maps.MapObjectBody, map_.put_object
    yield maps.MapObjectPatch, map_.patch_object
    yield maps.MapTopBody, map_.top
    yield maps.SkylineBody, map_.skyline
    yield maps.StandingQueriesBody, map_.queries
    yield maps.StandingQueryBody, map_.put_query
    yield maps.StandingQueryPatch, map_.patch_query
    yield maps.MovesBody, map_.moves
    feed = feeds.validators(10, 100)
    yield feeds.PostsBody, feed.posts
    yield feeds.FeedSubscriptionsBody, feed.subscriptions
    yield feeds.FeedSubscriptionBody, feed.put_subscription
    yield feeds.FeedSubscriptionPatch, feed.patch_subscription


def accepts(validator: SchemaValidator, body: dict[str, Any]) -> bool:
    try:
        validator.validate_python(body)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize(("model", "validator"), list(enforced()), ids=lambda one: getattr(one, "__name__", ""))
def test_examples_nulls_and_required_fields_are_as_documented(
    model: type[BaseModel], validator: SchemaValidator
) -> None:
    example, schema = EXAMPLES[model.__name__], model.model_json_schema()
    assert accepts(validator, example)
    assert not accepts(validator, {**example, "nobody_knows": 1})
    for field in schema.get("required", []):
        assert not accepts(validator, {name: value for name, value in example.items() if name != field}), field
    for field, about in schema["properties"].items():
        if field not in BY_RESOURCE | {"disc", "half_plane", "simplex", "score"}:
            nullable = about == {} or ("anyOf" in about and {"type": "null"} in about["anyOf"])
            nullable |= not {"type", "$ref", "anyOf", "allOf", "enum", "const"} & about.keys()
            assert accepts(validator, {**example, field: None}) == nullable, field


def test_what_is_not_of_the_resource_is_not_known_and_values_are_not_converted() -> None:
    of = Enforced(2, {"disc": None, "half_plane": None, "simplex": None}).validator
    assert not accepts(of(boards.BoardSubscriptionPatch), {"disc": {"radius": 1}})
    assert not accepts(of(maps.StandingQueryPatch), {"ordered": 1})
    assert not accepts(of(boards.BoardSubscriptionsBody), {"subscriptions": [{"k": 1}] * 3})
