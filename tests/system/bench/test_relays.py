"""Small runs of each part of the relays' benchmark: they end, and what they count and answer is what brute force does.

How fast is not asked.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from app.cli import bench
from bench.baselines import printed_kd_tree
from bench.baselines.printed_kd_tree import BUCKETS, COMPARED, INNER, SEARCHES, WAY
from bench.peers import question
from bench.process import Failed
from bench.prototypes import RELAYS
from bench.relays import kernels, paper, peers, run, service, theorem
from bench.relays.speed import Speed
from bench.relays.workload import Commands, columns_of, holding, make_boxes, make_commands, make_placed_boxes
from bench.report import Report
from tests.oracles.relays import Router, contains

PAPER = paper.Size(150, 4, (1, 2, 6), (1, 2), (8,), 1, (50, 100), (4, 16))
SPEED = kernels.Size(100, (4, 16), 300, (2, 4), 5, 2, 1)


@pytest.fixture
def report() -> Report:
    return Report(lambda _: None)


@pytest.fixture(autouse=True)
def no_prototype(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RELAYS, raising=False)


def boxes_of(commands: Commands) -> list[list[tuple[float, float]]]:
    return [list(zip(lo, hi, strict=True)) for lo, hi in zip(commands.lo.tolist(), commands.hi.tolist(), strict=True)]


def forwarded(commands: Commands) -> int:
    """How many subscriptions are forwarded in all, at their beginning or when they are promoted."""
    router, boxes, n = Router(), boxes_of(commands), 0
    for op, slot in zip(commands.op.tolist(), commands.slot.tolist(), strict=True):
        n += len(router.unsubscribe(slot)[1]) if op else router.subscribe(slot, boxes[slot])
    return n


def scan(commands: Commands, k: int) -> np.ndarray:
    """Searches and points compared under G_k by subscribing and by unsubscribing, of rows in one bucket.

    The last takes the place of one that goes.
    """
    boxes = boxes_of(commands)
    rows: list[int] = []
    above: dict[int, list[int]] = {}
    seen = np.zeros((2, 2), int)

    def search(t: int, u: int) -> None:
        found: list[int] = []
        i = 0
        while i < len(rows) and len(found) < k:
            if rows[i] != t and contains(boxes[rows[i]], boxes[t]):
                found.append(rows[i])
            i += 1
        seen[u] += 1, i
        above[t] = found

    for op, s in zip(commands.op.tolist(), commands.slot.tolist(), strict=True):
        if op:
            rows[rows.index(s)] = rows[-1]
            rows.pop()
            del above[s]
            for t, mine in above.items():
                if s in mine:
                    mine.remove(s)
                    if not mine:
                        search(t, 1)
        else:
            search(s, 0)
            rows.append(s)
    return seen


@pytest.mark.parametrize("p", [0.25, 0.4])
@pytest.mark.parametrize("k", [1, 2, 500])
def test_counts_of_a_single_bucket_are_those_of_a_scan(p: float, k: int) -> None:
    commands = make_commands(250, 1, p, seed=k)
    seen = printed_kd_tree.count(commands, k, full=250, corners=False).seen
    wanted = scan(commands, k)
    assert seen[:, [SEARCHES, COMPARED]].tolist() == wanted.tolist()
    assert seen[:, BUCKETS].tolist() == wanted[:, 0].tolist()
    assert seen[:, [INNER, WAY]].tolist() == [[0, 0], [0, 0]]
    assert wanted[1, 0] > 0


@pytest.mark.parametrize("full", [2, 3, 8, 40])
@pytest.mark.parametrize("corners", [True, False])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_printed_tree_finds_what_covers_whatever_its_buckets_hold(full: int, corners: bool, seed: int) -> None:
    commands = make_commands(300, 2, 0.4, seed, make_placed_boxes)
    for k in (1, 3, 300):
        found = printed_kd_tree.count(commands, k, full, corners)
        assert found.forwarded == forwarded(commands)
        assert found.seen[0, SEARCHES] == (commands.op == 0).sum()
        assert (found.seen[:, BUCKETS] <= found.seen[:, INNER] + found.seen[:, SEARCHES]).all()


def test_with_all_coverers_known_the_tree_and_the_relay_search_as_often_as_brute_force() -> None:
    commands = make_commands(300, 1, 0.4)
    wanted = scan(commands, 300)[:, 0].tolist()
    assert printed_kd_tree.count(commands, 300, full=4).seen[:, SEARCHES].tolist() == wanted
    assert theorem.searches(commands, 300).tolist() == wanted


def test_the_largest_corners_only_spare_work() -> None:
    commands = make_commands(2_000, 3, 0.15)
    pruned, plain = (printed_kd_tree.count(commands, 1, corners=corners).seen for corners in (True, False))
    assert (pruned[:, [INNER, BUCKETS, COMPARED]].sum(axis=0) < plain[:, [INNER, BUCKETS, COMPARED]].sum(axis=0)).all()
    assert pruned[0, WAY] == plain[0, WAY]


@pytest.mark.parametrize(("make", "share"), [(make_boxes, 1 / 6), (make_placed_boxes, 1 / 4)])
def test_one_random_segment_covers_another_as_often_as_its_reading_says(make: Any, share: float) -> None:
    lo, hi = make(4_000, 1)
    assert (lo >= 0).all() and (lo <= hi).all() and (hi < 2**31).all()
    covers = (lo[::2] <= lo[1::2]) & (hi[::2] >= hi[1::2])
    assert covers.mean() == pytest.approx(share, abs=0.03)


def test_the_papers_tables_and_figures_are_printed_with_ratios_and_drawn(report: Report, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    speed = Speed(report, 1, 1)
    paper.Paper(report, PAPER, speed, tmp_path / "page.md").show(paper.TABLES, paper.FIGURES)
    page = report.page()
    assert page.count("| k | thousands | paper | ours | ratio | why it differs |") == 2
    assert page.count("| the paper says | paper | ours | ratio | why it differs |") == 7
    assert all(f"| {k} | {name} | " in page for k in PAPER.ks for name in paper.COLUMNS)
    assert sorted(file.name for file in (tmp_path / paper.FOLDER).iterdir()) == [
        f"figure-{name}.svg" for name in ("08", "09a", "09b", "10", "11", "12")
    ]


@pytest.mark.parametrize("table", [paper.TABLE_I, paper.TABLE_II])
def test_the_papers_numbers_add_up(table: dict[int, tuple[int, ...]]) -> None:
    for nv, nvs, nvu, pc, pcs, pcu in table.values():
        assert (nv, pc) == (nvs + nvu, pcs + pcu)


def test_a_row_of_the_table_is_the_mean_of_its_sequences(report: Report) -> None:
    paper.Paper(report, PAPER, Speed(report, 1, 1), None).show([2], [])
    each = [
        printed_kd_tree.count(make_commands(PAPER.commands, 2, 0.4, seed), 2).seen[:, COMPARED].sum() / 1000
        for seed in PAPER.seeds
    ]
    assert f"| 2 | pc | 8,952 | {np.mean(each):.3f} | " in report.page()


def test_the_kernels_run_without_the_prototype_and_say_so(tmp_path: Path) -> None:
    report = Report(lambda _: None, judging=False)
    kernels.Bench(report, SPEED, Speed(report, 2, 1, tmp_path)).show()
    page = report.page()
    assert "The prototype is not there" in page
    assert page.count("| slabs |") == page.count("| numpy scan |") == 2
    assert page.count("Not judged") == 3


def test_races_are_run_once_and_shared(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    speed = Speed(report, 1, 1)
    raced = speed.race(60, 4)
    monkeypatch.setattr(speed, "_run", None)
    assert speed.race(60, 4) is raced
    assert speed.three(60, 4) == {name: raced[name] for name in ("scan", "Z-order", "k-d")}


def test_theorem_1_is_judged_and_a_nested_sequence_shown(report: Report) -> None:
    theorem.show(report, theorem.Size(3, 300, (2,), (0.15, 0.4), (1, 2, 4), 60))
    page = report.page()
    assert "| 2 | 15% | " in page and "| 2 | 40% | " in page
    assert [met for _, _, met in report.verdicts] == [True]
    one, many = (theorem.searches(theorem.nested(60), k).sum() for k in (1, 60))
    assert many == scan(theorem.nested(60), 60)[:, 0].sum()
    assert one > 2 * many


def test_peers_that_are_not_there_are_passed_over_with_the_reason(
    report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(question, "POSTGRES", "postgresql://nobody@127.0.0.1:1/nothing")
    for name in ("rtree", "duckdb"):
        monkeypatch.setitem(sys.modules, name, None)
    peers.show(report, peers.Size(200, 3, 10, 5, 1))
    page = report.page()
    assert page.count("| k-d tree |") == page.count("| slabs |") == 1 and page.count("| numpy |") == 2
    for reason in ("rtree: needs the package rtree", "DuckDB: needs the package duckdb", "cube: no server at"):
        assert reason in page


@pytest.mark.parametrize("name", peers.PEERS)
def test_a_peer_answers_what_ours_answers(name: str, report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PEERS", {name: peers.PEERS[name]})
    peers.show(report, peers.Size(200, 3, 40, 40, 1))
    if "Not there" in report.page():
        pytest.skip(f"a peer is missing: {name}")
    assert report.page().count(f"| {name} |") == 2


@pytest.mark.parametrize("liar", [{"covered": lambda box: None}, {"met": lambda point: [0, 1, 2]}])
def test_a_peer_with_a_wrong_answer_fails_the_run(
    liar: dict[str, Any], report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "PEERS", {"liar": lambda data, stack: peers._numpy(data, stack)._replace(**liar)})
    with pytest.raises(Failed, match="liar answers"):
        peers.show(report, peers.Size(400, 2, 20, 20, 1))


def test_the_columns_hold_what_brute_force_finds() -> None:
    lo, hi = make_boxes(300, 2)
    boxes = [list(zip(a, b, strict=True)) for a, b in zip(lo.tolist(), hi.tolist(), strict=True)]
    for i in range(50):
        wanted = [j for j, box in enumerate(boxes) if contains(box, boxes[i])]
        assert holding(columns_of(lo, hi), lo[i], hi[i]).tolist() == wanted


def test_the_service_answers_every_command_that_is_sent(report: Report) -> None:
    service.show(report, service.Size(400, 2, 1, 300))
    page = report.page()
    assert "answers to 300 commands were compared with a scan" in page
    for way in ("one body of a known length", "chunks of 1,000 lines"):
        assert f"| {way}" in page
    assert len(report.verdicts) == 1


def answered(commands: Commands) -> list[dict[str, Any]]:
    """What a relay answers, by the oracle."""
    router, boxes, answers = Router(), boxes_of(commands), []
    for op, slot in zip(commands.op.tolist(), commands.slot.tolist(), strict=True):
        told: dict[str, Any] = {"id": f"s{slot}"}
        if op:
            was, promoted = router.unsubscribe(slot)
            told |= {"forward_unsubscribe": was, "forward_subscribe": [f"s{one}" for one in promoted]}
        else:
            told["forward"] = router.subscribe(slot, boxes[slot])
            told["covered_by"] = [f"s{one}" for one in router.coverers(slot)[:1]]
        answers.append(told)
    return answers


def as_lines(answers: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in answers)


def test_right_answers_are_accepted_and_a_wrong_one_is_noticed() -> None:
    commands = make_commands(200, 2, 0.4)
    service.compare(commands, as_lines(answered(commands)), 200)
    covered = next(i for i, one in enumerate(answered(commands)) if one.get("covered_by"))
    promoting = next(i for i, one in enumerate(answered(commands)) if one.get("forward_subscribe"))
    for at, wrong in (
        (0, {"forward": False}),
        (covered, {"covered_by": [f"s{commands.slot[covered]}x"[:-1]], "forward": True}),
        (covered, {"covered_by": []}),
        (promoting, {"forward_subscribe": []}),
        (promoting, {"forward_unsubscribe": False}),
        (3, {"id": "other"}),
    ):
        answers = answered(commands)
        answers[at] |= wrong
        with pytest.raises(Failed, match=f"command {at} is answered"):
            service.compare(commands, as_lines(answers), 200)


def test_the_page_is_written_by_the_run_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper, "QUICK", PAPER)
    page = tmp_path / "results" / "page.md"
    run.run(["paper"], (), (9,), quick=True, out=page, say=lambda _: None)
    assert "Written by `rankcast bench relays --quick`" in page.read_text()
    assert f"({paper.FOLDER}/figure-09a.svg)" in page.read_text()


@pytest.mark.parametrize("kind", ["table", "figure"])
def test_command_refuses_a_table_or_figure_that_there_is_not(kind: str) -> None:
    cli = typer.Typer()
    bench.register(cli)
    cli.command("other")(lambda: None)
    result = CliRunner().invoke(cli, ["bench", "relays", f"--{kind}", "99"])
    assert result.exit_code == 2
    assert f"there is no {kind} 99" in result.output
