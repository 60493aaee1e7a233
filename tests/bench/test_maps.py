"""Small runs of the maps' benchmark: they end, and what they count is right. How fast is not asked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.maps import run, skyline
from bench.maps.baselines import cells
from bench.maps.prototype import VARIABLE
from bench.maps.workload import WIDTH, make_world

SMALL = skyline.Size(150, 2, 30, 5, 1, (skyline.Load(2, True), skyline.Load(1, False, "anti-correlated")), (10, 20))


@pytest.fixture(autouse=True)
def no_prototype(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def test_a_run_writes_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skyline, "QUICK", SMALL)
    page = tmp_path / "maps.md"
    run.run(quick=True, out=page, say=lambda _: None)
    text = page.read_text()
    assert "clustered, d = 2" in text and "| two phases |" in text and "Not judged at this size" in text
    assert "The prototype is not there" in text


@pytest.mark.parametrize("kind", ["uniform", "correlated", "anti-correlated"])
def test_worlds_are_within_the_square_and_walks_go_on_at_their_pace(kind: str) -> None:
    world = make_world(500, 3, True, kind, 4, 200)
    assert world.points.shape == (500, 2) and world.statics.shape == (500, 3) and world.walks.shape == (4, 200, 2)
    for values in world:
        assert (values >= 0).all() and (values <= 1).all()
    steps = np.hypot(*np.diff(world.walks, axis=1).T) * WIDTH
    assert (steps < 4 * 80 / 3.6).all() and np.median(steps) > 10
    assert make_world(500, 3, True, kind, 4, 200).walks.tobytes() == world.walks.tobytes()


def test_cells_of_objects_with_equal_values_are_those_of_voronoi() -> None:
    corners = np.array([[0.25, 0.25], [0.75, 0.25], [0.75, 0.75], [0.25, 0.75]])
    assert cells(corners, np.zeros((4, 1)), np.arange(4), 0.4, 0.4) == 16
    assert cells(corners, np.array([[0.0], [1.0], [1.0], [1.0]]), np.array([0]), 0.4, 0.4) == 4
