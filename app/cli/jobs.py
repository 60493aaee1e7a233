"""``rankcast snapshot``, ``rebuild``, ``verify`` and ``jobs``: the long work of a running service."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from app.cli import fail, for_pipe, line, shown
from app.cli.options import Plain, Service, flat
from app.cli.progress import progress

if TYPE_CHECKING:
    from rankcast_client import Job, Jobs, Rankcast

SHOWN_DIFFERENCES = 10
SHOWN_IDS = 10
Resources = Annotated[
    list[str] | None,
    typer.Argument(metavar="RESOURCE", help="Which, such as boards/delays. Left out: all.", show_default=False),
]
EngineOption = Annotated[
    Literal["local", "spark"],
    typer.Option("--engine", help="In the service's own process, or on Spark, which needs a Java runtime."),
]
CancelOnInterrupt = Annotated[
    bool, typer.Option("--cancel-on-interrupt", help="Cancel the job on Ctrl-C; without it the job goes on.")
]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Print the job's id and leave; rankcast jobs shows it.")]


def register(cli: typer.Typer) -> None:
    """Add the commands."""
    cli.command("snapshot")(flat(snapshot))
    cli.command("rebuild")(flat(rebuild))
    cli.command("verify")(flat(verify))
    group = typer.Typer()
    group.callback(invoke_without_command=True)(flat(jobs))
    group.command("cancel")(flat(cancel))
    cli.add_typer(group, name="jobs")


def snapshot(service: Service, no_wait: NoWait = False, cancel_on_interrupt: CancelOnInterrupt = False) -> None:
    """Write a snapshot of everything, from which the service starts faster.

    It is in the service's storage when the command ends. What was in the log
    before the oldest snapshot that is kept is not needed any more.

    Example: rankcast snapshot
    """
    _do(service, no_wait, cancel_on_interrupt, lambda jobs: jobs.snapshot())


def rebuild(
    service: Service,
    resources: Resources = None,
    engine: EngineOption = "local",
    no_wait: NoWait = False,
    cancel_on_interrupt: CancelOnInterrupt = False,
) -> None:
    """Pack the indexes of resources again, from a snapshot that is taken first.

    The service keeps serving, and each new index replaces the old one at
    once. Should it fail, the present ones stay. Relays forward the
    least that they can from then on; the change is printed.

    Examples:

    rankcast rebuild

    rankcast rebuild boards/delays boards/cars --engine spark
    """
    _do(service, no_wait, cancel_on_interrupt, lambda jobs: jobs.rebuild(resources or None, engine=engine))


def verify(
    service: Service,
    resources: Resources = None,
    engine: EngineOption = "local",
    no_wait: NoWait = False,
    cancel_on_interrupt: CancelOnInterrupt = False,
) -> None:
    """Compare every list and index of resources with a scan of their objects.

    Ends with 1 and shows the first differences when there are any.

    Example: rankcast verify boards/delays
    """
    _do(service, no_wait, cancel_on_interrupt, lambda jobs: jobs.verify(resources or None, engine=engine))


def cancel(
    service: Service,
    id: Annotated[str, typer.Argument(metavar="ID", help="The job, such as j12.")],
) -> None:
    """Cancel a job: one that waits ends now, one that runs at its next step.

    Nothing half-written stays. Prints the job's state: running until the step
    has ended, or what it had ended with before.

    Example: rankcast jobs cancel j12
    """
    with service.connected() as client:
        typer.echo(client.jobs.cancel(id).state)


def jobs(context: typer.Context, service: Service, plain: Plain = False) -> None:
    """List the jobs of a service: those that wait or run, and the last hundred.

    Plain lines have the id, the kind, the state, the progress, when it
    started and ended, and what came of it, separated by tabs.

    Example: rankcast jobs
    """
    if context.invoked_subcommand is not None:
        return
    with service.connected() as client:
        found = list(client.jobs.list())
    rows = [
        (job.id, job.kind, job.state, f"{job.progress:.0%}", job.started, job.ended, " ".join(_facts(job.detail)))
        for job in found
    ]
    if for_pipe(plain):
        for row in rows:
            typer.echo(line(*row))
        return
    _print([(*row[:4], _moment(row[4]), _moment(row[5]), row[6]) for row in rows])


def _moment(iso: str | None) -> str | None:
    """A time for a table, in the local time zone, to the second."""
    return None if iso is None else datetime.fromisoformat(iso).astimezone().strftime("%b %d %H:%M:%S")


def _print(rows: Sequence[Sequence[str | None]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table()
    for name in ("job", "kind", "state"):
        table.add_column(name)
    table.add_column("done", justify="right")
    for name in ("started", "ended"):
        table.add_column(name, no_wrap=True)
    table.add_column("what came of it")
    for row in rows:
        table.add_row(*(escape(cell or "") for cell in row))
    Console().print(table)


def _do(service: Service, no_wait: bool, cancel: bool, start: Callable[[Jobs], str]) -> None:
    """Start a job, follow it, and end as it ends."""
    with service.connected() as client:
        id = start(client.jobs)
        if no_wait:
            typer.echo(id)
            return
        job = _followed(client, id, cancel)
    if job.state != "succeeded":
        raise _failure(job)
    for fact in _facts(job.detail):
        typer.echo(fact)


def _followed(client: Rankcast, id: str, cancel: bool) -> Job:
    """The job once it has ended, with its progress shown meanwhile; `cancel` says what Ctrl-C does to it."""
    from rankcast_client import ProblemError, Unreachable

    job: Job | None = None
    try:
        with progress() as show:
            for job in client.jobs.follow(id):
                waits = job.detail.get("kernels")
                if waits is not None:
                    show(waits, f"{job.step}: {job.kind} {job.id}")
                else:
                    show(job.progress, f"{job.kind} {job.id}: {job.step or job.state}")
    except KeyboardInterrupt:
        if cancel:
            client.jobs.cancel(id)
            raise fail(f"the job {id} is cancelled; rankcast jobs shows it") from None
        raise fail(f"the job {id} goes on; rankcast jobs shows it, rankcast jobs cancel {id} ends it") from None
    except (ProblemError, Unreachable) as error:
        if job is not None and (isinstance(error, Unreachable) or error.status == 404):
            raise fail(f"the service ended while the job {id} ran") from None
        raise
    assert job is not None, "following ends only with the job"
    return job


def _facts(detail: Mapping[str, Any]) -> list[str]:
    """The detail of a job, a line each; an empty list of differences is left out."""
    facts: list[str] = []
    for name, value in detail.items():
        if name == "rederived":
            facts += _forwards(value)
        elif name != "differences" and value is not None:
            facts.append(f"{name}: {shown(value)}")
    return facts


def _forwards(rederived: Mapping[str, Any]) -> Iterator[str]:
    """What relays forward otherwise since they were rebuilt, with the first ids."""
    for resource, found in rederived.items():
        for link, change in found.get("links", {None: found}).items():
            where = resource if link is None else f"{resource} over {link}"
            changed = [how for how in ("subscribe", "unsubscribe") if change[f"{how}_count"]]
            for how in changed:
                count, ids = change[f"{how}_count"], change[how][:SHOWN_IDS]
                more = f" and {count - len(ids):,} more" if count > len(ids) else ""
                yield f"{where}: {how} {count:,}: {' '.join(ids)}{more}"
            if not changed:
                yield f"{where}: forwards what it did"


def _failure(job: Job) -> typer.Exit:
    differences = job.detail.get("differences") or []
    for fact in _facts({name: value for name, value in job.detail.items() if name != "error"}):
        typer.echo(fact, err=True)
    for one in differences[:SHOWN_DIFFERENCES]:
        typer.echo(f"  {shown(one)}", err=True)
    more = int(job.detail.get("difference_count", len(differences))) - min(len(differences), SHOWN_DIFFERENCES)
    if differences and more > 0:
        typer.echo(f"  and {more:,} more", err=True)
    if job.state == "cancelled":
        return fail(f"the {job.kind} {job.id} was cancelled")
    return fail(f"the {job.kind} {job.id} failed: {job.error or 'no reason was given'}")
