"""What a portable target costs in speed: the same events painted by kernels for this machine and for others.

A process for each target holds the same board; they take turns, so that what disturbs the machine disturbs all alike.
``python -m bench.start.targets TARGET`` is one of them: it prints a line when it is ready, and then for each line of
its input the microseconds an event of one round of that algorithm.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from statistics import median

from bench.process import OURS, Worker
from bench.report import Report, ratio, spread
from indexes.compiled import targets

N, M, EVENTS, ROUNDS = 10_000, 500_000, 5_000, 15
ALGORITHMS = ("Paint-Dense", "Paint-Sparse")


def show(report: Report, folder: Path) -> None:
    """Race the targets that this machine runs, with kernels compiled into `folder`, and write a table."""
    names = ["native", *(target for target in targets.PORTABLE if targets.runs(target))]
    report.progress(f"compiling for {', '.join(names)}")
    environment = OURS.environment(RANKCAST_CACHE=str(folder))
    racers = {name: Worker([sys.executable, "-m", "bench.start.targets", name], environment) for name in names}
    try:
        for racer in racers.values():
            racer.read()  # it has compiled what it needs
        micros: dict[tuple[str, str], list[float]] = {}
        for number in range(ROUNDS):
            for algorithm in ALGORITHMS:
                for name in names if number % 2 else names[::-1]:
                    micros.setdefault((name, algorithm), []).append(racers[name].ask(algorithm))
    finally:
        for racer in racers.values():
            racer.end()
    report.heading("What a portable target costs")
    report.text(
        f"The same {EVENTS:,} events, n = {N:,}, k = 10, m = {M:,} uniform subscriptions, painted one by one by "
        f"kernels for this machine's processor and for portable targets, {ROUNDS} rounds in turns: microseconds of "
        "thread time an event, the median (least and greatest), and the median of the ratios to native in the same "
        "round. The image has kernels for the portable targets, and a process takes the best that its machine runs; "
        "where neither fits it compiles for its own."
    )
    rows = []
    for name in names:
        row = [name]
        for algorithm in ALGORITHMS:
            mine, native = micros[name, algorithm], micros["native", algorithm]
            times = median(a / b for a, b in zip(mine, native, strict=True))
            row += [f"{median(mine):.2f} {spread(mine)}", ratio(times)]
        rows.append(tuple(row))
    report.table(("target", "Paint-Dense, us", "times native", "Paint-Sparse, us", "times native"), rows)


def _race(target: str) -> None:
    targets.choose(target)
    from bench.boards.batch_speed import changes_of, new_painter, one_by_one, start
    from bench.boards.workload import make_world, subscription_index

    forest, world = subscription_index(M), make_world(N, EVENTS)
    events = changes_of(world)
    painters = {name: new_painter(forest, name == "Paint-Dense") for name in ALGORITHMS}
    for painter in painters.values():
        one_by_one(start(painter, world), events)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        state = start(painters[line.strip()], world)
        began = time.thread_time()
        one_by_one(state, events)
        print(json.dumps((time.thread_time() - began) / EVENTS * 1e6), flush=True)


if __name__ == "__main__":
    _race(sys.argv[1])
