"""The parts of a board: with one range attribute those of `indexes.boards`, with more those of `indexes.boards.space`.
Both painters, and all object indexes, have the same interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from indexes.boards.config import BoardConfig
from indexes.boards.kernels import step
from indexes.boards.kernels.object_index import ObjectIndex
from indexes.boards.painter import INDEXES, Painter
from indexes.boards.space.kernels import step as space_step
from indexes.boards.space.kernels.objects import SpaceObjects
from indexes.boards.space.painter import SpacePainter
from indexes.boards.team import PainterTeam

AnyObjects: TypeAlias = ObjectIndex | SpaceObjects
AnyPainter: TypeAlias = Painter | SpacePainter


def new_objects(config: BoardConfig) -> AnyObjects:
    """An empty index of objects."""
    return INDEXES[config.index]() if config.dimensions == 1 else SpaceObjects(config.dimensions)


def new_painter(config: BoardConfig) -> AnyPainter:
    """A painter of no objects and no subscriptions."""
    return PainterTeam(config) if config.dimensions == 1 else SpacePainter(config)


def advance_of(config: BoardConfig) -> Callable[..., None]:
    """The kernel that applies changes to an index of objects without painting."""
    return step.advance if config.dimensions == 1 else space_step.advance
