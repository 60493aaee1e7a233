"""The storage root by its marker: whether the place where snapshots are written is the one that has the others.

A mount that is gone leaves a folder of the same name behind, and a folder can be made again: what is written there is
no snapshot beside the others, and nothing may be pruned because of it. So the file ``STORAGE`` is written into a root
once, with a random id, and the log's database knows the id, and which snapshots the root has.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from typing import Any, Protocol

from app.storage.directory import make_private
from formats.folder import Damaged, Folder

FILE = "STORAGE"

KEY = "storage"
"""The key in ``meta``: by root its ``id``, and the ``snapshots`` that were kept last."""

MOST = 16
"""Roots that are remembered."""


class Memory(Protocol):
    """What remembers values by key; both raise `LogUnavailable`."""

    def recall(self, key: str, /) -> str | None:
        """The value of a key."""

    def remember(self, key: str, value: str, /) -> None:
        """Set the value of a key."""


class StorageAway(Exception):
    """The storage root is not the one that it was; the message says what is wrong, and what to do."""


class StorageRoot:
    """A storage root, by the `name` that the settings give it. Every call reads or writes the database or the root."""

    def __init__(self, folder: Folder, name: str, memory: Memory) -> None:
        self._folder = folder
        self._name = name
        self._memory = memory

    def fault(self) -> str | None:
        """What is wrong with the root; None where it is the one that it was, or is not known. Raises `LogUnavailable`
        and OSError.
        """
        known = self._known().get(self._name)
        found = self._found()
        if known is None or found == known["id"]:
            return None
        if found is not None:
            return f"the storage root {self._folder} is another one than before: its file {FILE} is not {known['id']}"
        return (
            f"the storage root {self._folder} lacks its file {FILE}: is it mounted, was it moved or emptied? Nothing "
            f"is written or deleted without it. To go on in an empty place, write {known['id']} into that file"
        )

    def claim(self) -> None:
        """Make sure that the root is the one that it was; one that is not known is marked.

        Raises `StorageAway`, `LogUnavailable` and OSError.
        """
        fault = self.fault()
        if fault is not None:
            raise StorageAway(fault)
        known = self._known()
        if self._name in known:
            return
        id = self._found()
        if id is None:
            id = secrets.token_hex(8)
            if self._folder.local is not None:
                make_private(self._folder.local)
            self._folder.write(FILE, f"{id}\n".encode())
        newest = list(known.items())[-MOST + 1 :]
        self._remember({**dict(newest), self._name: {"id": id, "snapshots": []}})

    def expect(self, lsns: Iterable[int]) -> None:
        """Remember which snapshots the root has. Raises `LogUnavailable`."""
        known = self._known()
        about = known.get(self._name)
        if about is not None and about["snapshots"] != (found := sorted(lsns)):
            self._remember({**known, self._name: {**about, "snapshots": found}})

    def expected(self) -> list[int]:
        """The snapshots that the root had, by row of the log. Raises `LogUnavailable`."""
        return list(self._known().get(self._name, {"snapshots": []})["snapshots"])

    def _known(self) -> dict[str, Any]:
        try:
            found = json.loads(self._memory.recall(KEY) or "{}")
            return {
                name: {"id": str(about["id"]), "snapshots": list(about["snapshots"])} for name, about in found.items()
            }
        except (ValueError, KeyError, TypeError, AttributeError):
            # Damaged: the root is marked as one that is not known, by the marker that it has.
            return {}

    def _remember(self, known: dict[str, Any]) -> None:
        self._memory.remember(KEY, json.dumps(known))

    def _found(self) -> str | None:
        """The id in the marker; None where there is none."""
        try:
            with self._folder.open(FILE) as file:
                return bytes(file.read(64)).decode(errors="replace").strip()
        except Damaged as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise OSError(str(error)) from error
