"""What a board is made with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class BoardConfig:
    """What a board ranks, and how it paints.

    `ks` are the list lengths on offer, ascending; `index` is the object index: "range-tree" or "kd-tree". `runs` = j
    paints with epsilon = 1/j, at most j tiles for an object; 0 is exact. A `sketch` of B replaces in Paint-Sparse the
    subscriptions of a class: B rectangles that cover them; None for the subscriptions themselves. `indexed` are the
    fields of the payload by which subscriptions filter. With indexed fields or several range attributes there is one
    way to paint and one index: `algorithm` is "sparse", `runs` 0, `sketch` None and `index` "kd-tree".
    """

    range_attributes: tuple[str, ...]
    rank_attribute: str
    order: Literal["asc", "desc"] = "asc"
    ks: tuple[int, ...] = (10,)
    algorithm: Literal["sparse", "dense"] = "sparse"
    index: Literal["range-tree", "kd-tree"] = "range-tree"
    runs: int = 0
    sketch: int | None = None
    indexed: tuple[str, ...] = ()

    @property
    def dimensions(self) -> int:
        """The number of range attributes as kernels see them, which includes the indexed fields."""
        return len(self.range_attributes) + len(self.indexed)
