"""Worlds for skylines."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.unit.maps.worlds import World, on_the_sphere, worlds


def worlds_of(metric: str) -> st.SearchStrategy[Any]:
    """Worlds by a metric, of 0 to 3 attributes."""

    def made(world: World, d: int, seed: int) -> World:
        world = world._replace(statics=world.statics[:, :d])
        return world if metric == "manhattan" else on_the_sphere(world, seed)

    return st.builds(made, worlds, st.integers(0, 3), st.integers(0, 2))
