from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from app.cli.progress import progress


def test_without_a_terminal_there_is_a_line_a_step_and_a_line_a_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    with progress() as show:
        for fraction, step in ((None, "waiting"), (None, "waiting"), (0.0, "compiling"), (0.05, "compiling")):
            show(fraction, step)
        for fraction in (0.1, 0.15, 0.31, 1.0):
            show(fraction, "compiling")
    captured = capsys.readouterr()
    assert captured.err.splitlines() == [
        "waiting",
        "  0% compiling",
        " 10% compiling",
        " 31% compiling",
        "100% compiling",
    ]
    assert captured.out == ""


def test_on_a_terminal_a_bar_shows_the_share_once_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    assert Console(stderr=True).is_terminal
    with progress() as show:
        show(None, "waiting")
        show(0.83, "compiling")
    last = terminal.getvalue().rpartition("compiling")[2]
    assert "83%" in last
    assert "%" not in terminal.getvalue().partition("compiling")[0]
