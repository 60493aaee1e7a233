"""Libraries that are imported without what they would bring along work as they do with it."""

from __future__ import annotations

import subprocess
import sys

HIDDEN = """
import sys
from app.runtime.importing import hide, without
with without("colorsys"):
    try:
        import colorsys
    except ModuleNotFoundError as error:
        assert error.name == "colorsys"
    else:
        raise AssertionError
import colorsys
with without("colorsys"):
    import colorsys
    import wave
hide("this")
try:
    import this
except ModuleNotFoundError:
    sys.exit(0)
raise AssertionError
"""

ROOM = """
import resource, sys
from indexes.core.deep_calls import with_room

def deep(n):
    return 0 if n == 0 else 1 + deep(n - 1)

def faults(work):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(2000):
        work()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

# From some of these depths a call goes across the border of a chunk and comes back.
def at(depth, work):
    return faults(work) if depth == 0 else at(depth - 1, work)

deepest = lambda: max(at(depth, lambda: deep(8)) for depth in range(60, 420, 8))
usual, roomy = deepest(), []
with_room(lambda: roomy.append(deepest()))
assert usual > 1000 and roomy[0] < 100, (usual, roomy)
"""

FAILS = """
from indexes.core.deep_calls import with_room
def fails():
    raise KeyError(3)
try:
    with_room(fails)
except KeyError:
    raise SystemExit(0)
raise AssertionError
"""


def run(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_hidden_packages_seem_not_to_be_installed() -> None:
    run(HIDDEN)


def test_calls_below_a_large_frame_map_no_memory() -> None:
    run(ROOM)


def test_what_fails_with_room_fails_as_without() -> None:
    run(FAILS)
