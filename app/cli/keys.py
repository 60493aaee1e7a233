"""``rankcast keys``: API keys, in a data directory or on a running service."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli import fail, say_none
from app.cli.options import command

keys = typer.Typer(help="API keys.", no_args_is_help=True)


def register(cli: typer.Typer) -> None:
    """Add the commands."""
    cli.add_typer(keys, name="keys")


@dataclass(frozen=True)
class Where:
    """Where the keys are: in a data directory, or on a running service."""

    data: Annotated[
        Path, typer.Option("--data", envvar="RANKCAST_DATA", help="The data directory, while no service uses it.")
    ] = Path("data")
    database: Annotated[
        str | None, typer.Option("--database", envvar="RANKCAST_DATABASE", help="URL of the log's database.")
    ] = None
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            envvar="RANKCAST_URL",
            help="A running service, in place of the data directory. From the environment it gives way to --data and "
            "--database.",
        ),
    ] = None
    key: Annotated[str | None, typer.Option("--key", envvar="RANKCAST_KEY", help="A key with admin, for --url.")] = None

    def service(self, context: typer.Context) -> str | None:
        """The service to ask, None for the data directory. Raises typer.BadParameter when the command names both."""
        typed = {
            name
            for name in ("data", "database", "url")
            if getattr(context.get_parameter_source(name), "name", None) == "COMMANDLINE"
        }
        if not typed & {"data", "database"}:
            return self.url
        if "url" in typed:
            raise typer.BadParameter("give --url or the data directory, not both")
        return None

    def check(self) -> None:
        """End the command where the data directory is missing: to ask what is in it does not make one."""
        if self.database is None and not self.data.is_dir():
            raise fail(
                f"there is no data directory at {self.data.absolute()}: name another with --data, or a service with "
                "--url"
            )

    def stores(self) -> Any:
        """The stores of a data directory that no service uses, closed on leaving."""
        from contextlib import closing

        from app.errors import LogUnavailable
        from app.storage import open_stores
        from app.storage.directory import DirectoryUnusable

        try:
            return closing(open_stores(self.data, self.database))
        except DirectoryUnusable as refusal:
            raise fail(f"{refusal}; if it is a running service, name it with --url or RANKCAST_URL") from None
        except LogUnavailable as refusal:
            raise fail(str(refusal)) from None


@command(keys, "create")
def create_key(
    context: typer.Context,
    where: Where,
    name: Annotated[str, typer.Option("--name", help="Whose key it is.")],
    scope: Annotated[
        list[str],
        typer.Option(
            "--scope",
            help="admin, or <resources>\\[/<name>]:<right> with the rights read, subscribe, publish and write, as "
            "boards/delays:read; may be repeated.",
        ),
    ],
    expires: Annotated[
        float | None, typer.Option("--expires", min=0, help="Seconds until the key expires; never if left out.")
    ] = None,
) -> None:
    """Make a key and print it, and nothing else, on stdout. The first one must have admin."""
    from app.security.keyring import new_key
    from app.security.scopes import ADMIN, is_scope

    url = where.service(context)
    scopes = [one for part in scope for one in part.replace(",", " ").split()]
    if url is not None:
        body = {"name": name, "scopes": scopes, "expires": expires}
        typer.echo(_ask(url, where.key, "POST", "/v1/admin/keys", body)["key"])
        return
    for one in scopes:
        if not is_scope(one):
            raise fail(
                f"{one!r} is not a scope: admin, boards:read, boards/delays:publish, relays/edge:link.north, ..."
            )
    if not 1 <= len(name) <= 128:
        raise fail("the name must have 1 to 128 characters")
    with where.stores() as stores:
        if not stores.keys.all() and ADMIN not in scopes:
            raise fail("the first key must have the scope admin")
        if not stores.keys.all() and expires is not None:
            raise fail("the first key must not expire")
        secret, row = new_key(name, scopes, expires)
        stores.keys.add(row)
        stores.log.note("keys")
    typer.echo(secret)


@command(keys, "list")
def list_keys(
    context: typer.Context,
    where: Where,
) -> None:
    """List the keys: id, name, scopes and when they expire. The keys themselves are not kept."""
    url = where.service(context)
    if url is not None:
        cursor = ""
        while True:
            page = _ask(url, where.key, "GET", f"/v1/admin/keys?limit=1000{cursor}")
            for one in page["items"]:
                _echo(one["id"], one["name"], one["scopes"], one["expires"])
            if page["next"] is None:
                if not cursor and not page["items"]:
                    say_none("key", "keys create")
                return
            cursor = f"&cursor={page['next']}"
    where.check()
    with where.stores() as stores:
        rows = stores.keys.all()
        for row in rows:
            at = None if row.expires_at is None else datetime.fromtimestamp(row.expires_at, UTC).isoformat()
            _echo(row.id, row.name, row.scopes, at)
        if not rows:
            say_none("key", "keys create")


def _echo(key_id: str, name: str, scopes: Iterable[str], expires: str | None) -> None:
    typer.echo("\t".join([key_id, name, " ".join(scopes), *([] if expires is None else [f"expires {expires}"])]))


@command(keys, "delete")
def delete_key(
    context: typer.Context,
    where: Where,
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The key's id, from rankcast keys list.")],
) -> None:
    """Delete a key. The last one with admin stays."""
    from app.security.keyring import Keyring

    url = where.service(context)
    if url is not None:
        _ask(url, where.key, "DELETE", f"/v1/admin/keys/{key_id}")
        return
    where.check()
    with where.stores() as stores:
        keyring = Keyring(stores.keys.all())
        if keyring.get(key_id) is None:
            raise fail(f"there is no key {key_id!r}")
        if keyring.is_last_admin(key_id):
            raise fail("no other key has admin")
        stores.keys.delete(key_id)
        stores.log.note("keys")


def _ask(url: str, key: str | None, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """The answer of a running service; ends the command when there is none or it is a refusal."""
    from contextlib import suppress

    import httpx

    headers = {"Authorization": f"Bearer {key}"} if key else {}
    *others, last = url.split(",")
    for one in others:
        # Whichever node can be reached passes it on.
        with suppress(httpx.ConnectError, httpx.ConnectTimeout):
            httpx.get(one.strip().rstrip("/") + "/healthz", timeout=5)
            last = one
            break
    try:
        answer = httpx.request(method, last.strip().rstrip("/") + path, json=body, headers=headers, timeout=30)
        found: dict[str, Any] = answer.json()
    except (httpx.HTTPError, httpx.InvalidURL, json.JSONDecodeError) as error:
        raise fail(f"{url} does not answer: {error}") from None
    if answer.status_code >= 400:
        raise fail(str(found.get("detail", answer.status_code)))
    return found
