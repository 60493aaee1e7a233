"""``rankcast doctor`` and ``rankcast support-bundle``: what is wrong, and what to send with a report of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from app.cli import fail
from app.cli.checkup import Place, check_up

DataOption = Annotated[Path, typer.Option("--data", envvar="RANKCAST_DATA", help="The data directory; only read.")]
DatabaseOption = Annotated[
    str | None, typer.Option("--database", envvar="RANKCAST_DATABASE", help="URL of the log's database.")
]
StorageOption = Annotated[
    str | None, typer.Option("--storage", envvar="RANKCAST_STORAGE", help="Where snapshots are kept.")
]
UrlOption = Annotated[str | None, typer.Option("--url", envvar="RANKCAST_URL", help="A running service.")]
KeyOption = Annotated[str | None, typer.Option("--key", envvar="RANKCAST_KEY", help="A key with admin, for --url.")]


def register(cli: typer.Typer) -> None:
    """Add the commands."""
    cli.command("doctor")(doctor)
    cli.command("support-bundle")(support_bundle)


def doctor(
    data: DataOption = Path("data"),
    database: DatabaseOption = None,
    storage: StorageOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object of JSON a line.")] = False,
) -> None:
    """Look for what is wrong, and say what to do.

    Reads the data directory, the log's checksums, snapshots, limits, kernels,
    and the service at --url. Changes nothing, also while the service runs.
    Ends with 1 when there is an error.

    Example: rankcast doctor --data data
    """
    from app.runtime import logs

    logs.silence()
    findings = check_up(Place(data, database or None, storage or None, _first(url), key or None))
    for each in findings:
        if as_json:
            typer.echo(json.dumps(each._asdict(), ensure_ascii=False))
        else:
            advice = f": {each.advice}" if each.advice else ""
            typer.echo(f"{each.level:<8} {each.check:<15} {each.found}{advice}")
    if any(each.level == "error" for each in findings):
        raise typer.Exit(1)


def support_bundle(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The archive to write, a tar.gz.")],
    data: DataOption = Path("data"),
    database: DatabaseOption = None,
    storage: StorageOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
    log: Annotated[Path | None, typer.Option("--log", help="A file with the service's log.")] = None,
    hash_names: Annotated[bool, typer.Option("--hash-names", help="Replace names of resources by hashes.")] = False,
) -> None:
    """Write what a report of a problem needs to one file.

    It has versions, settings, what doctor finds, and of the service at --url
    metrics, readiness, jobs and sizes. It has no keys, no payloads, no ids of
    objects or subscriptions. Look at it before you send it.

    Example: rankcast support-bundle bundle.tar.gz --data data
    """
    from app.cli.bundle import write_bundle
    from app.runtime import logs

    logs.silence()
    try:
        names = write_bundle(
            file, Place(data, database or None, storage or None, _first(url), key or None), log, hash_names
        )
    except OSError as error:
        raise fail(f"{file} cannot be written: {error.strerror or error}") from None
    typer.echo(f"{file}: {', '.join(names)}")


def _first(urls: str | None) -> str | None:
    """The first of several nodes: what is looked at is one."""
    return urls.partition(",")[0] if urls else None
