"""All that a service loads before it opens its data, in the process that others are forked off (`tests.forks`)."""

from __future__ import annotations

import gc

from app import interpreter

interpreter.collect_seldom()

import app.main  # noqa: E402  (after the collector was told)
import app.server  # noqa: E402
import app.service  # noqa: E402

app.service.warm()
app.service.warm = lambda: None
gc.freeze()
