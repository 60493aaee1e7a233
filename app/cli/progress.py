"""How far something is, on stderr: a bar, or lines where that is no terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

STEP = 0.1
"""Where there is no terminal, there is a line for each so much of progress, and for each step."""

Show = Callable[[float | None, str], None]
"""What is called with the fraction that is done, None where it is not known, and what is being done."""


@contextmanager
def progress() -> Iterator[Show]:
    """Show progress until the context ends."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines()
        return
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=console,
    )
    with bar:
        # Without a total the bar pulses.
        task = bar.add_task("", total=None)

        def show(fraction: float | None, step: str) -> None:
            bar.update(task, total=None if fraction is None else 1.0, completed=fraction, description=step)

        yield show


def _lines() -> Show:
    said: tuple[str | None, float] = None, 0.0

    def show(fraction: float | None, step: str) -> None:
        nonlocal said
        # Steps with the same first word are one step of the display.
        doing = step.partition(" ")[0]
        if doing != said[0] or (fraction or 0.0) >= said[1] + STEP:
            said = doing, fraction or 0.0
            typer.echo(step if fraction is None else f"{fraction:4.0%} {step}", err=True)

    return show
