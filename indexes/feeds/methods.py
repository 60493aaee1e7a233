"""The ways to find whom a post may matter to. All give the same lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from indexes.feeds.cells import Cells
from indexes.feeds.compared import BRUTE, CIQ, GROUPS, INVERTED, ComparedIndex
from indexes.feeds.ordered import OrderedIndex
from indexes.feeds.subscribers import Subscribers, Table

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]


class Method(Protocol):
    """An index of the subscriptions of a table, and the kernel that takes posts in with it."""

    def build(self, table: Table, order: Int64, tree: Cells | None = None) -> None:
        """Lay all out, for words in this order, rarer ones first, and in the cells of a tree or in new ones."""

    def add(self, table: Table, slots: Int64) -> None:
        """Subscriptions that have been evaluated are found from now on."""

    def remove(self, table: Table, slots: Int64) -> None:
        """Subscriptions, still in the table, are not found any more."""

    def move(self, s: Subscribers, slots: Int64, old: Float64) -> None:
        """These have had another theta until now."""

    def with_words(self, words: int) -> None:
        """Words below this may come."""

    def room(self, table: Table) -> tuple[int, int, int]:
        """How many cells there are, and how many blocks and postings a post may have to read."""

    def post(self, *what: Any) -> int:
        """Posts come: a kernel as `ordered.post_ordered`, and what it returns."""

    def find(self, *what: Any) -> int:
        """Whom posts of the window may matter to is found, and nothing changes: a kernel as `ordered.find_many`."""

    finds: bool
    """Whether it finds whom a post reaches: if not, it is given to it, and buffers cannot be refilled."""

    def refill(self, *what: Any) -> None:
        """Posts of the window come into buffers once more: a kernel as `ordered.refill_ordered`."""

    def check(self, table: Table) -> None:
        """All is as it has to be."""


METHODS: dict[str, Callable[[], Method]] = {
    "ordered": OrderedIndex,
    "groups": lambda: ComparedIndex(GROUPS),
    "ciq": lambda: ComparedIndex(CIQ),
    "inverted": lambda: ComparedIndex(INVERTED),
    "brute": lambda: ComparedIndex(BRUTE),
}
"""`ordered` serves; the others are what it is compared with."""


def method_of(name: str) -> Method:
    """An empty index of this name. Raises ValueError if there is none."""
    if name not in METHODS:
        raise ValueError(f"no method is called {name!r}")
    return METHODS[name]()
