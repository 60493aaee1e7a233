"""All that a service loads before it opens its data, in the process that `tests.support.forks` forks."""

from __future__ import annotations

import gc

from app.runtime import interpreter

interpreter.collect_seldom()

import app.main  # noqa: E402  (after the collector was told)
import app.server.serving  # noqa: E402, F401
from indexes.compiled import warming  # noqa: E402

for group in warming.GROUPS:
    if warming.is_ready(group):
        warming.load(group)
gc.freeze()
