"""What a soak measures, a line of JSON a minute, kept over stretches; and the page that is made of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.report import commit, machine, today, versions

MB = 1 << 20


class Minute(NamedTuple):
    """A minute. Latencies are milliseconds, a median and a 99th percentile; `since_start` are seconds of the process.

    `requests` are those that were answered, `checked` those among them whose answers were compared with a model.
    """

    stretch: int
    minute: int
    since_start: float
    resident: int
    handles: int
    disk: int
    requests: int
    checked: int
    events: int
    write: tuple[float, float]
    read: tuple[float, float]
    delivery: tuple[float, float]
    fault: str
    differences: list[str]


def percentiles(values: list[float]) -> tuple[float, float]:
    """The median and the 99th percentile; zeros of nothing."""
    if not values:
        return 0.0, 0.0
    ordered = sorted(values)
    return median(ordered), ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]


class Record:
    """The minutes so far, in a file of the soak's folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "minutes.jsonl"
        self.minutes = list(self._read())
        self.stretch = 1 + max((one.stretch for one in self.minutes), default=0)

    def _read(self) -> Iterator[Minute]:
        if self._path.exists():
            for line in self._path.read_text().splitlines():
                yield Minute(**json.loads(line))

    def add(self, minute: Minute) -> None:
        self.minutes.append(minute)
        with self._path.open("a") as file:
            file.write(json.dumps(minute._asdict()) + "\n")


def page(minutes: list[Minute], command: str) -> str:
    """The report in Markdown: a summary, and a row for every ten minutes."""
    differences = [what for one in minutes for what in one.differences]
    faults: dict[str, int] = {}
    for one in minutes:
        faults[one.fault] = faults.get(one.fault, 0) + bool(one.fault)
    lines = [
        "# A soak",
        f"Written by `{command}` on {today()}, commit {commit()}.",
        f"- machine: {machine()}\n- {versions()}",
        "One service with ten resources: five small ones whose every answer and state is compared with models in plain "
        "Python, and five with up to 20,000 subscriptions each, which the service's own `verify` compares with a scan. "
        "Writers change, make and delete things at a steady size, readers come and go with the Python client, a fault "
        "comes every minute, a rebuild of the five large ones every half hour. Every second minute the writers rest, "
        "and what is there is compared: seqs, contents, lists, what readers have. Latencies are those of one client "
        "beside the load on the same cores, in minutes' parts without a fault; its delivery is the time from sending a "
        "write to the change on a stream.",
        _summary(minutes, differences),
        "| fault | times |\n| --- | ---: |\n"
        + "\n".join(f"| {name} | {n} |" for name, n in sorted(faults.items()) if name),
        "| stretch, minutes | requests | resident MB, most | MB, last | handles, most | disk MB | "
        "write ms, median, p99 | read ms, median, p99 | delivery ms, median, p99 | differences |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n" + "\n".join(_rows(minutes)),
    ]
    if differences:
        lines.append("Differences:\n\n" + "\n".join(f"- {what}" for what in differences[:50]))
    return "\n\n".join(lines) + "\n"


def _summary(minutes: list[Minute], differences: list[str]) -> str:
    rows = [
        ("minutes", f"{len(minutes):,} in {minutes[-1].stretch} stretches"),
        ("requests answered", f"{sum(one.requests for one in minutes):,}"),
        ("of them compared with a model", f"{sum(one.checked for one in minutes):,}"),
        ("stream events received", f"{sum(one.events for one in minutes):,}"),
        ("faults", f"{sum(bool(one.fault) for one in minutes):,}"),
        ("resident MB of a process, after its first 5 minutes and at its end", _growth(minutes)),
        ("differences", f"{len(differences):,}"),
    ]
    return "| | |\n| --- | ---: |\n" + "\n".join(f"| {name} | {value} |" for name, value in rows)


def _growth(minutes: list[Minute]) -> str:
    """Of the life of a process that was the longest."""
    lives: list[list[Minute]] = [[]]
    for one in minutes:
        if lives[-1] and one.since_start < lives[-1][-1].since_start:
            lives.append([])
        lives[-1].append(one)
    longest = max(lives, key=len)
    settled = [one for one in longest if one.since_start >= 300] or longest
    return f"{settled[0].resident / MB:.0f}, {settled[-1].resident / MB:.0f} after {len(longest)} minutes"


def _rows(minutes: Iterable[Minute]) -> Iterator[str]:
    for (stretch, _), group in groupby(minutes, lambda one: (one.stretch, one.minute // 10)):
        some = list(group)
        cells = [
            f"{stretch}, {some[0].minute} to {some[-1].minute}",
            f"{sum(one.requests for one in some):,}",
            f"{max(one.resident for one in some) / MB:.0f}",
            f"{some[-1].resident / MB:.0f}",
            f"{max(one.handles for one in some)}",
            f"{some[-1].disk / MB:.0f}",
            *(_both(some, name) for name in ("write", "read", "delivery")),
            f"{sum(len(one.differences) for one in some)}",
        ]
        yield f"| {' | '.join(cells)} |"


def _both(some: list[Minute], name: str) -> str:
    found = [getattr(one, name) for one in some if getattr(one, name)[0]]
    if not found:
        return ""
    return f"{median(one[0] for one in found):.1f}, {max(one[1] for one in found):.0f}"
