"""The ``rankcast`` command: which commands there are, each loaded when it is called."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from app.runtime.interrupts import INTERRUPTED, end_now, ending_at_once


class Lazy(NamedTuple):
    """A command that is not loaded yet.

    The module has a function ``register(cli)`` that adds it, and maybe others; `help` is the first sentence of its
    help.
    """

    module: str
    help: str


COMMANDS: Mapping[str, Lazy] = {
    "serve": Lazy("serve", "Serve until SIGTERM or Ctrl-C."),
    "gateway": Lazy("gateway", "Serve streams from NATS, and pass everything else on to the service."),
    "demo": Lazy("demo", "Serve a year of real flights, or prove that every list is exact."),
    "keys": Lazy("keys", "API keys."),
    "board": Lazy("board", "Boards: the best k objects of any range."),
    "load": Lazy("load", "Load a file's rows as objects of a board, 50,000 a request."),
    "watch": Lazy("watch", "Follow the best objects of a board, live, until Ctrl-C."),
    "top": Lazy("top", "Show the best objects of a board right now."),
    "matcher": Lazy("matcher", "Matchers: the subscriptions that score best for an event."),
    "match": Lazy("match", "Match events, and show the subscriptions that score best for each."),
    "relay": Lazy("relay", "Relays: what to forward, and links to other services."),
    "map": Lazy("map", "Maps: objects with places, and answers with zones."),
    "feed": Lazy("feed", "Feeds: the most relevant recent posts nearby."),
    "webhooks": Lazy("webhooks", "Webhooks: events of subscriptions, sent to a URL."),
    "connect": Lazy("connect", "Carry events from a broker into a resource, until SIGTERM or Ctrl-C."),
    "publish": Lazy("publish", "Send stream events of subscriptions to a broker, until SIGTERM or Ctrl-C."),
    "plot": Lazy("plot", "Pictures: of what an event would do on a board, or of an answer of a map and its zone."),
    "snapshot": Lazy("jobs", "Write a snapshot of everything, from which the service starts faster."),
    "rebuild": Lazy("jobs", "Pack the indexes of resources again, from a snapshot that is taken first."),
    "verify": Lazy("jobs", "Compare every list and index of resources with a scan of their objects."),
    "jobs": Lazy("jobs", "List the jobs of a service: those that wait or run, and the last hundred."),
    "replicas": Lazy("replicas", "List the replicas that follow a leader."),
    "promote": Lazy("replicas", "Make the replica at --url the leader."),
    "restore": Lazy("restore", "Make a data directory from a snapshot, while no service uses it."),
    "warm": Lazy("kernels", "Compile the kernels into the cache, so that the service starts in seconds."),
    "kernels": Lazy("kernels", "Compiled kernels as one file."),
    "doctor": Lazy("doctor", "Look for what is wrong, and say what to do."),
    "support-bundle": Lazy("doctor", "Write what a report of a problem needs to one file."),
    "bench": Lazy("bench", "The papers' counts, and the speed of this machine."),
}
"""The commands, in the order of the help."""


class LazyGroup(TyperGroup):
    """A group whose commands are loaded when they are called; to list them takes none of them."""

    _listing = False

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name, None where there is none; in a list of all, its name and help alone."""
        found = COMMANDS.get(cmd_name)
        if found is None or cmd_name in self.commands:
            return self.commands.get(cmd_name)
        if self._listing:
            return TyperCommand(cmd_name, help=found.help)
        module = typer.Typer(callback=lambda: None, add_completion=False)
        importlib.import_module(f"app.cli.{found.module}").register(module)
        loaded = typer.main.get_group(module).commands
        for command in loaded.values():
            _show_flags_alone(command)
        self.commands.update(loaded)
        return self.commands[cmd_name]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As any group does it; a name that is not known is compared with those of all commands."""
        if args and args[0] not in COMMANDS and args[0][:1] != "-" and not ctx.resilient_parsing:
            near = get_close_matches(args[0], COMMANDS)
            meant = f" Did you mean {', '.join(map(repr, near))}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{meant}")
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        _show_flags_alone(self)
        with self._names_alone():
            super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """What a name that is being typed may be."""
        with self._names_alone():
            return super().shell_complete(ctx, incomplete)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; what is wrong with an argument is said in the words of the API."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            from pydantic import ValidationError

            if isinstance(error.__cause__, ValidationError):
                from app.api.problems import reason

                error.message = reason(error.__cause__.errors(include_url=False)[0])
            raise

    @contextmanager
    def _names_alone(self) -> Iterator[None]:
        self._listing = True
        try:
            yield
        finally:
            self._listing = False


def _show_flags_alone(command: Any) -> None:
    """Have the help of a command, and of those in it, show no type beside flags, which take no value."""
    for one in command.get_params(typer.Context(command)):
        if getattr(one, "is_flag", False):
            one.metavar = ""
    for one in getattr(command, "commands", {}).values():
        _show_flags_alone(one)


cli = typer.Typer(
    name="rankcast",
    help="Ranked standing queries: every subscriber keeps its best k.",
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _say_version(ctx: typer.Context, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from app.version import version

        typer.echo(f"rankcast {version()}")
        raise typer.Exit


@cli.callback()
def options(  # noqa: D103 - its docstring would be the help of the command
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_say_version, help="Say which version this is.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command that the arguments name, and exit with its status."""
    with ending_at_once():
        try:
            cli(prog_name="rankcast")
        except SystemExit as end:
            if end.code == INTERRUPTED:
                # A thread that still reads the input would hold the interpreter up, or abort it.
                end_now(INTERRUPTED)
            raise
