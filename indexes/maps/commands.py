"""The commands of a map: all that can change its state, and the only things that its log holds.

A command carries its data whole, so that applying the same commands in the same order gives the same state.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indexes.maps.model import Point, Question, Score, Standing

Float64 = npt.NDArray[np.float64]


@dataclass(slots=True)
class PutObjects:
    """Objects come or change, in order; an id may stand several times.

    `points` (n, 2) and `values` (n, d), with the user's sign, are NaN where an object does not give them: a new one
    gives all, one that is there keeps the others. `payload` maps an index to compact JSON text, or to None where the
    payload is taken away. With `must_exist` an unknown id is refused. With `skip` those that do not apply are left out
    and reported; without it one of them refuses the whole command.
    """

    ids: pa.StringArray
    points: Float64
    values: Float64
    payload: dict[int, bytes | None] = field(default_factory=dict)
    skip: bool = False
    must_exist: bool = False

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(slots=True)
class DeleteObjects:
    """Delete objects. Unknown ids are passed over unless `must_exist`."""

    ids: list[str]
    must_exist: bool = False

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(slots=True)
class AddQueries:
    """New standing queries; `locations` is (n, 2), `ttl` maps an index to seconds.

    With `skip` those that do not apply are left out and reported; without it one of them refuses the whole command.
    """

    ids: pa.StringArray
    questions: list[Question]
    locations: Float64
    ttl: dict[int, float] = field(default_factory=dict)
    skip: bool = False

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: list[int]) -> AddQueries:
        """Those at these places, in this order."""
        place = {old: new for new, old in enumerate(rows)}
        ttl = {place[i]: seconds for i, seconds in self.ttl.items() if i in place}
        ids = self.ids.take(pa.array(rows, pa.int64()))
        return AddQueries(ids, [self.questions[i] for i in rows], self.locations[rows], ttl, self.skip)

    def standing(self, i: int) -> Standing:
        """What the one at this place will be."""
        x, y = self.locations[i].tolist()
        return Standing(self.questions[i], (x, y), self.ttl.get(i))


@dataclass(slots=True)
class SetQuery:
    """Make a standing query, or change it to this. `ttl` in seconds, None for no time limit."""

    id: str
    question: Question
    location: Point
    ttl: float | None = None


@dataclass(slots=True)
class ChangeQuery:
    """Change what is named of a standing query and leave the rest; its kind stays. A `ttl` of 0 takes the time limit
    away, None leaves it. What concerns a top-k is refused for a skyline.

    It is logged as the `SetQuery` or `MoveQueries` that it comes to.
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
    """Clients of standing queries are at other places, in order; `locations` is (n, 2), an id may stand several times.

    With `skip` unknown ids are left out and reported; without it one of them refuses the whole command.
    """

    ids: list[str]
    locations: Float64
    skip: bool = False

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(slots=True)
class DeleteQueries:
    """Delete standing queries. Unknown ids are passed over unless `must_exist`."""

    ids: list[str]
    must_exist: bool = False

    def __len__(self) -> int:
        return len(self.ids)


Command = PutObjects | DeleteObjects | AddQueries | SetQuery | ChangeQuery | MoveQueries | DeleteQueries
