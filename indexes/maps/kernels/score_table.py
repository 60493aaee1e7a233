"""Many scorings side by side in arrays, so that a kernel can use another one for each query.

Equal scorings share a number, which is free again when the last user releases it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from indexes.core.arrays import Floats, Ints
from indexes.maps.kernels.floats import float_internal
from indexes.maps.kernels.programs import Program
from indexes.maps.kernels.scores import Scoring


class Scores(NamedTuple):
    """The fields of `Scoring`: a value for each scoring, or the arrays of all concatenated, up to an end for each."""

    kind: Ints
    metric: Ints
    scale: Floats
    wd: Floats
    shift: Floats
    blend: Floats
    columns_end: Ints
    steps_end: Ints
    column: Ints
    weight: Floats
    low: Floats
    width: Floats
    sign: Floats
    step: Ints
    operand: Floats
    stack: Floats  # (2, deepest), of all


class ScoreTable:
    """The scorings in use, with the number of users of each."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], int] = {}
        self._scores: list[Scoring] = []
        self._users: list[int] = []
        self._free: list[int] = []
        self._arrays: Scores | None = None

    def __len__(self) -> int:
        """How many are in use."""
        return len(self._known)

    def __getitem__(self, number: int) -> Scoring:
        return self._scores[number]

    def take(self, scoring: Scoring) -> int:
        """The number of a scoring, which gets one more user."""
        key = _key(scoring)
        number = self._known.get(key)
        if number is None:
            if self._free:
                number = self._free.pop()
                self._scores[number] = scoring
            else:
                number = len(self._scores)
                self._scores.append(scoring)
                self._users.append(0)
            self._known[key] = number
            self._arrays = None
        self._users[number] += 1
        return number

    def let_go(self, number: int) -> None:
        """Remove a user of a scoring."""
        self._users[number] -= 1
        if not self._users[number]:
            del self._known[_key(self._scores[number])]
            self._free.append(number)

    @property
    def arrays(self) -> Scores:
        """The table as kernels take it. O(scorings) after a new one, else O(1)."""
        if self._arrays is None:
            self._arrays = _arrays(self._scores)
        return self._arrays


def _key(scoring: Scoring) -> tuple[object, ...]:
    values = *scoring[:-1], scoring.program.step, scoring.program.operand
    return tuple((value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value for value in values)


def _arrays(scores: list[Scoring]) -> Scores:
    programs = [scoring.program for scoring in scores]

    def flat(some: Sequence[object], name: str, kind: DTypeLike) -> NDArray[Any]:
        return np.concatenate([*(np.asarray(getattr(one, name), kind) for one in some), np.empty(0, kind)])

    def each(name: str, kind: DTypeLike) -> NDArray[Any]:
        return np.array([getattr(scoring, name) for scoring in scores], kind)

    return Scores(
        kind=each("kind", np.int64),
        metric=each("metric", np.int64),
        scale=each("scale", np.float64),
        wd=each("wd", np.float64),
        shift=each("shift", np.float64),
        blend=each("blend", np.float64),
        columns_end=np.cumsum([len(scoring.column) for scoring in scores], dtype=np.int64),
        steps_end=np.cumsum([len(program.step) for program in programs], dtype=np.int64),
        column=flat(scores, "column", np.int64),
        weight=flat(scores, "weight", np.float64),
        low=flat(scores, "low", np.float64),
        width=flat(scores, "width", np.float64),
        sign=flat(scores, "sign", np.float64),
        step=flat(programs, "step", np.int64),
        operand=flat(programs, "operand", np.float64),
        stack=np.zeros((2, max((program.stack.shape[1] for program in programs), default=0))),
    )


@float_internal
def score_in(table: Scores, i: int) -> Scoring:
    """Scoring number i of a table, as views of its arrays. O(1)."""
    a, b = table.columns_end[i - 1] if i > 0 else 0, table.columns_end[i]
    c, d = table.steps_end[i - 1] if i > 0 else 0, table.steps_end[i]
    return Scoring(
        table.kind[i],
        table.metric[i],
        table.scale[i],
        table.wd[i],
        table.shift[i],
        table.blend[i],
        table.column[a:b],
        table.weight[a:b],
        table.low[a:b],
        table.width[a:b],
        table.sign[a:b],
        Program(table.step[c:d], table.operand[c:d], table.stack),
    )
