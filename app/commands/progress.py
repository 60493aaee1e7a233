"""How far something is, on stderr: a bar, or lines where that is no terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

STEP = 0.1
"""Where there is no terminal, there is a line for each so much of progress, and for each step."""

Show = Callable[[float, str], None]
"""What is called with the fraction that is done and what is being done."""


@contextmanager
def progress() -> Iterator[Show]:
    """Shows what it is told until it is left."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines()
        return
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        console=console,
    )
    with bar:
        task = bar.add_task("", total=1.0)
        yield lambda fraction, step: bar.update(task, completed=fraction, description=step)


def _lines() -> Show:
    said: tuple[str | None, float] = None, 0.0

    def show(fraction: float, step: str) -> None:
        nonlocal said
        if step != said[0] or fraction >= said[1] + STEP:
            said = step, fraction
            typer.echo(f"{fraction:4.0%} {step}", err=True)

    return show
