"""A relay's subscriptions, decisions and notifications as JSON text, the same in answers and in streams."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from pydantic_core import to_json

from app.rendering.boards import end, number
from app.rendering.numbers import number_texts
from indexes.relays.config import TRAVELLED, UPSTREAM, shown
from indexes.relays.outcomes import Outcomes, StepOutcomes
from indexes.relays.results import Notified, Subscribed, SubscriptionView, Unsubscribed


class Row(NamedTuple):
    """A subscription with both ends of each attribute, in order, infinite where it is unbounded."""

    id: str
    ends: Sequence[float]
    link: str | None
    ttl: float | None


class RelayJson:
    """Writes the subscriptions and notifications of relays with these attributes.

    >>> write = RelayJson(("price",))
    >>> write.subscription(SubscriptionView("s1", "s1", {"price": (0.0, float("inf"))}, None, None))
    '{"id":"s1","box":{"price":[0,null]},"link":null}'
    """

    def __init__(self, attributes: tuple[str, ...]) -> None:
        self._names = attributes
        self._sides = [f'"{name}":[' for name in attributes]
        self._box = ",".join([side.replace("%", "%%") + "%s,%s]" for side in self._sides])

    def subscription(self, view: SubscriptionView, head: str = "", tail: str = "") -> str:
        """One subscription; `head` is what comes before its fields, such as `"seq":42,`, and `tail` after them."""
        box = ",".join([f'"{name}":[{end(lo)},{end(hi)}]' for name, (lo, hi) in view.box.items()])
        link = "null" if view.link is None else f'"{view.link}"'
        ttl = "" if view.ttl is None else f',"ttl":{number(view.ttl)}'
        return f'{{{head}"id":"{view.id}","box":{{{box}}},"link":{link}{ttl}{tail}}}'

    def begun(self, rows: Sequence[Row], seqs: Iterable[int], tails: Iterable[str]) -> list[str]:
        """Subscriptions, each with its seq, as `subscription` writes them with these tails.

        >>> RelayJson(("price",)).begun([Row("s1", [0.0, 2.5], None, None)], [7], [""])
        ['{"seq":7,"id":"s1","box":{"price":[0,2.5]},"link":null}']
        """
        texts, width, at, written = number_texts([end for row in rows for end in row.ends]), 2 * len(self._names), 0, []
        for (id, _, link, ttl), seq, tail in zip(rows, seqs, tails, strict=True):
            sides = texts[at : at + width]
            at += width
            box = self._bounded(sides) if "null" in sides else self._box % tuple(sides)
            shown_link = "null" if link is None else f'"{link}"'
            shown_ttl = "" if ttl is None else f',"ttl":{number(ttl)}'
            written.append(f'{{"seq":{seq},"id":"{id}","box":{{{box}}},"link":{shown_link}{shown_ttl}{tail}}}')
        return written

    def _bounded(self, ends: Sequence[str]) -> str:
        """A box without the attributes that are unbounded on both sides."""
        sides = zip(self._sides, ends[0::2], ends[1::2], strict=True)
        return ",".join([f"{side}{lo},{hi}]" for side, lo, hi in sides if not lo == hi == "null"])

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


def decided_each(found: Outcomes) -> list[str]:
    """As `decided` for each, without an object for any where a relay has no links.

    >>> import numpy as np
    >>> from indexes.relays.outcomes import NeighbourOutcomes
    >>> forward, upto = np.array([True, False, False]), np.array([0, 2, 3])
    >>> all_of, outcomes = NeighbourOutcomes(np.arange(3), forward, ["s1", "s2", "s3"], upto), Outcomes()
    >>> outcomes.append(StepOutcomes(np.array([True, True, False]), ["s4", "s5", "s6"], {"": all_of}))
    >>> for text in decided_each(outcomes):
    ...     print(text)
    ,"forward":true,"covered_by":[]
    ,"forward":false,"covered_by":["s1","s2"]
    ,"forward_unsubscribe":false,"forward_subscribe":["s3"]
    """
    texts: list[str] = []
    for part in found.parts:
        if isinstance(part, StepOutcomes):
            texts += _decided_in(part)
        else:
            texts += [decided(one) for one in part]
    return texts


def _decided_in(part: StepOutcomes) -> list[str]:
    plain, n = part.decided.get(UPSTREAM), len(part.begins)
    if plain is None or not isinstance(plain.keys, list):
        return [decided(one) for one in part.made(0, n)]
    # Hardly any id has travelled, and most often there is one.
    about = plain.keys if max(plain.keys, default="") < TRAVELLED else list(map(shown, plain.keys))
    begin, texts = 0, []
    for new, forward, upto in zip(part.begins.tolist(), plain.forward.tolist(), plain.upto.tolist(), strict=True):
        opening = _DECIDED[new][forward]
        if upto == begin:
            texts.append(f"{opening}[]")
        elif upto == begin + 1:
            texts.append(f'{opening}["{about[begin]}"]')
        else:
            named = '","'.join(about[begin:upto])
            texts.append(f'{opening}["{named}"]')
        begin = upto
    return texts


_DECIDED = (
    (',"forward_unsubscribe":false,"forward_subscribe":', ',"forward_unsubscribe":true,"forward_subscribe":'),
    (',"forward":false,"covered_by":', ',"forward":true,"covered_by":'),
)
"""How the text of a decision begins: for an unsubscription or a subscription, not forwarded or forwarded."""


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
