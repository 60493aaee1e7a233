"""How far subscriptions were published, in a file, for brokers that cannot say it themselves."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from app.connectors.errors import ConnectorError

MOST_BYTES = 16 << 20


class StateFile:
    """The cursor of each subscription, and which ones were being published: those may be behind what the broker has.

    Each write is on the disk before it returns, and is done whole or not at all.
    """

    def __init__(self, path: Path, what: str) -> None:
        self._path, self._what = path, what
        self._cursors: dict[str, str] = {}
        self._doubtful: frozenset[str] = frozenset()
        try:
            raw = path.read_bytes()[: MOST_BYTES + 1]
        except FileNotFoundError:
            self._write()
            return
        except OSError as error:
            raise self._failed(error) from None
        try:
            self._load(json.loads(raw))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ConnectorError(f"{path} is no state of rankcast publish") from None

    def _load(self, data: Any) -> None:
        if data["publish"] != self._what:
            raise ConnectorError(f"{self._path} is the state of {data['publish']}, not of {self._what}")
        self._cursors = {str(id): str(cursor) for id, cursor in data["cursors"].items()}
        self._doubtful = frozenset(map(str, data["doubtful"]))

    @property
    def cursors(self) -> Mapping[str, str]:
        return self._cursors

    @property
    def doubtful(self) -> frozenset[str]:
        """Subscriptions of which the broker may have more than the cursors say."""
        return self._doubtful

    def begin(self, ids: Iterable[str]) -> None:
        """Events of these are about to be published."""
        self._doubtful |= frozenset(ids)
        self._write()

    def done(self, cursors: Mapping[str, str]) -> None:
        """Events up to these cursors were published."""
        self._cursors.update(cursors)
        self._doubtful -= cursors.keys()
        self._write()

    def _write(self) -> None:
        data = {"publish": self._what, "cursors": self._cursors, "doubtful": sorted(self._doubtful)}
        new = self._path.with_name(self._path.name + ".new")
        try:
            with new.open("w", encoding="utf-8") as file:
                json.dump(data, file)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
        except OSError as error:
            raise self._failed(error) from None

    def _failed(self, error: OSError) -> ConnectorError:
        return ConnectorError(f"the state cannot be kept in {self._path}: {error.strerror or error}")
