"""All targets by name, and their shares of the time."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.archives import Archives
from tests.fuzz.folders import Folders
from tests.fuzz.fuzzing import Target
from tests.fuzz.http import Http
from tests.fuzz.links import Links
from tests.fuzz.rows import Rows
from tests.fuzz.socket import Socket

TARGETS: dict[str, Callable[[], Target]] = {
    "http": Http,
    "socket": Socket,
    "links": Links,
    "rows": Rows,
    "folders": Folders,
    "archives": Archives,
}

SHARES = {"http": 6, "socket": 2, "links": 2, "rows": 1, "folders": 1, "archives": 1}
