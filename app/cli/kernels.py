"""``rankcast warm`` and ``rankcast kernels``: compiled kernels, before they are needed and from machine to machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from app.cli import fail
from app.cli.progress import progress

_TARGETS = (
    "The processor to compile for: this machine's, any x86-64 with AVX2 (since about 2013), or any of the architecture"
)
_DEFAULT = " By default this machine's, unless NUMBA_CPU_NAME names one."

Target = Annotated[
    Literal["native", "x86-64-v3", "generic"] | None, typer.Option("--target", help=f"{_TARGETS}.{_DEFAULT}")
]
Targets = Annotated[
    Literal["native", "x86-64-v3", "generic", "portable"] | None,
    typer.Option(
        "--target",
        help=f"{_TARGETS}; portable: the last two, of which a service uses the better one that its processor can run."
        f"{_DEFAULT}",
    ),
]


def register(cli: typer.Typer) -> None:
    """Add the commands."""
    cli.command("warm")(warm)
    kernels = typer.Typer(help="Compiled kernels as one file.", no_args_is_help=True)
    kernels.command("export")(export)
    kernels.command("import")(import_)
    cli.add_typer(kernels, name="kernels")


def warm(
    report: Annotated[
        Path | None,
        typer.Option("--report", help="Write what each kernel took to compile to this file, as JSON lines."),
    ] = None,
    target: Targets = None,
) -> None:
    """Compile the kernels into the cache, so that the service starts in seconds.

    What is compiled already is left as it is: with all of it this takes a
    second. Nothing needs it: a service compiles what it lacks by itself, what
    is needed first before the rest.

    Example: rankcast warm
    """
    if target == "portable":
        _warm_portable(report)
    else:
        _warm(target, report)


def _warm_portable(report: Path | None) -> None:
    """One process a target: numba has one for all of a process's life."""
    from indexes.compiled.targets import portable

    if report is not None:
        report.unlink(missing_ok=True)
    for target in portable():
        part = None if report is None else report.with_name(f"{report.name}.{os.getpid()}.tmp")
        options = [] if part is None else ["--report", str(part)]
        typer.echo(f"Target {target}:", err=True)
        done = subprocess.run([sys.executable, "-m", "app", "warm", "--target", target, *options], check=False)
        if part is not None and report is not None and part.exists():
            with report.open("a") as whole:
                whole.write(part.read_text())
            part.unlink()
        if done.returncode != 0:
            raise typer.Exit(done.returncode)


def _warm(target: str | None, report: Path | None = None) -> None:
    from indexes.compiled.targets import choose

    if target is not None:
        choose(target)
    from app.runtime.kernels import Kernels

    began = time.perf_counter()
    taken: defaultdict[str, list[float]] = defaultdict(list)
    with progress() as show:

        def compiled(group: str, kernel: str, seconds: float) -> None:
            if kernel:
                taken[kernel].append(seconds)
            show(kernels.share, f"compiling {kernel or group}")

        kernels = Kernels(progress=compiled, background=False)
        show(0.0, "compiling kernels")
        kernels.start()
        try:
            kernels.wait()
        finally:
            kernels.stop()
        show(1.0, "kernels compiled")
    if report is not None:
        lines = [
            {"kernel": kernel, "cpu": round(sum(seconds), 4), "specialisations": len(seconds)}
            for kernel, seconds in sorted(taken.items(), key=lambda item: -sum(item[1]))
        ]
        report.write_text("".join(json.dumps(line) + "\n" for line in lines))
    if kernels.failures:
        reasons = "; ".join(f"{group}: {why}" for group, why in kernels.failures.items())
        raise fail(f"some kernels could not be compiled: {reasons}")
    made = sum(len(seconds) for seconds in taken.values())
    cpu = sum(map(sum, taken.values()))
    typer.echo(
        f"Kernels ready in {time.perf_counter() - began:.1f} s: {made} compiled ({cpu:.0f} s of processor time)",
        err=True,
    )


def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The archive to write.")], target: Target = None
) -> None:
    """Write all kernels to one file, for other machines. Compiles first what is missing.

    The file serves machines with the same Python, numba and sources, and a
    processor that can run the target.

    Example: rankcast kernels export kernels.tar --target x86-64-v3
    """
    if not file.parent.is_dir():
        raise fail(f"{file} cannot be written: there is no folder {file.parent}")
    _warm(target)
    from indexes.compiled import cache, warming
    from indexes.compiled.archive import write_archive

    try:
        count, size = write_archive(file, warming.files())
    except OSError as error:
        raise fail(f"{file} cannot be written: {error.strerror or error}") from None
    typer.echo(f"{count} files of kernels for {cache.folder().name}, {size / 1e6:.1f} MB")


def import_(file: Annotated[Path, typer.Argument(metavar="FILE", help="An archive that export wrote.")]) -> None:
    """Take the kernels of an archive into the cache; what it has is not compiled again.

    An archive is code that the service will run: take it only from where
    you would take the program from. One of another Python, numba or other sources is
    refused, as is one that this processor cannot run.

    Example: rankcast kernels import kernels.tar
    """
    from indexes.compiled.archive import Refused, read_archive

    try:
        count, target = read_archive(file)
    except Refused as refused:
        raise fail(f"{file}: {refused}") from None
    except OSError as error:
        raise fail(f"{file} cannot be read: {error.strerror or error}") from None
    typer.echo(f"{count} files of kernels for {target} imported")
