"""The commands of a map: all that can change its state, and all that its log contains.

A command is complete in itself: applying the same commands in the same order gives the same state.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from indexes.core.arrays import Floats
from indexes.core.elements import Deletion, Elements
from indexes.maps.config import Point, QueryState, Question, Score


@dataclass(slots=True)
class PutObjects(Elements):
    """Insert or change objects, in order; an id may occur several times.

    `points` (n, 2) and `values` (n, d), with the user's sign, are NaN where not given: a new object needs all, an
    existing one keeps the others. `payload` maps an index to compact JSON text, or to None to remove the payload. With
    `must_exist` an unknown id is refused. With `skip` elements that do not apply are left out and reported; without it
    one of them refuses the whole command. The ids of a few objects may be a list.
    """

    ids: pa.StringArray | list[str]
    points: Floats
    values: Floats
    payload: dict[int, bytes | None] = field(default_factory=dict)
    skip: bool = False
    must_exist: bool = False

    @property
    def keys(self) -> list[str]:
        """The ids as a list."""
        found: list[str] = self.ids if isinstance(self.ids, list) else self.ids.to_pylist()
        return found

    @property
    def array(self) -> pa.StringArray:
        """The ids as an Arrow array."""
        return pa.array(self.ids, pa.string()) if isinstance(self.ids, list) else self.ids


class DeleteObjects(Deletion):
    """Delete objects. Unknown ids are passed over unless `must_exist`."""


@dataclass(slots=True)
class AddQueries(Elements):
    """Create standing queries; `locations` is (n, 2), `ttl` maps an index to seconds.

    With `skip` elements that do not apply are left out and reported; without it one of them refuses the whole command.
    """

    ids: pa.StringArray
    questions: list[Question]
    locations: Floats
    ttl: dict[int, float] = field(default_factory=dict)
    skip: bool = False

    def state_at(self, i: int) -> QueryState:
        """The state of element i after the command."""
        x, y = self.locations[i].tolist()
        return QueryState(self.questions[i], (x, y), self.ttl.get(i))


@dataclass(slots=True)
class SetQuery:
    """Create or replace a standing query. `ttl` in seconds, None for no time limit."""

    id: str
    question: Question
    location: Point
    ttl: float | None = None


@dataclass(slots=True)
class ChangeQuery:
    """Change the given fields of a standing query; its kind stays. A `ttl` of 0 removes the time limit, None keeps it.
    Fields of a top-k are refused for a skyline.

    It is logged as the `SetQuery` or `MoveQueries` that it amounts to.
    """

    id: str
    location: Point | None = None
    k: int | None = None
    m: int | None = None
    ordered: bool | None = None
    score: Score | None = None
    ttl: float | None = None


@dataclass(slots=True)
class MoveQueries:
    """Move clients of standing queries, in order; `locations` is (n, 2), an id may occur several times.

    With `skip` unknown ids are left out and reported; without it one of them refuses the whole command.
    """

    ids: list[str]
    locations: Floats
    skip: bool = False

    def __len__(self) -> int:
        return len(self.ids)


class DeleteQueries(Deletion):
    """Delete standing queries. Unknown ids are passed over unless `must_exist`."""


Command = PutObjects | DeleteObjects | AddQueries | SetQuery | ChangeQuery | MoveQueries | DeleteQueries
