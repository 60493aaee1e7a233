"""What commands read: a file or the input, as rows of JSON."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


class Unreadable(Exception):
    """A row is invalid; the message names it and the reason."""


@contextmanager
def opened(file: Path) -> Iterator[IO[str]]:
    """A file as text, or for ``-`` the input. Raises Unreadable."""
    if str(file) == "-":
        yield io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig", newline="")
        return
    try:
        with file.open(encoding="utf-8-sig", newline="") as found:
            yield found
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(getattr(error, "strerror", None) or str(error)) from None


def json_rows(source: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Objects of NDJSON with their rows from 1; blank ones are passed over. Raises Unreadable."""
    for row, text in enumerate(source, 1):
        if not text.strip():
            continue
        try:
            read = json.loads(text)
        except ValueError as error:
            raise Unreadable(f"row {row} is not JSON: {error}") from None
        if not isinstance(read, dict):
            raise Unreadable(f"row {row} is no JSON object")
        yield row, read
