"""``rankcast restore``: a data directory from a snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli import fail, shown
from app.cli.progress import progress
from app.runtime.interrupts import interruptible


def register(cli: typer.Typer) -> None:
    """Add the command."""
    cli.command("restore")(restore)


def restore(
    snapshot: Annotated[
        str,
        typer.Argument(
            metavar="SNAPSHOT", help="The snapshot's folder: a path, or a URL such as s3://bucket/snapshots/1200."
        ),
    ],
    data: Annotated[
        Path, typer.Option("--data", envvar="RANKCAST_DATA", help="The data directory to make; empty or missing.")
    ],
    database: Annotated[
        str | None,
        typer.Option(
            "--database",
            envvar="RANKCAST_DATABASE",
            help="URL of the log's database; a SQLite file in the data directory if left out.",
        ),
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(
            "--storage",
            envvar="RANKCAST_STORAGE",
            help="Where the service will keep its snapshots; the data directory if left out.",
        ),
    ] = None,
) -> None:
    """Make a data directory from a snapshot, while no service uses it.

    It holds what the snapshot does: resources with their objects and
    subscriptions, API keys and kept answers. Streams of the directory that
    the snapshot is from do not resume on it: they get a reset.

    Example: rankcast restore data/snapshots/1200 --data restored
    """
    # What reads a snapshot loads the kernels; no other command needs that.
    from app.storage.restore import RestoreFailed
    from app.storage.restore import restore as run

    try:
        with interruptible(), progress() as show:
            detail = run(snapshot, data, database, show, storage)
    except RestoreFailed as refusal:
        raise fail(str(refusal)) from None
    except KeyboardInterrupt:
        raise fail(f"given up; {data} is not whole: do it again") from None
    for name, value in detail.items():
        typer.echo(f"{name}: {shown(value)}")
    typer.echo(f"restored; serve it with: rankcast serve --data {data}", err=True)
