"""A relay's subscriptions, decisions and notifications as JSON text, the same in answers and in streams."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from pydantic_core import to_json

from app.rendering.boards import end, number
from indexes.relays.results import Notified, Subscribed, SubscriptionView, Unsubscribed


class RelayJson:
    """Writes the subscriptions and notifications of relays with these attributes.

    >>> write = RelayJson(("price",))
    >>> write.subscription(SubscriptionView("s1", "s1", {"price": (0.0, float("inf"))}, None, None))
    '{"id":"s1","box":{"price":[0,null]},"link":null}'
    """

    def __init__(self, attributes: tuple[str, ...]) -> None:
        self._names = attributes

    def subscription(self, view: SubscriptionView, head: str = "", tail: str = "") -> str:
        """One subscription; `head` is what comes before its fields, such as `"seq":42,`, and `tail` after them."""
        box = ",".join([f'"{name}":[{end(lo)},{end(hi)}]' for name, (lo, hi) in view.box.items()])
        link = "null" if view.link is None else f'"{view.link}"'
        ttl = "" if view.ttl is None else f',"ttl":{number(view.ttl)}'
        return f'{{{head}"id":"{view.id}","box":{{{box}}},"link":{link}{ttl}{tail}}}'

    def notification(self, notification: Notified) -> str:
        """The data of a stream's message for a notification."""
        values = ",".join([f'"{name}":{number(notification.values[name])}' for name in self._names])
        payload = "null" if notification.payload is None else notification.payload.decode()
        return f'{{"seq":{notification.seq},"values":{{{values}}},"payload":{payload}}}'


def decided(found: Subscribed | Unsubscribed) -> str:
    """The fields of a decision, after others.

    >>> decided(Subscribed("s1", {"": True}, {"": []}))
    ',"forward":true,"covered_by":[]'
    """
    return "," + to_json(found.fields()).decode()[1:-1]


def decisions(found: Iterable[Subscribed | Unsubscribed], heads: Sequence[str] = ()) -> str:
    """Decisions with their ids, separated by commas; `heads`, one for each, come before their fields."""
    if not heads:
        whole = to_json([{"id": one.id, **one.fields()} for one in found]).decode()
        return whole[1:-1]
    return ",".join([f'{{{head}"id":"{one.id}"{decided(one)}}}' for head, one in zip(heads, found, strict=True)])


@lru_cache(maxsize=256)
def relay_json(attributes: tuple[str, ...]) -> RelayJson:
    """What writes for relays with these attributes."""
    return RelayJson(attributes)
