"""Theorem 1: under random unsubscriptions G_1 makes, in expectation, at most twice the searches of any G_k; and a
nested sequence, of which it says nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bench.relays.workload import Commands, make_commands
from bench.report import Report, count, ratio
from indexes.core.arrays import Ints
from indexes.relays.kernels.covering_index import QUERIES
from indexes.relays.kernels.forward import SUBSCRIBE, UNSUBSCRIBE
from indexes.relays.kernels.kd_tree import KdIndex
from indexes.relays.relations import Known


class Size(NamedTuple):
    """How much is run: sequences of so many commands on boxes of so many attributes, and nested boxes."""

    sequences: int = 20
    commands: int = 5_000
    attributes: tuple[int, ...] = (2, 5)
    shares: tuple[float, ...] = (0.05, 0.15, 0.4)
    ks: tuple[int, ...] = (1, 2, 3, 4, 6, 10)
    nested: int = 200


QUICK = Size(sequences=5, commands=500)


def show(report: Report, size: Size) -> None:
    """Count searches by k, averaged over sequences, and judge the greatest ratio."""
    report.text(
        f"Calls of cov_k, averages of {size.sequences} random sequences of {size.commands:,} commands. No G_k can do "
        "with fewer than one call a subscription, and the theorem's proof needs no more than that. Lemma 1: G_1 makes, "
        "in expectation, at most one call an unsubscription."
    )
    rows, worst = [], 0.0
    for attributes in size.attributes:
        for p in size.shares:
            report.progress(f"Theorem 1: {attributes} attributes, p = {p:.0%}")
            calls, ends = np.zeros((len(size.ks), 2)), 0
            for seed in range(size.sequences):
                commands = make_commands(size.commands, attributes, p, seed)
                ends += int((commands.op == UNSUBSCRIBE).sum())
                calls += [searches(commands, k) for k in size.ks]
            total = calls.sum(axis=1)
            worst = max(worst, total[0] / total.min())
            each = [count(mine / size.sequences) for mine in total]
            rows.append(
                (str(attributes), f"{p:.0%}", *each, ratio(total[0] / total.min()), f"{calls[0, 1] / ends:.2f}")
            )
    report.table(
        ("attributes", "p", *(f"k = {k}" for k in size.ks), "k = 1, of the fewest", "Lemma 1: calls an unsubscription"),
        rows,
    )
    report.verdict("Theorem 1: G_1 makes at most twice the searches of any G_k", f"{ratio(worst)} times", worst <= 2)
    one, many = (searches(nested(size.nested), k).sum() for k in (1, size.nested))
    report.text(
        f"Unsubscriptions that are not random: of {size.nested:,} boxes, each within the one before, all but two end "
        f"in the same order. G_1 makes {ratio(one / many)} times the calls of the graph that knows all coverers."
    )


def searches(commands: Commands, k: int) -> Ints:
    """Calls of cov_k that commands come to, by subscribing and by unsubscribing."""
    points = commands.table()
    relations = Known(KdIndex(points.exact.shape[1]), k, False)
    relations.apply(points, commands.op, commands.slot)
    return relations.seen[:, QUERIES]


def nested(n: int) -> Commands:
    """Boxes that lie each within the one before, of which all but two end in the same order."""
    step = np.arange(n, dtype=np.float64)[:, None]
    op = np.repeat(np.array([SUBSCRIBE, UNSUBSCRIBE], np.uint8), [n, n - 2])
    return Commands(op, np.concatenate([np.arange(n), np.arange(n - 2)]).astype(np.int32), step, 4.0 * n - step)
