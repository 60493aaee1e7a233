"""`rankcast bench tracing`: the processor time of requests without call sites of tracing, with it off, and sampled."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import TypeAlias

from bench.commits import requests
from bench.commits.run import sent
from bench.process import HOST, OURS, Checkout, Server, service
from bench.report import RESULTS, Report, count, page, spread
from bench.tracing.removed import copy_to

PAGE = RESULTS / "tracing.md"

ROUNDS, QUICK_ROUNDS = 45, 2
"""Of a generation."""

GENERATIONS, QUICK_GENERATIONS = 6, 1
"""So many times all services start afresh: where a process has its memory can alone make some percent."""

SHARE = 0.01
"""The share of requests that is sampled."""

MOST_OFF, MOST_SAMPLED = 1.01, 1.03
"""How many times as much tracing may take."""


Times: TypeAlias = dict[str, list[list[float]]]
"""Of each kind of request, for each service, those of all rounds."""


class Collector(ThreadingHTTPServer):
    """Counts what it is sent."""

    taken = 0


class _Handler(BaseHTTPRequestHandler):
    """Takes what is exported."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()
        assert isinstance(self.server, Collector)
        self.server.taken += 1

    def log_message(self, format: str, *given: object) -> None:
        """Say nothing."""


@contextmanager
def collector() -> Iterator[Collector]:
    """A collector on a free port."""
    server = Collector((HOST, 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def sampled(port: int, share: float = SHARE) -> dict[str, str]:
    """The environment of a service that samples a share of its requests."""
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{HOST}:{port}",
        "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": str(share),
    }


def run(quick: bool = False, out: Path | None = None, say: Callable[[str], None] = print) -> Report:
    """Measure; with `out` the page is written there. `quick` runs it small.

    Raises:
        Failed: a service ends, or a request is refused.
    """
    size = requests.QUICK if quick else requests.Size(ROUNDS, 2_000, 10_000)
    rounds = QUICK_ROUNDS if quick else ROUNDS
    generations = QUICK_GENERATIONS if quick else GENERATIONS
    with page("The cost of tracing", "tracing", quick, out, say) as report, ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rankcast-tracing-")))
        sites = copy_to(root / "removed")
        gatherer = stack.enter_context(collector())
        quiet = {name: "" for name in os.environ if name.startswith("OTEL_")}
        checkouts = (
            Checkout(root / "removed", OURS.python, quiet),
            OURS._replace(variables=quiet),
            OURS._replace(variables={**quiet, **sampled(gatherer.server_port)}),
        )
        report.text(
            f"Three services take the same requests in turns, in {rounds} rounds of {generations} generations of fresh "
            f"processes: one whose sources have none of the {sites} places that ask for tracing, one with tracing off, "
            f"and one that samples {SHARE:.0%} of its requests and exports them, with metrics and logs, to a collector "
            "on this machine. Microseconds of the service's processor time an item, exports included: medians, and the "
            "medians of the ratios of all rounds with the least and the greatest. A board of "
            f"{size.objects:,} objects and {size.subscriptions:,} subscriptions."
        )
        times: Times = {}
        for generation in range(generations):
            with ExitStack() as running:
                servers = []
                for number, checkout in enumerate(checkouts):
                    folder = root / f"{generation}-{number}"
                    folder.mkdir()
                    servers.append(running.enter_context(service(folder, checkout=checkout)))
                _measure(servers, size, rounds, times)
        rows, off, on = _compared(times)
        report.table(("request", "us removed", "off", "sampled", "off / removed", "sampled / removed"), rows)
        report.text(f"The collector was sent {gatherer.taken:,} exports.")
        worst = max(off)
        report.verdict(f"tracing that is off costs at most {MOST_OFF - 1:.0%}", f"{worst - 1:.1%}", worst <= MOST_OFF)
        worst = max(on)
        wanted = f"sampling {SHARE:.0%} costs at most {MOST_SAMPLED - 1:.0%}"
        report.verdict(wanted, f"{worst - 1:.1%}", worst <= MOST_SAMPLED)
    return report


def _measure(servers: list[Server], size: requests.Size, rounds: int, times: Times) -> None:
    """Add the times of so many rounds."""
    bursts = requests.boards(servers, size)
    for number in range(rounds + 1):
        for burst in bursts:
            payloads = next(burst.bursts)
            found = times.setdefault(burst.name, [[] for _ in servers])
            for i in ((number + turn) % len(servers) for turn in range(len(servers))):
                spent, _ = sent(servers[i], burst, payloads)
                if number:  # the first only warms up
                    found[i].append(spent)


def _compared(times: Times) -> tuple[list[Sequence[str]], list[float], list[float]]:
    """The rows of the table, and the ratios of each kind of request."""
    rows: list[Sequence[str]] = []
    all_off, all_on = [], []
    for name, (removed, off, on) in times.items():
        ratios = [[b / a for a, b in zip(removed, other, strict=True)] for other in (off, on)]
        all_off.append(median(ratios[0]))
        all_on.append(median(ratios[1]))
        shown = [f"{median(one):.3f} {spread(one, lambda value: f'{value:.2f}')}" for one in ratios]
        rows.append((name, *(count(median(one)) for one in (removed, off, on)), *shown))
    return rows, all_off, all_on
