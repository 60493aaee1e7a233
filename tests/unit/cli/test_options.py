"""Dataclasses in the signature of a command stand for options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from app.cli.options import Service, command


@dataclass(frozen=True)
class Size:
    width: Annotated[int, typer.Option("--width")]
    height: Annotated[int, typer.Option("--height")] = 2


def test_fields_are_options_and_come_as_one_value() -> None:
    cli, seen = typer.Typer(), []

    @command(cli, "draw")
    def draw(service: Service, size: Size, name: Annotated[str, typer.Argument()], fill: bool = False) -> None:
        """Draw it."""
        seen.append((service, size, name, fill))

    runner = CliRunner()
    assert runner.invoke(cli, ["box", "--width", "3", "--url", "http://other", "--fill"]).exit_code == 0
    assert seen == [(Service("http://other", None), Size(3, 2), "box", True)]
    refused = runner.invoke(cli, ["box"])
    assert refused.exit_code == 2 and "--width" in refused.output
    help = runner.invoke(cli, ["--help"]).output
    assert help.index("--fill") < help.index("--width") < help.index("--url")
    assert "Draw it." in help


def test_the_function_itself_takes_the_values() -> None:
    cli, seen = typer.Typer(), []

    @command(cli, "draw")
    def draw(size: Size) -> None:
        seen.append(size)

    draw(Size(1, 1))
    assert seen == [Size(1, 1)]
