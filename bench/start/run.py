"""`rankcast bench start`: the parts, and the page that they make."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from types import FrameType
from typing import NamedTuple

from bench import prototypes
from bench.process import CHECKOUT, OURS
from bench.report import RESULTS, Report, count, page, ratio, spread
from bench.start import targets
from bench.start.clone import COMPILE_SECONDS, Clone, EntryPoint, disk, entry_points, files, time_to_ready
from bench.start.cost import Cost
from bench.start.cost import run as run_command
from bench.start.prototype import MODULE

PAGE = RESULTS / "start.md"
STARTS = 5
LARGEST = 15

FIRST_LIST_SECONDS = 90.0
MAIN_PATH_TIMES = 1.0
ALL_TIMES = 6.0
ENVIRONMENT_MB = 700.0
ENTRY_POINT_SECONDS = 10.0
START_SECONDS = 2.0


class Prototype(NamedTuple):
    """What the prototype takes to compile, in each run of it."""

    specialisations: int
    costs: tuple[Cost, ...]

    @property
    def cpu(self) -> float:
        return sum(cost.cpu for cost in self.costs) / len(self.costs)


class Measured(NamedTuple):
    """What one commit takes. Sizes are bytes; `cache` is that of all kernels, `kernels` how many there are."""

    commit: str
    install: dict[str, Cost]
    environment: int
    first_list: Cost
    rest: Cost | None
    everything: Cost
    cache: int
    kernels: int
    entry_points: list[EntryPoint]
    starts: list[Cost]


def run(
    commit_: str = "HEAD",
    before: str | None = None,
    prototype: Path | None = None,
    quick: bool = False,
    out: Path | None = None,
    say: Callable[[str], None] = print,
) -> Report:
    """Measure a commit, and another one to compare it with; with `out` the page is written there. Raises Failed.

    Quick: the starts of this checkout alone, as it is installed and compiled.
    """
    with (
        page("Start: from a clone to the first list", "start", quick, out, say) as report,
        _ended_in_order(),
        tempfile.TemporaryDirectory(prefix="rankcast-start-") as name,
    ):
        folder = Path(name)
        if quick:
            _show_starts(report, [("this checkout", _own_starts(folder))])
        else:
            _measure_all(report, folder, commit_, before, prototype)
    return report


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """On SIGTERM what was started is ended, and what was written removed, as on Ctrl-C."""

    def stop(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _measure_all(report: Report, folder: Path, name: str, before: str | None, prototype: Path | None) -> None:
    yardstick = [_prototype(report, prototype, folder / "prototype-1")]
    now = _measure(report, name, folder / "now")
    yardstick.append(_prototype(report, prototype, folder / "prototype-2"))
    measured = [("now", now)]
    if before is not None:
        measured.append(("before", _measure(report, before, folder / "before")))
    show(report, measured, _joined([one for one in yardstick if one is not None]))
    targets.show(report, folder / "targets")


def _measure(report: Report, name: str, folder: Path) -> Measured:
    """Everything about one commit, from the clone on."""
    folder.mkdir()
    clone = Clone(name, folder)
    say = report.progress
    install = {}
    # pip last: what it installs is what is measured from there on.
    for installer in (["uv"] if shutil.which("uv") and not clone.compiles_first else []) + ["pip"]:
        say(f"{clone.commit}: installing with {installer}")
        install[installer] = clone.install(installer)
    if clone.compiles_first:
        say(f"{clone.commit}: compiling all kernels")
        everything, rest = clone.warm("all"), None
        say(f"{clone.commit}: starting the demo")
        first_list = everything + clone.first_list("all")
    else:
        say(f"{clone.commit}: starting the demo without any kernel")
        first_list = clone.first_list("demo")
        say(f"{clone.commit}: compiling the kernels that the demo left out")
        rest = clone.warm("demo")
        say(f"{clone.commit}: compiling all kernels")
        everything = clone.warm("all", folder / "entry-points")
    say(f"{clone.commit}: starting the service with all kernels")
    starts = [clone.ready("all", number) for number in range(STARTS)]
    return Measured(
        clone.commit,
        install,
        disk(clone.venv),
        first_list,
        rest,
        everything,
        disk(clone.cache("all")),
        files(clone.cache("all"), ".nbc") + files(clone.cache("all"), ".kernel"),
        entry_points(folder / "entry-points"),
        starts,
    )


def _own_starts(folder: Path) -> list[Cost]:
    """Starts of the service as this checkout has it."""
    rankcast = [sys.executable, "-c", "from app.__main__ import main; main()"]
    return [time_to_ready(rankcast, CHECKOUT, OURS.environment(), folder / str(number)) for number in range(STARTS)]


def _prototype(report: Report, named: Path | None, cache: Path) -> Prototype | None:
    """Compile the prototype into an empty folder; None where it is not there."""
    folder = prototypes.folder_of(prototypes.BOARDS, named, MODULE)
    if folder is None:
        return None
    report.progress("compiling the prototype")
    cache.mkdir()
    environment = OURS.environment(NUMBA_CACHE_DIR=str(cache / "kernels"))
    job = json.dumps({"folder": str(folder)})
    command = [sys.executable, "-m", "bench.start.prototype"]
    cost = run_command(command, cache, environment, cache / "log", COMPILE_SECONDS, job)
    return Prototype(json.loads((cache / "log").read_text().splitlines()[-1])["specialisations"], (cost,))


def _joined(runs: Sequence[Prototype]) -> Prototype | None:
    if not runs:
        return None
    return Prototype(runs[0].specialisations, tuple(cost for one in runs for cost in one.costs))


def show(report: Report, measured: Sequence[tuple[str, Measured]], prototype: Prototype | None) -> None:
    """The page of what was measured; the first is judged."""
    now = measured[0][1]
    _show_first_list(report, measured)
    _show_kernels(report, measured, prototype)
    if prototype is None:
        report.text("The prototype is not there: nothing to hold the time of compiling against.")
    else:
        for what, cost, most in (
            ("to the first list from the end of installing", now.first_list, MAIN_PATH_TIMES),
            ("of all kernels", now.everything, ALL_TIMES),
        ):
            times = cost.cpu / prototype.cpu
            report.verdict(
                f"processor time {what} at most {most:g} times that of compiling the prototype",
                f"{count(cost.cpu)} s against {count(prototype.cpu)} s, {ratio(times)} times",
                times <= most,
            )
    _show_entry_points(report, now)
    _show_starts(report, [(name, one.starts) for name, one in measured])


def _show_first_list(report: Report, measured: Sequence[tuple[str, Measured]]) -> None:
    report.heading("From a clone to the first list")
    report.text(
        "`make run` in a fresh clone: what it installs, with empty caches of packages, and the demo from the start of "
        "its process to the first list, without any compiled kernel and with an empty data directory. Seconds by the "
        "wall, and of processor time with all processes that were started; the environment in megabytes, with what "
        "the demo and the service add to it when they first run."
    )
    rows = []
    for name, one in measured:
        for installer, cost in one.install.items():
            both = cost + one.first_list
            shown = (cost.wall, cost.cpu, one.first_list.wall, one.first_list.cpu, both.wall, both.cpu)
            megabytes = f"{one.environment / 1e6:,.0f}" if installer == "pip" else ""
            rows.append((f"{name} ({one.commit})", installer, *(f"{value:.1f}" for value in shown), megabytes))
    costs = "installing, s", "CPU", "to the first list, s", "CPU", "both, s", "CPU", ".venv, MB"
    head = ("commit", "installed by", *costs)
    report.table(head, rows, text=("installed by",))
    now = measured[0][1]
    slowest = max(cost.wall for cost in now.install.values()) + now.first_list.wall
    report.verdict(
        f"the first list at most {FIRST_LIST_SECONDS:g} s after `make run`",
        f"{slowest:.1f} s",
        slowest <= FIRST_LIST_SECONDS,
    )
    size = now.environment / 1e6
    wanted = f"at most {ENVIRONMENT_MB:g} MB in `.venv` after `make run`"
    report.verdict(wanted, f"{size:.0f} MB", size <= ENVIRONMENT_MB)


def _show_kernels(report: Report, measured: Sequence[tuple[str, Measured]], prototype: Prototype | None) -> None:
    report.heading("All kernels")
    report.text(
        "`rankcast warm` with an empty cache, and on what the demo had left when it was ended at the first list. "
        "Compiled functions are files of machine code; the cache is in megabytes."
    )
    rows = []
    for name, one in measured:
        rest = (f"{one.rest.wall:.1f}", f"{one.rest.cpu:.1f}") if one.rest is not None else ("", "")
        everything = f"{one.everything.wall:.1f}", f"{one.everything.cpu:.1f}"
        rows.append((f"{name} ({one.commit})", *everything, *rest, f"{one.kernels:,}", f"{one.cache / 1e6:.1f}"))
    if prototype is not None:
        wall = sum(cost.wall for cost in prototype.costs) / len(prototype.costs)
        rows.append(
            ("the prototype", f"{wall:.1f}", f"{prototype.cpu:.1f}", "", "", str(prototype.specialisations), "")
        )
    report.table(("kernels", "all, s", "CPU", "the rest, s", "CPU", "compiled functions", "cache, MB"), rows)
    if prototype is not None:
        report.text(
            f"The prototype's {prototype.specialisations} specialisations were compiled {len(prototype.costs)} times, "
            "with an empty cache in a process of its own, before and after ours: "
            f"{', '.join(f'{cost.cpu:.1f}' for cost in prototype.costs)} CPU-seconds; the mean counts."
        )


def _show_entry_points(report: Report, now: Measured) -> None:
    report.heading("The largest entry points")
    if not now.entry_points:
        report.text("`rankcast warm` of this commit does not say what each of them takes.")
        return
    report.text(
        f"The {min(LARGEST, len(now.entry_points))} that take longest of {len(now.entry_points)}, with what is "
        "compiled for them."
    )
    rows = [(f"`{one.kernel}`", str(one.specialisations), f"{one.cpu:.1f}") for one in now.entry_points[:LARGEST]]
    report.table(("entry point", "specialisations", "CPU-seconds"), rows)
    largest = now.entry_points[0]
    report.verdict(
        f"no entry point compiles longer than {ENTRY_POINT_SECONDS:g} CPU-seconds",
        f"`{largest.kernel}` {largest.cpu:.1f} s",
        largest.cpu <= ENTRY_POINT_SECONDS,
    )


def _show_starts(report: Report, measured: Sequence[tuple[str, list[Cost]]]) -> None:
    report.heading("A warm start")
    report.text(
        "`rankcast serve` on an empty data directory with all kernels in the cache, from the start of the process to "
        f"the first 200 of `/readyz`: the median of {STARTS} starts (least and greatest), and the median of processor "
        "seconds."
    )
    rows = []
    for name, starts in measured:
        walls = [start.wall for start in starts]
        rows.append((name, f"{median(walls):.2f}", spread(walls), f"{median(start.cpu for start in starts):.2f}"))
    report.table(("commit", "seconds", "", "CPU"), rows)
    seconds = median(start.wall for start in measured[0][1])
    report.verdict(
        f"`/readyz` at most {START_SECONDS:g} s after the start of the process",
        f"{seconds:.2f} s",
        seconds <= START_SECONDS,
    )
