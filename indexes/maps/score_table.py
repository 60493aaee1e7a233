"""Many scores side by side in arrays, so that one kernel can take each query by its own.

Scores are numbered as they come, equal ones once. A number is free again when the last who uses it lets go of it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from indexes.maps.floats import float_part
from indexes.maps.scores import Scoring

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]


class Scores(NamedTuple):
    """The fields of `Scoring`: by score, or those of all scores one after the other, up to an end by score."""

    kind: Int64
    metric: Int64
    scale: Float64
    wd: Float64
    shift: Float64
    blend: Float64
    columns_end: Int64
    steps_end: Int64
    column: Int64
    weight: Float64
    low: Float64
    width: Float64
    sign: Float64
    step: Int64
    operand: Float64
    stack: Float64  # (2, deepest), of all


class ScoreTable:
    """The scores that are in use."""

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
        """The number of a score, which has one more user."""
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
        """A score has one user less."""
        self._users[number] -= 1
        if not self._users[number]:
            del self._known[_key(self._scores[number])]
            self._free.append(number)

    @property
    def arrays(self) -> Scores:
        """What kernels take. O(scores) after a new one, else O(1)."""
        if self._arrays is None:
            self._arrays = _arrays(self._scores)
        return self._arrays


def _key(s: Scoring) -> tuple[object, ...]:
    return tuple(
        (value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value
        for name, value in zip(s._fields, s, strict=True)
        if name != "stack"
    )


def _arrays(scores: list[Scoring]) -> Scores:
    def flat(name: str, kind: DTypeLike) -> NDArray[Any]:
        return np.concatenate([*(np.asarray(getattr(s, name), kind) for s in scores), np.empty(0, kind)])

    def each(name: str, kind: DTypeLike) -> NDArray[Any]:
        return np.array([getattr(s, name) for s in scores], kind)

    return Scores(
        kind=each("kind", np.int64),
        metric=each("metric", np.int64),
        scale=each("scale", np.float64),
        wd=each("wd", np.float64),
        shift=each("shift", np.float64),
        blend=each("blend", np.float64),
        columns_end=np.cumsum([len(s.column) for s in scores], dtype=np.int64),
        steps_end=np.cumsum([len(s.step) for s in scores], dtype=np.int64),
        column=flat("column", np.int64),
        weight=flat("weight", np.float64),
        low=flat("low", np.float64),
        width=flat("width", np.float64),
        sign=flat("sign", np.float64),
        step=flat("step", np.int64),
        operand=flat("operand", np.float64),
        stack=np.zeros((2, max((s.stack.shape[1] for s in scores), default=0))),
    )


@float_part
def score_in(t, i):  # type: ignore[no-untyped-def]
    """Score number i of a table. O(1): its arrays are parts of the table's."""
    a, b = t.columns_end[i - 1] if i > 0 else 0, t.columns_end[i]
    c, d = t.steps_end[i - 1] if i > 0 else 0, t.steps_end[i]
    return Scoring(
        t.kind[i],
        t.metric[i],
        t.scale[i],
        t.wd[i],
        t.shift[i],
        t.blend[i],
        t.column[a:b],
        t.weight[a:b],
        t.low[a:b],
        t.width[a:b],
        t.sign[a:b],
        t.step[c:d],
        t.operand[c:d],
        t.stack,
    )
