"""What is tried of a value of the boards' default workload that is far from the paper's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.boards.workload import COIN, UNIFORM
from bench.compare import Try, of_reading, of_seeds
from bench.report import count, spread


def by_chance(of: Callable[[int, int], float], seeds: Sequence[int]) -> tuple[Try, ...]:
    """What is tried of a value of the default workload, `of(seed, model)`: seeds other than 1, and the other reading
    of "a random new y"; what neither accounts for is open, with both values."""

    def every() -> list[float]:
        return [of(seed, COIN) for seed in (1, *seeds)]

    def uniform() -> float:
        return of(1, UNIFORM)

    def left(_: float) -> str:
        return f"open: not the random numbers {spread(every())} and not the coin (uniform y: {count(uniform())})"

    return (of_seeds(every), of_reading(uniform, "with a uniform new y in place of the coin {}"), left)
