"""The paper's default workload at every size that its tables and figures ask for, each measured once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from bench.boards.plays import (
    SPARSE,
    Approach,
    Played,
    Relaxed,
    Sequence,
    Unicasts,
    cn_relax,
    fresh,
    play,
    sequence,
    unicasts,
)
from bench.boards.plays import approach as approach_of
from bench.boards.workload import COIN, World, make_ranges, make_world, subscription_index
from bench.network.routing import Network, make_network, zones_of
from indexes.boards.kernels.forest import Forest

T = TypeVar("T")

KS = (1, 2, 5, 10, 15, 20)


class Size(NamedTuple):
    """How much is run: objects, subscriptions (by default, and for figures by m), events, list lengths, nodes and
    brokers of the network, further seeds."""

    n: int = 10_000
    m: int = 2_000_000
    ms: tuple[int, ...] = (200_000, 500_000, 1_000_000, 2_000_000, 5_000_000)
    events: int = 50_000
    ks: tuple[int, ...] = KS
    nodes: int = 20_000
    brokers: int = 1_000
    seeds: tuple[int, ...] = (2, 3, 4, 5)


QUICK = Size(ms=(200_000, 2_000_000), events=2_000, ks=(1, 5, 20), nodes=2_000, brokers=100, seeds=(2,))


class Memory:
    """What was measured, by a key that says all that it depends on."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], Any] = {}

    def _once(self, key: tuple[Any, ...], measure: Callable[[], T]) -> T:
        if key not in self._kept:
            self._kept[key] = measure()
        found: T = self._kept[key]
        return found


class Stage(Memory):
    """Measures, and remembers what it measured. The subscription index of one m and seed is kept at a time."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size
        self._forest: tuple[tuple[int, int], Forest] | None = None

    def played(
        self,
        approach: Approach,
        k: int,
        m: int | None = None,
        seed: int = 1,
        model: int = COIN,
        sending: bool = False,
        first: int | None = None,
    ) -> Played:
        """The workload's events by an approach.

        Where epsilon k < 1 that is the exact one, and Paint-Dense, of, is the same for every m:
        both are measured once. `first` takes only so many of the events.
        """
        m = m or self.size.m
        if approach.runs >= k:
            approach = approach_of(approach.dense)
        key = ("played", approach, k, None if approach.dense else m, seed, model, sending, first)

        def measure() -> Played:
            net = self.network() if sending else None
            every = self.events(seed, model)
            events = Sequence(every.row[:first], every.y[:first])
            return play(self.objects(seed), self.forest(m, seed), events, approach, k, net, not approach.dense)

        return self._once(key, measure)

    def searched(self, k: int, seed: int = 1, model: int = COIN) -> Played:
        """Paint-Sparse at the default m with every search made, as the calls are counted."""
        return self._once(
            ("searched", k, seed, model),
            lambda: play(
                self.objects(seed), self.forest(self.size.m, seed), self.events(seed, model), SPARSE, k, searching=True
            ),
        )

    def unicasts(self, k: int) -> Unicasts:
        """Unicast over the network, at the default m."""
        size = self.size

        def gateway() -> NDArray[np.int32]:
            out = np.empty(size.m, np.int32)
            zones_of(self.network().zones, *make_ranges(size.m, 7), out)
            return out

        zones = self._once(("gateway",), gateway)
        return self._once(
            ("unicasts", k),
            lambda: unicasts(self.objects(1), self.forest(size.m, 1), zones, self.events(1), k, self.network()),
        )

    def relaxed(self, seed: int = 1) -> Relaxed:
        """CN-Relax at the default m."""

        def measure() -> Relaxed:
            x = self.world(seed).x[self.events(seed).row]
            return cn_relax(x, self.forest(self.size.m, seed), self.network(), seed)

        return self._once(("relaxed", seed), measure)

    def network(self) -> Network:
        """The brokers; made once."""
        return self._once(("network",), lambda: make_network(self.size.nodes, self.size.brokers, 1))

    def objects(self, seed: int) -> Any:
        """The object index in the first state."""
        world = self.world(seed)
        return fresh(world.x, world.y)

    def events(self, seed: int, model: int = COIN) -> Sequence:
        """The events of a seed."""
        return self._once(("events", seed, model), lambda: sequence(self.world(seed), model))

    def forest(self, m: int, seed: int) -> Forest:
        """The subscriptions of a seed, seed 1 being those of Tables I, III and IV."""
        if self._forest is None or self._forest[0] != (m, seed):
            self._forest = None
            self._forest = ((m, seed), subscription_index(m, seed + 6))
        return self._forest[1]

    def world(self, seed: int) -> World:
        """The objects of a seed, and the random numbers of its events."""
        return self._once(("world", seed), lambda: make_world(self.size.n, self.size.events, seed))
