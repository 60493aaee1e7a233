"""Once the kernels of relays are warm, none is compiled while they are used, also after a start from a snapshot."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import get_args

import pytest

from formats import parts, relays
from formats.folder import Folder
from indexes.relays.config import RelayConfig
from indexes.relays.packing import unpack_indexes
from indexes.relays.state import engine_of, packed_of
from indexes.relays.warm import exercise, warm
from tests.support.compiling import compiled
from tests.support.values import UNCOMPILED
from tests.unit.formats.relays import engine, written
from tests.unit.relays.helpers import state
from tests.unit.relays.worlds import Covering, Graph


@pytest.mark.skipif(UNCOMPILED, reason="nothing is compiled")
def test_nothing_is_compiled_while_relays_are_used(tmp_path: Path) -> None:
    warm()
    with compiled() as kernels:
        for i, (graph, index) in enumerate(product(get_args(Graph), get_args(Covering))):
            attributes = tuple("abcdefghi"[: 9 if i % 2 else 1])
            use(RelayConfig(attributes, graph, 1, index), tmp_path / f"{graph}{index}".replace("*", "s"))
    assert not kernels


def use(config: RelayConfig, path: Path) -> None:
    """Commands, a rebuild and a start from a snapshot."""
    one = state(engine(config))
    read = relays.read_state(Folder.at(path), "edge", written(Folder.at(path), one))
    parts.write_image(Folder.at(path / "image"), "relays/edge", 5, packed_of(one))
    image = parts.read_image(Folder.at(path / "image"))
    assert image is not None
    exercise(engine_of(read, unpack_indexes(config, read.relay, image)), 200)
