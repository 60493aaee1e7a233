"""Questions to a map, asked in their turn: short ones are answered in slices, long ones beside while reads go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexes.beside import Beside
from indexes.maps.live import Held
from indexes.maps.model import Point, Question, Skyline
from indexes.maps.query_plans import SKYLINE
from indexes.maps.searches import Searches
from indexes.maps.views import Answer
from indexes.plan import LONG, Plan

if TYPE_CHECKING:
    from indexes.maps.engine import MapEngine

SURELY_SHORT = 5_000
"""Objects of which a skyline takes some milliseconds even if nothing dominates anything: O(n^2 / 16)."""


class AskPlan(Plan["MapEngine"]):
    """A question at several places; `answers` are there when it is done, in their order. Nothing is logged."""

    def __init__(self, engine: MapEngine, question: Question, locations: list[Point]) -> None:
        super().__init__(engine, None, 0)
        self.question = question
        self.answers: list[Answer] = []
        self._locations = locations
        self._beside: Beside[list[Held]] | None = None
        self._zones: list[Held] = []
        self.done = not locations

    @property
    def work(self) -> float:
        if self._beside is not None:
            return LONG
        left = len(self._locations) - len(self.answers)
        least = SKYLINE if isinstance(self.question, Skyline) else 0.0
        return max(least, left * self.engine.seconds(self.question))

    def paint(self, budget: float) -> None:
        engine, first = self.engine, len(self.answers)
        each = engine.seconds(self.question)
        if self._beside is None:
            some = self._locations[first : first + max(1, int(budget / each))]
            if not isinstance(self.question, Skyline) or len(engine.table) <= SURELY_SHORT:
                self._zones = engine.search(self.question, some)
                return
            self._beside = Beside(lambda: engine.search(self.question, some, Searches(engine.config)))
        if self._beside.done(budget):
            self._zones, self._beside = self._beside.found, None

    def settle(self) -> None:
        """Show what was found."""
        engine, first = self.engine, len(self.answers)
        places = self._locations[first : first + len(self._zones)]
        self.answers += engine.shown(self.question, self._zones, places)
        self._zones = []
        self.last_seq = engine.seq
        self.done = len(self.answers) == len(self._locations)
