"""The pages' code: every block says in which language it is and, if it is not run, why; what is named exists."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import typer
from typer.core import TyperGroup

from app.cli.main import cli
from tests.support.pages import PAGES, ROOT, RUN, SHELL, Block, Command, PageInvalid, blocks, blocks_of, commands, spans

RESULTS = sorted((ROOT / "docs" / "results").glob("*.md"))
MOST_NOT_RUN = 8
"""Blocks that no test runs: those that need what no test machine has."""


def test_every_block_of_every_page_can_be_run_or_says_why_not() -> None:
    found = [block for page in PAGES for block in blocks_of(page)]
    run = [block for block in found if block.language in RUN and not block.not_run]
    assert len(run) > 60
    assert all(commands(block) for block in run if block.language in SHELL)
    assert len([block for block in found if block.not_run]) <= MOST_NOT_RUN


def _rankcast(words: list[str]) -> str | None:
    """What is wrong with a command line of `rankcast`, without running it: a command or an option that is not there."""
    command, path = typer.main.get_command(cli), ["rankcast"]
    while isinstance(command, TyperGroup) and words and not words[0].startswith("-"):
        found = command.get_command(typer.Context(command), words[0])
        if found is None:
            return f"no command {' '.join(path)} {words[0]}"
        command, path, words = found, [*path, words[0]], words[1:]
    options = {"--help", *(option for one in command.params for option in (*one.opts, *one.secondary_opts))}
    return next((f"{' '.join(path)} has no {word}" for word in words if word[:2] == "--" and word not in options), None)


def _make(words: list[str]) -> str | None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    named = [word for word in words if re.fullmatch("[a-z][a-z-]*", word)]
    return next((f"no target {word}" for word in named if word not in targets), None)


def test_commands_that_nobody_runs_are_there() -> None:
    """Those in sentences, and those of blocks that are not run."""
    lines = [(page.name, span) for page in PAGES for span in spans(page)]
    for block in (block for page in PAGES for block in blocks_of(page) if block.not_run):
        lines += [(block.place, command.text) for command in commands(block)]
    looked = 0
    for place, line in lines:
        words = line.partition(" #")[0].replace("\\\n", " ").split()
        check = {"rankcast": _rankcast, ".venv/bin/rankcast": _rankcast, "make": _make}.get(words[0] if words else "")
        if check is not None:
            looked += 1
            wrong = check(words[1:])
            assert wrong is None, f"{place}: {line}: {wrong}"
    assert looked > 40


@pytest.mark.parametrize(
    ("check", "line", "reason"),
    [
        (_rankcast, "serve --no-such", "rankcast serve has no --no-such"),
        (_rankcast, "map fly food", "no command rankcast map fly"),
        (_rankcast, "map watch food --at 1,1 --skyline", None),
        (_make, "test ARGS=x", None),
        (_make, "coffee", "no target coffee"),
    ],
)
def test_commands_that_are_not_there_are_found_out(
    check: Callable[[list[str]], str | None], line: str, reason: str | None
) -> None:
    assert check(line.split()) == reason


def test_pages_of_results_hold_no_command_that_is_not_run() -> None:
    for page in RESULTS:
        assert not [block.place for block in blocks_of(page) if block.language in RUN]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("```\ncurl x\n```", "'' is none of"),
        ("```console\n$ curl x\n```", "'console' is none of"),
        ("    curl -s localhost:8000\n", "fence it"),
        ("<!-- not run: -->\n```sh\ntrue\n```", "say why"),
        ("<!-- not run: because of this\n```sh\ntrue\n```", "does not end"),
        ("<!-- terminal: -->\n```sh\ntrue\n```", "is no name"),
        ("<!-- terminal: one -->\n```python\nprint()\n```", "not python"),
        ("<!-- not run: it needs a cluster -->\nSome words.\n\n```sh\ntrue\n```", "no block follows"),
        ("<!-- not run: it needs a cluster -->", "no block follows"),
        ("<!-- not run: it needs a cluster -->\n```json\n{}\n```", "needs no marker"),
        ("```sh\necho 'x\n```", "does not end"),
        ("```sh\n# It's this.\ntrue\n```", "a quote in a comment"),
        ("```sh\ntrue   # it's this\n```", "a quote in a comment"),
    ],
)
def test_what_would_be_passed_over_in_silence_is_refused(text: str, reason: str) -> None:
    with pytest.raises(PageInvalid, match=reason):
        [commands(block) for block in blocks("page.md", text)]


def test_blocks_are_read_as_a_reader_sees_them() -> None:
    text = """
1. In a list:

   ```sh
   true
   ```

<!-- not run: it needs a cluster -->
```bash
false
```

<!-- terminal: stream -->
```bash
curl -N x
```

~~~python
print()
~~~
"""
    assert blocks("page.md", text) == [
        Block("page.md", 4, "sh", "true\n"),
        Block("page.md", 9, "bash", "false\n", not_run="it needs a cluster"),
        Block("page.md", 14, "bash", "curl -N x\n", terminal="stream"),
        Block("page.md", 18, "python", "print()\n"),
    ]


def test_commands_are_cut_where_a_shell_would_run_them() -> None:
    text = """# A comment.
one 'with
two lines'
# Refused with 422: the rest.
two \\
  --more

three |
  four
five <<end
text
end
"""
    assert commands(Block("page.md", 1, "sh", text)) == [
        Command("one 'with\ntwo lines'"),
        Command("two \\\n  --more", 422),
        Command("three |\n  four"),
        Command("five <<end\ntext\nend"),
    ]
