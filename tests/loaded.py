"""All that a service loads before it opens its data, in the process that others are forked off (`tests.forks`)."""

from __future__ import annotations

import gc

from app import interpreter

interpreter.collect_seldom()

import app.main  # noqa: E402  (after the collector was told)
import app.server  # noqa: E402, F401
from indexes import warming  # noqa: E402

for group in warming.GROUPS:
    if warming.is_ready(group):
        warming.load(group)
gc.freeze()
