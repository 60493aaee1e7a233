"""The newest snapshot, read while the rest of the program is still being imported.

Importing holds the GIL and one core. Files are checked against their manifests, decoded and mapped mostly without the
GIL, on another core. On any irregularity this gives up: `recovery` then reads the snapshot itself, and reports what it
finds.
"""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple

from app.resources.base import ResourceTypes
from app.resources.boards import BoardType
from app.resources.feeds import FeedType
from app.resources.maps import MapType
from app.resources.matchers import MatcherType
from app.resources.relays import RelayType
from app.security.sealing import seal_links
from app.settings import Settings
from app.storage import Stores
from app.storage.snapshots import Snapshot, Snapshots
from formats.folder import Folder


class TakenUp(NamedTuple):
    """A resource that was restored from a snapshot, whether its image was mapped, and the seconds that it took."""

    engine: Any
    mapped: bool
    seconds: float


class Found(NamedTuple):
    """A snapshot without the states of the `resources` that were restored, and the seconds that reading it took."""

    snapshot: Snapshot
    seconds: float
    resources: dict[str, TakenUp]


class ReadAhead:
    """Reads the newest snapshot of a local storage root in a thread that its construction starts."""

    def __init__(self, settings: Settings, stores: Stores) -> None:
        seal_links(settings)
        types = ResourceTypes(BoardType(), MatcherType(), RelayType(), MapType(), FeedType())
        root = Folder.at(settings.storage or stores.directory.path)
        self._snapshots = Snapshots(root, stores.directory.epoch, types)
        self._types = types
        self._found: Found | None = None
        self._span = stores.log.pruned_through, stores.log.last_lsn
        self._thread = threading.Thread(target=self._read, name="read-ahead", daemon=True)
        if root.local is not None:
            self._thread.start()

    def take(self, since: int, until: int) -> Found | None:
        """Wait for the thread, and take what it has read; None if the log's rows are no longer these. Once."""
        if self._thread.ident is not None:
            self._thread.join()
        found, self._found = self._found, None
        return found if (since, until) == self._span else None

    def _read(self) -> None:
        began = time.perf_counter()
        try:
            (since, until), lsns = self._span, self._snapshots.lsns()
            if not lsns or not since <= lsns[0] <= until:
                return
            snapshot = self._snapshots.read(lsns[0])
            seconds = time.perf_counter() - began
            names = list(snapshot.states)
            resources = {name: taken_up(self._snapshots, self._types, snapshot, name) for name in names}
            self._found = Found(snapshot, seconds, resources)
        except Exception:  # noqa: S110 -- recovery meets it again, and reports it
            pass


def taken_up(snapshots: Snapshots, types: ResourceTypes, snapshot: Snapshot, resource: str) -> TakenUp:
    """Restore a resource from the state of a snapshot, which is taken out of it."""
    began = time.perf_counter()
    resource_type, _ = types.split(resource)
    image = snapshots.packed(snapshot.lsn, resource)
    engine = resource_type.engine_of(snapshot.states.pop(resource), image)
    return TakenUp(engine, image is not None, time.perf_counter() - began)
