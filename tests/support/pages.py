"""The pages of the documentation as Markdown: their code blocks in order, and the markers that say how a block is run.

A marker is an HTML comment on a line of its own before a block:

- ``<!-- not run: REASON -->``: the block needs what a test has not got, such as Docker.
- ``<!-- terminal: NAME -->``: the block runs in a terminal of that name. What runs there is ended by Ctrl-C first, and
  the last command of the block may go on while the following blocks run.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

SHELL = ("sh", "bash")
RUN = (*SHELL, "python", "javascript")
SAMPLES = ("json", "text")
"""Languages of blocks that show what is sent or answered."""

# rich, which the service needs, brings markdown-it-py with it.
_MARKDOWN = MarkdownIt("commonmark").enable("table")
_MARKER = re.compile(r"<!--\s*(not run|terminal):\s*(.*?)\s*-->", re.S)
_COMMAND = re.compile(r"\s*(\$ |curl |make |docker |sudo |pip |rankcast |\.venv/|python3? |echo |printf )")
_QUOTE_IN_COMMENT = re.compile(r"(^|\s)#\s.*['\"`]")
_REFUSED = re.compile(r"# Refused with (\d{3})\b")
_REASON = 10
"""Characters of a reason, at the least."""


class PageInvalid(Exception):
    """A page has a block or a marker that nobody could run or pass over with a reason; the message says where."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page. `not_run` is the reason of the marker, `terminal` the name in it."""

    page: str
    line: int
    language: str
    text: str
    not_run: str | None = None
    terminal: str | None = None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """One command of a shell block, whole. `refused` is the status that the comment before it promises, if any."""

    text: str
    refused: int | None = None


def blocks(page: str, text: str) -> list[Block]:
    """The fenced blocks of a page, in order.

    Raises PageInvalid for a language that is neither run nor a sample, for a marker without a reason or a name, for one
    that no block that would be run follows, for a comment that hides the rest of the page, and for commands in an
    indented block, which have no language.
    """
    found: list[Block] = []
    marker: tuple[str, str, int] | None = None
    for token in _MARKDOWN.parse(text):
        line = token.map[0] + 1 if token.map else 0
        if token.type == "html_block" and "<!--" in token.content and "-->" not in token.content:
            raise PageInvalid(f"{page}:{line}: the comment does not end")
        if token.type == "html_block" and (said := _MARKER.search(token.content)):
            if marker is not None:
                raise PageInvalid(f"{page}:{marker[2]}: no block follows this marker")
            marker = said[1], said[2], line
            if said[1] == "not run" and len(said[2]) < _REASON:
                raise PageInvalid(f"{page}:{line}: say why the block is not run")
            if said[1] == "terminal" and not said[2].isidentifier():
                raise PageInvalid(f"{page}:{line}: {said[2]!r} is no name of a terminal")
        elif token.type == "fence":
            language = token.info.strip()
            if language not in RUN + SAMPLES:
                raise PageInvalid(f"{page}:{line}: {language!r} is none of {', '.join(RUN + SAMPLES)}")
            if marker is not None and language in SAMPLES:
                raise PageInvalid(f"{page}:{marker[2]}: a sample needs no marker")
            said_of = {} if marker is None else {marker[0].replace(" ", "_"): marker[1]}
            if said_of.get("terminal") and language not in SHELL:
                raise PageInvalid(f"{page}:{line}: a terminal runs commands of a shell, not {language}")
            found.append(Block(page, line, language, token.content, **said_of))
            marker = None
        elif token.type == "code_block" and any(map(_COMMAND.match, token.content.splitlines())):
            raise PageInvalid(f"{page}:{line}: an indented block has a command: fence it")
        elif marker is not None:
            raise PageInvalid(f"{page}:{marker[2]}: no block follows this marker")
    if marker is not None:
        raise PageInvalid(f"{page}:{marker[2]}: no block follows this marker")
    return found


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page of this project."""
    return blocks(page.relative_to(ROOT).as_posix(), page.read_text(encoding="utf-8"))


def commands(block: Block) -> list[Command]:
    """The commands of a shell block, in order.

    Raises PageInvalid where the last one does not end, and for a quote in a comment: a shell that knows no comments in
    what is typed, as zsh, would wait for the other quote.
    """
    found: list[Command] = []
    lines: list[str] = []
    refused: int | None = None
    for line in block.text.splitlines():
        if _QUOTE_IN_COMMENT.search(line):
            raise PageInvalid(f"{block.place}: a quote in a comment: {line}")
        if not lines and not line.strip():
            continue
        if not lines and line.startswith("#"):
            promise = _REFUSED.match(line)
            refused = int(promise[1]) if promise else None
            continue
        lines.append(line)
        if _is_whole("\n".join(lines)):
            found.append(Command("\n".join(lines), refused))
            lines, refused = [], None
    if lines:
        raise PageInvalid(f"{block.place}: a command does not end: {lines[0]}")
    return found


def _is_whole(text: str) -> bool:
    """Whether a shell would run this, or would wait for more lines."""
    if text.endswith("\\"):
        return False
    looked = subprocess.run(["bash", "-n", "-c", text], capture_output=True, text=True, check=False)
    return looked.returncode == 0 and "here-document" not in looked.stderr


def spans(page: Path) -> list[str]:
    """The code in a page's sentences and tables, in order."""
    inline = [token for token in _MARKDOWN.parse(page.read_text(encoding="utf-8")) if token.type == "inline"]
    return [child.content for token in inline for child in token.children or () if child.type == "code_inline"]
