"""Regions of subscriptions out of bodies: ranges, discs, half-planes and simplexes become the same columns.

In JSON a region is one of the fields `range`, `disc`, `half_plane` and `simplex`, none of them is everywhere; in Arrow
it is a range, in columns `<attribute>_min` and `<attribute>_max`. All but ranges are for boards with two range
attributes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from math import inf, nan
from typing import Any

import numpy as np
import pyarrow as pa

from app.api.arrow import floats, given_but_bad
from app.api.element_errors import ElementError, ElementErrors
from app.api.problems import many
from app.errors import FieldError
from indexes.boards.regions import Region, Regions, everywhere, ranges

_EVERYWHERE: tuple[None, None] = (None, None)
_REVERSED = "the lower end lies above the upper end"
_ONE_OF = "must not stand beside {}: a subscription has one region"
_SHAPES = ("disc", "half_plane", "simplex")


class RegionReader:
    """Reads the regions of subscriptions of a board with these range attributes."""

    def __init__(self, attributes: tuple[str, ...]) -> None:
        self._attributes = attributes
        self._d = len(attributes)
        self.columns = [f"{name}_{end}" for name in attributes for end in ("min", "max")]
        """The columns of Arrow batches."""

    def whole(self, body: dict[str, Any]) -> Region:
        """The region of a subscription as a body says it whole. Raises the problem 422."""
        errors: list[FieldError] = []
        region = self._region(body, inf, errors)
        if errors:
            raise many(errors)
        return region or everywhere(self._d)

    def part(self, body: dict[str, Any]) -> Region | None:
        """What a body changes of a region; sides that stay are NaN. Raises the problem 422."""
        errors: list[FieldError] = []
        region = self._region(body, nan, errors)
        if errors:
            raise many(errors)
        return region

    def add(self, items: Sequence[dict[str, Any]], start: int, errors: ElementErrors) -> Regions:
        """The regions of validated elements, the first of which is number `start` of the body."""
        if self._d == 1:
            return self._ranges(items, start, errors)
        out = Regions.empty(self._d, len(items))
        for i, item in enumerate(items):
            wrong: list[FieldError] = []
            out.put(i, self._region(item, inf, wrong) or everywhere(self._d))
            errors += [ElementError(start + i, *error) for error in wrong]
        return out

    def add_batch(self, batch: pa.RecordBatch, start: int, errors: ElementErrors) -> Regions:
        """The ranges of an Arrow batch, whose first row is number `start` of the body."""
        out = Regions.empty(self._d, len(batch))
        for i, name in enumerate(self._attributes):
            ends = out.sides[2 * i : 2 * i + 2]
            for at, (column, open_end) in enumerate(((f"{name}_min", -inf), (f"{name}_max", inf))):
                values = floats(batch, column)
                if values is None:
                    ends[at] = open_end
                else:
                    errors += given_but_bad(batch, column, values, start, f"range.{name}[{at}]")
                    ends[at] = np.where(np.isnan(values), open_end, values)
            reversed_ends = np.flatnonzero(ends[0] > ends[1]).tolist()
            errors += [ElementError(start + i, f"range.{name}", _REVERSED) for i in reversed_ends]
        return out

    def _ranges(self, items: Sequence[dict[str, Any]], start: int, errors: ElementErrors) -> Regions:
        name = self._attributes[0]
        ends = [item.get("range", {}).get(name, _EVERYWHERE) for item in items]
        l = [-inf if low is None else low for low, _ in ends]
        r = [inf if high is None else high for _, high in ends]
        out = ranges(l, r)
        reversed_ends = np.flatnonzero(out.l > out.r).tolist()
        errors += [ElementError(start + i, f"range.{name}", _REVERSED) for i in reversed_ends]
        return out

    def _region(self, body: dict[str, Any], left_out: float, errors: list[FieldError]) -> Region | None:
        """The region that a body names, None where it names none. `left_out` stands for an attribute that a range
        leaves out: infinity or NaN."""
        named = [name for name in ("range", *_SHAPES) if name in body]
        if len(named) > 1:
            errors.append(FieldError(named[1], _ONE_OF.format(f"`{named[0]}`")))
        if not named:
            return None
        shape, said = named[0], body[named[0]]
        if shape == "range":
            return self._box(said, left_out, errors)
        region = Region(shape, _SIDES[shape](said))
        if region.fault is not None:
            errors.append(FieldError(*region.fault))
        return region

    def _box(self, said: dict[str, Any], left_out: float, errors: list[FieldError]) -> Region | None:
        if not said:
            return None
        sides: list[float] = []
        for name in self._attributes:
            low, high = said.get(name, (-left_out, left_out))
            l, r = -inf if low is None else low, inf if high is None else high
            if l > r:
                errors.append(FieldError(f"range.{name}", _REVERSED))
            sides += (l, r)
        return Region("box", tuple(sides))


_UNSAID = (nan, nan)


def _disc(said: dict[str, Any]) -> tuple[float, ...]:
    return (*said.get("center", _UNSAID), said.get("radius", nan))


def _half_plane(said: dict[str, Any]) -> tuple[float, ...]:
    return (*said.get("a", _UNSAID), said.get("b", nan))


def _simplex(said: dict[str, Any]) -> tuple[float, ...]:
    return tuple(chain.from_iterable(said["points"]))


_SIDES = {"disc": _disc, "half_plane": _half_plane, "simplex": _simplex}


@lru_cache(maxsize=256)
def region_reader(attributes: tuple[str, ...]) -> RegionReader:
    """The reader of a board with these range attributes."""
    return RegionReader(attributes)
