"""``rankcast warm``: the kernels, compiled before they are needed."""

from __future__ import annotations

import time

import typer


def register(cli: typer.Typer) -> None:
    """Adds the command."""
    cli.command("warm")(warm)


def warm() -> None:
    """Compile the kernels into the cache, so that the service starts in seconds."""
    from rich.console import Console

    began = time.perf_counter()
    err = Console(stderr=True)
    with err.status("Compiling the kernels: some minutes on two cores, once for each version"):
        from app.kernels import warm as compile_kernels

        compile_kernels()
    err.print(f"Kernels ready in {time.perf_counter() - began:.1f} s")
