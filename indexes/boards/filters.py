"""Filters on the indexed fields of payloads: equality as a range of one point ([Range top-k] I and IV-C).

To the kernels an indexed field is one more range attribute, behind those of the user. The place of an object there is
the code of the value that its payload has in that field, `ABSENT` for none; the range of a subscription with a filter
is the code of its value, that of one without is unbounded.

A code is a hash. Lists are exact all the same, since no two values in use may share one: a command that would bring the
second is refused.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from math import inf, isinf
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from indexes.boards.commands import Filter
from indexes.boards.regions import Region, Regions
from indexes.boards.results import Place, Reach
from indexes.boards.space.kernels.shapes import BOX, MAX, SHAPES
from indexes.core.arrays import Floats, Rows
from indexes.core.commands import Fault
from indexes.core.pending import STRIDE

ABSENT = 0.0
"""The place of objects that have no value in a field."""

SAME_CODE = "another value has the same code"
RANGES_ONLY = "a board with indexed fields takes ranges only"

PIECE = STRIDE // 16
"""Payloads that are read between two points at which other resources may go first: one takes some microseconds."""

Codes: TypeAlias = tuple[float, ...]
"""The codes of an object's values, by indexed field."""


def text_of(value: Any) -> str:
    """The canonical JSON text of a value: compact, with keys in order, and one form for equal numbers.

    >>> text_of({"b": 1.0, "a": "größe"}), text_of(1e3), text_of(None)
    ('{"a":"größe","b":1}', '1000', 'null')
    """
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def code_of(text: str) -> float:
    """The code of a value by its text: an integer from 1 to 2^52. Logs and snapshots depend on it."""
    return float(int.from_bytes(sha256(text.encode()).digest()[:8]) % (1 << 52) + 1)


@dataclass(slots=True)
class Coded:
    """The values of a command's payloads in the indexed fields: codes by event, and faults where one clashes. `texts`
    are those of all codes."""

    codes: dict[int, Codes] = field(default_factory=dict)
    faults: dict[int, Fault] = field(default_factory=dict)
    texts: dict[float, str] = field(default_factory=dict)


@dataclass(slots=True)
class CodeChanges:
    """How often a command brings each code into use, and takes it out of use."""

    gained: Counter[float] = field(default_factory=Counter)
    lost: Counter[float] = field(default_factory=Counter)


class FilterIndex:
    """The indexed fields of a board with `ranged` range attributes, and the text of every code in use.

    A code is in use from the moment when a command that brings it is accepted until one that takes it away is applied
    (or rolled back), so that `texts` covers both pending and applied state.
    """

    def __init__(self, fields: tuple[str, ...] = (), ranged: int = 1) -> None:
        self.fields = fields
        self.ranged = ranged
        self.texts: dict[float, str] = {}
        self._uses: Counter[float] = Counter()

    @property
    def dimensions(self) -> int:
        """The number of range attributes as kernels see them."""
        return self.ranged + len(self.fields)

    # Which codes are in use

    def hold(self, codes: Mapping[float, int], texts: Mapping[float, str]) -> None:
        """Count uses of codes, whose texts are given."""
        for code, n in codes.items():
            self._uses[code] += n
            self.texts.setdefault(code, texts[code])

    def release(self, codes: Mapping[float, int]) -> None:
        """Count uses of codes that have ended."""
        for code, n in codes.items():
            self._uses[code] -= n
            if not self._uses[code]:
                del self._uses[code], self.texts[code]

    def load(self, texts: Mapping[float, str], x: Floats, regions: Regions) -> None:
        """Take over the codes of all objects and subscriptions of a board that has none. O(n log n + m log m)."""
        if self.fields:
            self.hold(self._count(x, regions), texts)

    def _count(self, x: Floats, regions: Regions) -> Counter[float]:
        places = x[:, self.ranged :].ravel()
        ends = regions.sides[2 * self.ranged : 2 * self.dimensions : 2].ravel()
        return _counted(np.concatenate([places[places != ABSENT], ends[np.isfinite(ends)]]))

    def check(self, x: Floats, regions: Regions) -> None:
        """Raise AssertionError unless exactly these objects and subscriptions are counted (with nothing pending)."""
        if self.fields:
            assert self._uses == self._count(x, regions), "uses of codes are counted wrongly"
            assert self.texts.keys() == self._uses.keys(), "a code without a text, or a text without a code"
            assert all(code_of(text) == code for code, text in self.texts.items()), "a text under another's code"

    def _known(self, text: str, fresh: dict[float, str]) -> float | None:
        """The code of a text, which is added to `fresh`; None if another value has that code."""
        code = code_of(text)
        return code if self.texts.get(code, text) == text == fresh.setdefault(code, text) else None

    # Objects

    def read(self, payload: Mapping[int, bytes | None]) -> Generator[None, None, Coded]:
        """The codes of payloads, in pieces."""
        found = Coded()
        for n, (at, text) in enumerate(payload.items() if self.fields else ()):
            value = None if text is None else json.loads(text)
            codes = []
            for name in self.fields:
                code: float | None = ABSENT
                if isinstance(value, dict) and name in value:
                    code = self._known(text_of(value[name]), found.texts)
                    if code is None:
                        found.faults[at] = Fault(f"payload.{name}", SAME_CODE, "invalid", at)
                        break
                codes.append(code)
            found.codes[at] = tuple(codes)  # type: ignore[arg-type]  # whole where there is no fault
            if n % PIECE == PIECE - 1:
                yield
        return found

    def codes_of(self, rows: Rows, x: Floats) -> dict[int, Codes]:
        """The codes of places as kernels see them, by row, where there are any."""
        if not self.fields:
            return {}
        codes = x[:, self.ranged :]
        some = np.flatnonzero((codes != ABSENT).any(axis=1))
        return dict(zip(rows[some].tolist(), map(tuple, codes[some].tolist()), strict=True))

    def widened(self, x: Floats, born: Sequence[int], codes: Mapping[int, Codes]) -> Floats:
        """The places of events with their codes: NaN for an event without payload, `ABSENT` if it creates an object."""
        hidden = np.full((len(x), len(self.fields)), np.nan)
        hidden[born] = ABSENT
        for at, row in codes.items():
            hidden[at] = row
        return np.column_stack([x, hidden])

    def shown(self, x: Place) -> Place:
        """A place in the user's terms, from one as kernels see it."""
        if not self.fields:
            return x
        assert isinstance(x, tuple)
        return x[0] if self.ranged == 1 else x[: self.ranged]

    # Subscriptions

    def region(self, region: Region, where: Filter, fresh: dict[float, str] | None = None) -> Region:
        """A region with a filter as kernels see it; adds the texts to `fresh`. Raises LookupError with the name of a
        field, if another value has the code of its value."""
        sides = list(region.sides)
        fresh = {} if fresh is None else fresh
        for name, text in zip(self.fields, where or (None,) * len(self.fields), strict=True):
            code = None if text is None else self._known(text, fresh)
            if text is not None and code is None:
                raise LookupError(name)
            sides += (-inf, inf) if code is None else (code, code)
        return Region(region.shape, tuple(sides)) if self.fields else region

    def apart(self, region: Region) -> tuple[Region, Filter]:
        """The inverse of `region`: a region and a filter."""
        if not self.fields:
            return region, ()
        at = 2 * self.ranged
        where = tuple(None if isinf(code) else self.texts[code] for code in region.sides[at::2])
        return Region(region.shape, region.sides[:at]), where if any(text is not None for text in where) else ()

    def codes(self, region: Region) -> Counter[float]:
        """The codes in a region as kernels see it."""
        ends = region.sides[2 * self.ranged :: 2] if self.fields else ()
        return Counter(code for code in ends if not isinf(code))

    def regions(
        self, regions: Regions, where: tuple[pa.StringArray, ...]
    ) -> tuple[Regions, dict[float, str], list[Fault]]:
        """As `region`, by column: returns also the texts of all codes, and the faults."""
        faults = [
            Fault(SHAPES[regions.shape[i]], RANGES_ONLY, "invalid", i)
            for i in np.flatnonzero(regions.shape != BOX).tolist()
        ]
        out = Regions.empty(self.dimensions, len(regions))
        out.sides[: 2 * self.ranged] = regions.sides[: 2 * self.ranged]
        texts: dict[float, str] = {}
        for at, name in enumerate(self.fields):
            l, r = out.sides[2 * (self.ranged + at) :][:2]
            l[:], r[:] = -inf, inf
            if where:
                faults += self._fill(l, r, where[at], name, texts)
        return out, texts, faults

    def _fill(self, l: Floats, r: Floats, column: pa.StringArray, name: str, texts: dict[float, str]) -> list[Fault]:
        """Write the ends for a column of values."""
        given = column.dictionary_encode()
        known = [self._known(text, texts) for text in given.dictionary.to_pylist()]
        at = np.flatnonzero(np.asarray(given.is_valid()))
        value = np.asarray(given.indices.drop_null())
        clashes = np.array([code is None for code in known], bool)[value]
        l[at] = r[at] = np.array([code or ABSENT for code in known])[value]
        return [Fault(f"where.{name}", SAME_CODE, "invalid", i) for i in at[clashes].tolist()]

    def counted(self, regions: Regions) -> Counter[float]:
        """How often each code is in regions as kernels see them."""
        ends = regions.sides[2 * self.ranged : 2 * self.dimensions : 2].ravel()
        return _counted(ends[np.isfinite(ends)])

    # Tiles

    def reached(self, sides: Sequence[float], codes: Sequence[float]) -> tuple[Reach, ...]:
        """The filters of the subscriptions that a tile about an object with these codes reaches, by field; `sides` are
        those of the indexed fields, as kernels have them.

        The ranges of all these subscriptions contain the object. So in an indexed field they are either unbounded or
        the object's code alone.
        """
        found = []
        for at, code in enumerate(codes):
            l_outer, l_inner, r_inner, r_outer = sides[4 * at : 4 * at + 4]
            equal = l_outer < code <= l_inner and r_inner <= code < r_outer
            # After later events of the same pass the code may be out of use.
            value = self.texts.get(code) if equal else None
            found.append(Reach(l_outer <= -MAX and r_outer >= MAX, value))
        return tuple(found)


def _counted(codes: Floats) -> Counter[float]:
    values, counts = np.unique(codes, return_counts=True)
    return Counter(dict(zip(values.tolist(), counts.tolist(), strict=True)))
