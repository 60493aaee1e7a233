"""A feed's posts, lists, changes and subscriptions as JSON text, the same in answers and in streams.

Ids hold nothing that would need escaping; keywords may hold anything and are escaped; payloads are compact JSON text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat

from pydantic_core import to_json

from app.rendering.boards import number
from indexes.feeds.config import Point, Shown
from indexes.feeds.results import Change, Entry, PostView, SubscriptionView


def located(point: Point) -> str:
    """The field of a location."""
    return f'"location":[{number(point[0])},{number(point[1])}]'


def keywords(shown: Shown) -> str:
    r"""The field of keywords.

    >>> keywords(["ramen", 'a"b']), keywords({"ramen": 2.0})
    ('"keywords":["ramen","a\\"b"]', '"keywords":{"ramen":2}')
    """
    if isinstance(shown, dict):
        weights = [f"{to_json(word).decode()}:{number(weight)}" for word, weight in shown.items()]
        return f'"keywords":{{{",".join(weights)}}}'
    return f'"keywords":{to_json(shown).decode()}'


class Posts:
    """Writes posts, each once, for as long as the views that it is given live: the answer or the slice that is written.

    >>> post = PostView(0, 4, "p1", ["ramen"], (13.5, 52.0), 0, None)
    >>> Posts().list([Entry(post, 0.25)])
    '[{"rank":1,"id":"p1","score":0.25,"location":[13.5,52],"keywords":["ramen"]}]'
    """

    def __init__(self) -> None:
        self._made: dict[int, str] = {}

    def _said(self, post: PostView) -> str:
        """The fields of a post behind its id and score."""
        text = self._made.get(post.number)
        if text is None:
            text = f"{located(post.location)},{keywords(post.keywords)}"
            if post.payload is not None:
                text = f'{text},"payload":{post.payload.decode()}'
            self._made[post.number] = text
        return text

    def post(self, post: PostView, head: str = "") -> str:
        """A post; `head` is what comes before its fields, such as `"seq":42,`."""
        return f'{{{head}"id":"{post.id}",{self._said(post)}}}'

    def list(self, entries: Iterable[Entry]) -> str:
        """A list, best first."""
        ranked = [
            f'{{"rank":{rank},"id":"{post.id}","score":{number(score)},{self._said(post)}}}'
            for rank, (post, score) in enumerate(entries, 1)
        ]
        return f"[{','.join(ranked)}]"

    def changes(self, changes: Iterable[Change]) -> str:
        """What entered, left or got another score in a list."""
        return f"[{','.join(map(self._change, changes))}]"

    def _change(self, change: Change) -> str:
        id, old, new, entry = change
        head = f'{{"id":"{id}","old_rank":{"null" if old is None else old}'
        if new is None or entry is None:
            return f'{head},"new_rank":null}}'
        return f'{head},"new_rank":{new},"score":{number(entry.score)},{self._said(entry.post)}}}'

    def subscription(self, view: SubscriptionView, head: str = "") -> str:
        """A subscription, with its list where it has one."""
        text = (
            f'{{{head}"id":"{view.id}",{keywords(view.keywords)},{located(view.location)},'
            f'"k":{view.k},"alpha":{number(view.alpha)}'
        )
        if view.ttl is not None:
            text = f'{text},"ttl":{number(view.ttl)}'
        return f"{text}}}" if view.list is None else f'{text},"list":{self.list(view.list)}}}'


def result(id: str, reached: int, head: str = "") -> str:
    """What became of a post: in how many lists it was. `head` comes before the fields.

    >>> result("p1", 12, '"index":3,')
    '{"index":3,"id":"p1","reached":12}'
    """
    return f'{{{head}"id":"{id}","reached":{reached}}}'


def results(ids: Sequence[str], reached: Sequence[int], heads: Sequence[str] = ()) -> str:
    """What became of posts, with a head for each, where there are any."""
    return ",".join(map(result, ids, reached, heads or repeat("")))
