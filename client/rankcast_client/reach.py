"""Where an answer of a map stays valid, and what it is there. No I/O."""

from __future__ import annotations

from dataclasses import replace

from rankcast_client.map_models import MapAnswer, MapInfo, Place, Question, SkylineAnswer, Top
from rankcast_client.ranking import Ranking
from rankcast_client.zones import MEASURES, NOWHERE, Location, zone_of


class Reach:
    """What an answer becomes at other places of its zone."""

    def __init__(self, question: Question, info: MapInfo) -> None:
        self._question = question
        self._info = info
        self._ranking = Ranking(question.score, info) if isinstance(question, Top) else None
        self._measure = MEASURES[info.metric]
        self._answer: MapAnswer | None = None
        self._zone = NOWHERE

    def at(self, answer: MapAnswer, location: Location) -> MapAnswer | None:
        """The answer at a place; None where it may be another one, which only the service knows.

        O(edges of the zone), and O(c log c) for the c objects that it has.
        """
        if location == answer.location:
            return answer
        if answer is not self._answer:
            self._answer, self._zone = answer, zone_of(answer.zone, self._info.metric, self._info.bounds)
        if not self._zone.holds(*location):
            return None
        if isinstance(answer, SkylineAnswer):
            found = sorted((self._from(one, location) for one in answer.skyline), key=_nearness)
            return replace(answer, location=location, skyline=tuple(found))
        assert isinstance(self._question, Top) and self._ranking is not None, "a top-k answers a `Top`"
        ranked = self._ranking.ranked(answer.candidates, *location)
        return replace(answer, location=location, list=ranked[: self._question.k], candidates=ranked)

    def _from(self, one: Place, location: Location) -> Place:
        x, y = location
        return replace(one, distance=self._measure(float(x), float(y), float(one.location[0]), float(one.location[1])))


def _nearness(one: Place) -> tuple[float, int]:
    return one.distance or 0.0, one.created


class Counted:
    """Counters of a moving client: moves, requests to the service (`asked`), and moves that needed none (`saved`)."""

    moves = 0
    asked = 0
    saved = 0
