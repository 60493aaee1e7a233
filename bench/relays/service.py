"""Commands over HTTP: one request whose lines are answered while they come.

Measured against `rankcast serve` in a process of its own with its durable log. What the first request is answered is
compared with a scan before speed is measured.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench.exchange import converse
from bench.process import NDJSON, Failed, Server, cpu_seconds, service
from bench.relays.speed import P
from bench.relays.workload import Commands, make_commands
from bench.report import Report
from indexes.relays.alternatives.linear import LinearIndex
from indexes.relays.kernels.forward import SUBSCRIBE
from indexes.relays.relations import Decisions, Known

COMMANDS_WANTED = 20_000.0

LINES = 1_000
"""Lines that are sent at once."""


class Size(NamedTuple):
    """How much is run: commands on boxes of so many attributes, rounds of them, and how many answers are compared."""

    commands: int = 100_000
    attributes: int = 5
    rounds: int = 3
    checked: int = 20_000


QUICK = Size(commands=5_000, rounds=1, checked=2_000)


class Sent(NamedTuple):
    """What one request took."""

    seconds: float
    server_cpu: float
    answer: bytes


def show(report: Report, size: Size) -> None:
    """Compare, then send the rounds. Raises Failed for a wrong answer."""
    commands = make_commands(size.commands, size.attributes, P)
    lines = written(commands)
    pieces = [b"".join(lines[i : i + LINES]) for i in range(0, len(lines), LINES)]
    ways = {"one body of a known length": False, "chunks of 1,000 lines, each as it comes": True}
    found: dict[str, list[Sent]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as folder, service(Path(folder)) as server:
        report.progress("comparing answers")
        compare(commands, _send(server, "first", size.attributes, pieces, False).answer, size.checked)
        for i in range(size.rounds):
            for way, chunked in ways.items():
                report.progress(f"round {i + 1}: {way}")
                found[way].append(_send(server, f"r{i}", size.attributes, pieces, chunked))
        resident = server.resident()
    body, answer = sum(map(len, pieces)), len(found[next(iter(ways))][0].answer)
    report.text(
        f"{size.commands:,} commands, {P:.0%} of which unsubscribe, on boxes of {size.attributes} attributes, to a new "
        f"relay, in one request ({body / 1e6:.1f} MB, its answer {answer / 1e6:.1f} MB). {size.rounds} rounds. The "
        f"answers to {min(size.checked, size.commands):,} commands were compared with a scan, and the relay then has "
        f"what the commands leave. The service has {resident / 1e6:,.0f} MB resident in the end."
    )
    rates = {way: [size.commands / one.seconds for one in sent] for way, sent in found.items()}
    report.table(
        ("", "commands/s", "least and greatest", "server CPU, us/command"),
        [
            (
                way,
                f"{median(rates[way]):,.0f}",
                f"{min(rates[way]):,.0f}-{max(rates[way]):,.0f}",
                f"{sum(one.server_cpu for one in sent) / len(sent) / size.commands * 1e6:.1f}",
            )
            for way, sent in found.items()
        ],
    )
    slower = min(median(mine) for mine in rates.values())
    report.verdict(
        f"{COMMANDS_WANTED:,.0f} commands/s as an NDJSON stream over HTTP, durable, answers included",
        f"{slower:,.0f} commands/s, the slower way",
        slower >= COMMANDS_WANTED,
    )


def written(commands: Commands) -> list[bytes]:
    """Commands as lines, with ends that are whole numbers."""
    lines = []
    for op, slot in zip(commands.op.tolist(), commands.slot.tolist(), strict=True):
        line: dict[str, Any] = {"op": "subscribe" if op == SUBSCRIBE else "unsubscribe", "id": f"s{slot}"}
        if op == SUBSCRIBE:
            ends = zip(commands.lo[slot].tolist(), commands.hi[slot].tolist(), strict=True)
            line["box"] = {f"a{j}": [int(lo), int(hi)] for j, (lo, hi) in enumerate(ends)}
        lines.append(json.dumps(line, separators=(",", ":")).encode() + b"\n")
    return lines


def _send(server: Server, relay: str, attributes: int, pieces: list[bytes], chunked: bool) -> Sent:
    """Make a relay, send it all commands in one request, and delete it. Raises Failed unless all were carried out."""
    path = f"/v1/relays/{relay}"
    config = json.dumps({"attributes": [f"a{j}" for j in range(attributes)]}).encode()
    server.ask("PUT", path, config)
    before = cpu_seconds(server.pid)
    seconds, status, answer = converse(server.port, f"{path}/commands", pieces, NDJSON, chunked)
    cpu = cpu_seconds(server.pid) - before
    sent, answered = sum(piece.count(b"\n") for piece in pieces), answer.count(b"\n")
    if status != 200 or answered != sent or b'"problem"' in answer[-1000:]:
        raise Failed(f"{sent} commands are answered {status} by {answered} lines: {answer[-500:]!r}")
    there = sum(piece.count(b'"subscribe"') - piece.count(b'"unsubscribe"') for piece in pieces)
    if (have := server.ask("GET", path)["subscriptions"]) != there:
        raise Failed(f"the relay has {have} subscriptions, not {there}")
    server.ask("DELETE", path)
    return Sent(seconds, cpu, answer)


def compare(commands: Commands, answer: bytes, checked: int) -> None:
    """Raise Failed unless the first so many answers are what a scan decides."""
    some = commands._replace(op=commands.op[:checked], slot=commands.slot[:checked])
    wanted = _scanned(some)
    for i, (slot, line) in enumerate(zip(some.slot.tolist(), answer.splitlines(), strict=False)):
        answered = json.loads(line)
        if some.op[i] == SUBSCRIBE:
            right = answered["forward"] == wanted.forward[i] == (not answered["covered_by"])
            for other in answered["covered_by"]:
                above = int(other[1:])
                right &= (commands.lo[above] <= commands.lo[slot]).all() and (
                    commands.hi[above] >= commands.hi[slot]
                ).all()
        else:
            promoted = [f"s{other}" for other in wanted.promoted_by(i).tolist()]
            right = answered["forward_unsubscribe"] == wanted.forward[i] and answered["forward_subscribe"] == promoted
        if answered["id"] != f"s{slot}" or not right:
            raise Failed(f"command {i} is answered {answered}, and that is not what a scan decides")


def _scanned(commands: Commands) -> Decisions:
    points = commands.table()
    return Known(LinearIndex(points.exact.shape[1])).apply(points, commands.op, commands.slot)
