"""``rankcast gateway``: a process without indexes, between readers and the service."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli import fail
from app.runtime import interpreter


def register(cli: typer.Typer) -> None:
    """Add the command."""
    cli.command("gateway")(gateway)


def gateway(
    upstream: Annotated[str, typer.Option(help="URL of the service.", envvar="RANKCAST_UPSTREAM")],
    nats: Annotated[str, typer.Option(help="URL of NATS, as the service has it.", envvar="RANKCAST_NATS")],
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.", envvar="RANKCAST_PORT")] = 8001,
    host: Annotated[str, typer.Option(help="Address to listen on.", envvar="RANKCAST_HOST")] = "127.0.0.1",
    key: Annotated[
        str | None,
        typer.Option(
            help="A key with boards:read, for lists that no reader asked for; that of a reader if left out.",
            envvar="RANKCAST_KEY",
        ),
    ] = None,
) -> None:
    """Serve streams from NATS, and pass everything else on to the service.

    It ends at SIGTERM. Limits of streams are those of ``rankcast serve``, from the environment.
    """
    from urllib.parse import urlsplit

    from app.cli.serve import settings_from
    from app.runtime import logs
    from app.runtime.listening import CannotListen, listen

    settings = settings_from({"host": host, "port": port, "nats": nats})
    if urlsplit(upstream).scheme not in ("http", "https"):
        raise fail(f"{upstream!r} is no URL of a service: it begins with http:// or https://")
    logs.configure(settings)
    from app.gateway.main import Gateway
    from app.gateway.serving import serve

    try:
        sockets = listen(settings.host, settings.port)
    except CannotListen as refusal:
        raise fail(str(refusal)) from None
    interpreter.keep_program()
    serve(Gateway(settings, upstream, key or None), settings, sockets)
