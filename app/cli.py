"""The ``rankcast`` command."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic import ValidationError
from rich.console import Console

from app import interpreter
from app.settings import Settings

COMMANDS: tuple[str, ...] = (
    "app.commands.load",
    "app.commands.watch",
    "app.commands.top",
    "app.commands.feed",
    "app.commands.match",
    "app.commands.relay",
    "app.commands.map",
    "app.commands.plot",
    "app.commands.play",
    "app.commands.jobs",
    "app.commands.restore",
    "app.commands.bench",
)
"""Modules with a function ``register(cli)`` that adds their commands."""

cli = typer.Typer(
    name="rankcast",
    help="Ranked standing queries: every subscriber keeps its best k.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
keys = typer.Typer(help="API keys.", no_args_is_help=True)
cli.add_typer(keys, name="keys")


def fail(message: str) -> typer.Exit:
    """Say on stderr why a command ends without success; raise what this returns."""
    typer.echo(f"rankcast: {message}", err=True)
    return typer.Exit(1)


def settings_from(given: dict[str, Any]) -> Settings:
    """The settings with what was given on the command line; ends the command when one is not valid."""
    from app.problems import reason

    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as failure:
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


@cli.command()
@with_settings
def serve(settings: Settings) -> None:
    """Serve until SIGTERM. What was answered is there again after any end."""
    from app import logs
    from app.main import create_app
    from app.security import DoorOpen, Keyring, check_door
    from app.server import serve as run
    from app.storage import open_stores
    from app.storage.directory import DirectoryUnusable
    from app.storage.log import LogUnavailable

    logs.configure(settings)
    try:
        stores = open_stores(settings.data, settings.database)
    except (DirectoryUnusable, LogUnavailable) as refusal:
        raise fail(str(refusal)) from None
    try:
        check_door(settings, Keyring(stores.keys.all()))
    except (DoorOpen, LogUnavailable) as refusal:
        stores.close()
        raise fail(str(refusal)) from None
    try:
        app = create_app(settings, stores, listen_first=True)
        interpreter.keep_program()
        listened = run(app, settings)
    except Exception as error:
        raise fail(f"the service could not start: {error}") from None
    if not listened:
        raise fail(f"could not listen on {settings.host}:{settings.port}")


@cli.command()
def warm() -> None:
    """Compile the kernels into the cache, so that the service starts in seconds."""
    began = time.perf_counter()
    err = Console(stderr=True)
    with err.status("Compiling the kernels: some minutes on two cores, once for each version"):
        from app.kernels import warm as compile_kernels

        compile_kernels()
    err.print(f"Kernels ready in {time.perf_counter() - began:.1f} s")


_Data = Annotated[
    Path, typer.Option("--data", envvar="RANKCAST_DATA", help="The data directory, while no service uses it.")
]
_Database = Annotated[
    str | None, typer.Option("--database", envvar="RANKCAST_DATABASE", help="URL of the log's database.")
]
_Url = Annotated[str | None, typer.Option("--url", help="A running service, in place of the data directory.")]
_Key = Annotated[str | None, typer.Option("--key", envvar="RANKCAST_KEY", help="A key with admin, for --url.")]


@keys.command("create")
def create_key(
    name: Annotated[str, typer.Option("--name", help="Whose key it is.")],
    scope: Annotated[
        list[str], typer.Option("--scope", help="admin, boards:read, boards:write, ...; may be repeated.")
    ],
    data: _Data = Path("data"),
    database: _Database = None,
    url: _Url = None,
    key: _Key = None,
) -> None:
    """Make a key and print it, and nothing else, on stdout. The first one must have admin."""
    from app.security import ADMIN, SCOPES, new_key

    scopes = [one for part in scope for one in part.replace(",", " ").split()]
    if url is not None:
        typer.echo(_ask(url, key, "POST", "/v1/admin/keys", {"name": name, "scopes": scopes})["key"])
        return
    for one in scopes:
        if one not in SCOPES:
            raise fail(f"{one!r} is not a scope; there are {', '.join(SCOPES)}")
    if not 1 <= len(name) <= 128:
        raise fail("the name must have 1 to 128 characters")
    with _stores(data, database) as stores:
        if not stores.keys.all() and ADMIN not in scopes:
            raise fail("the first key must have the scope admin")
        secret, row = new_key(name, scopes)
        stores.keys.add(row)
        stores.log.note("keys")
    typer.echo(secret)


@keys.command("list")
def list_keys(data: _Data = Path("data"), database: _Database = None, url: _Url = None, key: _Key = None) -> None:
    """List the keys: id, name and scopes. The keys themselves are not kept."""
    if url is not None:
        cursor = ""
        while True:
            page = _ask(url, key, "GET", f"/v1/admin/keys?limit=1000{cursor}")
            for one in page["items"]:
                typer.echo(f"{one['id']}\t{one['name']}\t{' '.join(one['scopes'])}")
            if page["next"] is None:
                return
            cursor = f"&cursor={page['next']}"
    with _stores(data, database) as stores:
        for row in stores.keys.all():
            typer.echo(f"{row.id}\t{row.name}\t{' '.join(row.scopes)}")


@keys.command("delete")
def delete_key(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The key's id, from rankcast keys list.")],
    data: _Data = Path("data"),
    database: _Database = None,
    url: _Url = None,
    key: _Key = None,
) -> None:
    """Delete a key. The last one with admin stays."""
    from app.security import Keyring

    if url is not None:
        _ask(url, key, "DELETE", f"/v1/admin/keys/{key_id}")
        return
    with _stores(data, database) as stores:
        keyring = Keyring(stores.keys.all())
        if keyring.get(key_id) is None:
            raise fail(f"there is no key {key_id!r}")
        if keyring.is_last_admin(key_id):
            raise fail("no other key has admin")
        stores.keys.delete(key_id)
        stores.log.note("keys")


def _stores(data: Path, database: str | None) -> Any:
    """The stores of a data directory that no service uses, closed on leaving."""
    from contextlib import closing

    from app.storage import open_stores
    from app.storage.directory import DirectoryUnusable
    from app.storage.log import LogUnavailable

    try:
        return closing(open_stores(data, database))
    except DirectoryUnusable as refusal:
        raise fail(f"{refusal}; if it is a running service, name it with --url") from None
    except LogUnavailable as refusal:
        raise fail(str(refusal)) from None


def _ask(url: str, key: str | None, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """The answer of a running service; ends the command when there is none or it is a refusal."""
    import httpx

    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        answer = httpx.request(method, url.rstrip("/") + path, json=body, headers=headers, timeout=30)
        found: dict[str, Any] = answer.json()
    except (httpx.HTTPError, httpx.InvalidURL, json.JSONDecodeError) as error:
        raise fail(f"{url} does not answer: {error}") from None
    if answer.status_code >= 400:
        raise fail(str(found.get("detail", answer.status_code)))
    return found


for module in COMMANDS:
    importlib.import_module(module).register(cli)


def main() -> None:
    """The console script."""
    _keep_only(sys.argv[1:2])
    if sys.argv[1:2] == ["serve"]:
        # Here and not in `serve`, since it holds for the whole process, which is not always ours.
        interpreter.prepare()
    cli()


def _keep_only(asked: list[str]) -> None:
    """Forget all commands but the one that is asked for, if it is one: typer makes the options of every command before
    it looks at the arguments, 30 ms of each start."""
    found = [one for one in cli.registered_commands if asked == [one.name or getattr(one.callback, "__name__", None)]]
    if found:
        # The group of keys stays: an application with a single command would not ask for its name.
        cli.registered_commands[:] = found
        cli.registered_groups[:] = [one for one in cli.registered_groups if one.typer_instance is keys]
