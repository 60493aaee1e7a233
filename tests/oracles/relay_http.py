"""A relay as it looks over HTTP, by brute force: what each request does to it, and what its answers must then be.

Plain dicts and the definition of covering in `tests.oracles.relays`. It shares nothing with the service. With links it
is one router for each, of what did not come over that link.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from tests.oracles.relays import Box, Router, contains, meets
from tests.oracles.service import Json, number

UPSTREAM = ""


class RelayModel:
    """One relay.

    `seq` is that of the last change. `exact` says that `covered_by` is all (or all direct) coverers, and not only so
    many of them.
    """

    def __init__(self, attributes: Sequence[str], graph: str = "G", k: int = 1, links: Sequence[str] = ()) -> None:
        self.attributes = list(attributes)
        self.graph = graph
        self.k = k
        self.seq = 0
        self.boxes: dict[str, Box] = {}
        self.link: dict[str, str | None] = {}
        self.ttl: dict[str, float] = {}
        self.links = list(links)
        self.routers = {name: Router() for name in self.links or (UPSTREAM,)}

    # What is done.

    def subscribe(self, id: str, box: Mapping[str, Any], link: str | None = None) -> Json:
        """A new subscription; returns its decision, with all that may stand in `covered_by`."""
        self.seq += 1
        return {"id": id, **self._begin(id, self._whole(box), link)}

    def unsubscribe(self, id: str) -> Json:
        """Returns what has to be done about the end of one."""
        self.seq += 1
        return self._end(id)

    def put(self, id: str, box: Mapping[str, Any], link: str | None = None) -> Json | None:
        """Returns the decisions; None where nothing changes."""
        whole = self._whole(box)
        if id in self.boxes and self.boxes[id] == whole and self.link[id] == link:
            return None
        self.seq += 1
        ended = self._end(id) if id in self.boxes else {}
        return {**self._begin(id, whole, link), **ended}

    def patch(self, id: str, box: Mapping[str, Any]) -> Json | None:
        """As `put`, for the attributes that are named; None is unbounded."""
        before = dict(zip(self.attributes, self.boxes[id], strict=True))
        return self.put(
            id, {**before, **{name: (None, None) if e is None else e for name, e in box.items()}}, self.link[id]
        )

    def notify(self, values: Mapping[str, float], came: str | None = None) -> Json:
        """Who gets a notification."""
        self.seq += 1
        point = [values[name] for name in self.attributes]
        met = [id for id, box in self.boxes.items() if meets(box, point)]
        over = {self.link[id] for id in met} - {None, came}
        return {"subscriptions": [id for id in met if self.link[id] is None], "links": sorted(map(str, over))}

    # What is there.

    def shown(self, id: str) -> Json:
        """A subscription as GET shows it, without `seq`."""
        sides = zip(self.attributes, self.boxes[id], strict=True)
        box = {name: [_end(lo), _end(hi)] for name, (lo, hi) in sides if (lo, hi) != (-inf, inf)}
        return {"id": id, "box": box, "link": self.link[id]}

    @property
    def forwarded(self) -> Any:
        """How much is forwarded, by link where there are links."""
        counts = {name: len(router.forwarded) for name, router in self.routers.items()}
        return counts.get(UPSTREAM, counts)

    def agrees(self, answer: Json, expected: Json) -> bool:
        """Whether an answer's decisions are those expected: the same, but that a graph G names at most k coverers."""
        if answer.keys() != expected.keys():
            return False
        for key, value in expected.items():
            if key != "covered_by":
                good = answer[key] == value
            elif self.links:
                good = answer[key].keys() == value.keys() and all(
                    self._named(answer[key][name], value[name]) for name in value
                )
            else:
                good = self._named(answer[key], value)
            if not good:
                return False
        return True

    def _named(self, found: list[str], coverers: list[str]) -> bool:
        if self.graph != "G":
            return found == coverers
        in_order = [id for id in coverers if id in found] == found
        return in_order and len(found) <= self.k and bool(found) == bool(coverers)

    def _begin(self, id: str, box: Box, link: str | None) -> Json:
        self.boxes[id], self.link[id] = box, link
        forward, covered = {}, {}
        for name, router in self.routers.items():
            if name != link or not self.links:
                forward[name] = router.subscribe(id, box)
                covered[name] = router.direct(id) if self.graph == "poset" else router.coverers(id)
        return {"forward": self._plain(forward), "covered_by": self._plain(covered)}

    def _end(self, id: str) -> Json:
        link = self.link[id]
        ended, raised = {}, {}
        for name, router in self.routers.items():
            if name != link or not self.links:
                ended[name], raised[name] = router.unsubscribe(id)
        del self.boxes[id], self.link[id]
        return {"forward_unsubscribe": self._plain(ended), "forward_subscribe": self._plain(raised)}

    def _plain(self, told: dict[str, Any]) -> Any:
        return told if self.links else told[UPSTREAM]

    def _whole(self, box: Mapping[str, Any]) -> Box:
        ends = [box.get(name, (None, None)) for name in self.attributes]
        return [(-inf if lo is None else float(lo), inf if hi is None else float(hi)) for lo, hi in ends]


def least(boxes: Mapping[str, Box]) -> set[str]:
    """The subscriptions that nothing else covers, of equal ones the first: what has to be known to cover all."""
    order = list(boxes)

    def covers(j: int, i: int) -> bool:
        outer, inner = boxes[order[j]], boxes[order[i]]
        return j != i and contains(outer, inner) and (j < i or not contains(inner, outer))

    return {id for i, id in enumerate(order) if not any(covers(j, i) for j in range(len(order)))}


def _end(value: float) -> Any:
    return None if abs(value) == inf else number(value)
