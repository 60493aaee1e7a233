"""The kernels of all kinds of resource, ready before the first request."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numba

from indexes.boards.warm import warm as warm_boards
from indexes.feeds.warm import warm as warm_feeds
from indexes.jit import cache_folder
from indexes.maps.warm import warm as warm_maps
from indexes.matchers.warm import warm as warm_matchers
from indexes.relays.warm import warm as warm_relays

_BESIDE = ("indexes.maps.warm", "indexes.matchers.warm", "indexes.relays.warm", "indexes.feeds.warm")
"""What is compiled beside the boards, which take longest and see to processes of their own; the longest first."""


def warm() -> None:
    """Compile every kernel, or load it from the disk: seconds from the cache, a few minutes without.

    Where kernels run as plain Python (``NUMBA_DISABLE_JIT=1``) there is nothing to do.
    """
    if not numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        with ThreadPoolExecutor(1) as beside:
            for module in _BESIDE:
                if not any(cache_folder(module).rglob("*.nbi")):
                    beside.submit(subprocess.run, [sys.executable, "-m", module], check=False)
            warm_boards()
        warm_feeds()
        warm_maps()
        warm_matchers()
        warm_relays()
