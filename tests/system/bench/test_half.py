"""Tables VII and VIII and Figure 26 show what was measured of each data set."""

from __future__ import annotations

import pytest

from bench.boards.half import MESSAGE, Half
from bench.boards.tables_one_and_half import Size, measure, subscriptions
from bench.report import Report

SIZE = Size(n=60, m=200, events=40, ks=(1, 2))


def test_every_data_set_has_its_rows_and_curves() -> None:
    report = Report(lambda _: None)
    half = Half(report, SIZE)
    half.table_7()
    half.table_8()
    panels = half.figure_26()
    page = report.page()
    assert page.count("\n| Paint-Dense | ") == 2
    for data_set in (1, 2, 3):
        assert page.count(f"\n| Paint-Sparse, data set #{data_set} | ") == 4
    assert [len(panel.curves) for panel in panels] == [4, 4]
    found = measure(SIZE, 2, 1, subscriptions(1, SIZE), 0)
    assert panels[0].curves[1].y[1] == pytest.approx(MESSAGE * found.tiles)
    assert panels[1].curves[1].y[1] == MESSAGE * found.most
    assert found.most >= found.tiles > 0
