"""Which version of Rankcast this is."""

from __future__ import annotations


def version() -> str:
    """The version of the installed distribution; ``0`` where none is installed."""
    # It takes longer to load than most commands take.
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("rankcast")
    except PackageNotFoundError:
        return "0"
