"""Once the kernels that jobs wait for are ready, jobs call no others."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from app.resources.base import ResourceType
from app.resources.feeds import FeedType
from app.resources.maps import MapType
from indexes.core.plan import applied
from indexes.feeds.commands import AddSubscriptions, Post
from indexes.feeds.config import FeedConfig, Keywords, Subscriptions
from indexes.maps.commands import AddQueries, PutObjects
from indexes.maps.config import MapConfig, Score, Skyline, Top
from tests.support.values import UNCOMPILED

ROOT = Path(__file__).parents[3]


def feed() -> tuple[ResourceType, Any, list[Any]]:
    """The type, a configuration, and commands."""
    keywords, points = Keywords.of([["a"], ["b"], ["a"]]), np.ones((3, 2))
    some = Subscriptions(keywords, points, np.full(3, 1), np.full(3, 0.5))
    commands = [AddSubscriptions(pa.array(["b", "a", "c"]), some), Post(["r", "q", "p"], keywords, points)]
    return FeedType(), FeedConfig((0.0, 0.0, 2.0, 2.0), posts=9), commands


def map_() -> tuple[ResourceType, Any, list[Any]]:
    """As `feed`."""
    nearest = Top(1, Score("weighted_sum", (("distance", 1.0),)))
    objects = PutObjects(pa.array(["b", "a", "c"]), np.ones((3, 2)), np.empty((3, 0)))
    queries = AddQueries(pa.array(["r", "q"]), [nearest, Skyline()], np.ones((2, 2)))
    return MapType(), MapConfig((), (0.0, 0.0, 2.0, 2.0)), [objects, queries]


def main(kind: str) -> None:
    """Print the kernels that jobs call and that are not of the groups for which they wait."""
    from indexes.compiled import cache, warming

    resource_type, config, commands = {"feeds": feed, "maps": map_}[kind]()
    cache.used = set()
    by_name = {group.name: group for group in warming.GROUPS}
    for group in map(by_name.get, resource_type.job_kernels(config)):
        if group is not None:
            importlib.import_module(f"indexes.{group.resource}.warm").GROUPS[group.part]()
    ready = set(cache.used)
    engine: Any = resource_type.make(config, 1)
    for command in commands:
        engine.apply(command)
    work: Any = resource_type.maintenance
    captured = applied(engine.capture(journal=True, indexes=True))[0].captured
    for checked in work.verify(captured):
        assert not checked.differences, checked.differences
    state = resource_type.state_of(captured)
    applied(work.fold(engine, work.fresh(work.pack(state), state)))
    resource_type.ready(resource_type.engine_of(state, work.pack(state)))
    print(sorted(one.qualname for one in cache.used - ready))


@pytest.mark.skipif(UNCOMPILED, reason="nothing is compiled")
@pytest.mark.parametrize("kind", ["feeds", "maps"])
def test_jobs_call_no_kernel_for_which_they_have_not_waited(kind: str) -> None:
    """In a process of its own, in which nothing was called before."""
    program = f"from {__name__} import main; main({kind!r})"
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.stdout == "[]\n", found.stdout + found.stderr
