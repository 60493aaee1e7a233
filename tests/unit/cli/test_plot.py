"""`rankcast plot`: what it asks for, the geometry it draws, and the picture itself."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import typer
from hypothesis import given
from typer.testing import CliRunner

from app.cli import plot
from app.cli.drawing.staircase import Box, levels, outline
from app.cli.main import cli
from rankcast_client import BoardInfo, Entry, Explanation, Nearest
from tests.oracles.painting import Object, every_range, top
from tests.support.pictures import need_matplotlib

INF = math.inf
DELAYS = BoardInfo("delays", ("distance",), "delay", "desc", (2, 5), "sparse", None)


# --- what is asked ----------------------------------------------------------------------------------------------------


def test_options_become_an_event() -> None:
    assert plot.event_of(DELAYS, "a", [], False) == {"op": "update", "id": "a"}
    assert plot.event_of(DELAYS, "a", ["delay=20", " distance =-1.5e3"], False) == {
        "op": "upsert",
        "id": "a",
        "values": {"delay": 20, "distance": -1500},
    }
    assert plot.event_of(DELAYS, "a", [], True) == {"op": "delete", "id": "a"}


@pytest.mark.parametrize(
    ("values", "delete", "reason"),
    [
        (["delay"], False, "sets nothing"),
        (["speed=1"], False, "no attribute 'speed'"),
        (["delay=1", "delay=2"], False, "two values"),
        (["delay=x"], False, "not a number"),
        (["delay=inf"], False, "not a number"),
        (["delay=1"], True, "takes no --set"),
    ],
)
def test_what_is_no_event_is_refused(values: list[str], delete: bool, reason: str) -> None:
    with pytest.raises(typer.BadParameter, match=reason):
        plot.event_of(DELAYS, "a", values, delete)


def test_bad_options_are_refused_before_anything_is_asked() -> None:
    nowhere = ["--url", "http://127.0.0.1:1"]
    for options in (["-o", "event.gif"], ["--algorithm", "best"], ["--epsilon", "0"], ["-k", "0"]):
        found = CliRunner().invoke(cli, ["plot", "delays", "a", *options, *nowhere])
        assert found.exit_code == 2, found.output


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(plot, "find_spec", lambda name: None)
    output = tmp_path / "event.svg"
    found = CliRunner().invoke(cli, ["plot", "delays", "a", "-o", str(output), "--url", "http://127.0.0.1:1"])
    assert found.exit_code == 1
    assert "pip install" in found.output and "matplotlib" in found.output
    assert not output.exists()


# --- geometry ---------------------------------------------------------------------------------------------------------


coordinates = st.integers(0, 7).map(float)


@given(coordinates, st.lists(coordinates, max_size=8), st.integers(1, 5))
def test_levels_are_the_ranks_of_the_object(x: float, better: list[float], k: int) -> None:
    """Objects better than the one at hand, in any order: what counts is how many are in a range."""
    mine = Object(99, x, 1.0, 99)
    others = [Object(n, at, 0.0, n) for n, at in enumerate(better)]
    west = sorted((at for at in better if at <= x), reverse=True)
    east = sorted(at for at in better if at > x)
    found = levels(x, Nearest(tuple(west[:k]), tuple(east[:k])), k)
    for l, r in every_range([*others, mine]):
        if l <= r:
            listed = [one.id for one in top([*others, mine], l, r, k)]
            rank = listed.index(99) + 1 if 99 in listed else None
            held = [level for box, level in found if box.holds(l, r)]
            assert held == ([] if rank is None else [rank]), (l, r)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.lists(st.integers(1, 4), min_size=5, max_size=5))
def test_the_outline_goes_once_around_the_strips(widths: list[int], heights: list[int]) -> None:
    l, top_ = 0.0, 10.0
    strips = []
    for width, height in zip(widths, heights, strict=False):
        top_ += height
        strips.append(Box(l, l + width, 10.0, top_))
        l += width
    corners = outline(strips)
    around = [*corners, corners[0]]
    assert all((a == c) != (b == d) or (a, b) == (c, d) for (a, b), (c, d) in pairwise(around))
    area = abs(sum(a * d - c * b for (a, b), (c, d) in pairwise(around))) / 2
    assert area == sum((one.l_inner - one.l_outer) * (one.r_outer - one.r_inner) for one in strips)
    assert outline([]) == []


# --- the picture ------------------------------------------------------------------------------------------------------


def sides(*numbers: float | None) -> dict[str, float | None]:
    return dict(zip(("l_outer", "l_inner", "r_inner", "r_outer"), numbers, strict=True))


def listed(id: str, distance: float, delay: float) -> dict[str, Any]:
    return {"id": id, "values": {"distance": distance, "delay": delay}, "created": 0}


def an_explanation(**more: Any) -> Explanation:
    """`a` at 10 falls behind `b` and `c`, for k = 2."""
    own = {"object": {**listed("a", 10, 5), "gone": False}, "k": 2}
    effect = {
        "k": 2,
        "before": [sides(None, 4, 10, 30), sides(4, 10, 10, None)],
        "after": [sides(4, 10, 10, 16)],
        "tiles": [{**sides(None, 4, 10, 30), **own}, {**sides(4, 10, 10, None), **own}],
        "exposed": [
            {"object": listed("b", 4, 9), "tiles": [sides(None, 4, 10, 16)], "reached": 1},
            {"object": listed("c", 16, 7), "tiles": [sides(None, 4, 16, 30), sides(4, 10, 16, None)], "reached": 2},
        ],
        "tile_count": 5,
        "reached": 3,
        "calls": {"first_k": 1, "min_y": 3, "snaps": 5, "merges": 1, "refreshes": 0},
    }
    near = {"before": {"west": [4], "east": [30]}, "after": {"west": [4, 4], "east": [16, 30]}}
    said = {
        "seq": 7,
        "kind": "worse",
        "before": listed("a", 10, 20),
        "after": listed("a", 10, 5),
        "near": near,
        "classes": [effect],
        "tile_count": 5,
        "affected": 3,
    }
    return Explanation.from_json({**said, **more})


def a_picture(said: Explanation, panels: int = 1) -> Any:
    from app.cli.drawing.boards import Panel, Picture

    effect = said.classes[0]
    points = [(-INF, 12.0), (5.0, INF), (6.0, 20.0), (0.0, 40.0), (7.0, 9.0)]
    return Picture(DELAYS, said, effect, [Panel("sparse", effect)] * panels, points)


def test_the_same_picture_is_the_same_file(tmp_path: Path) -> None:
    need_matplotlib()
    from app.cli.drawing.boards import draw

    for suffix, start in ((".svg", b"<?xml"), (".png", b"\x89PNG"), (".pdf", b"%PDF")):
        files = [tmp_path / f"{n}{suffix}" for n in range(2)]
        for file in files:
            draw(a_picture(an_explanation()), file)
        one, two = (file.read_bytes() for file in files)
        assert one == two and one.startswith(start)


def test_the_picture_has_the_boxes_of_the_explanation() -> None:
    need_matplotlib()
    from matplotlib.colors import to_hex

    from app.cli.drawing.boards import EXPOSED, OWN, figure

    found = figure(a_picture(an_explanation(), panels=2))
    region, *tilings = found.axes
    assert len(tilings) == 2
    assert sorted(text.get_text() for text in region.texts if text.get_text().isdigit()) == ["1", "2", "2"]
    low, high = region.get_xlim()
    bottom, top_ = region.get_ylim()
    for frame in tilings:
        fills = [to_hex(patch.get_facecolor()) for patch in frame.patches]
        assert fills == [OWN, OWN, EXPOSED[0], EXPOSED[1], EXPOSED[1]]
        patches: list[Any] = list(frame.patches[:2])
        first, second = (patch.get_bbox().extents.tolist() for patch in patches)
        assert first == [low, 10.0, 4.0, 30.0]
        assert second == [4.0, 10.0, 10.0, top_]
        assert "5 tiles to 3 subscriptions" in [frame.get_title(loc="left")]
    assert [text for text in (label.get_text() for label in region.get_xticklabels()) if "∞" in text] == ["−∞"]
    assert [text for text in (label.get_text() for label in region.get_yticklabels()) if "∞" in text] == ["+∞"]
    assert low < 4 < 10 < high and bottom < 10 < 30 < top_
    (legend,) = found.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names[0] == "a itself" and {"b, delay 9", "c, delay 7"} <= set(names)


def test_circles_are_subscriptions_whose_lists_change() -> None:
    need_matplotlib()
    from app.cli.drawing.boards import figure

    frame = figure(a_picture(an_explanation())).axes[0]
    others, changed = (collection.get_offsets().tolist() for collection in frame.collections)
    # Unbounded ends stand in their bands, and what lies outside of the frame is left out.
    assert [6.0, 20.0] in changed and others == [[7.0, 9.0]]
    assert sorted((l < 3.4, r > 31) for l, r in changed) == [(False, False), (False, True), (True, False)]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "delays   a   delay 20 → 5"),
        ({"kind": "insertion", "before": None}, "delays   a   comes: distance 10, delay 5"),
        ({"kind": "deletion", "after": None}, "delays   a   goes: distance 10, delay 20"),
        ({"kind": "nothing", "before": listed("a", 10, 5)}, "delays   a   delay 5"),
        ({"kind": "move", "before": listed("a", 12, 5)}, "delays   a   distance 12 → 10"),
    ],
)
def test_every_kind_of_event_has_a_picture(more: dict[str, Any], words: str) -> None:
    need_matplotlib()
    from app.cli.drawing.boards import figure, title

    picture = a_picture(an_explanation(**more))
    assert title(picture) == words
    assert len(figure(picture).axes) == 2


def test_an_object_that_is_best_everywhere_has_a_picture() -> None:
    need_matplotlib()
    from app.cli.drawing.boards import figure

    said = an_explanation(near={"before": {"west": [], "east": []}, "after": {"west": [], "east": []}})
    frame = figure(a_picture(said)).axes[0]
    assert [text.get_text() for text in frame.texts if text.get_text().isdigit()] == ["1"]


def test_a_class_is_chosen_by_who_hears() -> None:
    said = an_explanation()
    assert plot.effect_of(said, None, "delays").k == plot.effect_of(said, 2, "delays").k == 2
    with pytest.raises(typer.BadParameter, match="offers k = 2"):
        plot.effect_of(said, 5, "delays")
    assert isinstance(said.before, Entry)
