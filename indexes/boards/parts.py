"""Which parts a board is made of: with one range attribute those of `indexes.boards`, with more those of
`indexes.boards.space`. Both painters, and both kinds of object indexes, serve the engine in the same way."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from indexes.boards import step
from indexes.boards.commands import BoardConfig
from indexes.boards.objects import ObjectIndex
from indexes.boards.painter import INDEXES, Painter
from indexes.boards.space import step as space_step
from indexes.boards.space.objects import SpaceObjects
from indexes.boards.space.painter import SpacePainter

AnyObjects: TypeAlias = ObjectIndex | SpaceObjects
AnyPainter: TypeAlias = Painter | SpacePainter


def new_objects(config: BoardConfig) -> AnyObjects:
    """An empty index of objects."""
    return INDEXES[config.index]() if config.dimensions == 1 else SpaceObjects(config.dimensions)


def new_painter(config: BoardConfig) -> AnyPainter:
    """A painter of no objects and no subscriptions."""
    return Painter(config) if config.dimensions == 1 else SpacePainter(config)


def advance_of(config: BoardConfig) -> Callable[..., None]:
    """What applies changes to an index of objects and tells no one."""
    return step.advance if config.dimensions == 1 else space_step.advance
