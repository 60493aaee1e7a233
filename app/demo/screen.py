"""The live screen of the demo: the date, measurements, and lists, arranged for the size of the terminal."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from rankcast_client import Entry

HEAD_HEIGHT = 5
LIST_WIDTH = 40
LIST_HEIGHT = 7
WITH_DISTANCE = 46
"""A list at least so wide has a column for the distance."""

PICTURE_WIDTH = 124
PICTURE_HEIGHT = 24

SVG = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: "Fira Code", ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width;
}}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: arial, sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix" xml:space="preserve">
{matrix}
</g>
</g>
</svg>
"""
"""What rich fills in. Its own template loads a font from elsewhere, which a page that shows an SVG as an image does
not; and without `xml:space` some renderers drop the spaces that a text begins with."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number: what it counts, how fast it grows (None for one that does not), and the total."""

    name: str
    total: str
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """One list. `fresh` are the ids that came or changed just now; `note` replaces a list that is not there."""

    title: str
    entries: Sequence[Entry]
    fresh: frozenset[str] = frozenset()
    note: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """What is shown at one moment. `at` is None before the first flight; the last three fields are the last lines."""

    at: datetime | None
    pace: str
    figures: Sequence[Figure]
    lists: Sequence[Listed]
    commands: Sequence[str] = ()
    notices: Sequence[str] = ()
    notes: Sequence[str] = ()


def render(view: View, width: int, height: int) -> RenderableType:
    """The screen in so many columns and lines, with as many lists as fit and at least one."""
    foot = _foot(view, width)
    while foot and height < HEAD_HEIGHT + LIST_HEIGHT + len(foot):
        del foot[0]
    lists = _lists(view.lists, width, height - HEAD_HEIGHT - len(foot))
    return Group(_title(view, width), _figures(view.figures, width), Text(), lists, *foot)


def to_svg(view: View) -> str:
    """The screen as a picture, in the format SVG."""
    console = Console(
        record=True,
        width=PICTURE_WIDTH,
        height=PICTURE_HEIGHT,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
    )
    console.print(render(view, PICTURE_WIDTH, PICTURE_HEIGHT))
    return console.export_svg(title="rankcast demo", code_format=SVG, unique_id="demo")


def _title(view: View, width: int) -> Text:
    """The date on the left and what is played on the right, where there is room for it."""
    at = "waiting for the first flight" if view.at is None else f"{view.at:%A, %B} {view.at.day}, {view.at:%Y  %H:%M}"
    title = Text(f" {at}", style="bold", no_wrap=True, overflow="ellipsis")
    gap = width - title.cell_len - len(view.pace) - 1
    if gap > 0:
        title.append(" " * gap + view.pace, style="not bold dim")
    return title


def _figures(figures: Sequence[Figure], width: int) -> Table:
    """A column each: how much a second, of what, and how many so far; three lines."""
    grid = Table.grid(expand=True, padding=(0, 1))
    for _ in figures:
        grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    rates = [one.total if one.rate is None else f"{one.rate:,.0f}/s" for one in figures]
    totals = ["" if one.rate is None else f"{one.total} so far" for one in figures]
    if figures and max(map(len, totals)) + 3 > width // len(figures):
        totals = [total.removesuffix(" so far") for total in totals]
    grid.add_row(*(Text(f" {rate}", style="bold cyan") for rate in rates))
    grid.add_row(*(Text(f" {one.name}") for one in figures))
    grid.add_row(*(Text(f" {total}", style="dim") for total in totals))
    return grid


def _lists(lists: Sequence[Listed], width: int, room: int) -> Table:
    """The lists in rows of equal length. Those that do not fit are left out, the last ones first."""
    across = max(1, width // LIST_WIDTH)
    down = max(1, room // LIST_HEIGHT)
    shown = lists[: across * down]
    # No row is much shorter than the others: six lists go in two rows of three, not in four and two.
    rows = -(-len(shown) // across)
    across = -(-len(shown) // rows) if rows else 1
    grid = Table.grid(expand=True)
    for _ in range(across):
        grid.add_column(ratio=1)
    for start in range(0, len(shown), across):
        grid.add_row(*(_list(one, width // across >= WITH_DISTANCE) for one in shown[start : start + across]))
    return grid


def _list(one: Listed, distance: bool) -> Panel:
    table = Table.grid(expand=True, padding=(0, 1))
    table.add_column(justify="right", style="dim", no_wrap=True)
    table.add_column(no_wrap=True, min_width=7)
    table.add_column(no_wrap=True, ratio=1, overflow="ellipsis")
    if distance:
        table.add_column(justify="right", no_wrap=True, style="dim")
    table.add_column(justify="right", no_wrap=True, min_width=10)
    if one.note:
        return Panel(Text(one.note, style="dim"), title=one.title, title_align="left", height=LIST_HEIGHT)
    for rank, entry in enumerate(one.entries, 1):
        miles = [f"{entry.values['distance']:,.0f} mi"] if distance else []
        row = [str(rank), entry.id, _route(entry.payload), *miles, f"{entry.values['delay']:+,.0f} min"]
        table.add_row(*map(Text, row), style="bold green" if entry.id in one.fresh else "")
    return Panel(table, title=one.title, title_align="left", height=LIST_HEIGHT)


def _route(payload: Any) -> str:
    known = payload if isinstance(payload, dict) else {}
    return f"{known['from']} → {known['to']}" if {"from", "to"} <= known.keys() else ""


def _foot(view: View, width: int) -> list[Text]:
    """The commands that fit, as half a command is of no use; then notices and notes, shortened to the width."""
    lines = [(command, "") for command in view.commands if len(command) < width]
    lines += [(notice, "bold yellow") for notice in view.notices] + [(note, "dim") for note in view.notes]
    return [Text(f" {line}", style=style, no_wrap=True, overflow="ellipsis") for line, style in lines]
