"""Dead letters in a file, a line of JSON each."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from app.connectors.errors import ConnectorError

MOST_BYTES = 8 << 20
"""Bytes of a line."""


class DeadFile:
    """A file that dead letters are appended to. Raises ConnectorError where that fails: they must not get lost."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError as error:
            raise self._failed(error) from None

    def append(self, records: Iterable[bytes]) -> None:
        """Add lines, on the disk when this returns."""
        text = b"".join(record + b"\n" for record in records)
        try:
            while text:
                text = text[os.write(self._file, text) :]
            os.fsync(self._file)
        except OSError as error:
            raise self._failed(error) from None

    def close(self) -> None:
        os.close(self._file)

    def _failed(self, error: OSError) -> ConnectorError:
        return ConnectorError(f"dead letters cannot be written to {self._path}: {error.strerror or error}")
