"""Commands about many elements, by column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import pyarrow as pa


class Elements:
    """A command of many elements, each with an id. Its other fields are columns of the same length, dicts from the
    index of an element to a value, and what is about all elements."""

    ids: pa.StringArray

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Sequence[int]) -> Self:
        """The command with only the elements at these places, in this order. O(all elements)."""
        columns: Any = fields(self)  # type: ignore[arg-type]
        return type(self)(*(_taken(getattr(self, column.name), rows) for column in columns))


def _taken(field: Any, rows: Sequence[int]) -> Any:
    match field:
        case pa.Array():
            return field.take(pa.array(rows, pa.int64()))
        case np.ndarray():
            return field[rows]
        case dict():
            place = {old: new for new, old in enumerate(rows)}
            return {place[i]: value for i, value in field.items() if i in place}
        case list():
            return [field[i] for i in rows]
    return field.take(rows) if hasattr(field, "take") else field


@dataclass(slots=True)
class Deletion:
    """Delete what has these ids. Unknown ids are passed over unless `must_exist`."""

    ids: list[str]
    must_exist: bool = False

    def __len__(self) -> int:
        return len(self.ids)
