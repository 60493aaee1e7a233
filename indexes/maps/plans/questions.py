"""A plan that answers a question: short ones in slices, long ones in a background thread while reads continue."""

from __future__ import annotations

from indexes.core.background import BackgroundTask
from indexes.core.plan import LONG, Plan
from indexes.maps.config import Point, Question, Skyline
from indexes.maps.plans.queries import SKYLINE
from indexes.maps.questions import SURELY_SHORT
from indexes.maps.results import Answer
from indexes.maps.searches import Found
from indexes.maps.store import MapStore


class QuestionPlan(Plan[MapStore]):
    """Answers a question at several places: `answers`, in their order, when it is done. Nothing is logged. One that is
    `dropped` is done as soon as it has its turn, with the answers that it has."""

    def __init__(self, engine: MapStore, question: Question, locations: list[Point]) -> None:
        super().__init__(engine, None, 0)
        self.question = question
        self.answers: list[Answer] = []
        self._locations = locations
        self._task: BackgroundTask[Found] | None = None
        self._some: list[Point] = []
        self._found: Found = []
        self.done = not locations
        self.dropped = False

    @property
    def work(self) -> float:
        if self._task is not None:
            return LONG
        left = len(self._locations) - len(self.answers)
        least = SKYLINE if isinstance(self.question, Skyline) else 0.0
        return max(least, left * self.engine.seconds(self.question))

    def drop(self) -> None:
        """Nobody waits for the answers any more."""
        self.dropped = True

    def execute(self, budget: float) -> None:
        if self.dropped and self._task is None:
            return
        engine, first = self.engine, len(self.answers)
        each = engine.seconds(self.question)
        if self._task is None:
            some = self._some = self._locations[first : first + max(1, int(budget / each))]
            if not isinstance(self.question, Skyline) or len(engine.table) <= SURELY_SHORT:
                self._found = engine.search(self.question, some)
                return
            self._task = BackgroundTask(lambda: engine.search(self.question, some, engine.background_searches))
        if self._task.done(budget):
            self._found, self._task = self._task.result, None

    def publish(self) -> None:
        """Make the answers available."""
        engine = self.engine
        if self._task is None:
            self.answers += engine.answers_from(self.question, self._found, self._some)
            self._found, self._some = [], []
        self.last_seq = engine.seq
        self.done = len(self.answers) == len(self._locations) or (self.dropped and self._task is None)
