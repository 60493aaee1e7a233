"""Where compiled kernels and what else a start keeps lies, and how a file gets there. Needs next to nothing, since a
start asks before anything is imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

VARIABLE = "RANKCAST_CACHE"

_INSTALLED = ("site-packages", "dist-packages")


def root() -> Path:
    """The folder of all compiled kernels: `RANKCAST_CACHE`, else ``.cache/kernels`` of the checkout, and for an
    installed package ``rankcast/kernels`` in the user's cache directory."""
    named = os.environ.get(VARIABLE)
    home = Path(__file__).resolve().parents[2]
    if named:
        return Path(named)
    return (_user_cache() / "rankcast" if home.name in _INSTALLED else home / ".cache") / "kernels"


def _user_cache() -> Path:
    """Where the platform wants caches of the user's programs."""
    said = os.environ.get("XDG_CACHE_HOME")
    if said and os.path.isabs(said):
        return Path(said)
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")


def replace_file(path: Path, data: bytes) -> None:
    """Write a file of the cache as a whole: others see the one before, or all of this one. Raises OSError."""
    replace_pieces(path, [data])


def replace_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """As `replace_file`, for one that need not fit into memory."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with draft.open("wb") as file:
            file.writelines(pieces)
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
