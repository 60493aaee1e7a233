"""`python -m tests.fuzz --minutes N`: all targets in turn, in two processes with seeds of their own."""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import multiprocessing
import time

import pyarrow as pa

from tests.fuzz.fuzzing import Report, fuzz
from tests.fuzz.http import Http
from tests.fuzz.sessions import TOTALS
from tests.fuzz.targets import SHARES, TARGETS

MOST_GROWTH = 200 << 20
"""Bytes by which a process may be larger after a run than when every target had run once."""


def resident() -> int:
    """The memory of this process in bytes, after giving back what is free."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) << 12


LONG, SELDOM = 2_000, 100
"""Requests of a session, and of those between two comparisons of the whole state, where many are to be sent."""


def work(names: list[str], minutes: float, seed: int, volume: bool) -> tuple[list[str], bool]:
    """Fuzz all targets in turn, twice: what was taken in the first round is not growth. For `volume` sessions of
    requests are long.
    """
    lines, good = [], True
    targets = {name: Http(LONG, SELDOM) if volume and name == "http" else TARGETS[name]() for name in names}
    whole = sum(SHARES[name] for name in names)
    before = 0
    for part in (0.25, 0.75):
        for name, target in targets.items():
            report: Report = fuzz(target, minutes * 60 * part * SHARES[name] / whole, seed + round(part * 100))
            lines.append(str(report))
            good = good and not report.failures
        before = before or resident()
    after = resident()
    lines.append(
        f"requests: {TOTALS.requests:,} answered, {TOTALS.refused:,} refused, after {TOTALS.compared:,} of these the "
        f"whole state was compared; the longest took {TOTALS.slowest:.1f} s of the processor"
    )
    lines.append(f"memory: {before >> 20} MiB after the first round, {after >> 20} MiB after the last")
    for target in targets.values():
        target.close()
    return lines, good and after - before < MOST_GROWTH


def main() -> int:
    """Run from the command line; 1 where something fell."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument(
        "--volume", action="store_true", help="long sessions of requests, compared seldom: more of them"
    )
    parser.add_argument("targets", nargs="*", metavar="target", help=f"of {chr(44).join(TARGETS)}; all if left out")
    asked = parser.parse_args()
    rounds = [
        (asked.targets or list(TARGETS), asked.minutes, asked.seed + 1000 * i, asked.volume) for i in range(asked.jobs)
    ]
    with multiprocessing.get_context("spawn").Pool(asked.jobs) as pool:
        results = pool.starmap(work, rounds)
    print("\n".join(line for lines, _ in results for line in lines))
    print(json.dumps({"seed": asked.seed, "good": all(good for _, good in results)}))
    return 0 if all(good for _, good in results) else 1
