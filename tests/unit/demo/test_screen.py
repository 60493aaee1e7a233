from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from xml.etree import ElementTree

import pytest
from rich.console import Console

from app.demo.screen import HEAD_HEIGHT, LIST_HEIGHT, Figure, Listed, View, render, to_svg
from rankcast_client import Entry

TITLES = ("500 to 1,000 miles", "up to 500 miles", "1,000 to 1,500 miles", "1,500 to 2,000 miles", "far", "any")


def listed(title: str, fresh: Sequence[str] = ()) -> Listed:
    entries = [
        Entry(f"UA{n}", {"distance": 2475.0, "delay": 1272.0 - 300 * n}, n, {"from": "EWR", "to": "SFO", "tail": "N1"})
        for n in range(5)
    ]
    return Listed(title, entries, frozenset(fresh))


VIEW = View(
    datetime(2013, 1, 30, 7, 5),
    "a day a second",
    (
        Figure("flights", "127,004", 912.4),
        Figure("list changes", "1,204", 31.0),
        Figure("tiles", "127,099", 4_123.0),
        Figure("lists kept", "370"),
    ),
    [listed(title) for title in TITLES],
    ("rankcast watch delays", "curl -s 'http://127.0.0.1:8000/v1/boards/delays/top?l=500&r=1000&k=5'"),
    notes=("Over one WebSocket.", "Ctrl-C ends it."),
)


def drawn(view: View, width: int, height: int, colours: bool = False) -> list[str]:
    console = Console(
        width=width,
        height=height,
        file=io.StringIO(),
        force_terminal=colours,
        color_system="standard" if colours else None,
    )
    console.print(render(view, width, height))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_a_narrow_screen_has_one_column_of_whole_rows() -> None:
    lines = drawn(VIEW, 60, 24)
    assert [line.rstrip() for line in lines[:5]] == [
        " Wednesday, January 30, 2013  07:05          a day a second",
        " 912/s          31/s           4,123/s        370",
        " flights        list changes   tiles          lists kept",
        " 127,004        1,204          127,099",
        "",
    ]
    assert lines[5].startswith("╭─ 500 to 1,000 miles ─")
    assert lines[6] == "│ 1 UA0     EWR → SFO                  2,475 mi +1,272 min │"
    assert lines[10] == "│ 5 UA4     EWR → SFO                  2,475 mi    +72 min │"
    assert lines[-3:] == [" rankcast watch delays", " Over one WebSocket.", " Ctrl-C ends it."]


@pytest.mark.parametrize("width", [60, 72, 80, 100, 124, 160, 240])
@pytest.mark.parametrize("height", [16, 24, 30, 50, 80])
def test_every_size_is_kept_to_and_filled_with_the_lists_that_fit(width: int, height: int) -> None:
    lines = drawn(VIEW, width, height)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    shown = [title for title in TITLES if f"─ {title} ─" in text]
    foot = len(lines) - max(n for n, line in enumerate(lines) if "╰" in line) - 1
    room = max(1, (height - HEAD_HEIGHT - foot) // LIST_HEIGHT) * max(1, width // 40)
    assert shown == list(TITLES[: min(room, len(TITLES))])
    assert text.count("UA4 ") == len(shown)
    assert "…" not in text


def test_six_lists_go_in_two_rows_of_three() -> None:
    lines = drawn(VIEW, 200, 50)
    assert [line.count("╭─") for line in lines if "╭─" in line] == [3, 3]


def test_a_screen_too_small_for_all_keeps_the_first_list() -> None:
    lines = drawn(VIEW, 40, 8)
    assert "500 to 1,000 miles" in lines[HEAD_HEIGHT]
    assert len(lines) == HEAD_HEIGHT + LIST_HEIGHT


def test_what_is_fresh_stands_out() -> None:
    view = replace(VIEW, lists=[listed("any", ["UA2"])])
    bold = [line for line in drawn(view, 80, 24, colours=True) if "\x1b[1;32mUA" in line]
    assert [re.search(r"UA\d", line)[0] for line in bold] == ["UA2"]  # type: ignore[index]


def test_before_the_first_flight_and_after_a_deletion_there_are_words() -> None:
    view = replace(VIEW, at=None, lists=[Listed("any", (), note="deleted"), Listed("far", ())])
    lines = drawn(view, 80, 24)
    assert lines[0].startswith(" waiting for the first flight")
    assert lines[6] == "│ deleted                              ││                                      │"


def test_ids_and_titles_are_text_and_no_markup() -> None:
    entry = Entry("[red]A1", {"distance": 1, "delay": -5.0}, 0, None)
    lines = drawn(replace(VIEW, lists=[Listed("any", [entry])]), 80, 24)
    assert lines[6].startswith("│ 1 [red]A1 ")


def test_a_notice_is_shown_with_the_notes_and_commands_that_do_not_fit_are_not() -> None:
    notice = "The service asks for keys now; no more flights land."
    lines = drawn(replace(VIEW, notices=(notice,), commands=("x" * 100,)), 60, 24)
    assert [line.strip() for line in lines[-3:]] == [notice, "Over one WebSocket.", "Ctrl-C ends it."]
    assert "xxx" not in "".join(lines)


def test_the_picture_is_an_svg_that_loads_nothing_and_shows_every_list() -> None:
    svg = to_svg(VIEW)
    root = ElementTree.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    text = "".join(root.itertext()).replace("\xa0", " ")
    for title in (*TITLES, "Wednesday, January 30, 2013", "912/s", "rankcast demo", "lists kept", "Ctrl-C ends it."):
        assert title in text
    assert "url(" not in re.sub(r"url\(#[\w-]+\)", "", svg)
    assert to_svg(VIEW) == svg
