"""``rankcast serve``: the service itself."""

from __future__ import annotations

import inspect
import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic import ValidationError

from app.cli import fail
from app.runtime import interpreter
from app.settings import Settings

PAUSE = 0.2
"""Seconds before a process restarts: one that cannot stay does not do so at once for ever."""


def register(cli: typer.Typer) -> None:
    """Add the command."""
    cli.command("serve")(with_settings(serve))


def settings_from(given: dict[str, Any]) -> Settings:
    """The settings with what was given on the command line; ends the command when one is not valid."""
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as failure:
        from app.api.problems import reason

        lines = [
            f"RANKCAST_{str(error['loc'][0]).upper()}: {reason(error)}" for error in failure.errors(include_url=False)
        ]
        raise fail("; ".join(lines)) from None


def _option(name: str) -> inspect.Parameter:
    """A setting as an option of the command line, which is also read from the environment."""
    field = Settings.model_fields[name]
    kind = next((one for one in get_args(field.annotation) if one is not type(None)), field.annotation)
    if get_origin(field.annotation) is Literal:
        kind, choices = str, f" One of {', '.join(get_args(field.annotation))}."
    else:
        kind, choices = kind if kind in (int, float, bool, Path) else str, ""
    option = typer.Option(
        f"--{name.replace('_', '-')}", help=(field.description or "") + choices, envvar=f"RANKCAST_{name.upper()}"
    )
    annotation = Annotated[kind | None, option]  # type: ignore[valid-type]
    default = field.default if field.default != () else None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command ``(settings)`` every setting as an option."""
    parameters = [_option(name) for name in Settings.model_fields]

    def run(**given: Any) -> None:
        command(settings_from(given))

    run.__name__ = command.__name__
    run.__doc__ = command.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or Ctrl-C. What was answered is there again after any end."""
    # Signals end it at once until the server itself sees to them: what is written until then is whole at any moment.
    with ExitStack() as stack:
        _serve(settings, stack)


def _serve(settings: Settings, stack: ExitStack) -> None:
    from app.runtime.listening import CannotListen, PortTaken, listen

    try:
        sockets = listen(settings.host, settings.port)
    except PortTaken as taken:
        other = "" if taken.free is None else f". Another port: --port {taken.free}"
        raise fail(f"{taken}{other}") from None
    except CannotListen:
        # Whether it may listen there at all is reported first.
        sockets = []
    for one in sockets:
        stack.enter_context(one)

    interpreter.import_libraries()

    from app.errors import DatabaseLost, LogUnavailable
    from app.runtime import logs
    from app.storage import open_stores
    from app.storage.directory import DirectoryUnusable
    from app.storage.role import read_role

    logs.configure(settings)
    if settings.follow or settings.peers or read_role(settings.data).role is not None:
        _serve_in_group(settings, sockets)
        return
    try:
        stores = open_stores(settings.data, settings.database, accept_log_end=settings.accept_log_end)
    except (DirectoryUnusable, LogUnavailable) as refusal:
        raise fail(str(refusal)) from None

    from app.write_path.read_ahead import ReadAhead

    ahead = ReadAhead(settings, stores)

    # Most of what is imported, and while the snapshot is read.
    from app.main import create_app
    from app.security.door import DoorOpen, check_door
    from app.security.keyring import Keyring
    from app.security.tokens import Tokens
    from app.server.serving import serve as run

    try:
        check_door(settings, Keyring(stores.keys.all(), Tokens.of(settings)))
        sockets = sockets or listen(settings.host, settings.port)
    except (DoorOpen, LogUnavailable, CannotListen) as refusal:
        stores.close()
        raise fail(str(refusal)) from None
    try:
        app = create_app(settings, stores, listen_first=True, ahead=ahead)
        app.state.lifecycle.owns_process = True
        interpreter.keep_program()
        run(app, settings, sockets)
    except DatabaseLost as lost:
        raise fail(f"the service has ended: {lost}") from None
    except Exception as error:
        raise fail(f"the service could not start: {error}") from None


def _serve_in_group(settings: Settings, sockets: list[socket.socket]) -> None:
    """Serve as one of several nodes: what part it plays is found out while it listens already."""
    from app.errors import DatabaseLost, LogUnavailable
    from app.main import create_app
    from app.replication.joining import JoinFailed
    from app.runtime.listening import CannotListen, listen
    from app.security.door import DoorOpen
    from app.server.serving import serve as run
    from app.storage.directory import DirectoryUnusable

    if settings.shares_log and settings.sync_replicas:
        raise fail(
            "RANKCAST_SYNC_REPLICAS: replicas that share a log on PostgreSQL have none of their own to be waited for; "
            "the server's synchronous_commit is the setting for it"
        )
    try:
        sockets = sockets or listen(settings.host, settings.port)
        app = create_app(settings, listen_first=True)
        app.state.lifecycle.owns_process = True
        app.state.lifecycle.restart = _restart
        interpreter.keep_program()
        run(app, settings, sockets)
    except (DirectoryUnusable, LogUnavailable, DoorOpen, JoinFailed, CannotListen) as refusal:
        raise fail(str(refusal)) from None
    except DatabaseLost as lost:
        raise fail(f"the service has ended: {lost}") from None
    except Exception as error:
        raise fail(f"the service could not start: {error}") from None
    if app.state.lifecycle.restarts:
        for one in sockets:
            one.close()
        time.sleep(PAUSE)
        _restart()


def _restart() -> None:
    """Replace this process by a new one with the same command line."""
    os.execv(sys.executable, _command_line())  # noqa: S606 (its own)


def _command_line() -> list[str]:
    """What restarts this process."""
    given = sys.argv[1:]
    if sys.orig_argv[len(sys.orig_argv) - len(given) :] == given and len(sys.orig_argv) > len(given):
        return [sys.executable, *sys.orig_argv[1:]]
    # It was forked off another one.
    return [sys.executable, "-c", "from app.cli.main import main; main()", *given]
