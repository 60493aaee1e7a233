"""Figure 20: how far the queries of an event travel when the objects are spread over the owners of zones."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.compare import Curve, Panel, Value, curves, values
from bench.network.owners import Owners, share_out, traverse
from bench.report import Report, count


class Size(NamedTuple):
    """How much is run: objects, owners, events, list lengths."""

    n: int = 100_000
    owners: int = 100
    events: int = 2_000
    ks: tuple[int, ...] = (10, 100, 1_000, 10_000, 100_000)


QUICK = Size(events=200)


class Lengths(NamedTuple):
    """Owners asked after the first, on average: by one `first_k`, and by a `min_y`."""

    first_k: float
    min_y: float


def measure(d: Owners, objects: NDArray[np.int64], y: NDArray[np.float64], k: int) -> Lengths:
    """The queries of an event at each of these objects, were it at such a y."""
    lengths = np.zeros(3, np.int64)
    traverse(d, objects, y, k, lengths)
    west, east, between = lengths / len(objects)
    return Lengths((west + east) / 2, between)


class Spread:
    """Figure 20."""

    def __init__(self, report: Report, size: Size) -> None:
        self._report = report
        self._size = size

    def figure_20(self) -> list[Panel]:
        """Lengths by k: for a y that half of all objects are below, and for that of a random object."""
        size = self._size
        rng = np.random.default_rng(1)
        d = share_out(np.sort(rng.random(size.n)), rng.random(size.n), size.owners)
        objects = rng.integers(size.n, size=size.events)
        middle = np.full(size.events, float(np.median(d.y)))
        models = (("half are better", middle), ("a random object", d.y[objects]))
        found = {name: [measure(d, objects, y, k) for k in size.ks] for name, y in models}
        self._report.text(
            f"{size.n:,} objects in equal shares with {size.owners} owners along the diagonal; {size.events:,} objects "
            "at random. The length of a traversal is the number of owners asked after the first; a `min_y` is that "
            "for the next exposed object, between the ends of both lists."
        )
        lines = [
            Curve(f"{call}, {name}", size.ks, [getattr(lengths, column) for lengths in found[name]])
            for name, _ in models
            for call, column in (("first_k", "first_k"), ("min_y", "min_y"))
        ]
        lines.append(Curve("2 k s / n", size.ks, [self._half(k) for k in size.ks]))
        lines.append(Curve("k s / n (1 + ln(n / 2k))", size.ks, [self._random(k) for k in size.ks]))
        panel = Panel(20, "", f"{size.owners} owners", "k", "owners asked", tuple(lines), logs="xy")
        curves(self._report, panel)
        self._report.text(
            "The text expects 2 k s / n owners where an object is better with probability 1/2, and O(log(k) s / n) for "
            "random ones. The second cannot be: k objects alone lie with k s / n owners. An object at y, of which a "
            "share y is better, looks k / y objects far; over a uniform y that is k (1 + ln(n / 2k)) until the end "
            "of the board cuts it, n / 2 objects away. Rows with the formulas; a `min_y` looks both ways:"
        )
        rows = []
        for (name, y), formula in zip(models, (self._half, self._random), strict=True):
            for k, lengths in zip(size.ks, found[name], strict=True):
                for call, ours, times in (("first_k", lengths.first_k, 1), ("min_y", lengths.min_y, 2)):
                    rows.append(
                        Value(
                            (name, call, f"{k:,}"),
                            times * formula(k),
                            ours,
                            (self._to_the_end(d, objects, y, k, times),),
                        )
                    )
        values(self._report, ("objects", "query", "k"), rows)
        return [panel]

    def _half(self, k: int) -> float:
        return 2 * k * self._size.owners / self._size.n

    def _random(self, k: int) -> float:
        n = self._size.n
        return k * self._size.owners / n * (1 + max(0.0, float(np.log(n / 2 / k))))

    def _to_the_end(
        self, d: Owners, objects: NDArray[np.int64], y: NDArray[np.float64], k: int, times: int
    ) -> Callable[[float], str]:
        """A try: what the formula gives when every way ends with the board."""

        def tried(paper: float) -> str:
            share = np.maximum(y, 1 / len(d.x))
            ways = [np.minimum(k / share, side) for side in (objects, len(d.x) - 1 - objects)]
            cut = times * float(np.mean(ways)) * self._size.owners / len(d.x)
            ours = measure(d, objects, y, k)
            length = ours.first_k if times == 1 else ours.min_y
            if abs(cut / max(length, 1e-9) - 1) <= 0.1:
                return f"the board ends: no way is longer than to its rim, which makes the formula {count(cut)}"
            return f"open; cut at the rim of the board the formula gives {count(cut)}"

        return tried
