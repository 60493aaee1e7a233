"""What ends long work that was prepared beside."""

from __future__ import annotations

from collections.abc import Callable

Step = Callable[[], None]
"""Some milliseconds that put in place what was prepared."""
